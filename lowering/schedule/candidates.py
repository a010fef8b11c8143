"""Proposing candidates: variations of a heuristic's schedule, each of one field or more. Plain Python.

A variation is the fields in which a candidate differs, so that a cost model can rank many of them before a schedule is
made of one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .loop_sizes import NestShape
from .machine_model import STREAM_BYTES, MachineModel
from .prefetch_heuristic import far_elements, near_and_far_rows
from .schedule import Prefetch, Schedule
from .search_space import Space, search

# The fields of a schedule with their values, by name.
Variation = dict[str, Any]

TRIED_LANE_BYTES = (STREAM_BYTES, 32, 64)
TILE_FACTOR = 4  # between the tiles of a candidate and those that are chosen


def variations(nest: NestShape, machine: MachineModel, chosen: Schedule) -> list[Variation]:
    """Return the variations of the schedule of a gather: those of the innermost loop first, then those of the loops."""
    bodies = product(_lanes(nest, chosen), (False, True), _prefetches(nest, machine, chosen))
    found = [
        _changes(chosen, {"lanes": lanes, "stream": stream, "prefetch": prefetch})
        for lanes, stream, prefetch in bodies
        if lanes is not None or not stream
    ]
    return [variation for variation in (*found, *_loops(nest, chosen)) if variation]


def candidates(nest: NestShape, machine: MachineModel, chosen: Schedule, *, is_gradient: bool) -> Iterator[Schedule]:
    """Yield the schedule that is chosen, and candidates beside it: those that differ in one field first.

    Those of a gradient are the variations that tuning tries.
    """
    if is_gradient:
        space = Space(nest, chosen, machine.threads, is_gradient)
        yield from search(space, lambda schedules: [chosen])
        return
    yield chosen
    found = sorted(variations(nest, machine, chosen), key=len) if chosen != Schedule() else []
    yield from dict.fromkeys(replace(chosen, **variation) for variation in found)


def _changes(chosen: Schedule, fields: Variation) -> Variation:
    return {name: value for name, value in fields.items() if getattr(chosen, name) != value}


def _lanes(nest: NestShape, chosen: Schedule) -> Sequence[int | None]:
    """Return the lanes to try: vectors of 16, 32 and 64 bytes as far as the innermost loop fills them, or none."""
    if not nest.is_packed:
        return (chosen.lanes,)
    most = nest.innermost[1] if nest.is_row else min(nest.innermost[1], fixed.MOST_LANES)
    counts = (size // nest.width_bytes for size in TRIED_LANE_BYTES)
    return tuple(dict.fromkeys((chosen.lanes, *(count for count in counts if 2 <= count <= most), None)))


def _prefetches(nest: NestShape, machine: MachineModel, chosen: Schedule) -> Sequence[tuple[Prefetch, ...]]:
    """Return the prefetches to try: those chosen, those of rows or of elements near and far ahead, and none."""
    found: list[tuple[Prefetch, ...]] = [chosen.prefetch, ()]
    counted = [(name, size) for name, size in nest.loops if name in nest.looked_up]
    if counted:
        (name, size), tiled = counted[-1], dict(chosen.tiles)
        loop = name.inner_tile if name in tiled else name
        around = [loop for loop in nest.loops if loop not in nest.row]
        if nest.is_row and around[-1][0] == name:
            near, far = near_and_far_rows(nest, machine, loop, size)
            found += [(near,), (far,), (far, near)]
        elif not nest.is_row and chosen.lanes is not None:
            found.append((far_elements(nest, machine, loop, size, chosen.lanes),))
    return tuple(dict.fromkeys(found))


def _loops(nest: NestShape, chosen: Schedule) -> Iterator[Variation]:
    """Yield other tiles, no staged indices or staged ones, code for rows of any size, and one thread."""
    copying = {name: size for name, size in chosen.tiles if not LoopName(name).nest}
    for factor in (1 / TILE_FACTOR, TILE_FACTOR) if copying else ():
        tiles = tuple((name, max(int(size * factor), 1) if name in copying else size) for name, size in chosen.tiles)
        if all(size > 1 for _, size in tiles):
            yield {"tiles": tiles}
    if chosen.hoist is not None:
        yield {"hoist": None}
    elif not nest.is_row and nest.innermost[0] in copying and nest.innermost[0] in nest.looked_up:
        yield {"hoist": nest.innermost[0].inner_tile}
    if chosen.specialize is not None:
        yield {"specialize": None}
    if chosen.parallel:
        yield {"parallel": ()}
