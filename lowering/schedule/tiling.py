"""Tiling loops for threads, and where indices are checked."""

from ...ir.loop_name import LoopName
from .loop_sizes import Loops, NestShape, trips
from .machine_model import MachineModel, tile_size
from .schedule import Schedule

Tiles = tuple[tuple[str, int], ...]
Tiling = tuple[Tiles, tuple[str, ...]]


def tile_checks(checked: Loops, machine: MachineModel) -> Tiling:
    """Return (tiles, parallel loops) of the nest that checks indices; none where one thread is as fast."""
    loops = [(name.beside("check"), size) for name, size in checked if size != 1]
    least = machine.min_shared_checks
    return ((), ()) if trips(loops) < least else tile_innermost(loops, 1, least // 16, least // 4)


def loop_of_check(nest: NestShape, schedule: Schedule) -> str | None:
    """Return the loop in which `fuse-bounds-check` checks the indices of a new result; None where that does not pay.

    It is the innermost parallel one, if no loop at or around it repeats indices: each is then checked once, while it is
    on its way to the caches, and threads start once.
    """
    parallel = [name for name in map(LoopName, schedule.parallel) if not name.nest]
    is_once = all(name.dimension in nest.looked_up for name in parallel)
    return parallel[-1] if nest.checked and parallel and is_once else None


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
