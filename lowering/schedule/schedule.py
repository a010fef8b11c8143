"""Schedules: how a loop nest is tiled, ordered and shared among threads. Plain Python; imports no xDSL.

A schedule prints as the passes that carry it out: a schedule, a piece of a pipeline and a tuning result are one text.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...ir.errors import ScheduleError, did_you_mean


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Which lines of data are asked for ahead; the options of `prefetch-indices`.

    Attributes:
        loop: the loop whose later iteration reads them.
        distance: iterations ahead.
        lines: of 64 bytes, a row or a step.
        locality: 3 keeps them in every cache, 0 in none.
    """

    loop: str
    distance: int = 16
    lines: int = 1
    locality: int = 3


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a nest becomes code; the empty schedule is the nest as it stands, run serially.

    Attributes:
        specialize: bytes of a row that the code is made for.
        owners: (axis, count): how many owners share the positions of the axis that a gradient adds to.
        tiles: (loop, iterations) pairs; `x` becomes `x_o` around `x_i`. `check_...` are the loops that check indices.
        order: every loop of the copying nest after tiling, outermost first; empty leaves them.
        parallel: loops that threads share, outermost first.
        hoist: the loop before which the indices of a tile are resolved.
        lanes: elements a vector in the innermost loop.
        unroll: (loop, factor): iterations that run as one.
        prefetch: what is asked for ahead, such as far ahead into the second cache and nearer into the first.
        stream: whether vectors are stored past the caches.
    """

    tiles: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    owners: tuple[str, int] | None = None
    specialize: int | None = None
    hoist: str | None = None
    lanes: int | None = None
    unroll: tuple[str, int] | None = None
    prefetch: tuple[Prefetch, ...] = ()
    stream: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", _pairs(self.tiles, "tiles"))
        object.__setattr__(self, "order", _names(self.order, "order"))
        object.__setattr__(self, "parallel", _names(self.parallel, "parallel"))
        if self.owners is not None:
            object.__setattr__(self, "owners", _pairs([self.owners], "owners")[0])
        if self.unroll is not None:
            object.__setattr__(self, "unroll", _pairs([self.unroll], "unroll")[0])
        for name in ("specialize", "lanes"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ScheduleError(f"{name} of a schedule must be a whole number from 1, got {value!r}")
        if self.hoist is not None and not (isinstance(self.hoist, str) and self.hoist):
            raise ScheduleError(f"hoist of a schedule must be the name of a loop, got {self.hoist!r}")
        asked = tuple(self.prefetch) if isinstance(self.prefetch, Iterable) else (self.prefetch,)
        if not all(isinstance(each, Prefetch) for each in asked):
            raise ScheduleError(
                f"prefetch of a schedule must be a Prefetch, or a sequence of them, got {self.prefetch!r}"
            )
        object.__setattr__(self, "prefetch", asked)
        if not isinstance(self.stream, bool):
            raise ScheduleError(f"stream of a schedule must be True or False, got {self.stream!r}")

    def __str__(self) -> str:
        return ",".join(
            name + ("{" + " ".join(f"{key}={value}" for key, value in options.items()) + "}" if options else "")
            for name, options in self._passes()
        )

    def _passes(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the passes that carry it out, with their options, in the order of the pipeline."""
        if self.specialize is not None:
            yield "specialize-inner", {"bytes": self.specialize}
        if self.owners is not None:
            yield "owner-computes", {"owners": self.owners[1], "axis": self.owners[0]}
        if self.tiles:
            names, sizes = zip(*self.tiles, strict=True)
            yield "tile-loops", {"loops": ",".join(names), "sizes": ",".join(map(str, sizes))}
        if self.order:
            yield "interchange-loops", {"order": ",".join(self.order)}
        if self.parallel:
            yield "parallelize-loops", {"loops": ",".join(self.parallel)}
        if self.hoist is not None:
            yield "hoist-indices", {"before": self.hoist}
        if self.lanes is not None:
            yield "vectorize-inner", {"lanes": self.lanes}
        if self.unroll is not None:
            yield "unroll", {"loop": self.unroll[0], "factor": self.unroll[1]}
        for prefetch in self.prefetch:
            yield "prefetch-indices", asdict(prefetch)
        if self.stream:
            yield "stream-stores", {}

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read what `str` of a schedule prints.

        Raises:
            ScheduleError: the text is not a schedule.
        """
        if not isinstance(text, str):
            raise ScheduleError(f"a schedule must be a Schedule or its text, got {text!r}")
        fields: dict[str, Any] = {}
        rest, places = text.strip(), list(_OPTIONS)
        while rest:
            match = _PASS.match(rest)
            name = match["name"] if match else rest.partition("{")[0]
            if (match is None or match["options"] is None) and _OPTIONS.get(name):
                raise ScheduleError(
                    f"{name} in a schedule takes {' and '.join(_OPTIONS[name])} in braces, got {rest!r}"
                )
            if match is None or name not in _OPTIONS:
                raise ScheduleError(
                    f"{name!r} is not a pass of a schedule; use {', '.join(_OPTIONS)}{did_you_mean(name, _OPTIONS)}"
                )
            if name not in places:
                raise ScheduleError(
                    f"a schedule has each pass once, but for {REPEATED}, in the order {', '.join(_OPTIONS)}; "
                    f"got {text!r}"
                )
            places = places[places.index(name) + (name != REPEATED) :]
            read = _fields(name, _options(name, match["options"]))
            fields |= {"prefetch": (*fields.get("prefetch", ()), *read["prefetch"])} if name == REPEATED else read
            rest = rest[match.end() :]
        return cls(**fields)


def as_schedule(schedule: Schedule | str) -> Schedule:
    """Return a schedule that is given as one, or as its text.

    Raises:
        ScheduleError: the text is not a schedule.
    """
    return schedule if isinstance(schedule, Schedule) else Schedule.parse(schedule)


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule, and why.

    Attributes:
        schedule: the schedule.
        reasons: a sentence for each thing decided.
    """

    schedule: Schedule
    reasons: tuple[str, ...]


