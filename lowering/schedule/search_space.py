"""The search space of tuning: the schedules that a nest could have. Sizes only; plain Python, imports no xDSL.

A search runs generators, one for each field of a schedule. Each takes the schedules of the search and returns
variations of them; then the slow ones are dropped. A new field of `Schedule` is one more generator, a function of a few
lines in `GENERATORS`. A generator may give an illegal schedule: the pass that rejects it says why, and tuning records
the reason.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...ir.errors import ScheduleError
from ...ir.loop_name import LoopName
from ...ir.modules.plugins import load_passes
from . import thresholds as fixed
from .loop_sizes import Loop, NestShape
from .machine_model import GATHERED_BYTES, LINE_BYTES
from .prefetch_heuristic import FAR
from .schedule import Prefetch, Schedule
from .tiling import Tiles

ROW = ("inner", "unit")

# Gives the microseconds that a nest takes under a schedule.
Predict = Callable[[NestShape, Schedule], float]


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


Names = tuple[str, ...]
Generator = Callable[[Space, Schedule], Iterable[Schedule]]
# Takes the schedules in the search, the new ones last, and returns those to go on with.
Keep = Callable[[Sequence[Schedule]], Sequence[Schedule]]


def search(space: Space, keep: Keep) -> tuple[Schedule, ...]:
    """Return every schedule that was in the search, the default first; `keep` drops some after each generator."""
    seen: dict[Schedule, None] = {space.default: None}
    kept: Sequence[Schedule] = (space.default,)
    for generate in GENERATORS:
        given = dict.fromkeys(new for schedule in kept for new in generate(space, schedule))
        fresh = [schedule for schedule in given if schedule not in seen]
        if fresh:
            seen.update(dict.fromkeys(fresh))
            kept = keep([*kept, *fresh])
    return tuple(seen)


def best_predicted(space: Space, schedules: Sequence[Schedule], predict: Predict, most: int) -> list[Schedule]:
    """Return the default and the schedules predicted to be the fastest, `most` in all, in the order given."""
    ranked = sorted(schedules, key=lambda schedule: (schedule != space.default, predict(space.nest, schedule)))
    chosen = set(ranked[:most])
    return [schedule for schedule in schedules if schedule in chosen]


def serial_runs(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """One thread, without threads to start or tiles to bound; and the nest as it stands."""
    if schedule == space.default:
        yield _with_loops(space, _without_owners(schedule), (), (), ())
        yield Schedule()


def cuts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Every loop as the innermost parallel one, whole or in tiles of 8 KiB to 1 MiB."""
    if schedule != space.default or space.is_gradient:
        return
    tiles, shared = _beside(schedule)
    for place, (name, size) in enumerate(space.loops):
        outside = tuple(outer for outer, _ in space.loops[:place])
        yield _with_loops(space, schedule, tiles, (), (*outside, name, *shared))
        for count in fixed.TRIED_TILES:
            piece_bytes = count * space.tile_bytes(place)
            if 2 * count <= size and fixed.LEAST_TRIED_TILE_BYTES <= piece_bytes <= fixed.MOST_TRIED_TILE_BYTES:
                cut = ((name, count), *tiles)
                yield _with_loops(space, schedule, cut, (), (*outside, name.outer_tile, *shared))


