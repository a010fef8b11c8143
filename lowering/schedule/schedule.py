"""Schedules: how a loop nest is tiled, ordered and shared among threads. Plain Python.

A schedule prints as the passes that carry it out: a schedule, a part of a pipeline and a tuning result are one text.
`STEPS` has a pass for each field, with its options, in the order of the pipeline.
"""

import dataclasses
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from ...ir.errors import ScheduleError, did_you_mean, shorten, show
from ...ir.modules.plugins import import_error, package_of, why_unknown
from ...ir.numbers import MAX_INT64

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec


# Numbers that may have more than 64 bits.
_LONG_NUMBER = re.compile(rf"\d{{{len(str(MAX_INT64))},}}")
WHOLE_ROW = 0  # as the lines of a prefetch
PREFETCHED = ("rows", "slices", "tile")


@dataclass(frozen=True, slots=True)
class Prefetch:
    """What to prefetch; the options of the pass `prefetch`.

    Attributes:
        what: `rows` of data, or of the table that a gradient adds to; `slices` of grad; the next `tile` of a list.
        loop: the loop, a later iteration of which reads or adds them.
        ahead: iterations ahead; of a tile, indices for each addition.
        lines: of rows: lines of 64 bytes, a row or a step; 0 for the whole row.
        locality: 3 keeps a line in every cache, 0 in none.
        separate: the loop in front of which the prefetches have a loop of their own; None where they have none.
    """

    what: str
    loop: str
    ahead: int = 16
    lines: int = 1
    locality: int = 3
    separate: str | None = None

    def __post_init__(self) -> None:
        if self.what not in PREFETCHED:
            raise ScheduleError(f"a Prefetch is of {', '.join(PREFETCHED)}, got {show(self.what)}")
        _name(self.loop, "loop of a Prefetch")
        for name, least in (("ahead", 1), ("lines", 0), ("locality", 0)):
            _number(getattr(self, name), f"{name} of a Prefetch", least)
        if self.separate is not None:
            _name(self.separate, "separate of a Prefetch")


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a nest becomes code; the empty schedule is the nest as it stands, run serially.

    Attributes:
        specialize: bytes of a row that the code is made for.
        grouped: the loop over the indices that are sorted by position before a gradient adds up each position.
        sort_parts: in so many parts, by as many threads; None on one thread.
        owners: (axis, count): the owner-computes partition of the axis that a gradient adds to.
        tiles: (loop, iterations) pairs; `x` becomes `x_o` around `x_i`. `check_...` are the loops that check indices.
        owner_block: positions of the blocks that owners have in turn; None for one part each.
        fuse_owned: whether each owner clears and scales its positions.
        order: every loop of the copying nest after tiling, outermost first; empty leaves them.
        parallel: the parallel loops, outermost first.
        compact: the loop over a tile of the indices, of which an owner's are listed first.
        list_lanes: indices a vector where an owner lists them.
        hoist: the loop before which the indices of a tile are staged.
        lanes: elements a vector in the innermost loop.
        gather: whether the lanes of elements with an index each are loaded by gather instructions.
        unroll: (loop, factor): iterations that run as one.
        prefetch: the prefetches, such as one far ahead into L2 and one nearer into L1.
        stream: whether vectors are written by non-temporal stores.
        passes: passes of other packages with their options, such as "own-pass{size=8}"; they run last.
    """

    tiles: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    owners: tuple[str, int] | None = None
    owner_block: int | None = None
    fuse_owned: bool = False
    specialize: int | None = None
    grouped: str | None = None
    sort_parts: int | None = None
    compact: str | None = None
    list_lanes: int | None = None
    hoist: str | None = None
    lanes: int | None = None
    gather: bool = False
    unroll: tuple[str, int] | None = None
    prefetch: tuple[Prefetch, ...] = ()
    stream: bool = False
    passes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field, check, default in _CHECKS:
            value = getattr(self, field)
            if value is not None and value is not default:
                object.__setattr__(self, field, check(value, f"{field} of a schedule"))
        if self.passes != ():
            object.__setattr__(self, "passes", _other_passes(self.passes))

    def __str__(self) -> str:
        return ",".join(self._texts())

    def _texts(self) -> list[str]:
        """Return the text of each pass."""
        texts = [text for name, step in STEPS.items() for text in step.texts(name, getattr(self, step.field))]
        return [*texts, *self.passes]

    def _repr_html_(self) -> str:
        from .. import static_html as html

        none = "no step: one thread runs the nest as it stands"
        return html.fragment("Schedule", html.code("\n".join(self._texts()) or none))

    def prefetches(self, *kinds: str) -> tuple[Prefetch, ...]:
        """Return the prefetches of some kinds: rows, slices or tile."""
        return tuple(prefetch for prefetch in self.prefetch if prefetch.what in kinds)

    @classmethod
    def parse(cls, text: "Schedule | str") -> "Schedule":
        """Read what `str` of a schedule prints; a schedule is returned as it is.

        Raises:
            ScheduleError: the text is not a schedule.
        """
        if isinstance(text, Schedule):
            return text
        if not isinstance(text, str):
            raise ScheduleError(f"a schedule must be a Schedule or its text, got {show(text)}")
        specs = parse_specs(text)
        try:
            if text.count("=") != sum(len(spec.parameters) for spec in specs):
                raise ScheduleError("a schedule has each option of a pass once, with a value")
            return cls(**_fields(specs))
        except ScheduleError as error:
            raise ScheduleError(f"{error}, in {text!r}") from None


def shorter_schedules(schedule: Schedule) -> dict[str, Schedule]:
    """Return the schedule without each of its passes, by the pass that is left out, in the order of the pipeline.

    Several of a kind are left out together.
    """
    shorter: dict[str, Schedule] = {}
    for step in STEPS.values():
        value, default = getattr(schedule, step.field), getattr(NO_SCHEDULE, step.field)
        for part in map(schedule.prefetches, PREFETCHED) if step.repeats else (value,):
            if part != default:
                left_out = str(replace(NO_SCHEDULE, **{step.field: part}))
                rest = tuple(row for row in value if row not in part) if step.repeats else default
                shorter[left_out] = replace(schedule, **{step.field: rest})
    return shorter | {
        left_out: replace(schedule, passes=tuple(text for text in schedule.passes if text != left_out))
        for left_out in schedule.passes
    }


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule, and why: a sentence for each thing decided."""

    schedule: Schedule
    reasons: tuple[str, ...]


