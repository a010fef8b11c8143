"""Values as small static HTML, which notebooks show: no script, no style sheet, everything escaped. Plain Python.

Colours come from the page around it, so that it reads in light and in dark.
"""

import html
from collections.abc import Iterable, Sequence

_CODE = "overflow-x:auto;margin:.3em 0;line-height:1.35;text-align:left"
_CELL = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0"


def fragment(title: str, *parts: str) -> str:
    """Return parts of HTML below a title, whose text is escaped."""
    return f'<div style="max-width:72em"><strong>{html.escape(title)}</strong>{"".join(parts)}</div>'


def code(text: str) -> str:
    """Return text unchanged, in a monospaced font."""
    return f'<pre style="{_CODE}">{html.escape(text.rstrip())}</pre>'


def paragraph(text: str) -> str:
    """Return text as a paragraph."""
    return f'<p style="margin:.3em 0">{html.escape(text)}</p>'


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows of text; the first cell of each is its heading."""
    lines = (
        f'<tr><th style="{_CELL}">{html.escape(first)}</th>'
        + "".join(f'<td style="{_CELL}">{html.escape(cell)}</td>' for cell in cells)
        + "</tr>"
        for first, *cells in rows
    )
    return f'<table style="border-collapse:collapse;margin:.3em 0">{"".join(lines)}</table>'


def fold(title: str, *parts: str, is_open: bool = False) -> str:
    """Return parts of HTML below a title, whose text is escaped; a click on it opens and closes them."""
    opened = " open" if is_open else ""
    summary = f'<summary style="cursor:pointer">{html.escape(title)}</summary>'
    return f"<details{opened}>{summary}{''.join(parts)}</details>"