def check_tiles(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Other tiles of the nest that checks the indices; and that nest on one thread."""
    checks = [name for name, _ in schedule.tiles if LoopName(name).nest == "check"]
    for count in fixed.TRIED_CHECK_TILES if checks else ():
        yield replace(schedule, tiles=tuple((n, count if n in checks else size) for n, size in schedule.tiles))
    if checks:
        tiles = tuple(tile for tile in schedule.tiles if tile[0] not in checks)
        parallel = tuple(name for name in schedule.parallel if LoopName(name).nest != "check")
        yield replace(schedule, tiles=tiles, parallel=parallel)


def tiles_outermost(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The tiles of a loop as the outermost loop: one tile of the indices, or of the rows, for every slice."""
    names = [name for name, _ in space.loops]
    cut = [LoopName(name) for name, _ in schedule.tiles if name in names]
    if space.is_gradient or schedule.order or len(cut) != 1 or names.index(cut[0]) == 0:
        return
    name, place = cut[0], names.index(cut[0])
    order = (name.outer_tile, *names[:place], name.inner_tile, *names[place + 1 :])
    yield _with_loops(space, schedule, schedule.tiles, order, (order[0], *_beside(schedule)[1]))


def row_pieces(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Long rows in tiles that threads share, so that few long rows use all threads, too."""
    loops, place = space.loops, len(space.loops) - 1
    if schedule != space.default or not loops or loops[-1][0].role not in ROW:
        return
    (name, size), (tiles, shared) = loops[-1], _beside(schedule)
    for piece_bytes in fixed.TRIED_ROW_PIECE_BYTES:
        count = piece_bytes // space.nest.width_bytes
        if 2 * count > size:
            return
        order = (name.outer_tile, *(outer for outer, _ in loops[:place]), name.inner_tile)
        cut = (*tiles, (name, count)) if space.is_gradient else ((name, count), *tiles)
        yield _with_loops(space, _without_owners(schedule), cut, order, (order[0], *shared))


def owner_counts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient: owners of the positions of its longest axis, as many as threads or twice that; or none."""
    if schedule != space.default or not space.is_gradient or any(name.role == "bag" for name, _ in space.nest.copied):
        return
    tiles, shared = _beside(schedule)
    alone = _without_owners(schedule)
    yield _with_loops(space, alone, tiles, (), shared)
    axes = [(size, name) for name, size in space.nest.table if name.role == "axis"]
    for count in sorted({space.threads, 2 * space.threads} - {1}):
        if axes and max(axes)[0] >= count:
            owned = (max(axes)[1], count)
            yield replace(_with_loops(space, alone, tiles, (), ("owners", *shared)), owners=owned)
            if schedule.compact is not None:
                yield replace(schedule, owners=owned)
            elif _has_plain_rows(space):
                yield _listing(space, alone, owned)


def _listing(space: Space, alone: Schedule, owned: tuple[str, int]) -> Schedule:
    """Return the schedule of owners that clear their positions themselves, and list the indices of rows to add."""
    tiles, shared = _checks(alone)
    return replace(
        _with_loops(space, alone, (*tiles, ("indices", fixed.TRIED_LISTED_TILES[-1])), (), ("owners", *shared)),
        owners=owned,
        fuse_owned=True,
        compact="indices_i",
        prefetch=(),
        slices=_slices(space, "indices_i"),
        stream=False,
    )


def grouped_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of rows: the indices sorted by position, which threads share."""
    if schedule != space.default or schedule.grouped or not _has_plain_rows(space):
        return
    (indices, _), (inner, elements) = space.loops
    axis = next(name for name, _ in space.nest.table if name.role == "axis")
    tiles, shared = _checks(schedule)
    tiles = (*tiles, (axis, max(fixed.LEAST_TRIED_TILE_BYTES // space.row_bytes, 1)))
    order, most = (), fixed.GROUPED_PIECE_BYTES // space.nest.width_bytes
    if elements > most:
        tiles = (*tiles, (inner, most))
        order = (axis.outer_tile, axis.inner_tile, inner.outer_tile, "bag", inner.inner_tile)
    lanes = next((count for count in _lanes(space) if elements % count == 0), None)
    known = space.row_bytes if lanes and elements % min(elements, most) == 0 else None
    for stream in (True, False) if known else (False,):
        yield Schedule(
            *(tiles, order, (axis.outer_tile, *shared)),
            specialize=known,
            grouped=indices,
            lanes=lanes if known else None,
            slices=_slices(space, "bag"),
            stream=stream,
        )


def listed_elements(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of owners that list their indices: without lists, in vectors or not, with owners of one part."""
    if not schedule.compact:
        return
    if schedule.list_lanes is not None:
        yield replace(schedule, list_lanes=None)
        yield replace(schedule, unroll=None, next_tile=None)
    if schedule.owner_block is not None:
        yield replace(schedule, owner_block=None)
    for count in fixed.TRIED_LISTED_TILES:
        yield replace(schedule, tiles=tuple((n, count if n == "indices" else size) for n, size in schedule.tiles))


def prefetched_slices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of rows: those to add prefetched, or farther ahead, or not."""
    if schedule.slices is not None:
        loop, distance, locality = schedule.slices
        yield replace(schedule, slices=None)
        yield replace(schedule, slices=(loop, 2 * distance, locality))
    elif _has_plain_rows(space):
        loop = "bag" if schedule.grouped else "indices_i" if "indices" in dict(schedule.tiles) else "indices"
        yield replace(schedule, slices=_slices(space, loop))


def vectors(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The innermost loop by vectors of 32 or 64 bytes, or by elements."""
    if space.is_gradient or not space.loops:
        return
    size = _innermost(space, schedule)[1]
    for lanes in (count // space.nest.width_bytes for count in fixed.TRIED_VECTOR_BYTES):
        if 2 <= lanes <= size:
            yield replace(schedule, lanes=lanes)
    if schedule.lanes is not None:
        yield replace(schedule, lanes=None, gather=False, stream=False)


def gathered_lanes(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Lanes of elements with an index each by gather instructions, or by a load each."""
    if schedule.gather:
        yield replace(schedule, gather=False)
    elif schedule.lanes is not None and not space.nest.is_row and space.nest.width_bytes in GATHERED_BYTES:
        yield replace(schedule, gather=True)


def specialized_rows(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Code made for this size of row, where it is one loop of at most 1 KiB; and code for any."""
    name, size = space.loops[-1] if space.loops else ("", 0)
    if not space.is_gradient and name == "inner" and size * space.nest.width_bytes <= fixed.MOST_TRIED_ROW_BYTES:
        yield replace(schedule, specialize=size * space.nest.width_bytes)
    if schedule.specialize is not None:
        yield replace(schedule, specialize=None)


def hoisted_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Indices staged before the loops that repeat them, or resolved where they are read."""
    if schedule.hoist is not None:
        yield replace(schedule, hoist=None)
    names, cut = [name for name, _ in space.loops], dict(schedule.tiles)
    sizes: dict[str, int] = dict(space.loops)
    count = 1 << max(sizes.get("indices", 0) - 1, 0).bit_length()
    if space.is_gradient or "indices" not in sizes:
        return
    tile = LoopName("indices").outer_tile
    if "indices" in cut:
        loops = _scheduled_loops(space, schedule)
        yield replace(schedule, hoist=loops[loops.index(tile) + 1])
    elif count <= fixed.MOST_STAGED and not schedule.order and "indices" not in (*schedule.parallel, names[0]):
        tiles = (*schedule.tiles, ("indices", count))
        loops = _scheduled_loops(space, replace(schedule, tiles=tiles))
        shared = [name for name in loops if name in schedule.parallel]
        order = (*shared, tile, *(name for name in loops if name not in (*shared, tile)))
        yield replace(_with_loops(space, schedule, tiles, order, schedule.parallel), hoist=order[len(shared) + 1])


def prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Prefetches of a later row at some distances, or none."""
    loops = [name for name in _scheduled_loops(space, schedule) if name.role == "indices"]
    if loops and not space.is_gradient:
        lines = min(fixed.MOST_TRIED_LINES, max(1, -(-space.row_bytes // LINE_BYTES)))
        near, far = (Prefetch(loops[-1], distance, lines) for distance in fixed.TRIED_DISTANCES)
        for prefetches in ((near,), (far,), (replace(far, locality=2),), (replace(far, locality=2), near)):
            yield replace(schedule, prefetch=prefetches)
        around = [name for name in _scheduled_loops(space, schedule) if name.role in ("outer", "batch")]
        if around and space.row_bytes <= LINE_BYTES:
            yield replace(schedule, prefetch=(Prefetch(around[-1], 1, 1),))
    if schedule.prefetch:
        yield replace(schedule, prefetch=())


def streamed_stores(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Non-temporal stores of vectors, or cached ones."""
    if schedule.lanes is not None:
        yield replace(schedule, stream=not schedule.stream)


def unrolled_loops(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Several iterations of the innermost loop in one, or one."""
    if schedule.unroll is not None:
        yield replace(schedule, unroll=None)
    elif space.loops and not space.is_gradient and schedule.lanes is None:
        for factor in fixed.TRIED_FACTORS:
            yield replace(schedule, unroll=(_scheduled_loops(space, schedule)[-1], factor))


def passes_of_others(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """What the passes of other packages offer: those that have `candidates(space, schedule)`, a generator; or none."""
    for plugin, kind in load_passes():
        try:
            yield from getattr(kind, "candidates", lambda space, schedule: ())(space, schedule)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ScheduleError(f"candidates of the pass {kind.name} of {plugin} failed: {reason}") from error
    if schedule.passes:
        yield replace(schedule, passes=())


# In their order: first the loops, then the bodies.
GENERATORS: tuple[Generator, ...] = (
    *(serial_runs, row_pieces, owner_counts, grouped_indices, cuts, tiles_outermost),
    *(
        listed_elements,
        prefetched_slices,
        vectors,
        gathered_lanes,
        specialized_rows,
        hoisted_indices,
        prefetches,
        streamed_stores,
        unrolled_loops,
        check_tiles,
    ),
    passes_of_others,
)


def _beside(schedule: Schedule) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nests beside the one that copies or adds."""
    tiles = tuple(tile for tile in schedule.tiles if LoopName(tile[0]).nest)
    return tiles, tuple(name for name in schedule.parallel if LoopName(name).nest)


def _checks(schedule: Schedule) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nest that checks indices."""
    tiles, parallel = _beside(schedule)
    is_check = lambda name: LoopName(name).nest == "check"  # noqa: E731
    return tuple(tile for tile in tiles if is_check(tile[0])), tuple(filter(is_check, parallel))


def _has_plain_rows(space: Space) -> bool:
    """Return whether it is a gradient that adds rows of one loop at the positions of one axis."""
    names = [name for name, _ in space.loops]
    axes = [name for name, _ in space.nest.table if name.role == "axis"]
    has_own_index = any(name.loop != name for name, _ in space.nest.table)
    return space.is_gradient and names == ["indices", "inner"] and len(axes) == 1 and not has_own_index


def _lanes(space: Space) -> list[int]:
    """Return the elements of a vector of each size that is tried, the largest first."""
    return [count for size in reversed(fixed.TRIED_VECTOR_BYTES) if (count := size // space.nest.width_bytes) > 1]


def _slices(space: Space, loop: str) -> tuple[str, int, int]:
    """Return the prefetch of the slices that a loop adds."""
    return loop, max(fixed.TRIED_SLICE_BYTES // space.row_bytes, 1), FAR


def _without_owners(schedule: Schedule) -> Schedule:
    """Return a schedule without owners or sorted indices, and without what only these have."""
    alone = replace(schedule, owners=None, owner_block=None, fuse_owned=False)
    listing = {"grouped": None, "compact": None, "list_lanes": None, "unroll": None, "slices": None, "next_tile": None}
    return alone if not (schedule.compact or schedule.grouped) else replace(alone, **listing)


def _scheduled_loops(space: Space, schedule: Schedule) -> tuple[LoopName, ...]:
    """Return the loops that copy or add under a schedule, outermost first."""
    cut = dict(schedule.tiles)
    names = [(name.outer_tile, name.inner_tile) if name in cut else (name,) for name, _ in space.loops]
    return tuple(map(LoopName, schedule.order)) or tuple(part for parts in names for part in parts)


def _innermost(space: Space, schedule: Schedule) -> tuple[str, int]:
    """Return (name, iterations) of the innermost loop under a schedule."""
    name = _scheduled_loops(space, schedule)[-1]
    return name, {**dict(space.loops), **{LoopName(loop).inner_tile: size for loop, size in schedule.tiles}}[name]


def _with_loops(space: Space, schedule: Schedule, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
    """Return a schedule with other loops; its other fields follow a loop to its tile, or back."""
    changed = replace(schedule, tiles=tiles, order=order, parallel=parallel)
    loops = _scheduled_loops(space, changed)

    def now(name: str) -> str:
        whole = LoopName(name).untiled
        return next((other for other in (name, whole.inner_tile, whole) if other in loops), name)

    return replace(
        changed,
        hoist=None if schedule.hoist is None or "indices" not in dict(tiles) else now(schedule.hoist),
        unroll=None if schedule.unroll is None else (now(schedule.unroll[0]), schedule.unroll[1]),
        prefetch=tuple(replace(prefetch, loop=now(prefetch.loop)) for prefetch in schedule.prefetch),
    )