# The passes and pipelines of earlier versions: the name now, an option that is added, and options with other names.
RENAMED: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    **dict.fromkeys(
        ("lower-gather-to-nest", "lower-gradient-to-nest", "lower-reduction-to-nest"), ("lower-to-nest", {}, {})
    ),
    **dict.fromkeys(("gradient-nest", "reduction-nest"), ("nest", {}, {})),
    **dict.fromkeys(("gradient", "reduction"), ("default", {}, {})),
    "prefetch-indices": ("prefetch", {"what": "rows"}, {"distance": "ahead"}),
    "prefetch-slices": ("prefetch", {"what": "slices"}, {"distance": "ahead"}),
    "prefetch-next-tile": ("prefetch", {"what": "tile"}, {}),
    "fission-prefetches": ("prefetch", {"what": "rows"}, {"loop": "separate"}),
    "fuse-bounds-check": ("check-indices", {"how": "fused"}, {}),
    "stage-positions": ("check-indices", {"how": "staged"}, {}),
    "count-listed": ("check-indices", {"how": "counted"}, {}),
}


def parse_specs(text: str) -> "list[ArgSpec]":
    """Read a pipeline as passes with their options.

    This is xDSL's reader, imported when there is something to read: a cached kernel runs without xDSL.

    Raises:
        ScheduleError: the text does not parse, or names a pass by the name that an earlier version had for it.
    """
    if not text.strip():
        return []
    for number in _LONG_NUMBER.findall(text):
        if len(number) > len(str(MAX_INT64)) or int(number) > MAX_INT64:
            raise ScheduleError(f"the numbers of a pipeline must be below 2**63, got {shorten(number)}")
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    try:
        specs = list(parse_pipeline(re.sub(r"\s*([,{}])\s*", r"\1", text.strip())))
    except ArgSpecParseError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ScheduleError(f"the pipeline does not parse: {reason} in {text!r}") from None
    for spec in specs:
        if spec.name in RENAMED:
            name, added, names = RENAMED[spec.name]
            options = [f"{option}={value}" for option, value in added.items()]
            options += [f"{names.get(option, option)}={','.join(map(str, v))}" for option, v in spec.parameters.items()]
            written = f"{name}{{{' '.join(options)}}}" if options else name
            raise ScheduleError(f"{spec.name} is the name that an earlier version had; write {written}")
    return specs


