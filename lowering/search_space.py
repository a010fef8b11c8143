"""The schedules that a nest could have: what tuning tries. Sizes only; plain Python, imports no xDSL.

A search space is grown by generators, one for each thing that a schedule says. Each is handed every schedule found so
far and gives variations of it, so the space is what the generators span together. A new field of `Schedule` is one more
generator, a function of a few lines in `GENERATORS`. A generator may give an illegal schedule: the pass that refuses it
says why, and tuning keeps that.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from .schedule import NestShape, Schedule

TILE_SIZES = (16, 64, 256, 1024, 4096, 16384)
LEAST_TILE_BYTES = 8 * 1024
MOST_TILE_BYTES = 1024 * 1024
CHECK_TILES = (1024, 16384)
ROW_PIECE_BYTES = (1024, 4096, 16384)
MOST_CANDIDATES = 24
BESIDE = ("check_", "clear_", "scale_")
"""How the loops of nests beside the one that copies or adds begin."""

Predict = Callable[[NestShape, Schedule], float]
"""Gives the microseconds that a nest takes under a schedule."""


@dataclass(frozen=True, slots=True)
class Space:
    """What a generator knows.

    Attributes:
        nest: the sizes of the nest.
        default: the schedule that is chosen without tuning.
        threads: how many threads there are.
        is_gradient: whether the nest adds up, so that loops over indices can be neither reordered nor shared.
    """

    nest: NestShape
    default: Schedule
    threads: int = 1
    is_gradient: bool = False

    @property
    def loops(self) -> tuple[tuple[str, int], ...]:
        """(name, iterations) of the loops that are there, outermost first; those of size 1 are dropped."""
        return tuple(loop for loop in self.nest.copied if loop[1] != 1)

    def tile_bytes(self, place: int) -> int:
        """Return the bytes that one iteration of the loop at `place` writes."""
        return self.nest.width_bytes * math.prod(size for _, size in self.loops[place + 1 :])


Generator = Callable[[Space, Schedule], Iterable[Schedule]]


def search_space(
    nest: NestShape,
    default: Schedule,
    *,
    threads: int = 1,
    is_gradient: bool = False,
    predict: Predict | None = None,
    most: int = MOST_CANDIDATES,
) -> tuple[Schedule, ...]:
    """Return the schedules to try for a nest, the default first.

    Args:
        nest: its sizes.
        default: the schedule that is chosen without tuning.
        threads: how many threads there are.
        is_gradient: whether it is the nest of a gradient.
        predict: gives a schedule's time; with it, each generator hands on the `most` best. Without it all are kept.
        most: how many to keep, 1 or more; the default is always among them.
    """
    space = Space(nest, default, threads, is_gradient)
    found: dict[Schedule, None] = {default: None}
    for generate in GENERATORS:
        for schedule in list(found):
            found.update(dict.fromkeys(generate(space, schedule)))
        if predict is not None and len(found) > most:
            ranked = sorted(found, key=lambda schedule: (schedule != default, predict(nest, schedule)))
            found = dict.fromkeys(ranked[:most])
    return tuple(found)


def serial_runs(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """One thread, without threads to start or tiles to bound; and the nest as it stands."""
    if schedule == space.default:
        yield replace(schedule, tiles=(), order=(), parallel=(), owners=None)
        yield Schedule()


def cuts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Every loop as the innermost that threads share, whole or cut into tiles of 8 KiB to 1 MiB."""
    if schedule != space.default or space.is_gradient:
        return
    tiles, shared = _beside(schedule)
    for place, (name, size) in enumerate(space.loops):
        outside = tuple(outer for outer, _ in space.loops[:place])
        yield replace(schedule, tiles=tiles, order=(), parallel=(*outside, name, *shared))
        for count in TILE_SIZES:
            piece_bytes = count * space.tile_bytes(place)
            if 2 * count <= size and LEAST_TILE_BYTES <= piece_bytes <= MOST_TILE_BYTES:
                cut = ((name, count), *tiles)
                yield replace(schedule, tiles=cut, order=(), parallel=(*outside, f"{name}_o", *shared))


def check_tiles(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Other tiles of the nest that checks the indices, beside the default; and that nest on one thread."""
    checks = [name for name, _ in schedule.tiles if name.startswith("check_")]
    if schedule != space.default or not checks:
        return
    for count in CHECK_TILES:
        yield replace(schedule, tiles=tuple((n, count if n in checks else size) for n, size in schedule.tiles))
    yield replace(
        schedule,
        tiles=tuple(tile for tile in schedule.tiles if tile[0] not in checks),
        parallel=tuple(name for name in schedule.parallel if not name.startswith("check_")),
    )


def tiles_outermost(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The tiles of a loop around all other loops: one piece of the indices, or of the rows, for every slice."""
    names = [name for name, _ in space.loops]
    cut = [name for name, _ in schedule.tiles if name in names]
    if space.is_gradient or schedule.order or len(cut) != 1 or names.index(cut[0]) == 0:
        return
    name, place = cut[0], names.index(cut[0])
    order = (f"{name}_o", *names[:place], f"{name}_i", *names[place + 1 :])
    yield replace(schedule, order=order, parallel=(order[0], *_beside(schedule)[1]))


def row_pieces(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Long rows in pieces: threads share pieces, so that few long rows fill them too."""
    loops, place = space.loops, len(space.loops) - 1
    if schedule != space.default or not loops or not loops[-1][0].startswith(("inner", "unit")):
        return
    (name, size), (tiles, shared) = loops[-1], _beside(schedule)
    for piece_bytes in ROW_PIECE_BYTES:
        count = piece_bytes // space.nest.width_bytes
        if 2 * count > size:
            return
        order = (f"{name}_o", *(outer for outer, _ in loops[:place]), f"{name}_i")
        cut = (*tiles, (name, count)) if space.is_gradient else ((name, count), *tiles)
        yield replace(schedule, tiles=cut, order=order, parallel=(order[0], *shared), owners=None)


def owner_counts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient: owners of the positions of its longest axis, as many as threads or twice that; or none."""
    if schedule != space.default or not space.is_gradient:
        return
    tiles, shared = _beside(schedule)
    yield replace(schedule, tiles=tiles, order=(), parallel=shared, owners=None)
    axes = [(size, name) for name, size in space.nest.table if name.startswith("axis")]
    for count in sorted({space.threads, 2 * space.threads} - {1}):
        if axes and max(axes)[0] >= count:
            owned = (max(axes)[1], count)
            yield replace(schedule, tiles=tiles, order=(), parallel=("owners", *shared), owners=owned)


GENERATORS: tuple[Generator, ...] = (serial_runs, check_tiles, row_pieces, owner_counts, cuts, tiles_outermost)
"""In the order in which they are asked: those that vary the default alone, then those that vary all before them."""


def _beside(schedule: Schedule) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """Return (tiles, parallel loops) of the nests beside the one that copies or adds."""
    tiles = tuple(tile for tile in schedule.tiles if tile[0].startswith(BESIDE))
    return tiles, tuple(name for name in schedule.parallel if name.startswith(BESIDE))
