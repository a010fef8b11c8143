"""Bars with a name and a value each, as HTML: lengths by style, text as text. Plain Python."""

import html
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its name, how long it is, and what is written beside it."""

    name: str
    value: float
    label: str


def bars(rows: Sequence[Bar]) -> str:
    """Return bars whose lengths are shares of the longest, as a table that reads without style, too."""
    longest = max((row.value for row in rows), default=0) or 1
    lines = (
        f'<tr><th scope="row">{html.escape(row.name)}</th><td class="bar"><span style="width:{_share(row, longest)}%">'
        f'</span></td><td class="number">{html.escape(row.label)}</td></tr>'
        for row in rows
    )
    return f'<table class="bars">{"".join(lines)}</table>'


def _share(row: Bar, longest: float) -> str:
    return f"{100 * row.value / longest:.1f}"
