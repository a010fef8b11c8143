"""The candidates of a nest: what the choice proposes, and schedules that differ from a given one. Plain Python.

A generator is a function in `GENERATORS`. It takes a schedule and yields others. Tuning and the measured regret try
what the generators yield. A generator may give an illegal schedule: the pass that rejects it says why.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...ir.errors import ScheduleError
from ...ir.loop_name import LoopName
from ...ir.modules.plugins import load_passes
from .choose import choose, gradient_ways
from .machine_model import GATHERED_BYTES, LINE_BYTES, VECTORS_BYTES, MachineModel
from .prefetch_heuristic import FAR, prefetches_of, slices_ahead
from .schedule import Names, Schedule, Tiles
from .shape import NestShape, trips
from .steps import (
    BoundInner,
    CompactIndices,
    FuseIntoOwners,
    GatherLanes,
    GroupIndices,
    HoistIndices,
    OtherStep,
    OwnerComputes,
    ParallelizeSort,
    Prefetch,
    SpecializeInner,
    Step,
    StreamStores,
    Unroll,
    VectorizeInner,
    VectorizeLists,
)

ROW = ("inner", "unit")
# Tiles of a loop that threads share: iterations, and the bytes that they write.
TILES, TILE_BYTES = (16, 64, 256, 1024, 4096, 16384), range(8 << 10, (1 << 20) + 1)
# The most indices that are staged, and the iterations that run as one.
MOST_STAGED, UNROLLED = 16384, 4
# Steps that a schedule may have less, with those that need them.
OPTIONAL: dict[type[Step], tuple[type[Step], ...]] = {
    SpecializeInner: (),
    BoundInner: (),
    ParallelizeSort: (),
    HoistIndices: (),
    VectorizeInner: (GatherLanes, StreamStores),
    GatherLanes: (),
    StreamStores: (),
    VectorizeLists: (),
    Unroll: (),
    OtherStep: (),
}


@dataclass(frozen=True, slots=True)
class Space:
    """The input of a generator.

    Attributes:
        default: the schedule that is chosen without tuning.
        machine: the machine, with the threads that share the work.
    """

    nest: NestShape
    default: Schedule
    machine: MachineModel

    @property
    def is_gradient(self) -> bool:
        """Whether the nest adds, so that loops over indices can be neither reordered nor parallel."""
        return self.nest.is_gradient or self.nest.sums_bags


# Gives the microseconds that the nest takes under a schedule.
Predict = Callable[[Schedule], float]
Generator = Callable[[Space, Schedule], Iterable[Schedule]]
# Takes the schedules in the search, the new ones last, and returns those to go on with.
Keep = Callable[[Sequence[Schedule]], Sequence[Schedule]]


def candidates(space: Space) -> list[Schedule]:
    """Return the default, what the choice proposes, and what differs from the default in one kind of step."""
    return list(search(space, lambda schedules: [space.default]))


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


def _loops_under(space: Space, schedule: Schedule) -> tuple[LoopName, ...]:
    """Return the loops that copy or add under a schedule, outermost first."""
    cut = dict(schedule.tiles)
    names = [(name.outer_tile, name.inner_tile) if name in cut else (name,) for name, _ in space.nest.loops]
    return tuple(map(LoopName, schedule.order)) or tuple(part for parts in names for part in parts)


def _with_loops(space: Space, schedule: Schedule, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
    """Return a schedule with other loops, except in the nests beside; its other steps follow a loop to its tile."""
    beside = tuple(tile for tile in schedule.tiles if LoopName(tile[0]).nest)
    parallel = (*parallel, *(name for name in schedule.parallel if LoopName(name).nest))
    changed = schedule.with_loops(tiles=(*tiles, *beside), order=order, parallel=parallel)
    loops = _loops_under(space, changed)

    def follow(name: str) -> str:
        whole = LoopName(name).untiled
        return next((other for other in (name, whole.inner_tile, whole) if other in loops), name)

    staged, unrolled = schedule.get(HoistIndices), schedule.get(Unroll)
    if "indices" not in dict(tiles):
        changed, staged = changed.without(HoistIndices), None
    return changed.put(
        None if staged is None else HoistIndices(follow(staged.before)),
        None if unrolled is None else unrolled.replace(loop=follow(unrolled.loop)),
        *(prefetch.replace(loop=follow(prefetch.loop)) for prefetch in schedule.prefetches()),
    )


def _without_owners(schedule: Schedule) -> Schedule:
    """Return a schedule without owners or sorted indices, and without what only these have."""
    alone = schedule.without(OwnerComputes, FuseIntoOwners)
    if not (schedule.has(CompactIndices) or schedule.has(GroupIndices)):
        return alone
    kept = alone.without(GroupIndices, ParallelizeSort, CompactIndices, VectorizeLists, Unroll)
    return kept.with_prefetches(schedule.prefetches("rows"))


def proposals(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """What the choice proposes, of a gradient every way to share it; one thread; and the nest as it stands."""
    if schedule != space.default:
        return
    if space.nest.is_gradient:
        yield from gradient_ways(space.nest, space.machine)
    else:
        yield choose(space.nest, space.machine).schedule
    yield _with_loops(space, _without_owners(schedule), (), (), ()).with_loops(tiles=(), parallel=())
    yield Schedule()


def owner_counts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient: owners of the positions of its longest axis, as many as threads or twice that; or none."""
    if schedule != space.default or not space.nest.is_gradient:
        return
    alone = _without_owners(schedule)
    yield _with_loops(space, alone, (), (), ())
    longest, positions = max(space.nest.axes, key=lambda loop: (loop[1], loop[0]), default=("", 0))
    for count in sorted({space.machine.threads, 2 * space.machine.threads} - {1}):
        if positions >= count:
            owned = OwnerComputes(count, longest)
            yield _with_loops(space, alone, (), (), ("owners",)).put(owned)
            if schedule.has(CompactIndices):
                yield schedule.put(owned)


