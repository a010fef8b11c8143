"""The search space of tuning: the schedules that a nest could have. Sizes only; plain Python, imports no xDSL.

A search runs generators, one for each field of a schedule. Each takes the schedules of the search and returns
variations of them; then the slow ones are dropped. A new field of `Schedule` is one more generator, a function of a few
lines in `GENERATORS`. A generator may give an illegal schedule: the pass that rejects it says why, and tuning records
the reason.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ....ir.modules.plugins import load_passes
from .. import thresholds as fixed
from ..fields import change, value
from ..machine_model import GATHERED_BYTES, LINE_BYTES
from ..prefetch_heuristic import FAR
from ..schedule import Schedule
from ..steps import OtherStep, Prefetch
from .gradients import grouped_indices, listed_elements, owner_counts, prefetched_slices, sort_parts
from .space import ROW, Space, innermost, loops_beside, scheduled_loops, with_loops, without_owners

# Gives the microseconds that the nest takes under a schedule.
Predict = Callable[[Schedule], float]

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
    ranked = sorted(schedules, key=lambda schedule: (schedule != space.default, predict(schedule)))
    chosen = set(ranked[:most])
    return [schedule for schedule in schedules if schedule in chosen]


def serial_runs(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """One thread, without threads to start or tiles to bound; and the nest as it stands."""
    if schedule == space.default:
        yield with_loops(space, without_owners(schedule), (), (), ())
        yield Schedule()


def cuts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Every loop as the innermost parallel one, whole or in tiles of 8 KiB to 1 MiB."""
    if schedule != space.default or space.is_gradient:
        return
    tiles, shared = loops_beside(schedule)
    for place, (name, size) in enumerate(space.loops):
        outside = tuple(outer for outer, _ in space.loops[:place])
        yield with_loops(space, schedule, tiles, (), (*outside, name, *shared))
        for count in fixed.TRIED_TILES:
            piece_bytes = count * space.tile_bytes(place)
            if 2 * count <= size and fixed.LEAST_TRIED_TILE_BYTES <= piece_bytes <= fixed.MOST_TRIED_TILE_BYTES:
                cut = ((name, count), *tiles)
                yield with_loops(space, schedule, cut, (), (*outside, name.outer_tile, *shared))


