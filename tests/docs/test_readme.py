"""The table of levels of the page on the IR names each folder of passes."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ir.md").read_text()


def test_every_folder_of_passes_is_in_the_table_of_levels() -> None:
    folders = {path.parent.name for path in (ROOT / "lowering" / "passes").glob("*/__init__.py")}
    assert {name for name in folders if f"](../lowering/passes/{name})" not in PAGE} == {"operators"}
