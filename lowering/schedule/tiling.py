"""Cutting loops into the pieces that threads share."""

from .loop_sizes import Loops, trips
from .machine_model import MachineModel, tile_size

CHECK_PREFIX = "check_"

Tiles = tuple[tuple[str, int], ...]
Cut = tuple[Tiles, tuple[str, ...]]


def cut_checks(checked: Loops, machine: MachineModel) -> Cut:
    """Return (tiles, parallel loops) of the nest that checks indices: none where one thread is done as soon."""
    loops = [(CHECK_PREFIX + name, size) for name, size in checked if size != 1]
    least = machine.min_shared_checks
    return ((), ()) if trips(loops) < least else cut_innermost(loops, 1, least // 16, least // 4)


def cut_innermost(loops: Loops, unit: int, least: int, wanted: int) -> Cut:
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
    size = tile_size(wanted)
    return (((name, size),), (f"{name}_o",)) if size > 1 else ((), (name,))
