"""Drawings of stored runs as SVG: the cases of one run, and bars for the families of several."""

from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from gathernest.playground.drawings import FONT_SIZE, LETTER, Element, add, drawing, finished, width_of
from gathernest.tools.bench.measure import OURS
from gathernest.tools.bench.report import ratio_text
from gathernest.tools.console.terminal import time_text

# Pixels: the height of a row and of a bar in it, and the space around the picture and between its parts.
ROW, THICK, SPACE = 21.0, 14.0, 16.0
FASTER, SLOWER, BOUND = "#2f81f7", "#e8803c", "#1b9aaa"
# Text that explains: less black than the values.
FAINT = 0.72


@dataclass(frozen=True, slots=True)
class Column:
    """A column of bars of one scale.

    Attributes:
        left, width: where bars begin, and the pixels of the longest.
        longest: the value of the longest bar; greater ones are cut there, and their end is broken.
    """

    left: float
    width: float
    longest: float

    def place(self, value: float) -> float:
        """Return where a bar of a value ends."""
        return self.left + self.width * min(value, self.longest) / self.longest

    def draw_bar(self, parent: Element, top: float, value: float, text: str, hue: str, *, opacity: float = 1.0) -> None:
        """Draw a bar with its value behind it."""
        y, end = top + (ROW - THICK) / 2, self.place(value)
        add(
            parent,
            "rect",
            x=self.left,
            y=y,
            width=max(end - self.left, 1.0),
            height=THICK,
            fill=hue,
            fill_opacity=opacity,
        )
        if value > self.longest:
            for start in (end - 12.0, end - 7.0):
                add(parent, "line", x1=start, y1=y + THICK, x2=start + 5.0, y2=y, stroke="currentColor", stroke_width=2)
        # Behind the line at 1, too, which the letters would hide.
        behind = max(end, self.place(1.0)) if value < 1 else end
        write(parent, text, behind + 5.0, top, bold=True)

    def draw_mark(self, parent: Element, top: float, value: float, title: str) -> None:
        """Draw a tick across a bar at another value of its scale."""
        x = self.place(value)
        mark = add(parent, "line", x1=x, y1=top + 2.0, x2=x, y2=top + ROW - 2.0, stroke="currentColor", stroke_width=2)
        add(mark, "title", title)

    def draw_line(self, parent: Element, top: float, bottom: float) -> None:
        """Draw a dashed line down a column at 1."""
        x = self.place(1.0)
        add(parent, "line", x1=x, y1=top, x2=x, y2=bottom, stroke="currentColor", stroke_dasharray="4 3")


def baseline(top: float) -> float:
    """Return where the letters of a row stand."""
    return top + ROW / 2 + FONT_SIZE * 0.36


def write(
    parent: Element, text: str, x: float, top: float, *, bold: bool = False, faint: bool = False, end: bool = False
) -> None:
    """Write a text in a row, from a place on, or up to it with `end`."""
    add(
        parent, "text", text, x=x, y=baseline(top), font_weight="bold" if bold else None,
        fill_opacity=FAINT if faint else None, text_anchor="end" if end else None,
    )  # fmt: skip


def write_below(parent: Element, lines: list[str], top: float) -> float:
    """Write explanations in small steps below each other; return where they end."""
    for number, line in enumerate(lines):
        write(parent, line, SPACE, top + number * (ROW - 4.0), faint=True)
    return top + len(lines) * (ROW - 4.0) + SPACE


def letters(width: float) -> int:
    """Return the number of letters that fit in a width in pixels."""
    return int(width / LETTER)


# Ratios and fractions above these are cut: longer bars would make the others too short to compare.
MOST_TIMES, MOST_OF_BOUND = 8.0, 1.2
TIMES_WIDTH, BOUND_WIDTH = 260.0, 200.0
# Of a bar of a table that the caches hold, where calls and not memory may be the limit.
IN_CACHE = 0.45
Case = dict[str, Any]


