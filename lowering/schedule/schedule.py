"""Schedules: how a loop nest is tiled, ordered and shared among threads, as the steps of a pipeline. Plain Python."""

import re
from collections.abc import Iterable
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ...ir.errors import ScheduleError, did_you_mean, shorten, show
from ...ir.modules.plugins import import_error, package_of, why_unknown
from ...ir.numbers import MAX_INT64
from .steps import (
    STEPS,
    InterchangeLoops,
    OtherStep,
    ParallelizeLoops,
    Prefetch,
    SpecializeInner,
    Step,
    TileLoops,
    VectorizeInner,
    read_options,
)

if TYPE_CHECKING:
    from xdsl.utils.arg_spec import ArgSpec

S = TypeVar("S", bound=Step)
# Numbers that may have more than 64 bits.
_LONG_NUMBER = re.compile(rf"\d{{{len(str(MAX_INT64))},}}")
_PLACE = attrgetter("place")
# Loops with the iterations of a tile of each; and names of loops.
Tiles = tuple[tuple[str, int], ...]
Names = tuple[str, ...]


class Schedule(tuple[Step, ...]):
    """How a nest becomes code: steps, each a pass with its options, in the order of the pipeline.

    The empty schedule is the nest as it stands, run serially. `str` gives the text of the pipeline that has the steps,
    which `parse` reads; a part of a pipeline, a tuning result and the name of a candidate are such a text.
    """

    def __new__(cls, steps: Iterable[Step] = ()) -> Self:
        given: Any = () if isinstance(steps, str) or not isinstance(steps, Iterable) else steps
        schedule = super().__new__(cls, given)
        if given is not steps or not all(isinstance(step, Step) for step in schedule):
            raise ScheduleError(f"a Schedule is made of steps, got {show(steps)}; Schedule.parse reads a text")
        return schedule

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        return ",".join(map(str, self))

    def __repr__(self) -> str:
        return f"Schedule.parse({str(self)!r})"

    def _repr_html_(self) -> str:
        from .. import static_html as html

        none = "no step: one thread runs the nest as it stands"
        return html.fragment("Schedule", html.code("\n".join(map(str, self)) or none))

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
            if text.count("=") > sum(len(spec.parameters) for spec in specs):
                raise ScheduleError("a schedule has each option of a pass once")
            schedule = cls(map(read_step, specs))
            names = [step.name for step in schedule]
            if schedule != schedule.put() or any(
                names.count(kind.name) > 1 for kind in STEPS.values() if not kind.repeats
            ):
                raise ScheduleError(f"a schedule has each pass once, but for prefetch, in the order {', '.join(STEPS)}")
        except ScheduleError as error:
            raise ScheduleError(f"{error}, in {show(text)}") from None
        return schedule

    def get(self, kind: type[S]) -> S | None:
        """Return the first step of a kind; None where there is none."""
        for step in self:
            if type(step) is kind:
                return step
        return None

    def has(self, kind: type[Step]) -> bool:
        """Return whether there is a step of a kind."""
        return kind in map(type, self)

    def put(self, *steps: Step | None) -> "Schedule":
        """Return the schedule with steps at their places in the pipeline, which replace steps of their kinds.

        None stands for no step.
        """
        added = [step for step in steps if step is not None]
        kinds = [*map(type, added)]
        found = [step for step in self if type(step) not in kinds]
        return tuple.__new__(Schedule, sorted(found + added, key=_PLACE))

    def without(self, *kinds: type[Step]) -> "Schedule":
        """Return the schedule without the steps of some kinds."""
        return tuple.__new__(Schedule, [step for step in self if type(step) not in kinds]) if kinds else self

    def with_loops(
        self, *, tiles: Tiles | None = None, order: Names | None = None, parallel: Names | None = None
    ) -> "Schedule":
        """Return the schedule with other tiles, order or parallel loops; none where they are empty."""
        given = (
            (TileLoops, tiles and TileLoops(tuple([loop for loop, _ in tiles]), tuple([size for _, size in tiles]))),
            (InterchangeLoops, order and InterchangeLoops(order)),
            (ParallelizeLoops, parallel and ParallelizeLoops(parallel)),
        )
        kinds = [kind for kind, step in given if step is not None]
        steps = [step for step in self if type(step) not in kinds] + [step for _, step in given if step]
        return tuple.__new__(Schedule, sorted(steps, key=_PLACE))

    def with_prefetches(self, prefetches: Iterable[Prefetch]) -> "Schedule":
        """Return the schedule with other prefetches."""
        found = tuple(prefetches)
        return self.put(*found) if found else self.without(Prefetch)

    # What other parts ask for most

    @property
    def tiles(self) -> Tiles:
        """(loop, iterations) of the loops that are tiled; `x` becomes `x_o` around `x_i`."""
        step = self.get(TileLoops)
        return () if step is None else tuple(zip(step.loops, step.sizes, strict=False))

    @property
    def order(self) -> Names:
        """Every loop of the copying nest after tiling, outermost first; empty where they keep their places."""
        step = self.get(InterchangeLoops)
        return () if step is None else step.order

    @property
    def parallel(self) -> Names:
        """The parallel loops, outermost first."""
        step = self.get(ParallelizeLoops)
        return () if step is None else step.loops

    @property
    def row_bytes(self) -> int | None:
        """The bytes of a row that the code is made for; None where it is for rows of any size."""
        step = self.get(SpecializeInner)
        return None if step is None else step.bytes

    @property
    def lanes(self) -> int | None:
        """The elements of a vector in the innermost loop; None where elements are copied one by one."""
        step = self.get(VectorizeInner)
        return None if step is None else step.lanes

    def prefetches(self, *kinds: str) -> tuple[Prefetch, ...]:
        """Return the prefetches of some kinds, rows, slices or tile; all where none is named."""
        return tuple([step for step in self if type(step) is Prefetch and (not kinds or step.what in kinds)])


