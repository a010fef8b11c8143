"""Cutting loops into the pieces that threads share."""

from .loop_sizes import Loops, trips

TILE_SIZES = (4096, 1024, 256, 64, 16, 4)
TILE_BYTES = 64 * 1024
MIN_SLICE_BYTES = 16 * 1024
CHECK_PREFIX = "check_"
CHECK_TILE = 16384
MIN_SHARED_CHECKS = 65536
"""A thread checks so many indices in the time that starting the others takes."""

Tiles = tuple[tuple[str, int], ...]
Cut = tuple[Tiles, tuple[str, ...]]


def cut_checks(checked: Loops) -> Cut:
    """Return (tiles, parallel loops) of the nest that checks indices: none where one thread is done as soon."""
    loops = [(CHECK_PREFIX + name, size) for name, size in checked if size != 1]
    return ((), ()) if trips(loops) < MIN_SHARED_CHECKS else cut_innermost(loops, 1, CHECK_TILE // 4, CHECK_TILE)


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


def tile_size(wanted: int) -> int:
    """Return the largest of the few tile sizes there are up to `wanted`, or 1."""
    return next((size for size in TILE_SIZES if size <= wanted), 1)
