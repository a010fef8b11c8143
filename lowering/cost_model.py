"""Choosing a schedule from the sizes of a nest. Plain Python; imports no xDSL."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .schedule import Schedule

TILE_SIZES = (4096, 256, 16)
TILE_BYTES = 64 * 1024
MIN_SLICE_BYTES = 16 * 1024
CHECK_TILE = 4096
CHECK_PREFIX = "check_"
MIN_GRADIENT_BYTES = 64 * 1024
MIN_OWNED_ROW_BYTES = 32
MOST_CACHED_BYTES = 16 * 1024 * 1024
MIN_PIECE_BYTES = 64
PIECES = (4096, 1024, 256, 64, 16, 8)

Loops = Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class NestShape:
    """The sizes of a nest: what a schedule is chosen from.

    Attributes:
        copied: (name, iterations) of the loops that copy, outermost first.
        checked: those over which the indices are checked in a nest of their own; none when there is no such nest.
        width_bytes: bytes an element.
        table: (name, size) of the dimensions of data.
        scales: whether it is a gradient whose sums are scaled.
    """

    copied: tuple[tuple[str, int], ...]
    checked: tuple[tuple[str, int], ...]
    width_bytes: int
    table: tuple[tuple[str, int], ...] = ()
    scales: bool = False


def choose_schedule(nest: NestShape) -> Schedule:
    """Pick tiles of about 64 KiB and the loops around them as parallel ones.

    The tile is cut from the innermost loop, but for those of a row, that still leaves 16 KiB in a tile where the sizes
    allow it. Tile sizes are few, so that kernels are.
    """
    row = {"inner", "unit"}
    outside = [loop for loop in nest.copied if loop[1] != 1 and _role(loop) not in row]
    unit_bytes = nest.width_bytes * _trips([loop for loop in nest.copied if _role(loop) in row])
    tiles, parallel = _cut_innermost(outside, unit_bytes, MIN_SLICE_BYTES, TILE_BYTES)
    if not parallel:
        return Schedule()
    checked = [(CHECK_PREFIX + name, size) for name, size in nest.checked if size != 1]
    check_tiles, check_parallel = _cut_innermost(checked, 1, CHECK_TILE // 4, CHECK_TILE)
    return Schedule(tiles=tiles + check_tiles, parallel=parallel + check_parallel)


def choose_gradient_schedule(nest: NestShape, threads: int) -> Schedule:
    """Pick what threads share of a gradient, so that none of them adds to what another adds to.

    That is, in this order: batches and outer slices, when there are enough of them; the positions of the longest axis,
    when rows are worth the look at every index and the table is larger than a cache; pieces of 64 bytes or more of the
    rows. Otherwise one thread adds: scalars at random places cost less than deciding whose they are.

    Args:
        nest: its sizes; the loops that copy are those that add.
        threads: how many threads there are to share the work.
    """
    adding = [loop for loop in nest.copied if loop[1] != 1]
    if threads == 1 or nest.width_bytes * _trips(adding) < MIN_GRADIENT_BYTES:
        return Schedule()
    beside = _share_beside(nest)
    free = [loop for loop in adding if _role(loop) in ("batch", "outer")]
    if _trips(free) >= threads:
        return Schedule(beside.tiles, parallel=(*(name for name, _ in free), *beside.parallel))
    inner = [loop for loop in adding if _role(loop) in ("inner", "unit")]
    row_bytes, table_bytes = (nest.width_bytes * _trips(group) for group in (inner, nest.table))
    has_own_index = any(name.startswith("data_") for name, _ in nest.table)
    if row_bytes >= MIN_OWNED_ROW_BYTES and table_bytes > MOST_CACHED_BYTES and not has_own_index:
        axis = max((loop for loop in nest.table if _role(loop) == "axis"), key=lambda loop: loop[1])[0]
        return Schedule(beside.tiles, (), ("owners", *beside.parallel), (axis, threads))
    size = next((size for size in PIECES if len(inner) == 1 and threads * size * nest.width_bytes <= row_bytes), 0)
    if size * nest.width_bytes < MIN_PIECE_BYTES:
        return Schedule(beside.tiles, (), beside.parallel)
    name = inner[0][0]
    others = [label for label, _ in adding if label != name]
    order = (f"{name}_o", *others, f"{name}_i")
    return Schedule((*beside.tiles, (name, size)), order, (f"{name}_o", *beside.parallel))


def _share_beside(nest: NestShape) -> Schedule:
    """Pick what threads share of the nests beside the one that adds: those that check, clear and scale."""
    checked = [(CHECK_PREFIX + name, size) for name, size in nest.checked if size != 1]
    tiles, parallel = _cut_innermost(checked, 1, CHECK_TILE // 4, CHECK_TILE)
    rows = 1 + max(place for place, loop in enumerate(nest.table) if _role(loop) == "axis")
    outside = [loop for loop in nest.table[:rows] if loop[1] != 1]
    unit = nest.width_bytes * _trips(nest.table[rows:])
    for prefix in ("clear_", *(["scale_"] if nest.scales else [])):
        loops = [(prefix + name, size) for name, size in outside]
        more_tiles, more_parallel = _cut_innermost(loops, unit, MIN_SLICE_BYTES, TILE_BYTES)
        tiles, parallel = (*tiles, *more_tiles), (*parallel, *more_parallel)
    return Schedule(tiles, parallel=parallel)


Cut = tuple[tuple[tuple[str, int], ...], tuple[str, ...]]


def _cut_innermost(loops: Loops, unit: int, least: int, wanted: int) -> Cut:
    """Return (tiles, parallel loops) that cut the innermost of `loops` whose iterations make pieces of `wanted`.

    Args:
        loops: the loops, outermost first; each iteration of the innermost is worth `unit`.
        least: what all iterations of a loop must be worth for it to be cut.
    """
    for place in reversed(range(len(loops))):
        name, size = loops[place]
        if unit * size >= least or place == 0:
            tiles, parallel = _cut(name, wanted // max(unit, 1))
            return tiles, (*(outer for outer, _ in loops[:place]), *parallel)
        unit *= size
    return (), ()


def _cut(name: str, wanted: int) -> Cut:
    """Return (tiles, parallel loops) that cut a loop into pieces of at most `wanted` iterations."""
    size = next((size for size in TILE_SIZES if size <= wanted), 1)
    return (((name, size),), (f"{name}_o",)) if size > 1 else ((), (name,))


def _role(loop: tuple[str, int]) -> str:
    return loop[0].partition("_")[0]


def _trips(loops: Loops) -> int:
    return math.prod(size for _, size in loops)
