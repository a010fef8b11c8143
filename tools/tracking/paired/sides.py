"""The two sides of a comparison: the sources of two revisions, in folders that are removed at the end."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ....kernels.host.checkout import commit_of, extract_tree, git, tree_of_files


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: "base" or "head".
        revision: what the caller called it; "the working tree" when the caller named none.
        commit: its full name; of the working tree, the commit that it is based on.
        changed: files of the working tree that differ from that commit; 0 of a revision.
        folder: has the sources as `gathernest`, and a cache; equally long for both sides.
    """

    name: str
    revision: str
    commit: str
    changed: int
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its processes: its sources first, a cache and settings of its own."""
        others = {name: value for name, value in os.environ.items() if not name.startswith("GATHERNEST_")}
        cache = str(self.folder / "cache")
        return others | {"PYTHONPATH": str(self.folder), "GATHERNEST_CACHE_DIR": cache, "PYTHONHASHSEED": "0"}


@contextlib.contextmanager
def two_sides(base: str, head: str | None) -> Iterator[tuple[Side, Side]]:
    """Extract two revisions; without `head`, the working tree as it is, with its new files and without ignored ones.

    Raises:
        RevisionError: there is no git, no checkout, or no such revision.
    """
    with tempfile.TemporaryDirectory(prefix="gathernest-compare-") as folder:
        yield _side("base", base, Path(folder)), _side("head", head, Path(folder))


def _side(name: str, revision: str | None, folder: Path) -> Side:
    place = folder / name
    place.mkdir()
    commit = commit_of(revision or "HEAD")
    tree = commit if revision else tree_of_files(place / "index")
    changed = git(
        "diff", "--name-only", commit, tree, otherwise=f"{tree} cannot be compared with {commit}"
    ).splitlines()
    extract_tree(tree, place / "gathernest")
    return Side(name, revision or "the working tree", commit, len(changed), place)
