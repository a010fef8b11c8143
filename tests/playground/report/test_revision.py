import io
import json
import subprocess
import sys

import pytest

import gathernest as gn
from gathernest.kernels.host import checkout as checkout_module
from gathernest.kernels.host import cpu
from gathernest.kernels.host.checkout import RevisionError
from gathernest.playground import sections as revision_module
from gathernest.playground.report import page
from gathernest.playground.sections import section_at, section_of


@pytest.fixture(scope="module")
def here():
    return section_of(gn.compile("gather", "40x8xf32", "9xi64", bounds="clip"), timing=False)


@pytest.fixture
def checkout(program, tmp_path, monkeypatch):
    """A checkout of these sources whose commit `wrong` clips to the wrong end."""
    program("git")
    copy = tmp_path / "checkout"
    copy.mkdir()
    for room in ("ir", "lowering", "kernels", "playground", "__init__.py"):
        subprocess.run(["cp", "-r", str(cpu.PACKAGE / room), str(copy / room)], check=True)
    git = ["git", "-C", str(copy), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    arithmetic = copy / "lowering" / "nest" / "bounds_arithmetic.py"
    arithmetic.write_text(arithmetic.read_text().replace("arith.MaxSIOp", "arith.MinSIOp"))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "wrong"], ["tag", "wrong"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(checkout_module, "PACKAGE", copy)
    return copy


@pytest.mark.thorough
def test_levels_come_from_the_sources_of_the_revision(checkout, here):
    other = section_at("wrong", here, None, name="B")
    names = [level.name for level in here.trace.levels]
    assert [level.name for level in other.trace.levels] == names
    changed = [a.name for a, b in zip(here.trace.levels, other.trace.levels, strict=True) if a.text != b.text]
    assert changed[0] == "fold-bounds"
    assert changed[-1] == "assembly"
    assert (other.schedule, other.pipeline) == (here.schedule, here.pipeline)
    assert other.explanation is None


@pytest.mark.thorough
def test_a_revision_that_is_not_there_is_an_error(checkout, here):
    with pytest.raises(RevisionError, match=r"there is no revision 'nowhere' in .*; name a commit, branch or tag"):
        section_at("nowhere", here, None, name="B")
    with pytest.raises(RevisionError, match="there is no revision '--output=x'"):
        section_at("--output=x", here, None, name="B")


@pytest.mark.thorough
def test_a_revision_without_provenance_has_its_stages_source_and_assembly(here, monkeypatch):
    def ask(folder, revision, call):
        answer = io.StringIO()
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "gathernest.playground.sections", None)
            patch.setattr(sys, "stdin", io.StringIO(json.dumps(call)))
            patch.setattr(sys, "stdout", answer)
            exec(revision_module._PROGRAM, {})
        return json.loads(answer.getvalue())

    monkeypatch.setattr(revision_module, "extract", lambda revision, target: None)
    monkeypatch.setattr(revision_module, "_ask", ask)
    other = section_at("older", here, None, name="B")
    levels = [level for level in here.trace.levels if level.kind != "llvm"]
    assert [level.text for level in other.trace.levels[:-1]] == [level.text for level in levels[:-1]]
    assert other.trace.levels[-1].hot_loops and not other.trace.has_provenance
    assert other.remarks[1] == "Revision older has no provenance: its lines do not name what they came from."
    assert "same instructions" not in page([other]) and "same instructions" in page([here])


@pytest.mark.thorough
def test_a_revision_that_fails_says_why(checkout, here):
    (checkout / "kernels" / "kernel.py").write_text("raise ImportError('nothing compiles here')\n")
    git = ["git", "-C", str(checkout), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-qam", "broken"], check=True)
    with pytest.raises(RevisionError, match=r"cannot report this gather: .*nothing compiles here; name a later one"):
        section_at("HEAD", here, None, name="B")


@pytest.mark.thorough
def test_a_repository_of_somebody_else_is_no_checkout(program, tmp_path, monkeypatch, here):
    program("git")
    (tmp_path / "own.py").write_text("")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "own"]):
        subprocess.run([*git, *command], check=True)
    monkeypatch.setattr(checkout_module, "PACKAGE", tmp_path)
    with pytest.raises(RevisionError, match="is no checkout of gathernest; install it from one"):
        section_at("HEAD", here, None, name="B")


def test_without_git_is_an_error(monkeypatch, here):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RevisionError, match=r"^revisions need git: git is not on the PATH; .*: apt-get install git$"):
        section_at("HEAD", here, None, name="B")
