"""The levels of a report as HTML lines: coloured, with the lines that a pass made, and side by side with another's."""

import difflib
import functools
import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

from pygments import token as of
from pygments.lexer import Lexer, RegexLexer
from pygments.lexers import GasLexer, LlvmLexer, PythonLexer
from pygments.token import _TokenType

from ..lowering.provenance.trace import WORK, Level, Line, Trace
from ..lowering.registry import SCHEDULED_NEST


class MlirLexer(RegexLexer):
    """MLIR text, as far as colours need it."""

    name = "MLIR"
    tokens = {  # noqa: RUF012 (pygments names it so)
        "root": [
            (r"//.*", of.Comment),
            (r'"(?:\\.|[^"\\\n])*"', of.String),
            (r"%[\w$.-]+(?:#\d+)?", of.Name.Variable),
            (r"@[\w$.-]+", of.Name.Function),
            (r"\^\w+", of.Name.Label),
            (r"[#!][\w$.-]+", of.Keyword.Type),
            (r"\b(?:tensor|memref|vector)(?=<)|\b(?:[su]?i\d+|bf16|f\d+|index)\b", of.Keyword.Type),
            (r"\b[a-z_]+\.[\w.]+", of.Keyword),
            (r"-?\b\d+(?:\.\d+(?:e[+-]?\d+)?)?(?=\b|x)", of.Number),
            (r"\w+", of.Text),
            (r"[^\w\s]", of.Text),
            (r"\s+", of.Text),
        ]
    }


# The class of the style sheet by the kind of a token; the first kind that fits is taken.
CLASSES: tuple[tuple[_TokenType, str], ...] = (
    (of.Comment, "c"),
    (of.Keyword.Type, "t"),
    (of.Keyword, "k"),
    (of.Name.Function, "f"),
    (of.Name.Label, "f"),
    (of.Name.Decorator, "f"),
    (of.Name.Variable, "v"),
    (of.Name.Builtin, "k"),
    (of.Name.Constant, "v"),
    (of.Operator.Word, "k"),
    (of.String, "s"),
    (of.Number, "m"),
    (of.Literal, "m"),
)
LEXERS: dict[str, type[Any]] = {"stage": MlirLexer, "source": PythonLexer, "llvm": LlvmLexer, "assembly": GasLexer}


def highlighted(lines: Sequence[str], kind: str) -> list[str]:
    """Return lines of text as HTML with a class for each kind of word.

    Args:
        lines: without their ends.
        kind: of the text: a key of `LEXERS`.
    """
    found: list[list[str]] = [[]]
    for token, text in _lexer(kind).get_tokens("\n".join(lines)):
        first, *others = text.split("\n")
        found[-1].append(_coloured(token, first))
        for other in others:
            found.append([_coloured(token, other)])
    shown = ["".join(parts) for parts in found[: len(lines)]]
    return shown if len(found) > len(lines) else plain(lines)


def plain(lines: Sequence[str], kind: str = "") -> list[str]:
    """Return lines of text as HTML without colours."""
    return [html.escape(line) for line in lines]


@functools.cache
def _lexer(kind: str) -> Lexer:
    return LEXERS[kind](stripnl=False, ensurenl=True)


def _coloured(token: _TokenType, text: str) -> str:
    name = next((name for wanted, name in CLASSES if token in wanted), None) if text.strip() else None
    escaped = html.escape(text)
    return escaped if name is None else f"<i class={name}>{escaped}</i>"


# Makes HTML of lines of a kind of text.
Highlight = Callable[[Sequence[str], str], list[str]]
# Lines are compared without these numbers: every pass numbers the results without a name anew.
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
        level: the level.
        title: the pass without its options, `cse#2` of a second `cse`, or the name of the level.
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
    """Return the levels of a trace, with text as HTML by a function; levels that changed nothing have no lines."""
    opened = first_open(trace.levels)
    views: list[LevelView] = []
    for number, level in enumerate(trace.levels):
        title, _, options = level.name.partition("{")
        times = 1 + sum(before.name.partition("{")[0] == title for before in trace.levels[:number])
        title = title if times == 1 else f"{title}#{times}"
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
    return [
        [level.origin, [each[0] if len(each := line.origins) == 1 else list(each) for line in level.lines]]
        for level in trace.levels
    ]


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
    """Return the part of a line by which lines of a kind of text are compared."""
    if kind == "llvm":
        return _NUMBERED_LLVM.sub(lambda match: match[1] or match[2] or "", text.strip())
    return _NUMBERED.sub("%", text.strip())


def parts_of(level: Level, new: frozenset[int], highlight: Highlight) -> tuple[Part, ...]:
    """Return the lines of a level in the order in which a page shows them; the lines in `new` are marked."""
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
    """Return hot loops, then other loops and the lines around hot loops, then the lines outside of loops, folded."""
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


# Equal lines that are shown around lines that differ.
CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the left and one of the right, either of which may be missing; or how many rows are left out.

    The rows left out are equal lines ("equal"), or too many to show ("more").
    """

    kind: Literal["same", "changed", "equal", "more"]
    left: LineView | None = None
    right: LineView | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class LevelDiff:
    """A level of both, or of one.

    Attributes:
        title: the pass without its options, or the name of the level.
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
    """Return the levels of two traces in order; levels of the same pass are one, with the lines that differ.

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
    """Yield equal rows near rows that differ, and the number of rows that are left out between."""
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
