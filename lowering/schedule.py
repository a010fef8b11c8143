"""Schedules: how a loop nest is tiled, ordered and shared among threads. Plain Python; imports no xDSL.

A schedule prints as the passes that carry it out: a schedule, a piece of a pipeline and a tuning result are one text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.errors import ScheduleError, did_you_mean

TILE_SIZES = (4096, 256, 16)
TILE_BYTES = 64 * 1024
MIN_SLICE_BYTES = 16 * 1024
CHECK_TILE = 4096
_CHECK_PREFIX = "check_"


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a nest becomes code; the empty schedule is the nest as it stands, run serially.

    Attributes:
        tiles: (loop, iterations) pairs; `x` becomes `x_o` around `x_i`. `check_...` are the loops that check indices.
        order: every loop of the copying nest after tiling, outermost first; empty leaves them.
        parallel: loops that threads share, outermost first.
    """

    tiles: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()

    def __str__(self) -> str:
        passes: list[str] = []
        if self.tiles:
            names, sizes = zip(*self.tiles, strict=True)
            passes.append(f"tile-loops{{loops={','.join(names)} sizes={','.join(map(str, sizes))}}}")
        if self.order:
            passes.append(f"interchange-loops{{order={','.join(self.order)}}}")
        if self.parallel:
            passes.append(f"parallelize-loops{{loops={','.join(self.parallel)}}}")
        return ",".join(passes)

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Read what `str` of a schedule prints.

        Raises:
            ScheduleError: the text is not a schedule.
        """
        fields: dict[str, tuple] = {}
        rest = text.strip()
        while rest:
            match = _PASS.match(rest)
            if match is None or match["name"] not in _OPTIONS:
                name = match["name"] if match else rest
                raise ScheduleError(
                    f"{name!r} is not a pass of a schedule; use {', '.join(_OPTIONS)}{did_you_mean(name, _OPTIONS)}"
                )
            options = dict(option.split("=", 1) for option in match["options"].split() if "=" in option)
            if set(options) != set(_OPTIONS[match["name"]]):
                wanted = " and ".join(_OPTIONS[match["name"]])
                raise ScheduleError(f"{match['name']} in a schedule takes {wanted}, got {{{match['options']}}}")
            fields |= _fields(match["name"], options)
            rest = rest[match.end() :].lstrip(", ")
        return cls(**fields)


_PASS = re.compile(r"\s*(?P<name>[a-z-]+)\{(?P<options>[^}]*)\}\s*")
_OPTIONS = {"tile-loops": ("loops", "sizes"), "interchange-loops": ("order",), "parallelize-loops": ("loops",)}


def _fields(name: str, options: dict[str, str]) -> dict[str, tuple]:
    if name == "interchange-loops":
        return {"order": tuple(options["order"].split(","))}
    loops = tuple(options["loops"].split(","))
    if name == "parallelize-loops":
        return {"parallel": loops}
    sizes = options["sizes"].split(",")
    if len(sizes) != len(loops) or not all(size.isdigit() for size in sizes):
        raise ScheduleError(
            f"tile-loops takes one size for each of its loops, got {{loops={','.join(loops)} sizes={options['sizes']}}}"
        )
    return {"tiles": tuple(zip(loops, map(int, sizes), strict=True))}


@dataclass(frozen=True, slots=True)
class NestShape:
    """The sizes of a nest: what a schedule is chosen from.

    Attributes:
        batch, outer, indices, inner: (loop name, iterations) of each role, outermost first.
        width_bytes: bytes an element.
        has_check: whether the indices are checked in a nest of their own.
    """

    batch: tuple[tuple[str, int], ...]
    outer: tuple[tuple[str, int], ...]
    indices: tuple[tuple[str, int], ...]
    inner: tuple[tuple[str, int], ...]
    width_bytes: int
    has_check: bool


def choose_schedule(nest: NestShape) -> Schedule:
    """Pick tiles of about 64 KiB and the loops around them as parallel ones.

    The tile is cut from the innermost loop that still leaves enough in a tile: from `indices` when one (batch, outer)
    pair moves 16 KiB or more, otherwise from `outer`, otherwise from `batch`. Tile sizes are few, so that kernels are.
    """
    row = nest.width_bytes * _product(nest.inner)
    batch, outer, indices = (_real(group) for group in (nest.batch, nest.outer, nest.indices))
    slice_bytes = row * _product(indices)
    if indices and (slice_bytes >= MIN_SLICE_BYTES or not (outer or batch)):
        around, cut, unit_bytes = [*batch, *outer, *indices[:-1]], indices[-1], row
    elif outer and (slice_bytes * _product(outer) >= MIN_SLICE_BYTES or not batch):
        around, cut, unit_bytes = [*batch, *outer[:-1]], outer[-1], slice_bytes
    elif batch:
        around, cut, unit_bytes = list(batch[:-1]), batch[-1], slice_bytes * _product(outer)
    else:
        return Schedule()
    tiles, parallel = _cut(cut[0], TILE_BYTES // max(unit_bytes, 1))
    parallel = (*(name for name, _ in around), *parallel)
    if nest.has_check:
        check_tiles, check_parallel = _schedule_check(batch, indices)
        tiles, parallel = tiles + check_tiles, parallel + check_parallel
    return Schedule(tiles=tiles, parallel=parallel)


Loops = Sequence[tuple[str, int]]


def _schedule_check(batch: Loops, indices: Loops) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """The loops that check the indices, cut where a tile holds enough of them."""
    if batch and _product(indices) < CHECK_TILE:
        around, cut, tile = batch[:-1], batch[-1], CHECK_TILE // max(_product(indices), 1)
    elif indices:
        around, cut, tile = [*batch, *indices[:-1]], indices[-1], CHECK_TILE
    else:
        return (), ()
    tiles, parallel = _cut(_CHECK_PREFIX + cut[0], tile)
    return tiles, (*(_CHECK_PREFIX + name for name, _ in around), *parallel)


def _cut(name: str, wanted: int) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """Return (tiles, parallel loops) that cut a loop into pieces of at most `wanted` iterations."""
    size = next((size for size in TILE_SIZES if size <= wanted), 1)
    return (((name, size),), (f"{name}_o",)) if size > 1 else ((), (name,))


def _real(group: Loops) -> Loops:
    return [loop for loop in group if loop[1] != 1]


def _product(group: Loops) -> int:
    product = 1
    for _, size in group:
        product *= size
    return product
