"""Tiling loops for threads, and where indices are checked."""

import math

from ...ir.loop_name import LoopName
from .loop_sizes import Loops, NestShape, trips
from .machine_model import MachineModel, tile_size
from .schedule import Schedule
from .thresholds import MIN_CHECKED, MIN_FUSED_CHECKS

Tiles = tuple[tuple[str, int], ...]
Tiling = tuple[Tiles, tuple[str, ...]]


def tile_checks(checked: Loops, machine: MachineModel) -> Tiling:
    """Return (tiles, parallel loops) of the nest that checks indices; none where one thread is as fast."""
    loops = [(name.beside("check"), size) for name, size in checked if size != 1]
    least = machine.min_shared_checks
    return ((), ()) if trips(loops) < least else tile_innermost(loops, 1, least // 16, least // 4)


def loop_of_check(nest: NestShape, schedule: Schedule) -> str | None:
    """Return the loop in which `fuse-bounds-check` checks the indices of a new result; None where that does not pay.

    It is the innermost parallel loop or one inside it, if no loop at or around it repeats indices: each is then checked
    once, while it is on its way to the caches, and threads start once. Inside it, the innermost is taken that has
    enough indices for vectors. Short rows of indices are checked faster by one loop over all, before the copy.
    """
    rows = [size for name, size in nest.loops if name in nest.looked_up]
    if len(rows) > len(nest.checked) and rows[-1] < MIN_FUSED_CHECKS:
        return None
    parallel = [name for name in schedule.parallel if not LoopName(name).nest]
    if not nest.checked or not parallel:
        return None
    tiles, is_looked_up, sizes = dict(schedule.tiles), dict[str, bool](), dict[str, int]()
    for name, size in nest.loops:
        for loop, trips_of_loop in _tiled(name, size, tiles):
            is_looked_up[loop], sizes[loop] = name in nest.looked_up, trips_of_loop
    loops = schedule.order or tuple(sizes)
    found, is_inside = None, False
    for place, loop in enumerate(loops):
        if not is_looked_up.get(loop):
            break
        checked = math.prod(sizes[inner] for inner in loops[place + 1 :] if is_looked_up.get(inner))
        if loop == parallel[-1] or (is_inside and checked >= MIN_CHECKED):
            found, is_inside = loop, True
    return found


def _tiled(name: str, size: int, tiles: dict[str, int]) -> list[tuple[str, int]]:
    """Return the loops, with their trips, that a loop becomes: those over and within its tiles."""
    if name not in tiles:
        return [(name, size)]
    tile = tiles[name]
    return [*_tiled(f"{name}_o", -(-size // tile), tiles), *_tiled(f"{name}_i", min(tile, size), tiles)]


def tile_innermost(loops: Loops, unit: int, least: int, wanted: int) -> Tiling:
    """Return (tiles, parallel loops) that tile the innermost of `loops` with enough work, in tiles of `wanted`.

    Args:
        loops: the loops, outermost first; each iteration of the innermost has `unit` work.
        least: the work of all iterations of a loop that is tiled.
    """
    for place in reversed(range(len(loops))):
        name, size = loops[place]
        if unit * size >= least or place == 0:
            tiles, parallel = _tile(name, wanted // max(unit, 1))
            return tiles, (*(outer for outer, _ in loops[:place]), *parallel)
        unit *= size
    return (), ()


def _tile(name: LoopName, wanted: int) -> Tiling:
    """Return (tiles, parallel loops) of a loop in tiles of at most `wanted` iterations."""
    size = tile_size(wanted)
    return (((name, size),), (name.outer_tile,)) if size > 1 else ((), (name,))