def cases_plot(run: dict[str, Any], conditions: str) -> str:
    """Return the picture as SVG.

    Args:
        run: a stored run.
        conditions: machine, rounds and versions, as text.
    """
    without = {"of_bound": None, "larger_than_cache": True}
    cases = [without | case for case in run["cases"]]
    cases = [case for case in cases if case["ratio"] is not None or case["of_bound"] is not None]
    root = drawing("bench", "gathernest, case by case", _told(cases))
    names = SPACE + max((width_of(case["name"]) for case in cases), default=0.0) + SPACE
    ratios = [case["ratio"] for case in cases if case["ratio"] is not None]
    times = Column(names, TIMES_WIDTH, max(1.0, min(MOST_TIMES, max(ratios, default=1.0))))
    notes = [_note(case) for case in cases]
    beside = times.left + TIMES_WIDTH + width_of("00.00×") + SPACE
    bound = Column(beside + max(map(width_of, notes), default=0.0) + SPACE, BOUND_WIDTH, MOST_OF_BOUND)
    has_bound = any(case["of_bound"] is not None for case in cases)
    width = bound.left + (BOUND_WIDTH + width_of("0000 %") + SPACE if has_bound else 0.0)
    top = _headings(root, times, bound if has_bound else None)
    first, family = top, None
    for case, note in zip(cases, notes, strict=True):
        if case["family"] != family:
            family = case["family"]
            write(root, family, SPACE, top, faint=True)
            top += ROW
        _draw_case(root, case, top, times, bound)
        write(root, note, beside, top, faint=True)
        top += ROW
    times.draw_line(root, first, top)
    if has_bound:
        bound.draw_line(root, first, top)
    bottom = write_below(root, _explanations(cases, conditions, has_bound, letters(width - 2 * SPACE)), top + SPACE / 2)
    return finished(root, width, bottom)


def _headings(root: Element, times: Column, bound: Column | None) -> float:
    write(root, "times as fast as the best peer", times.left, SPACE / 2, bold=True)
    if bound is not None:
        write(root, "of the roofline bound", bound.left, SPACE / 2, bold=True)
    return SPACE / 2 + ROW


def _draw_case(root: Element, case: Case, top: float, times: Column, bound: Column) -> None:
    write(root, case["name"], times.left - SPACE / 2, top, end=True)
    ratio, part = case["ratio"], case["of_bound"]
    if ratio is not None:
        times.draw_bar(root, top, ratio, ratio_text(ratio), FASTER if ratio >= 1 else SLOWER)
    if part is not None:
        opacity = 1.0 if case["larger_than_cache"] else IN_CACHE
        bound.draw_bar(root, top, part, "", BOUND, opacity=opacity)
        # In a column, since the line at 100 % and the ticks stand right behind most bars.
        write(root, f"{100 * part:.0f} %", bound.left + bound.width + width_of("0000 %"), top, bold=True, end=True)


def _note(case: Case) -> str:
    """Return our time, and the best peer with its."""
    ours, peer = time_text(case["median_us"].get(OURS)), case["best_peer"]
    return ours if peer is None else f"{ours}, {peer} {time_text(case['median_us'][peer])}"


def _told(cases: list[Case]) -> str:
    """Return the values as text, for screen readers."""
    told = [f"{case['name']} {ratio_text(case['ratio'])} {case['best_peer']}" for case in cases if case["ratio"]]
    return f"Times as fast as the best peer: {', '.join(told) or 'no peer took part'}."


def _explanations(cases: list[Case], conditions: str, has_bound: bool, width: int) -> list[str]:
    slower = sum(case["ratio"] is not None and case["ratio"] < 1 for case in cases)
    lines = [
        f"Blue: gathernest is faster. Orange: the peer is, in {slower} of {len(cases)} cases. A ratio is the median "
        f"over the rounds. {'The dashed lines are at 1 and at 100 %.' if has_bound else 'The dashed line is at 1.'}"
    ]
    if any(case["ratio"] is not None and case["ratio"] > MOST_TIMES for case in cases):
        lines.append(f"Bars with a broken end are longer: their values are above {MOST_TIMES:g}.")
    if has_bound:
        lines.append(
            "100 % of the roofline bound: as fast as loops that only copy as many bytes or read as many lines. Pale: a "
            "case that the caches hold."
        )
    return [line for text in (*lines, conditions) for line in wrap(text, width)]
