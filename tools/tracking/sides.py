"""The two sides of a comparison: sources and an environment each, in folders that are removed at the end."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from ...kernels.host.checkout import RevisionError, commit_of, extract_tree, git, tree_of_files
from ...kernels.host.cpu import package_version

INSTALL_LIMIT_S = 1800
WORKING_TREE = "the working tree"


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: "base" or "head".
        revision: its name by the caller; "the working tree" when the caller named none.
        commit: its full name; of the working tree, the commit that it is based on.
        changed: files of the working tree that differ from that commit; 0 of a revision.
        folder: has the sources as `gathernest`, and a cache; its path is as long as that of the other side.
        python: the interpreter, whose environment has the packages that the sources depend on.
    """

    name: str
    revision: str
    commit: str
    changed: int
    folder: Path
    python: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes: its sources first, a cache and settings of its own."""
        others = {name: value for name, value in os.environ.items() if not name.startswith(("GATHERNEST_", "PYTHON"))}
        return others | {
            "PYTHONPATH": str(self.folder),
            "GATHERNEST_CACHE_DIR": str(self.folder / "cache"),
            "GATHERNEST_COMPILE": "now",  # kernels are timed, and not the answers of NumPy until they are compiled
            "GATHERNEST_TUNING": "off",
        }


@contextlib.contextmanager
def two_sides(base: str | None, head: str | None, versions: Sequence[str] = ()) -> Iterator[tuple[Side, Side]]:
    """Extract two revisions; None is the working tree as it is, with its new files and without ignored ones.

    A revision that depends on other packages than the installed ones gets a virtual environment.

    Args:
        base, head: commits, branches or tags of the checkout that gathernest runs from.
        versions: such as "numba==0.68.1", of head's environment, whose other packages have the versions installed here;
            the sides are called by them.

    Raises:
        RevisionError: there is no git, no checkout or no such revision, or packages cannot be installed.
    """
    with tempfile.TemporaryDirectory(prefix="gathernest-compare-") as folder:
        sides = _side("base", base, Path(folder), ()), _side("head", head, Path(folder), versions)
        if versions:
            here = " ".join(f"{_name(text)}=={package_version(_name(text))}" for text in versions)
            sides = replace(sides[0], revision=here), replace(sides[1], revision=" ".join(versions))
        yield sides


def _side(name: str, revision: str | None, folder: Path, versions: Sequence[str]) -> Side:
    place = folder / name
    place.mkdir()
    commit = commit_of(revision or "HEAD")
    tree = commit if revision else tree_of_files(place / "index")
    changed = git(
        "diff", "--name-only", commit, tree, otherwise=f"{tree} cannot be compared with {commit}"
    ).splitlines()
    extract_tree(tree, place / "gathernest")
    called = revision or WORKING_TREE
    what = ", ".join(versions) or f"the packages that {called} depends on"
    python = _python_of(place / "gathernest", place / "environment", versions, what)
    return Side(name, called, commit, len(changed), place, python)


def _python_of(sources: Path, environment: Path, versions: Sequence[str], what: str) -> str:
    """Return an interpreter with the packages that sources depend on: this one, or one of a new environment."""
    wanted = {_name(text): text for text in _dependencies(sources)}
    if not versions and {_normal(text) for text in wanted.values()} <= {_normal(text) for text in _installed()}:
        return sys.executable
    if versions:
        given = {_name(text): text for text in versions}
        wanted = {name: f"{name}=={package_version(name)}" for name in wanted} | given
        if "numba" in given and "llvmlite" in wanted.keys() - given:
            wanted["llvmlite"] = "llvmlite"  # each Numba asks for its own
    _run("make a virtual environment", [sys.executable, "-m", "venv", str(environment)])
    python = str(environment / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(f"install {what}", [*pip, *wanted.values()])
    return python


def _dependencies(sources: Path) -> list[str]:
    try:
        return tomllib.loads((sources / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise RevisionError(
            f"the pyproject.toml of a side cannot be read ({type(error).__name__}: {error}); name another revision"
        ) from None


def _installed() -> list[str]:
    """Return the requirements of the gathernest that is installed, which its environment fulfils."""
    try:
        return [text for text in requires("gathernest") or () if ";" not in text]
    except PackageNotFoundError:
        return []


def _name(requirement: str) -> str:
    """Return the normal name of the package of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;@]", requirement.strip(), maxsplit=1)[0]).lower()


def _normal(requirement: str) -> tuple[str, frozenset[str]]:
    """Return a requirement as its name and its conditions in any order."""
    text = re.sub(r"\s", "", requirement)
    start = re.search(r"[\[<>=!~;@]", text)
    return _name(text), frozenset(text[start.start() :].split(",") if start else ())


def _run(what: str, command: Sequence[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RevisionError(f"cannot {what}: it took more than {INSTALL_LIMIT_S} s; try again") from None
    if ended.returncode:
        lines = [line for line in (ended.stderr or ended.stdout).strip().splitlines() if line]
        errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise RevisionError(f"cannot {what}: {errors[-1] if errors else 'pip failed'}; name others")