def shared_loops(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Every loop as the innermost parallel one, whole or in tiles of 8 KiB to 1 MiB; tiles of a row go outermost."""
    if schedule != space.default:
        return
    loops = space.nest.loops
    for place, (name, size) in enumerate(loops):
        outside, is_row = tuple(outer for outer, _ in loops[:place]), (name, size) in space.nest.row
        if (space.is_gradient and not is_row) or (is_row and place < len(loops) - 1):
            continue
        if not is_row and (schedule.lanes is None or place < len(loops) - 1):  # else a vector would split iterations
            yield _with_loops(space, schedule, (), (), (*outside, name))
        for count in TILES:
            if 2 * count > size or count * space.nest.width_bytes * trips(loops[place + 1 :]) not in TILE_BYTES:
                continue
            order = (name.outer_tile, *outside, name.inner_tile) if is_row else ()
            plain = _without_owners(schedule) if is_row else schedule
            yield _with_loops(space, plain, ((name, count),), order, order[:1] or (*outside, name.outer_tile))


def without_steps(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule without one of its steps, and without the prefetches of a kind."""
    for kind, others in OPTIONAL.items():
        if schedule.get(kind) is not None:
            yield schedule.without(kind, *others)
    for what in dict.fromkeys(each.what for each in schedule.prefetches()):
        yield schedule.with_prefetches(each for each in schedule.prefetches() if each.what != what)


def other_numbers(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Vectors of 16, 32 or 64 bytes; tiles of checks and lists of other sizes; farther prefetches; a sort in parts."""
    size = space.nest.innermost[1]
    for lanes in (count // space.nest.width_bytes for count in VECTORS_BYTES):
        if 2 <= lanes <= size and not space.is_gradient:
            yield schedule.put(VectorizeInner(lanes))
    for loop, tile in schedule.tiles:
        if LoopName(loop).nest == "check" or (loop == "indices" and schedule.has(CompactIndices)):
            for other in (tile // 4, 4 * tile):
                yield schedule.with_loops(tiles=tuple((n, other if n == loop else each) for n, each in schedule.tiles))
    for each in schedule.prefetches("slices"):
        others = [other for other in schedule.prefetches() if other is not each]
        yield schedule.put(*others, each.replace(ahead=2 * each.ahead))
    if schedule.has(GroupIndices) and space.machine.threads > 1:
        yield schedule.put(ParallelizeSort(space.machine.threads))


def more_steps(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The schedule with a step more: of rows, elements, or stores."""
    nest = space.nest
    if not nest.loops:
        return
    if space.is_gradient:
        if nest.has_rows_of_one_axis and not schedule.prefetches("slices"):
            tiled = "indices_i" if "indices" in dict(schedule.tiles) else "indices"
            loop = "bag" if schedule.has(GroupIndices) else tiled
            yield schedule.put(*schedule.prefetches(), slices_ahead(loop, nest.row_bytes, space.machine))
    elif nest.innermost[0] == "inner" and nest.run_bytes <= space.machine.unrolled_row_bytes:
        yield schedule.without(BoundInner).put(SpecializeInner(nest.run_bytes))
    if schedule.lanes is not None:
        if not schedule.has(StreamStores):
            yield schedule.put(StreamStores())
        if not nest.is_row and nest.width_bytes in GATHERED_BYTES and not schedule.has(GatherLanes):
            yield schedule.put(GatherLanes())
    elif not space.is_gradient:
        yield schedule.put(Unroll(_loops_under(space, schedule)[-1], UNROLLED))


def hoisted_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Indices staged before the loops that repeat them."""
    names, cut = [name for name, _ in space.nest.loops], dict(schedule.tiles)
    sizes: dict[str, int] = dict(space.nest.loops)
    count = 1 << max(sizes.get("indices", 0) - 1, 0).bit_length()
    repeats = any(name not in space.nest.looked_up for name, _ in space.nest.loops if name not in dict(space.nest.row))
    if space.is_gradient or "indices" not in sizes or not repeats:
        return
    tile = LoopName("indices").outer_tile
    if "indices" in cut:
        loops = _loops_under(space, schedule)
        yield schedule.put(HoistIndices(loops[loops.index(tile) + 1]))
    elif count <= MOST_STAGED and not schedule.order and "indices" not in (*schedule.parallel, names[0]):
        tiles = (*schedule.tiles, ("indices", count))
        loops = _loops_under(space, schedule.with_loops(tiles=tiles))
        shared = [name for name in loops if name in schedule.parallel]
        order = (*shared, tile, *(name for name in loops if name not in (*shared, tile)))
        own = tuple(each for each in tiles if not LoopName(each[0]).nest)
        yield _with_loops(space, schedule, own, order, tuple(shared)).put(HoistIndices(order[len(shared) + 1]))


def prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Prefetches of rows or elements near and far ahead, or of bags in a loop of their own; of a gradient no others."""
    if space.is_gradient:
        return
    tried = prefetches_of(space.nest, space.machine, schedule)
    tried += [(each,) for each in tried[-1] if len(tried[-1]) > 1]
    far = [each for each in schedule.prefetches() if each.locality == FAR and LoopName(each.loop).role == "bag"]
    for each in far[:1]:
        separate = each.replace(separate=None if each.separate else each.loop)
        tried += [(separate,), (separate, *(other for other in schedule.prefetches() if other is not each))]
    around = [name for name in _loops_under(space, schedule) if name.role in ("outer", "batch")]
    slice_bytes = space.nest.width_bytes * trips([loop for loop in space.nest.loops if loop[0].role in ROW])
    if around and slice_bytes <= LINE_BYTES:
        tried.append((Prefetch("rows", around[-1], 1),))
    yield from (schedule.with_prefetches(each) for each in tried)


def passes_of_others(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """What the passes of other packages offer: those that have `candidates(space, schedule)`, a generator."""
    for plugin, kind in load_passes():
        try:
            yield from getattr(kind, "candidates", lambda space, schedule: ())(space, schedule)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ScheduleError(f"candidates of the pass {kind.name} of {plugin} failed: {reason}") from error


# In their order: first the loops, then the bodies.
GENERATORS: tuple[Generator, ...] = (
    *(proposals, owner_counts, shared_loops),
    *(hoisted_indices, other_numbers, more_steps, prefetches, without_steps, passes_of_others),
)
