"""Horizontal bars with a name before each and a number behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...lowering.drawings.svg import FONT_SIZE, Element, add, shortened, width_of

# The longest bar in pixels, letters of a name or a number, and the height of a row.
LONGEST, MOST_LETTERS, ROW = 320.0, 44, 22.0
_THICK, _GAP = 14.0, 8.0


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar.

    Attributes:
        name: what it is of; of long names and texts the beginning is shown, and all on hovering.
        value: how long it is, in the unit of all bars of a group, 0 or more; None where there is no bar.
        text: the number with its unit, or why there is none.
        hue: its colour.
        kind: its class is `gn-bar gn-<kind>`.
    """

    name: str
    value: float | None
    text: str
    hue: str
    kind: str


def draw_bars(
    parent: Element, heading: str, bars: Sequence[Bar], top: float, *, marked: tuple[float, str] | None = None
) -> tuple[float, float]:
    """Draw bars of one scale under a heading.

    Args:
        top: where the heading begins.
        marked: a value to which a line is drawn across all bars, and what it is.

    Returns:
        The width, and where the bars end.
    """
    group = add(parent, "g", class_="gn-bars")
    add(group, "text", heading, x=0.0, y=top + FONT_SIZE, font_weight="bold")
    left = max((width_of(shortened(bar.name, MOST_LETTERS)) for bar in bars), default=0.0) + _GAP
    values = [bar.value for bar in bars if bar.value is not None] + ([marked[0]] if marked else [])
    longest = max([value for value in values if value > 0], default=1.0)
    first = top + ROW
    for number, bar in enumerate(bars):
        _draw_bar(group, bar, left, first + number * ROW, longest)
    bottom = first + len(bars) * ROW
    width = left + LONGEST + _GAP + max((width_of(shortened(bar.text, MOST_LETTERS)) for bar in bars), default=0.0)
    if marked is not None:
        x = left + LONGEST * marked[0] / longest
        line = add(
            group, "line", class_="gn-mark", x1=x, y1=first - 2, x2=x, y2=bottom, stroke="currentColor",
            stroke_dasharray="4 3",
        )  # fmt: skip
        add(line, "title", marked[1])
    return max(width, width_of(heading)), bottom


def _draw_bar(parent: Element, bar: Bar, left: float, y: float, longest: float) -> None:
    row = add(parent, "g", class_=f"gn-bar gn-{bar.kind}")
    add(row, "title", f"{bar.name}: {bar.text}")
    baseline, length = y + FONT_SIZE, LONGEST * max(bar.value or 0.0, 0.0) / longest
    add(row, "text", shortened(bar.name, MOST_LETTERS), x=left - _GAP, y=baseline, text_anchor="end")
    if bar.value is not None:
        add(
            row, "rect", x=left, y=y, width=max(length, 1.0), height=_THICK, fill=bar.hue, fill_opacity=0.45,
            stroke=bar.hue,
        )  # fmt: skip
    shown = add(row, "text", shortened(bar.text, MOST_LETTERS), x=left + LONGEST + _GAP, y=baseline)
    if bar.value is None:
        shown.set("fill-opacity", "0.7")
