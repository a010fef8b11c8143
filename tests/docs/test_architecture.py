"""The page on the architecture is short, has one picture, and names each folder of sources once on its walk.

No file and no folder of the package has more than a reader looks through at once.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FLOORS = ("ir", "lowering", "kernels", "interop", "playground", "tools")


def sources(*folders: str) -> list[Path]:
    """Return the Python files below folders, relative to the root, but for `__init__.py`."""
    found = (path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [path for path in found if path.name != "__init__.py"]


def test_page_fits_on_one_screen_with_one_picture() -> None:
    assert len(PAGE.splitlines()) <= 65
    assert PAGE.count("```text") == 1


def test_walk_names_each_folder_once() -> None:
    walk = PAGE.partition("## A walk")[2].partition("## Facts")[0]
    folders = {path.parent.as_posix() for path in sources(*FLOORS)}
    assert {name: len(re.findall(f"`{name}`", walk)) for name in folders} == dict.fromkeys(folders, 1)
