"""Each test that the page of other libraries names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_cell_names_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "ecosystems.md").read_text("utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    sources = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.M)}
    assert len(named) > 20
    assert named <= there, f"the page names tests that there are not: {sorted(named - there)}"
