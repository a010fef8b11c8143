"""The git checkout that this package runs from, and the files of its revisions."""

import io
import os
import subprocess
import tarfile
from pathlib import Path

from ...ir.errors import GathernestError
from .cpu import PACKAGE

# Reading a revision takes a second; a machine under load takes a minute.
LIMIT_S = 300


class RevisionError(GathernestError):
    """A revision cannot be had, or cannot do what is asked of it."""


def commit_of(revision: str) -> str:
    """Return the full name of the commit that a commit, branch or tag of the checkout means.

    Raises:
        RevisionError: there is no git, no checkout, or no such revision.
    """
    return git(
        *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"),
        otherwise=f"there is no revision {revision!r} in {PACKAGE}; name a commit, branch or tag of the checkout that "
        "gathernest runs from",
    )


def extract(revision: str, target: Path) -> None:
    """Put the files of a revision in a folder.

    Raises:
        RevisionError: as for `commit_of`, or it is a revision of something else.
    """
    extract_tree(commit_of(revision), target)


def extract_tree(tree: str, target: Path) -> None:
    """Put the files of a commit or tree, by its full name, in a folder; raises RevisionError."""
    files = _run(("archive", "--format=tar", tree), f"the files of {tree} cannot be read; see git fsck")
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(target, filter="data")
    if not (target / "kernels").is_dir():  # the files of a repository that gathernest is installed in
        raise RevisionError(f"{PACKAGE} is no checkout of gathernest; install it from one: pip install -e CHECKOUT")


def tree_of_files(index: Path) -> str:
    """Write the files of the checkout as they are, those that git ignores aside, as a tree; return its full name.

    Args:
        index: a file that is not there yet; git's own index stays as it is.

    Raises:
        RevisionError: there is no git or no checkout, or a file cannot be read.
    """
    failed = f"the files of {PACKAGE} cannot be read by git; name a revision, or see what git status says"
    for command in (("read-tree", "HEAD"), ("add", "--all")):
        git(*command, otherwise=failed, index=index)
    return git("write-tree", otherwise=failed, index=index)


def git(*command: str, otherwise: str, index: Path | None = None) -> str:
    """Return what a git command prints in the checkout; raises RevisionError with `otherwise` where it fails."""
    return _run(command, otherwise, index).decode(errors="replace").strip()


def _run(command: tuple[str, ...], otherwise: str, index: Path | None = None) -> bytes:
    environment = os.environ | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
    try:
        ended = subprocess.run(
            ["git", "-C", str(PACKAGE), *command], capture_output=True, check=False, timeout=LIMIT_S, env=environment
        )
    except OSError as error:
        raise RevisionError(f"git cannot be run ({error.strerror}); install it") from None
    if ended.returncode:
        raise RevisionError(otherwise)
    return ended.stdout