def _names(values: Any, what: str) -> tuple[str, ...]:
    """Return names of loops as a tuple; raises ScheduleError where they are none, or one comes twice."""
    names = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else None
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise ScheduleError(f"{what} of a schedule must be a sequence of names of loops, got {values!r}")
    if len(set(names)) != len(names):
        raise ScheduleError(f"{what} of a schedule names a loop twice: {', '.join(names)}")
    return names


def _pairs(values: Any, what: str) -> tuple[tuple[str, int], ...]:
    """Return pairs of a name and a number from 1 as a tuple; raises ScheduleError where they are none."""
    values = values.items() if isinstance(values, Mapping) else values
    try:
        given = [(name, count) for name, count in values]
        pairs = tuple((name, operator.index(count)) for name, count in given if not isinstance(count, bool))
    except (TypeError, ValueError):
        given, pairs = [None], ()
    if len(pairs) != len(given) or any(not isinstance(name, str) or count < 1 for name, count in pairs):
        raise ScheduleError(f"{what} of a schedule must be pairs of a name and a whole number from 1, got {values!r}")
    _names([name for name, _ in pairs], what)
    return pairs


_PASS = re.compile(r"\s*(?P<name>[a-z-]+)(?:\{(?P<options>[^{}]*)\})?\s*(?:,|$)")
_OPTIONS = {
    "specialize-inner": ("bytes",),
    "owner-computes": ("owners", "axis"),
    "tile-loops": ("loops", "sizes"),
    "interchange-loops": ("order",),
    "parallelize-loops": ("loops",),
    "hoist-indices": ("before",),
    "vectorize-inner": ("lanes",),
    "unroll": ("loop", "factor"),
    "prefetch-indices": ("loop", "distance", "lines", "locality"),
    "stream-stores": (),
}
REPEATED = "prefetch-indices"
"""The one pass that a schedule may have more than once."""
_NUMBERS = {"bytes", "owners", "lanes", "factor", "distance", "lines", "locality"}


def _options(name: str, text: str | None) -> dict[str, str]:
    """Read `loops=a,b sizes=1,2`; every option of the pass once, none of it empty."""
    pairs = [option.partition("=") for option in (text or "").split()]
    options = {key: value for key, _, value in pairs}
    wanted = _OPTIONS[name]
    if sorted(key for key, _, _ in pairs) != sorted(wanted) or any(
        "" in value.split(",") for value in options.values()
    ):
        raise ScheduleError(f"{name} in a schedule takes {' and '.join(wanted) or 'no options'}, got {{{text}}}")
    for key in (key for key in options if key in _NUMBERS):
        least = 0 if key == "locality" else 1
        if not options[key].isdecimal() or int(options[key]) < least:
            raise ScheduleError(f"{name} takes a number of {key} of {least} or more, got {options[key]}")
    return options


def _fields(name: str, options: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a schedule that a pass with its options stands for."""
    if name == "tile-loops":
        loops, sizes = options["loops"].split(","), options["sizes"].split(",")
        if len(sizes) != len(loops) or not all(size.isdecimal() and int(size) > 0 for size in sizes):
            got = f"loops={options['loops']} sizes={options['sizes']}"
            raise ScheduleError(f"tile-loops takes one size of 1 or more for each of its loops, got {{{got}}}")
        return {"tiles": tuple(zip(loops, map(int, sizes), strict=True))}
    values: dict[str, Any] = {key: int(value) if key in _NUMBERS else value for key, value in options.items()}
    readers: dict[str, Callable[[], dict[str, Any]]] = {
        "specialize-inner": lambda: {"specialize": values["bytes"]},
        "owner-computes": lambda: {"owners": (values["axis"], values["owners"])},
        "interchange-loops": lambda: {"order": tuple(values["order"].split(","))},
        "parallelize-loops": lambda: {"parallel": tuple(values["loops"].split(","))},
        "hoist-indices": lambda: {"hoist": values["before"]},
        "vectorize-inner": lambda: {"lanes": values["lanes"]},
        "unroll": lambda: {"unroll": (values["loop"], values["factor"])},
        "prefetch-indices": lambda: {"prefetch": (Prefetch(**values),)},
        "stream-stores": lambda: {"stream": True},
    }
    return readers[name]()