def check_tiles(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Other tiles of the nest that checks the indices; and that nest on one thread."""
    checks = [name for name, _ in schedule.tiles if LoopName(name).nest == "check"]
    for count in fixed.TRIED_CHECK_TILES if checks else ():
        yield change(schedule, tiles=tuple((n, count if n in checks else size) for n, size in schedule.tiles))
    if checks:
        tiles = tuple(tile for tile in schedule.tiles if tile[0] not in checks)
        parallel = tuple(name for name in schedule.parallel if LoopName(name).nest != "check")
        yield change(schedule, tiles=tiles, parallel=parallel)


def tiles_outermost(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The tiles of a loop as the outermost loop: one tile of the indices, or of the rows, for every slice."""
    names = [name for name, _ in space.loops]
    cut = [LoopName(name) for name, _ in schedule.tiles if name in names]
    if space.is_gradient or schedule.order or len(cut) != 1 or names.index(cut[0]) == 0:
        return
    name, place = cut[0], names.index(cut[0])
    order = (name.outer_tile, *names[:place], name.inner_tile, *names[place + 1 :])
    yield with_loops(space, schedule, schedule.tiles, order, (order[0], *loops_beside(schedule)[1]))


def row_pieces(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Long rows in tiles that threads share, so that few long rows use all threads, too."""
    loops, place = space.loops, len(space.loops) - 1
    if schedule != space.default or not loops or loops[-1][0].role not in ROW:
        return
    (name, size), (tiles, shared) = loops[-1], loops_beside(schedule)
    for piece_bytes in fixed.TRIED_ROW_PIECE_BYTES:
        count = piece_bytes // space.nest.width_bytes
        if 2 * count > size:
            return
        order = (name.outer_tile, *(outer for outer, _ in loops[:place]), name.inner_tile)
        cut = (*tiles, (name, count)) if space.is_gradient else ((name, count), *tiles)
        yield with_loops(space, without_owners(schedule), cut, order, (order[0], *shared))


def vectors(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The innermost loop by vectors of 32 or 64 bytes, or by elements."""
    if space.is_gradient or not space.loops:
        return
    size = innermost(space, schedule)[1]
    for lanes in (count // space.nest.width_bytes for count in fixed.TRIED_VECTOR_BYTES):
        if 2 <= lanes <= size:
            yield change(schedule, lanes=lanes)
    if schedule.lanes is not None:
        yield change(schedule, lanes=None, gather=False, stream=False)


def gathered_lanes(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Lanes of elements with an index each by gather instructions, or by a load each."""
    if value(schedule, "gather"):
        yield change(schedule, gather=False)
    elif schedule.lanes is not None and not space.nest.is_row and space.nest.width_bytes in GATHERED_BYTES:
        yield change(schedule, gather=True)


def specialized_rows(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Code made for this size of row, where it is one loop of at most 1 KiB; and code for any."""
    name, size = space.loops[-1] if space.loops else ("", 0)
    if not space.is_gradient and name == "inner" and size * space.nest.width_bytes <= fixed.MOST_TRIED_ROW_BYTES:
        yield change(schedule, specialize=size * space.nest.width_bytes)
    if schedule.row_bytes is not None:
        yield change(schedule, specialize=None)


def hoisted_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Indices staged before the loops that repeat them, or resolved where they are read."""
    if value(schedule, "hoist") is not None:
        yield change(schedule, hoist=None)
    names, cut = [name for name, _ in space.loops], dict(schedule.tiles)
    sizes: dict[str, int] = dict(space.loops)
    count = 1 << max(sizes.get("indices", 0) - 1, 0).bit_length()
    if space.is_gradient or "indices" not in sizes:
        return
    tile = LoopName("indices").outer_tile
    if "indices" in cut:
        loops = scheduled_loops(space, schedule)
        yield change(schedule, hoist=loops[loops.index(tile) + 1])
    elif count <= fixed.MOST_STAGED and not schedule.order and "indices" not in (*schedule.parallel, names[0]):
        tiles = (*schedule.tiles, ("indices", count))
        loops = scheduled_loops(space, change(schedule, tiles=tiles))
        shared = [name for name in loops if name in schedule.parallel]
        order = (*shared, tile, *(name for name in loops if name not in (*shared, tile)))
        yield change(with_loops(space, schedule, tiles, order, schedule.parallel), hoist=order[len(shared) + 1])


def prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Prefetches of a later row at some distances, or none."""
    loops = [name for name in scheduled_loops(space, schedule) if name.role == "indices"]
    if loops and not space.is_gradient:
        lines = min(fixed.MOST_TRIED_LINES, max(1, -(-space.row_bytes // LINE_BYTES)))
        near, far = (Prefetch("rows", loops[-1], distance, lines) for distance in fixed.TRIED_DISTANCES)
        for prefetches in ((near,), (far,), (far.replace(locality=2),), (far.replace(locality=2), near)):
            yield change(schedule, prefetch=prefetches)
        around = [name for name in scheduled_loops(space, schedule) if name.role in ("outer", "batch")]
        if around and space.row_bytes <= LINE_BYTES:
            yield change(schedule, prefetch=(Prefetch("rows", around[-1], 1),))
    if schedule.prefetches("rows"):
        yield change(schedule, prefetch=schedule.prefetches("slices", "tile"))


def fissioned_prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """A loop of their own for the prefetches of a bag's rows into L2, with none into L1 or beside these; or none."""
    far = [each for each in schedule.prefetches() if each.locality == FAR and LoopName(each.loop).role == "bag"]
    if any(each.separate for each in far):
        yield change(schedule, prefetch=tuple(each.replace(separate=None) for each in schedule.prefetches()))
    elif far:
        separate = far[0].replace(separate=far[0].loop)
        for others in dict.fromkeys([(), tuple(each for each in schedule.prefetches() if each is not far[0])]):
            yield change(schedule, prefetch=(separate, *others))


def streamed_stores(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Non-temporal stores of vectors, or cached ones."""
    if schedule.lanes is not None:
        yield change(schedule, stream=not value(schedule, "stream"))


def unrolled_loops(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Several iterations of the innermost loop in one, or one."""
    if value(schedule, "unroll") is not None:
        yield change(schedule, unroll=None)
    elif space.loops and not space.is_gradient and schedule.lanes is None:
        for factor in fixed.TRIED_FACTORS:
            yield change(schedule, unroll=(scheduled_loops(space, schedule)[-1], factor))


def passes_of_others(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """What the passes of other packages offer: those that have `candidates(space, schedule)`, a generator; or none."""
    for plugin, kind in load_passes():
        try:
            yield from getattr(kind, "candidates", lambda space, schedule: ())(space, schedule)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ScheduleError(f"candidates of the pass {kind.name} of {plugin} failed: {reason}") from error
    if schedule.get(OtherStep):
        yield schedule.without(OtherStep)


# In their order: first the loops, then the bodies.
GENERATORS: tuple[Generator, ...] = (
    *(serial_runs, row_pieces, owner_counts, grouped_indices, cuts, tiles_outermost),
    *(
        sort_parts,
        listed_elements,
        prefetched_slices,
        vectors,
        gathered_lanes,
        specialized_rows,
        hoisted_indices,
        prefetches,
        fissioned_prefetches,
        streamed_stores,
        unrolled_loops,
        check_tiles,
    ),
    passes_of_others,
)
