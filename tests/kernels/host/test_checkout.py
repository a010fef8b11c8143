"""The checkout whose revisions are compared and reported: of the package, or of the current folder, or one error."""

import subprocess
from pathlib import Path

import pytest

from gathernest.kernels.host import checkout as module
from gathernest.kernels.host.checkout import RevisionError, checkout, commit_of
from gathernest.tools import cli

COMMANDS = {
    "compare": ("bench", "compare", "HEAD"),
    "against": ("bench", "--static", "--against", "HEAD", "--case", "rows-64B"),
}


def git(folder: Path, *command: str) -> None:
    options = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", str(folder), *options, *command], check=True, capture_output=True)


@pytest.fixture
def wheel(program, tmp_path, monkeypatch) -> Path:
    """A folder that pip installed this package in, inside of a repository of somebody else."""
    program("git")
    folder = tmp_path / "theirs" / ".venv" / "gathernest"
    folder.mkdir(parents=True)
    git(tmp_path / "theirs", "init", "-q")
    git(tmp_path / "theirs", "commit", "-q", "--allow-empty", "-m", "theirs")
    monkeypatch.setattr(module, "PACKAGE", folder)
    monkeypatch.chdir(tmp_path / "theirs")
    return folder


@pytest.fixture
def clone(wheel, tmp_path, monkeypatch) -> Path:
    """A repository with the files of gathernest and no commit; its folder `asv_bench` is the current one."""
    folder = tmp_path / "clone"
    (folder / "kernels" / "host").mkdir(parents=True)
    (folder / "kernels" / "host" / "checkout.py").write_text("")
    (folder / "asv_bench").mkdir()
    git(folder, "init", "-q")
    monkeypatch.chdir(folder / "asv_bench")
    return folder


def error_of(capsys, *words: str) -> str:
    """Return the one line that a wrong command prints."""
    assert cli.main(list(words)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0].removeprefix("gathernest: error: ")


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_outside_of_a_checkout_the_error_says_where_to_go(wheel, capsys, command):
    assert (
        f"there is no checkout of gathernest: neither {wheel}, where this package is, nor the current folder is one; "
        "go to a checkout, or install the package from one: pip install -e CHECKOUT"
    ) in error_of(capsys, *command)


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_checkout_without_a_commit_says_so(clone, capsys, command):
    assert f"the checkout {clone} has no commit yet; commit its files first" in error_of(capsys, *command)


def test_the_checkout_of_the_current_folder_is_taken_for_a_package_from_pip(clone, capsys):
    git(clone, "commit", "-q", "--allow-empty", "-m", "ours")
    assert checkout() == clone
    assert f"there is no revision 'v9' in {clone}; " in error_of(capsys, "bench", "compare", "v9")


def test_the_repository_of_a_hook_is_not_taken(clone, wheel, monkeypatch):
    git(clone, "commit", "-q", "--allow-empty", "-m", "ours")
    monkeypatch.setenv("GIT_DIR", str(wheel.parents[1] / ".git"))
    assert checkout() == clone


def test_a_shallow_clone_says_how_to_get_the_rest(clone, tmp_path, monkeypatch, capsys):
    git(clone, "add", "-A")
    for name in ("first", "second"):
        git(clone, "commit", "-q", "--allow-empty", "-m", name)
    git(clone, "tag", "v1", "HEAD^")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{clone}", str(shallow))
    monkeypatch.chdir(shallow)
    said = f"; {shallow} is a shallow clone, and git fetch --unshallow --tags brings what it lacks"
    assert error_of(capsys, "bench", "compare", "v1").endswith(said)
    with pytest.raises(RevisionError, match=f"there is no revision 'v1' in {shallow}; .*{said}$"):
        commit_of("v1")


@pytest.mark.parametrize(
    ("version", "script", "reason"),
    [
        ("git version 2.20.1", "", r"^revisions need git: .*/git is version 2\.20\.1, .*: 2\.30 or newer is "),
        ("nonsense", "", "^revisions need git: .*/git prints no version; "),
        ("git version 2.39.5", "echo nonsense; exit 1", "^there is no checkout of gathernest: "),
        (
            "git version 2.39.5",
            "echo \"fatal: detected dubious ownership in repository at '/there'\" >&2; exit 128",
            "^git does not read /there, as another user owns it; if you trust it: git config --global --add "
            "safe.directory /there$",
        ),
        (None, "", "^revisions need git: git is not on the PATH; on Debian and Ubuntu: apt-get install git$"),
    ],
)
def test_a_git_that_cannot_be_used_is_one_error(clone, install, version, script, reason):
    if version is not None:
        install("git", script, version=version)
    with pytest.raises(RevisionError, match=reason):
        commit_of("HEAD")
