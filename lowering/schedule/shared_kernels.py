"""Rounding a schedule so that gathers of many sizes share a kernel. Plain Python.

The sizes of rows and tiles and the distances of prefetches are parts of the code. A schedule that is chosen for one
nest has values of its own for each of them; here they become the values of a class of rows. A class is split where that
gains 5 %.
"""

import functools
from typing import NamedTuple

from ...ir.loop_name import LoopName
from .choose import Choice, choose
from .machine_model import LINE_BYTES, MIN_SINGLE_BYTES, MachineModel
from .prefetch_heuristic import NEAR, near_and_far_rows
from .schedule import Schedule
from .shape import NestShape
from .steps import (
    WHOLE_ROW,
    BoundInner,
    HoistIndices,
    InterchangeLoops,
    OtherStep,
    Prefetch,
    SpecializeInner,
    StreamStores,
    Unroll,
    VectorizeInner,
)
from .thresholds import TILE_SIZES


class RowClass(NamedTuple):
    """Rows that share a kernel.

    Attributes:
        most_bytes: the longest rows.
        vector_bytes: bytes that are copied at a time, at most: a machine may have shorter vectors.
        tile: rows a tile, where one loop over the indices is around a row.
        is_loop: whether vectors are copied in a loop; otherwise a row is two vectors that may overlap.
        ahead_bytes: bytes of a row of the class, from which the distances of prefetches follow.
        lines: lines that are prefetched of a row; 0 for all of them, along with the copy of another row.
    """

    most_bytes: int
    vector_bytes: int
    tile: int
    is_loop: bool = True
    ahead_bytes: int = 0
    lines: int = 0


CLASSES = (RowClass(32, 16, 1024, False), RowClass(64, 32, 1024, False), RowClass(4096, 64, 64))
PREFETCHED_CLASSES = (
    RowClass(32, 16, 1024, False, 256, 2),
    RowClass(80, 32, 64, True, 128, 2),
    RowClass(128, 64, 64, True, 128, 3),
    RowClass(4096, 64, 64, True, 1024, WHOLE_ROW),
)
# Rows that non-temporal stores write. They are prefetched wherever they lie: that costs 4 % where they are near.
STREAMED = RowClass(4096, 32, 64, True, 512, WHOLE_ROW)
# Bytes of rows whose size is part of the code: all of the shortest; those of 2^n bytes, as models have them; and those
# that non-temporal stores write. Of the last two kinds, prefetches and tiles are those that are chosen for the nest.
MAX_EXACT_BYTES, MAX_EXACT_POWER_BYTES, MAX_EXACT_STREAMED_BYTES = 16, 256, 128
EXACT_TILE = 256  # rows of 2^n bytes, at least
# Steps of schedules that are not rounded.
OTHERS = (HoistIndices, InterchangeLoops, OtherStep, Unroll)


@functools.lru_cache(maxsize=1024)
def choose_shared(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the choice of a schedule that gathers of other sizes share; it takes some hundred microseconds once."""
    found = choose(nest, machine)
    return found if nest.is_gradient else Choice(share_kernel(nest, machine, found.schedule), found.compared)


def share_kernel(nest: NestShape, machine: MachineModel, chosen: Schedule) -> Schedule:
    """Return a schedule of a gather for the class of its rows, or the one that is chosen where there is no class."""
    if chosen.lanes is None or nest.sums_bags or any(isinstance(step, OTHERS) for step in chosen):
        return chosen
    if not nest.is_row:
        return _tiled(nest, chosen, TILE_SIZES[0])
    row_bytes, width = nest.run_bytes, nest.width_bytes
    streams, prefetches = chosen.get(StreamStores) is not None, chosen.prefetches()
    classes = (STREAMED,) if streams else PREFETCHED_CLASSES if prefetches else CLASSES
    rows = next((rows for rows in classes if row_bytes <= rows.most_bytes), None)
    around = next((name for name, _ in reversed(nest.loops) if name not in dict(nest.row)), None)
    is_plain = nest.has_plain_rows and nest.has_packed_rows and nest.is_packed
    has_others = any(LoopName(each.loop).untiled != around for each in prefetches)
    if rows is None or not is_plain or has_others or around not in nest.looked_up:
        return chosen
    is_power = row_bytes & (row_bytes - 1) == 0
    is_exact = row_bytes <= MAX_EXACT_BYTES or (is_power and row_bytes <= MAX_EXACT_POWER_BYTES)
    is_short = is_power or row_bytes <= MAX_EXACT_STREAMED_BYTES or width < MIN_SINGLE_BYTES
    if (streams and is_short) or (prefetches and is_exact and row_bytes > MAX_EXACT_BYTES):
        return chosen
    if is_exact:
        return _tiled(nest, chosen, max(rows.tile, EXACT_TILE)).put(SpecializeInner(row_bytes))
    vector_bytes = rows.vector_bytes if streams else min(rows.vector_bytes, machine.vector_bytes)
    if vector_bytes < 2 * width:
        return chosen
    shared = _tiled(nest, chosen, rows.tile)
    row_range = BoundInner(vector_bytes) if rows.is_loop else BoundInner(vector_bytes + width, 2 * vector_bytes)
    loop = around.inner_tile if around in dict(shared.tiles) else around
    others = shared.without(SpecializeInner, BoundInner, Prefetch)
    return others.put(
        None if streams else row_range,
        VectorizeInner(vector_bytes // width),
        *_prefetches(machine, loop, rows, prefetches),
    )


def _prefetches(machine: MachineModel, loop: str, rows: RowClass, chosen: tuple[Prefetch, ...]) -> tuple[Prefetch, ...]:
    """Return the prefetches of a class in a loop over the indices, where some are chosen for a nest.

    Rows of the last cache are prefetched into the first cache alone where cached stores write the result.
    """
    if not rows.ahead_bytes:
        return ()
    near, far = near_and_far_rows(machine, loop, machine.far_rows, rows.ahead_bytes)
    found = (far,) if rows.most_bytes <= LINE_BYTES else (far, near)  # the first cache waits for too few short rows
    if rows is not STREAMED and rows.lines == WHOLE_ROW and all(each.locality == NEAR for each in chosen):
        found = (near,)
    return tuple(each.replace(lines=rows.lines) for each in found)


def _tiled(nest: NestShape, schedule: Schedule, tile: int) -> Schedule:
    """Return a schedule with the tiles of a class, where one loop over the indices copies rows or elements.

    A call of too little work for threads runs the parallel loop on one thread.
    """
    around = [name for name, _ in nest.loops if name not in dict(nest.row)]
    if around != ["indices"]:
        return schedule
    loop, _ = nest.loops[0]
    beside = tuple(other for other in schedule.tiles if other[0] != loop)
    checking = tuple(name for name in schedule.parallel if name not in (loop, loop.outer_tile))
    prefetch = tuple(
        each.replace(loop=loop.inner_tile) if each.loop == loop else each for each in schedule.prefetches()
    )
    shared = schedule.with_loops(tiles=((loop, tile), *beside), parallel=(loop.outer_tile, *checking))
    return shared.with_prefetches(prefetch)


@functools.lru_cache(maxsize=1024)
def without_checks(schedule: Schedule) -> Schedule:
    """Return a schedule without the tiles and the threads of the nest that checks indices."""
    tiles = tuple(tile for tile in schedule.tiles if LoopName(tile[0]).nest != "check")
    parallel = tuple(name for name in schedule.parallel if LoopName(name).nest != "check")
    return schedule.with_loops(tiles=tiles, parallel=parallel)