def _number(value: Any, what: str, least: int = 1) -> int:
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if not least <= number <= MAX_INT64:
        wanted = f"a whole number from {least}" if number < least else "below 2**63"
        raise ScheduleError(f"{what} must be {wanted}, got {show(value)}")
    return number


def _name(value: Any, what: str) -> str:
    if not (isinstance(value, str) and value):
        raise ScheduleError(f"{what} must be the name of a loop, got {show(value)}")
    return value


def _names(values: Any, what: str) -> tuple[str, ...]:
    names = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise ScheduleError(f"{what} must be a sequence of names of loops, got {show(values)}")
    if len(set(names)) != len(names):
        raise ScheduleError(f"{what} names a loop twice: {shorten(', '.join(names))}")
    return names


def _pairs(values: Any, what: str) -> tuple[tuple[str, int], ...]:
    values = values.items() if isinstance(values, Mapping) else values
    try:
        pairs = [(name, count) for name, count in values]
    except (TypeError, ValueError):
        raise ScheduleError(f"{what} must be pairs of a name and a whole number from 1, got {show(values)}") from None
    _names([name for name, _ in pairs], what)
    return tuple((name, _number(count, f"{what} for {name}")) for name, count in pairs)


def _pair(value: Any, what: str) -> tuple[str, int]:
    return _pairs([value], what)[0]


def _prefetches(values: Any, what: str) -> tuple[Prefetch, ...]:
    given = tuple(values) if isinstance(values, Iterable) else (values,)
    if not all(isinstance(each, Prefetch) for each in given):
        raise ScheduleError(f"{what} must be a Prefetch, or a sequence of them, got {show(values)}")
    return given