def read_step(spec: "ArgSpec") -> Step:
    """Return the step that a pass with its options is.

    Raises:
        ScheduleError: no schedule has the pass, or an option does not fit.
    """
    kind = STEPS.get(spec.name)
    if kind is not None:
        return kind(**read_options(spec.name, kind.options, spec.parameters))
    if package_of("passes", spec.name):
        return OtherStep(spec.name, spec.parameters)
    known = f"{', '.join(STEPS)}{why_unknown()}{did_you_mean(spec.name, STEPS)}"
    raise ScheduleError(f"{show(spec.name)} is not a pass of a schedule; use {known}") from import_error()


def shorter_schedules(schedule: Schedule) -> dict[str, Schedule]:
    """Return the schedule without each of its steps, by the text of what is left out, in the order of the pipeline.

    Prefetches of a kind are left out together.
    """
    groups: dict[object, list[Step]] = {}
    for step in schedule:
        groups.setdefault((Prefetch, step.what) if isinstance(step, Prefetch) else step, []).append(step)
    return {
        ",".join(map(str, group)): Schedule(step for step in schedule if step not in group) for group in groups.values()
    }


def parse_specs(text: str) -> "list[ArgSpec]":
    """Read a pipeline as passes with their options.

    This is xDSL's reader, imported when there is something to read: a cached kernel runs without xDSL.

    Raises:
        ScheduleError: it is no text, or does not parse.
    """
    if not isinstance(text, str):
        raise ScheduleError(f"a pipeline must be text, such as tile-loops{{loops=indices sizes=64}}, got {show(text)}")
    if not text.strip():
        return []
    for number in _LONG_NUMBER.findall(text):
        if len(number) > len(str(MAX_INT64)) or int(number) > MAX_INT64:
            raise ScheduleError(f"the numbers of a pipeline must be below 2**63, got {shorten(number)}")
    from xdsl.utils.arg_spec import parse_pipeline
    from xdsl.utils.exceptions import ArgSpecParseError

    try:
        return list(parse_pipeline(re.sub(r"\s*([,{}])\s*", r"\1", text.strip())))
    except ArgSpecParseError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise ScheduleError(f"the pipeline does not parse: {reason} in {show(text)}") from None


NO_SCHEDULE = Schedule()
