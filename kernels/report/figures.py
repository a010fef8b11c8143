"""The drawings of a report: SVG beside the levels, with a title and a caption each."""

from dataclasses import dataclass

from ...lowering.drawings.nest_drawing import nest_drawing
from ...lowering.provenance.trace import Trace
from ..drawings.access_drawing import access_drawing
from ..runtime.plan import Plan
from .level_view import first_open


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


def figures(plan: Plan, trace: Trace) -> tuple[Figure, ...]:
    """Return the drawings of a gather: its nest as the schedule left it, and the memory accesses of a small one."""
    drawn = [
        Figure(
            "The scheduled nest",
            f"After {level.name.partition('{')[0]}. Click a box: it lights up in every level.",
            nest_drawing(level.text, title="The scheduled nest"),
            number,
        )
        for number, level in enumerate(trace.levels)
        if level.kind == "stage" and number in first_open(trace.levels)
    ]
    accesses = Figure(
        "The memory accesses",
        "Which line of data each element of a small gather with the same loops reads, by which thread.",
        access_drawing(plan),
    )
    return (*drawn, accesses)
