"""The page on the architecture is short, has one picture, and names each folder of sources once on its walk."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_page_fits_on_two_screens_with_one_picture() -> None:
    assert len(PAGE.splitlines()) <= 90
    assert PAGE.count("```text") == 1


def test_walk_names_each_folder_once() -> None:
    walk = PAGE.partition("## A walk")[2].partition("## Facts")[0]
    files = [path for top in ("ir", "lowering", "kernels", "tools") for path in (ROOT / top).rglob("*.py")]
    folders = {path.parent.relative_to(ROOT).as_posix() for path in files if path.name != "__init__.py"}
    assert {name: len(re.findall(f"`{name}`", walk)) for name in folders} == dict.fromkeys(folders, 1)
