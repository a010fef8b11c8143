"""The git checkout of gathernest (of the current folder, or else of this package) and its revisions."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

from ...ir.errors import DependencyError, GathernestError
from ...lowering.programs import find
from .cpu import PACKAGE

# Reading a revision takes a second; a machine under load takes a minute.
LIMIT_S = 300


class RevisionError(GathernestError):
    """A revision cannot be read, or lacks an ability that a command needs."""


def checkout() -> Path:
    """Return the top folder of the checkout of the current folder, or of this package where that is in no checkout.

    Raises:
        RevisionError: git is not installed, both folders are in no checkout of gathernest, or git does not read it.
    """
    reasons: list[str] = []
    for folder in (Path(), PACKAGE):
        ended = _run(folder, "rev-parse", "--show-toplevel")
        if ended.returncode:
            reasons.append(ended.stderr.decode(errors="replace"))
            continue
        top = Path(os.fsdecode(ended.stdout.removesuffix(b"\n")))
        # A virtual environment may lie in the repository of somebody else.
        if top == PACKAGE.resolve() or (top / "kernels" / "host" / "checkout.py").is_file():
            return top
    if unsafe := next((reason for reason in reasons if "dubious ownership" in reason), None):
        folder = unsafe.partition("'")[2].partition("'")[0]
        raise RevisionError(
            f"git does not read {folder}, as another user owns it; if you trust it: "
            f"git config --global --add safe.directory {folder}"
        )
    raise RevisionError(
        f"there is no checkout of gathernest: neither {PACKAGE}, where this package is, nor the current folder "
        "is one; go to a checkout, or install the package from one: pip install -e CHECKOUT"
    )


def commit_of(revision: str) -> str:
    """Return the full name of the commit that a commit, branch or tag of the checkout means.

    Raises:
        RevisionError: there is no git, no checkout, or no such revision.
    """
    return git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        otherwise=f"there is no revision {revision!r} in {{checkout}}; name a commit, branch or tag",
    )


def extract(revision: str, target: Path) -> None:
    """Put the files of a revision in a folder.

    Raises:
        RevisionError: as for `commit_of`, or it is a revision of something else.
    """
    extract_tree(commit_of(revision), target)


def extract_tree(tree: str, target: Path) -> None:
    """Put the files of a commit or tree, by its full name, in a folder; raises RevisionError."""
    files = _output(("archive", "--format=tar", tree), f"the files of {tree} cannot be read; see git fsck")
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(target, filter="data")
    if not (target / "kernels").is_dir():  # the files of a repository that gathernest is installed in
        raise RevisionError(f"{PACKAGE} is no checkout of gathernest; install it from one: pip install -e CHECKOUT")


def tree_of_files(index: Path) -> str:
    """Write the present files of the checkout, except ignored ones, as a tree; return its full name.

    Args:
        index: a file that is not there yet; git's own index stays as it is.

    Raises:
        RevisionError: there is no git or no checkout, or a file cannot be read.
    """
    failed = "the files of {checkout} cannot be read by git; name a revision, or see what git status says"
    for command in (("read-tree", "HEAD"), ("add", "--all")):
        git(*command, otherwise=failed, index=index)
    return git("write-tree", otherwise=failed, index=index)


def git(*command: str, otherwise: str, index: Path | None = None) -> str:
    """Return the output of a git command in the checkout.

    Args:
        command: its words.
        otherwise: the error message where it fails; `{checkout}` in it stands for the folder.
        index: the file that takes the place of git's index.

    Raises:
        RevisionError: there is no git or no checkout, or it fails.
    """
    return _output(command, otherwise, index).decode(errors="replace").strip()


def why_shallow() -> str:
    """Return the end of a message about missing commits where the checkout is a shallow clone; else nothing.

    Raises:
        RevisionError: there is no git or no checkout.
    """
    top = checkout()
    if _run(top, "rev-parse", "--is-shallow-repository").stdout.strip() != b"true":
        return ""
    return f"; {top} is a shallow clone, and git fetch --unshallow --tags brings what it lacks"


def _output(command: tuple[str, ...], otherwise: str, index: Path | None = None) -> bytes:
    """Return the output of a git command in the checkout as bytes; raises RevisionError."""
    top = checkout()
    ended = _run(top, *command, index=index)
    if ended.returncode == 0:
        return ended.stdout
    if _run(top, "rev-parse", "--verify", "--quiet", "HEAD").returncode:
        raise RevisionError(f"the checkout {top} has no commit yet; commit its files first")
    raise RevisionError(otherwise.replace("{checkout}", str(top)) + why_shallow())


def _run(folder: Path, *command: str, index: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run git in a folder, with its messages in English; raises RevisionError where it cannot be run."""
    # A hook of another repository sets these variables.
    left_out = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in left_out} | {"LC_ALL": "C"}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        return subprocess.run(
            [find("git").path, "-C", str(folder), *command],
            capture_output=True,
            check=False,
            timeout=LIMIT_S,
            env=environment,
        )
    except DependencyError as error:
        raise RevisionError(f"revisions need git: {error}") from None
    except OSError as error:
        raise RevisionError(f"git cannot be run ({error.strerror}); install it") from None
    except subprocess.TimeoutExpired:
        raise RevisionError(f"git {command[0]} takes more than {LIMIT_S} s in {folder}") from None
