"""Two traces side by side: which levels they share, and the lines that differ, as rows of two cells."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from ....lowering.provenance.trace import WORK, Level, Trace
from ....lowering.registry import SCHEDULED_NEST
from ..level_view import Highlight, LineView, line_key, parts_of

# Equal lines that are shown around those that differ.
CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the left and one of the right, either of which may be missing; or how many rows are left out.

    Those are equal lines ("equal"), or what is too much to show ("more").
    """

    kind: Literal["same", "changed", "equal", "more"]
    left: LineView | None = None
    right: LineView | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class LevelDiff:
    """A level of both, or of one.

    Attributes:
        title: the pass without its options, or what the text is.
        left, right: its number and its name in each; None where it has no such level.
        rows: the lines; none where they are equal, or where only one has it.
        added, removed: lines that only the right has, and that only the left has.
    """

    title: str
    left: tuple[int, str] | None
    right: tuple[int, str] | None
    rows: tuple[Row, ...] = ()
    added: int = 0
    removed: int = 0

    @property
    def is_open(self) -> bool:
        """Whether a page shows it at first."""
        return self.title in ("assembly", SCHEDULED_NEST)


def compare_levels(left: Trace, right: Trace, highlight: Highlight, most_rows: int | None = None) -> list[LevelDiff]:
    """Return the levels of two traces in order; those of the same pass are one, with what differs in it.

    Args:
        left, right: the traces.
        highlight: makes HTML of lines.
        most_rows: of a level; None for all.
    """
    names = [[level.name.partition("{")[0] for level in trace.levels] for trace in (left, right)]
    found: list[LevelDiff] = []
    for tag, a0, a1, b0, b1 in difflib.SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if tag == "equal":
            for a, b in zip(range(a0, a1), range(b0, b1), strict=True):
                found.append(_diff((a, left.levels[a]), (b, right.levels[b]), highlight, most_rows))
            continue
        found += [LevelDiff(names[0][a], (a, left.levels[a].name), None) for a in range(a0, a1)]
        found += [LevelDiff(names[1][b], None, (b, right.levels[b].name)) for b in range(b0, b1)]
    return found


def _diff(left: tuple[int, Level], right: tuple[int, Level], highlight: Highlight, most_rows: int | None) -> LevelDiff:
    (a, before), (b, after) = left, right
    title = before.name.partition("{")[0]
    names = (a, before.name), (b, after.name)
    if [line.text for line in before.lines] == [line.text for line in after.lines]:
        return LevelDiff(title, *names)
    old, new = _in_order(before, highlight), _in_order(after, highlight)
    keys = [
        [line_key(level.lines[view.number].text, level.kind) for view in views]
        for level, views in ((before, old), (after, new))
    ]
    opcodes = difflib.SequenceMatcher(None, *keys, autojunk=False).get_opcodes()
    removed = sum(a1 - a0 for tag, a0, a1, _, _ in opcodes if tag != "equal")
    added = sum(b1 - b0 for tag, _, _, b0, b1 in opcodes if tag != "equal")
    if not added and not removed:
        return LevelDiff(title, *names)
    rows: list[Row] = []
    for place, (tag, a0, a1, b0, b1) in enumerate(opcodes):
        if tag == "equal":
            pairs = [Row("same", x, y) for x, y in zip(old[a0:a1], new[b0:b1], strict=True)]
            rows += _shortened(pairs, is_first=place == 0, is_last=place == len(opcodes) - 1)
        else:
            rows += [Row("changed", x, y) for x, y in zip_longest(old[a0:a1], new[b0:b1])]
    if most_rows is not None and len(rows) > most_rows:
        rows[most_rows:] = [Row("more", count=len(rows) - most_rows)]
    return LevelDiff(title, *names, tuple(rows), added, removed)


def _in_order(level: Level, highlight: Highlight) -> list[LineView]:
    """Return the lines of a level as a page shows them: of assembly the hot loops first."""
    return [line for part in parts_of(level, frozenset(), highlight) for line in part.lines]


def _shortened(rows: Sequence[Row], *, is_first: bool, is_last: bool) -> Iterator[Row]:
    """Yield equal rows near those that differ, and how many are left out between."""
    before, behind = 0 if is_first else CONTEXT, 0 if is_last else CONTEXT
    if len(rows) <= before + behind + 1:
        yield from rows
        return
    yield from rows[:before]
    yield Row("equal", count=len(rows) - before - behind)
    yield from rows[len(rows) - behind :]


def hot_loop_facts(trace: Trace) -> list[tuple[str, int]]:
    """Return how many instructions of each kind the hottest loop has."""
    assembly = trace.levels[-1]
    kinds = [assembly.lines[number].kind for loop in assembly.hot_loops[:1] for number in loop.lines]
    return [(kind, kinds.count(kind)) for kind in WORK]
