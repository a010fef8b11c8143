"""The levels of a trace as a page shows them: which lines a pass made, what is folded, and origins as JSON."""

import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...lowering.provenance.trace import WORK, Level, Line, Trace

# Makes HTML of lines of a kind of text.
Highlight = Callable[[Sequence[str], str], list[str]]
# What a line is compared by: results without a name are numbered anew by every pass.
_NUMBERED = re.compile(r"%\d+")
# Of LLVM IR: every name may end in a number, of a value, a block or metadata; comments name the blocks before.
_NUMBERED_LLVM = re.compile(r"(%[\w.]*?)\d+(?![\w.])|^([a-z][\w.]*?)\d+(?=:)|(?<=[!#])\d+|\s+; preds = .*")


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of a level: its number (from 0), its HTML, whether this level's pass made it, and the kind of work."""

    number: int
    html: str
    is_new: bool
    kind: str


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of a level under a title; folded ones are shown by a click. The title is empty where all lines follow."""

    title: str
    lines: tuple[LineView, ...]
    is_folded: bool = False
    is_hot: bool = False


@dataclass(frozen=True, slots=True)
class LevelView:
    """A level as a page shows it.

    Attributes:
        number: from 0.
        level: what it shows.
        title: the pass without its options, or what the text is.
        options: of the pass; empty for none.
        parts: its lines, each in one of them; none where nothing changed.
        added, removed: lines that this level has and the one before it has not, and the reverse; 0 behind the stages.
        is_open: whether the page shows it at first.
    """

    number: int
    level: Level
    title: str
    options: str
    parts: tuple[Part, ...]
    added: int
    removed: int
    is_open: bool


def level_views(trace: Trace, highlight: Highlight) -> list[LevelView]:
    """Return the levels of a trace, with text as HTML by a function; those that changed nothing have no lines."""
    opened = first_open(trace.levels)
    views: list[LevelView] = []
    for number, level in enumerate(trace.levels):
        title, _, options = level.name.partition("{")
        new, removed = _changes(level, trace.levels)
        parts = parts_of(level, new, highlight) if level.is_changed else ()
        views.append(
            LevelView(
                *(number, level, title, options.removesuffix("}"), parts, len(new), removed),
                is_open=number in opened and bool(parts),
            )
        )
    return views


def first_open(levels: Sequence[Level]) -> set[int]:
    """Return the levels that a page shows at first: the scheduled nest, the source and the assembly."""
    stages = [number for number, level in enumerate(levels) if level.kind == "stage"]
    lowered = next((number for number in stages if levels[number].name.startswith("lower-nest-to-loops")), None)
    nests = [number for number in stages if levels[number].is_changed and (lowered is None or number < lowered)]
    behind = {number for number, level in enumerate(levels) if level.kind in ("source", "assembly")}
    return {*nests[-1:], *behind}


def origins(trace: Trace) -> list[list[object]]:
    """Return [number of the level that its lines came from, the origins of each line] for each level, for JSON.

    The origins of a line are a list of numbers, or the number where it is one.
    """
    return [[level.origin, [_short(line.origins) for line in level.lines]] for level in trace.levels]


def _short(numbers: tuple[int, ...]) -> object:
    return list(numbers) if len(numbers) != 1 else numbers[0]


def _changes(level: Level, levels: Sequence[Level]) -> tuple[frozenset[int], int]:
    """Return the lines of a stage that the stage before it has not, and how many of that are gone."""
    if level.origin is None or level.kind != "stage":
        return frozenset(), 0
    before, after = _keys(levels[level.origin].lines), _keys(level.lines)
    blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    kept = {block.b + step for block in blocks for step in range(block.size)}
    return frozenset(range(len(after))) - kept, len(before) - len(kept)


def _keys(lines: Sequence[Line]) -> list[str]:
    return [line_key(line.text) for line in lines]


def line_key(text: str, kind: str = "stage") -> str:
    """Return what a line of a kind of text is compared by."""
    if kind == "llvm":
        return _NUMBERED_LLVM.sub(lambda match: match[1] or match[2] or "", text.strip())
    return _NUMBERED.sub("%", text.strip())


def parts_of(level: Level, new: frozenset[int], highlight: Highlight) -> tuple[Part, ...]:
    """Return the lines of a level in the order in which a page shows them; those of `new` are marked."""
    texts = highlight([line.text for line in level.lines], level.kind)
    views = [
        LineView(number, texts[number], number in new, line.kind if line.kind in WORK else "")
        for number, line in enumerate(level.lines)
    ]
    if level.kind == "assembly" and level.loops:
        return _assembly_parts(level, views)
    if level.kind == "source":
        head = next((number for number, line in enumerate(level.lines) if not line.text.startswith("#")), 0)
        head = 0 if head < 8 else head
        folded = (Part("the comment at its head: key, pipeline and loops", tuple(views[:head]), is_folded=True),)
        return (*(folded if head else ()), Part("", tuple(views[head:])))
    if level.kind == "llvm":
        return _llvm_parts(level, views)
    return (Part("", tuple(views)),)


def _assembly_parts(level: Level, views: Sequence[LineView]) -> tuple[Part, ...]:
    """Return hot loops, then other loops with what is around the hot ones, then what is in none, folded."""
    shown, parts = set[int](), list[Part]()
    for loop in level.hot_loops:
        numbers = [number for number in loop.lines if number not in shown]
        shown.update(numbers)
        title = f"hot loop{f' {loop.name}' if loop.name else ''}, lines {loop.first + 1} to {loop.last + 1}"
        parts.append(Part(title, tuple(views[number] for number in numbers), is_hot=True))
    around = {number for loop in level.loops for number in loop.lines} - shown
    rest = set(range(len(views))) - shown - around
    for title, numbers, is_folded in (
        ("other loops, and what is around the hot ones", around, False),
        ("outside of all loops: entry, exit, calls", rest, True),
    ):
        if numbers:
            lines = tuple(views[number] for number in sorted(numbers))
            parts.append(Part(title, lines, is_folded=is_folded))
    return tuple(parts)


def _llvm_parts(level: Level, views: Sequence[LineView]) -> tuple[Part, ...]:
    """Return the functions with a line of the source in them, then everything else, folded."""
    own, rest, function = list[LineView](), list[LineView](), list[LineView]()
    is_inside = False
    for view in views:
        text = level.lines[view.number].text
        if not is_inside and not text.startswith("define"):
            rest.append(view)
            continue
        is_inside = not text.startswith("}")
        function.append(view)
        if not is_inside:
            maps = any(level.lines[each.number].origins for each in function)
            (own if maps else rest).extend(function)
            function = []
    rest += function
    if not own:
        return (Part("", tuple(views)),)
    parts = [Part("functions of the kernel", tuple(own))]
    if rest:
        parts.append(Part("wrapper, declarations and metadata", tuple(rest), is_folded=True))
    return tuple(parts)
