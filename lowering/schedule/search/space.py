"""What a generator of schedules is given, and how it changes the loops of a schedule."""

import math
from dataclasses import dataclass

from ....ir.loop_name import LoopName
from .. import thresholds as fixed
from ..fields import change, value
from ..schedule import Schedule
from ..shape import Loop, NestShape
from ..tiling import Tiles

ROW = ("inner", "unit")
Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """The input of a generator.

    Attributes:
        default: the schedule that is chosen without tuning.
        is_gradient: whether the nest adds, so that loops over indices can be neither reordered nor parallel.
    """

    nest: NestShape
    default: Schedule
    threads: int = 1
    is_gradient: bool = False

    @property
    def loops(self) -> tuple[Loop, ...]:
        """(name, iterations) of the loops that are there, outermost first; those of size 1 are dropped."""
        return self.nest.loops

    @property
    def row_bytes(self) -> int:
        """Bytes of a row: the slice of one index."""
        return self.nest.width_bytes * math.prod(size for name, size in self.loops if name.role in ROW)

    def tile_bytes(self, place: int) -> int:
        """Return the bytes that one iteration of the loop at `place` writes."""
        return self.nest.width_bytes * math.prod(size for _, size in self.loops[place + 1 :])


def loops_beside(schedule: Schedule) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nests beside the one that copies or adds."""
    tiles = tuple(tile for tile in schedule.tiles if LoopName(tile[0]).nest)
    return tiles, tuple(name for name in schedule.parallel if LoopName(name).nest)


def loops_of_checks(schedule: Schedule) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nest that checks indices."""
    tiles, parallel = loops_beside(schedule)
    is_check = lambda name: LoopName(name).nest == "check"  # noqa: E731
    return tuple(tile for tile in tiles if is_check(tile[0])), tuple(filter(is_check, parallel))


def vector_lanes(space: Space) -> list[int]:
    """Return the elements of a vector of each size that is tried, the largest first."""
    return [count for size in reversed(fixed.TRIED_VECTOR_BYTES) if (count := size // space.nest.width_bytes) > 1]


def scheduled_loops(space: Space, schedule: Schedule) -> tuple[LoopName, ...]:
    """Return the loops that copy or add under a schedule, outermost first."""
    cut = dict(schedule.tiles)
    names = [(name.outer_tile, name.inner_tile) if name in cut else (name,) for name, _ in space.loops]
    return tuple(map(LoopName, schedule.order)) or tuple(part for parts in names for part in parts)


def innermost(space: Space, schedule: Schedule) -> tuple[str, int]:
    """Return (name, iterations) of the innermost loop under a schedule."""
    name = scheduled_loops(space, schedule)[-1]
    return name, {**dict(space.loops), **{LoopName(loop).inner_tile: size for loop, size in schedule.tiles}}[name]


def with_loops(space: Space, schedule: Schedule, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
    """Return a schedule with other loops; its other fields follow a loop to its tile, or back."""
    changed = change(schedule, tiles=tiles, order=order, parallel=parallel)
    loops = scheduled_loops(space, changed)

    def now(name: str) -> str:
        whole = LoopName(name).untiled
        return next((other for other in (name, whole.inner_tile, whole) if other in loops), name)

    return change(
        changed,
        hoist=None
        if value(schedule, "hoist") is None or "indices" not in dict(tiles)
        else now(value(schedule, "hoist")),
        unroll=None
        if value(schedule, "unroll") is None
        else (now(value(schedule, "unroll")[0]), value(schedule, "unroll")[1]),
        prefetch=tuple(prefetch.replace(loop=now(prefetch.loop)) for prefetch in schedule.prefetches()),
    )


def without_owners(schedule: Schedule) -> Schedule:
    """Return a schedule without owners or sorted indices, and without what only these have."""
    alone = change(schedule, owners=None, owner_block=None, fuse_owned=False)
    sorting = {"grouped": None, "sort_parts": None}
    listing = {"compact": None, "list_lanes": None, "unroll": None, "prefetch": schedule.prefetches("rows")}
    return (
        alone if not (value(schedule, "compact") or value(schedule, "grouped")) else change(alone, **sorting, **listing)
    )
