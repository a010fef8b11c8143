from importlib.metadata import version

import pytest

from gathernest.kernels.host.checkout import RevisionError
from gathernest.tools.tracking import sides as sides_module
from gathernest.tools.tracking.sides import two_sides


def test_sides_have_the_files_of_their_revisions(repository):
    repository.commit("other", at_call="wait(1)")
    with two_sides("plain", "other") as (base, head):
        texts = [(side.folder / "gathernest" / "__init__.py").read_text() for side in (base, head)]
        assert ["wait(1)\n" in text for text in texts] == [False, True]
        assert (base.commit, base.changed) == (repository.git("rev-parse", "plain"), 0)
        assert len(str(base.folder)) == len(str(head.folder))
        assert {side.environment["GATHERNEST_COMPILE"] for side in (base, head)} == {"now"}


def test_working_tree_is_taken_as_it_is_and_stays_so(repository):
    (repository.folder / "kernels" / "new.py").write_text("new = 1\n")
    (repository.folder / "ignored").write_text("")
    (repository.folder / "__init__.py").write_text("edited = 1\n")
    before = repository.git("status", "--porcelain")
    with two_sides("plain", None) as (_, head):
        files = {path.name for path in (head.folder / "gathernest").rglob("*.py")}
        assert files == {"__init__.py", "new.py", "checkout.py"}
        assert (head.folder / "gathernest" / "__init__.py").read_text() == "edited = 1\n"
        assert not (head.folder / "gathernest" / "ignored").exists()
        assert (head.commit, head.changed) == (repository.git("rev-parse", "plain"), 2)
    assert repository.git("status", "--porcelain") == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_folders_are_removed_after_an_error(repository, error):
    def fail():
        with two_sides("plain", None) as (base, _):
            folders.append(base.folder)
            raise error

    folders = []
    with pytest.raises(error):
        fail()
    assert not folders[0].exists()
    assert not folders[0].parent.exists()
    assert repository.git("worktree", "list").count("\n") == 0


def test_other_dependencies_get_an_environment_of_their_own(repository, monkeypatch):
    commands = []
    monkeypatch.setattr(sides_module, "_run", lambda what, command: commands.append((what, command[-4:])))
    text = '[project]\ndependencies = ["numba >=0.1", "x_y[z]==2", "llvmlite<1", "numpy>=2"]\n'
    (repository.folder / "pyproject.toml").write_text(text)
    repository.commit("dependent")
    with two_sides("plain", "dependent", ["numba==9.9", "X-Y==3"]) as (base, head):
        assert base.python != head.python
        assert head.python == str(head.folder / "environment" / "bin" / "python")
        assert base.revision.startswith(f"numba=={version('numba')} ") and head.revision == "numba==9.9 X-Y==3"
    assert commands[0][0] == "make a virtual environment"
    # Numba asks for its own llvmlite, and the other packages have the versions that are installed.
    numpy = f"numpy=={version('numpy')}"
    assert commands[1] == ("install numba==9.9, X-Y==3", ["numba==9.9", "X-Y==3", "llvmlite", numpy])
    with two_sides("plain", "dependent") as (base, head):
        assert base.python != head.python
    wanted = ["numba >=0.1", "x_y[z]==2", "llvmlite<1", "numpy>=2"]
    assert commands[3] == ("install the packages that dependent depends on", wanted)


def test_same_dependencies_in_another_order_share_the_environment(repository, installed):
    installed("gathernest", "1", "numba<0.69,>=0.68", "xdsl~=0.74.0", 'pytest; extra == "dev"')
    (repository.folder / "pyproject.toml").write_text(
        '[project]\ndependencies = ["xdsl~=0.74.0", "numba>=0.68, <0.69"]\n'
    )
    repository.commit("dependent")
    with two_sides("plain", "dependent") as (base, head):
        assert base.python == head.python


def test_version_that_does_not_exist_is_one_line(monkeypatch):
    script = "import sys; sys.exit('ERROR: Could not find it\\nERROR: No matching distribution found for numba==0.0')"
    with pytest.raises(RevisionError) as raised:
        sides_module._run("install numba==0.0", [sides_module.sys.executable, "-c", script])
    assert str(raised.value) == (
        "cannot install numba==0.0: No matching distribution found for numba==0.0; name others"
    )


def test_revision_without_a_project_file_is_an_error(repository):
    (repository.folder / "pyproject.toml").unlink()
    repository.commit("bare")
    with pytest.raises(RevisionError, match=r"pyproject.toml of a side cannot be read \(FileNotFoundError"):
        two_sides("plain", "bare").__enter__()
