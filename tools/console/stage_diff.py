"""The difference between two stages as a unified diff, coloured where it goes to a terminal."""

import difflib
import re
from collections.abc import Sequence

from ...ir.errors import InvalidGatherError
from .terminal import make_console

STYLES = {"-": "red", "+": "green", "@": "cyan"}


def ends_of(asked: str, stages: Sequence[str]) -> tuple[str, str]:
    """Return the two stages that `PASS` or `A..B` names: that before a pass and that behind it, or A and B.

    An end that is left out is the first stage, or the last.

    Raises:
        InvalidGatherError: nothing is before the pass. That the names are stages is not checked.
    """
    first, dots, second = asked.partition("..")
    if dots:
        return first or stages[0], second or stages[-1]
    if asked == stages[0]:
        raise InvalidGatherError(f"nothing is before {asked}, the first stage; name a pass, or two stages as A..B")
    return stages[stages.index(asked) - 1] if asked in stages else asked, asked


def unified(before: str, after: str, names: tuple[str, str]) -> str:
    """Return the unified diff of two texts; empty where they are equal."""
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    return "".join(difflib.unified_diff(old, new, *names))


def print_diff(text: str) -> None:
    """Print a unified diff to standard output, in colours on a terminal."""
    console = make_console()
    for line in text.splitlines():
        is_head = re.match(r"(---|\+\+\+) ", line) is not None
        console.print(line, style="bold" if is_head else STYLES.get(line[:1], ""))