def _other_passes(values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not all(isinstance(text, str) for text in values):
        raise ScheduleError(f"passes of a schedule must be texts such as ('own-pass{{size=8}}',), got {show(values)}")
    return tuple(str(spec).replace('"', "") for spec in parse_specs(",".join(values)))


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ScheduleError(f"{what} must be True or False, got {show(value)}")
    return value


def _fields(specs: "list[ArgSpec]") -> dict[str, Any]:
    """Return the fields that passes with their options stand for; what they hold is not checked yet."""
    fields: dict[str, Any] = {}
    places = list(STEPS)
    for spec in specs:
        if spec.name not in STEPS and package_of("passes", spec.name):
            places, fields["passes"] = [], (*fields.get("passes", ()), str(spec))
            continue
        if spec.name not in STEPS:
            known = f"{', '.join(STEPS)}{why_unknown()}{did_you_mean(spec.name, STEPS)}"
            raise ScheduleError(f"{spec.name!r} is not a pass of a schedule; use {known}") from import_error()
        if spec.name not in places:
            order = ", ".join(STEPS)
            raise ScheduleError(f"a schedule has each pass once, but for prefetch, in the order {order}")
        step = STEPS[spec.name]
        if not step.has_options(spec):
            raise ScheduleError(f"{spec.name} in a schedule takes {' and '.join(step.options) or 'no options'}")
        places = places[places.index(spec.name) + (not step.repeats) :]
        value = step.read(spec)
        fields[step.field] = (*fields.get(step.field, ()), *value) if step.repeats else value
    return fields


def _row(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


@dataclass(frozen=True, slots=True)
class Step:
    """A pass that carries out one field of a schedule; it does not run where that is None, False or empty.

    Attributes:
        field: the field: a value of each option, or a tuple of such rows.
        options: the options of the pass, in the order of a row.
        check: returns the field's value in its one form; raises ScheduleError for anything else.
        many: whether the field has rows; the options are lists then.
        repeats: whether it has rows, and the pass runs for each.
        row: makes a row of its values.
        is_reversed: whether the text has the last option first.
        defaults: the options that the text leaves out where they have these values.
    """

    field: str
    options: tuple[str, ...]
    check: Callable[[Any, str], Any]
    many: bool = False
    repeats: bool = False
    row: Callable[..., Any] = _row
    is_reversed: bool = False
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def has_options(self, spec: "ArgSpec", beside: Collection[str] = ()) -> bool:
        """Return whether a run of the pass has its options, those `beside` them left aside."""
        given = spec.parameters.keys() - set(beside)
        return given <= set(self.options) and given | self.defaults.keys() >= set(self.options)

    def texts(self, name: str, value: Any) -> list[str]:
        """Return the text of each run of the pass for a value of the field."""
        rows = value if self.many or self.repeats else [value] if value else []
        rows = [
            row if isinstance(row, tuple) else astuple(row) if isinstance(row, Prefetch) else (row,) for row in rows
        ]
        runs = [[row] for row in rows] if self.repeats else [rows] if rows else []
        return [f"{name}{{{self._given(run)}}}" if self.options else name for run in runs]

    def _given(self, rows: Sequence[tuple[Any, ...]]) -> str:
        columns = zip(self.options, zip(*rows, strict=True), strict=True)
        texts = [
            f"{option}={','.join(map(str, values))}"
            for option, values in columns
            if option not in self.defaults or values != (self.defaults[option],)
        ]
        return " ".join(texts[::-1] if self.is_reversed else texts)

    def read(self, spec: "ArgSpec") -> Any:
        """Return the field's value, or some rows of it, for one run of the pass; not checked yet."""
        given = {option: (value,) for option, value in self.defaults.items()} | spec.parameters
        columns = [given[option] for option in self.options]
        rows = tuple(self.row(*row) for row in zip_longest(*columns)) if columns else (True,)
        return rows if self.many or self.repeats else _row(*rows)


STEPS = {
    "specialize-inner": Step("specialize", ("bytes",), _number),
    "group-indices": Step("grouped", ("loop",), _name),
    "parallelize-sort": Step("sort_parts", ("parts",), _number),
    "owner-computes": Step("owners", ("axis", "owners"), _pair, is_reversed=True),
    "interleave-owners": Step("owner_block", ("block",), _number),
    "fuse-into-owners": Step("fuse_owned", (), _flag),
    "tile-loops": Step("tiles", ("loops", "sizes"), _pairs, many=True),
    "interchange-loops": Step("order", ("order",), _names, many=True),
    "parallelize-loops": Step("parallel", ("loops",), _names, many=True),
    "compact-indices": Step("compact", ("loop",), _name),
    "vectorize-lists": Step("list_lanes", ("lanes",), _number),
    "hoist-indices": Step("hoist", ("before",), _name),
    "vectorize-inner": Step("lanes", ("lanes",), _number),
    "gather-lanes": Step("gather", (), _flag),
    "unroll": Step("unroll", ("loop", "factor"), _pair),
    "prefetch": Step(
        "prefetch",
        ("what", "loop", "ahead", "lines", "locality", "separate"),
        _prefetches,
        repeats=True,
        row=Prefetch,
        defaults={"lines": 1, "separate": None},
    ),
    "stream-stores": Step("stream", (), _flag),
}
# The passes of a schedule by name, in the order of the pipeline. A new one is an entry here and a field above.

_CHECKS = tuple((step.field, step.check, Schedule.__dataclass_fields__[step.field].default) for step in STEPS.values())
NO_SCHEDULE = Schedule()
