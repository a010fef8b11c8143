"""The generated pages have every word of the docstrings that they come from."""

import inspect
import re
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.lowering.registry import PASSES, load_pass

DOCS = Path(__file__).resolve().parents[2] / "docs"


def words(text: str) -> list[str]:
    return re.findall(r"[\w%#]+", text)


def section(page: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one of any name."""
    (found,) = re.findall(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", (DOCS / page).read_text(), re.M | re.S)
    return found[1]


@pytest.mark.parametrize("name", sorted({*gn.__all__} - {"__version__"}))
def test_the_page_of_the_interface_has_every_public_name(name: str) -> None:
    thing = getattr(gn, name)
    heading = f"class gn.{name}" if inspect.isclass(thing) else f"gn.{name}"
    shown = words(section("api.md", heading))
    assert [word for word in words(inspect.getdoc(thing) or "") if word not in shown] == []


@pytest.mark.parametrize("name", PASSES)
def test_the_page_of_passes_has_every_docstring(name: str) -> None:
    shown = words(section("passes.md", name))
    assert [word for word in words(inspect.getdoc(load_pass(name)) or "") if word not in shown] == []


@pytest.mark.parametrize("name", gn.ops)
def test_the_page_of_operators_has_every_docstring(name: str) -> None:
    shown = words(section("operators.md", name))
    assert [word for word in words(inspect.getdoc(gn.ops[name]) or "") if word not in shown] == []
