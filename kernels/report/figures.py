"""The drawings of a report: SVG beside the levels, with a title and a caption each."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...lowering.drawings.nest_drawing import nest_drawing
from .level_view import LevelView
from .section import Section


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing.

    Attributes:
        title, caption: as text.
        svg: what a function that draws returned.
        level: whose lines the `data-line` of its elements are; None for none.
    """

    title: str
    caption: str
    svg: str
    level: int | None = None


def drawings(section: Section, levels: Sequence[LevelView]) -> list[Figure]:
    """Return the drawings of a gather: its nest as the schedule left it."""
    nests = [view for view in levels if view.is_open and view.level.kind == "stage"]
    return [
        Figure(
            "The scheduled nest",
            f"After {view.title}. Click a box: it lights up in every level.",
            nest_drawing(view.level.text, title="The scheduled nest"),
            view.number,
        )
        for view in nests
    ]
