import subprocess

import pytest

import gathernest as gn
from gathernest.kernels.host import cpu
from gathernest.kernels.host.checkout import RevisionError
from gathernest.playground.sections import section_at, section_of


@pytest.fixture(scope="module")
def here():
    return section_of(gn.compile("gather", "40x8xf32", "9xi64", bounds="clip"), timing=False)


def commit(folder, name):
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["add", "-A"], ["commit", "-qm", name], ["tag", name]):
        subprocess.run([*git, *command], check=True)


@pytest.fixture
def checkout(program, tmp_path, monkeypatch):
    """A checkout of these sources whose commit `wrong` clips to the wrong end."""
    program("git")
    copy = tmp_path / "checkout"
    copy.mkdir()
    for room in ("ir", "lowering", "kernels", "playground", "__init__.py"):
        subprocess.run(["cp", "-r", str(cpu.PACKAGE / room), str(copy / room)], check=True)
    arithmetic = copy / "lowering" / "nest" / "bounds_arithmetic.py"
    arithmetic.write_text(arithmetic.read_text().replace("arith.MaxSIOp", "arith.MinSIOp"))
    subprocess.run(["git", "init", "-q", str(copy)], check=True)
    commit(copy, "wrong")
    monkeypatch.chdir(copy)
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
def test_a_revision_that_fails_says_why(checkout, here):
    (checkout / "kernels" / "kernel.py").write_text("raise ImportError('nothing compiles here')\n")
    commit(checkout, "broken")
    with pytest.raises(RevisionError, match=r"cannot report this gather: .*nothing compiles here; name a later one"):
        section_at("HEAD", here, None, name="B")


def test_without_git_is_an_error(monkeypatch, here):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RevisionError, match=r"^revisions need git: git is not on the PATH; .*: apt-get install git$"):
        section_at("HEAD", here, None, name="B")
