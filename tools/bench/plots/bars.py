"""Bars with a value at the end of each, in columns; blue and orange, which colour-blind people tell apart."""

from dataclasses import dataclass

from ....playground.drawings import FONT_SIZE, LETTER, Element, add

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
    """Return how many letters fit in so many pixels."""
    return int(width / LETTER)
