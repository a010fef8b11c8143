"""The candidates of a nest: schedules that differ from a given one in a step. Plain Python; imports no xDSL.

A generator is a function of a few lines in `GENERATORS`, one for each kind of step. It takes a schedule and yields
others. Tuning and the measured regret try what the generators yield. A generator may give an illegal schedule: the pass
that rejects it says why.
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
from .shared_kernels import without_checks
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
    StreamStores,
    Unroll,
    VectorizeInner,
    VectorizeLists,
)

ROW = ("inner", "unit")
# Bytes of the pieces of long rows.
PIECES_BYTES = (1024, 4096, 16384)
# Tiles of a loop that is shared: iterations, and the bytes that they write.
TILES, TILE_BYTES = (16, 64, 256, 1024, 4096, 16384), range(8 << 10, (1 << 20) + 1)
# Indices of the tiles of checks, and of the lists of owners.
CHECKED_TILES, LISTED_TILES = (1024, 16384), (1024, 4096)
# The most indices that are staged, and the iterations that run as one.
MOST_STAGED, UNROLLED = 16384, 4


@dataclass(frozen=True, slots=True)
class Space:
    """The input of a generator.

    Attributes:
        default: the schedule that is chosen without tuning.
        machine: the machine, with the threads that share the work.
        is_gradient: whether the nest adds, so that loops over indices can be neither reordered nor parallel.
    """

    nest: NestShape
    default: Schedule
    machine: MachineModel
    is_gradient: bool = False

    def tile_bytes(self, place: int) -> int:
        """Return the bytes that one iteration of the loop at `place` writes."""
        return self.nest.width_bytes * trips(self.nest.loops[place + 1 :])


def loops_beside(schedule: Schedule) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nests beside the one that copies or adds."""
    tiles = tuple(tile for tile in schedule.tiles if LoopName(tile[0]).nest)
    return tiles, tuple(name for name in schedule.parallel if LoopName(name).nest)


def loops_under(space: Space, schedule: Schedule) -> tuple[LoopName, ...]:
    """Return the loops that copy or add under a schedule, outermost first."""
    cut = dict(schedule.tiles)
    names = [(name.outer_tile, name.inner_tile) if name in cut else (name,) for name, _ in space.nest.loops]
    return tuple(map(LoopName, schedule.order)) or tuple(part for parts in names for part in parts)


def innermost(space: Space, schedule: Schedule) -> tuple[str, int]:
    """Return (name, iterations) of the innermost loop under a schedule."""
    name = loops_under(space, schedule)[-1]
    return name, {**dict(space.nest.loops), **{LoopName(loop).inner_tile: size for loop, size in schedule.tiles}}[name]


def with_loops(space: Space, schedule: Schedule, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
    """Return a schedule with other loops; its other steps follow a loop to its tile, or back."""
    changed = schedule.with_loops(tiles=tiles, order=order, parallel=parallel)
    loops = loops_under(space, changed)

    def now(name: str) -> str:
        whole = LoopName(name).untiled
        return next((other for other in (name, whole.inner_tile, whole) if other in loops), name)

    staged, unrolled = schedule.get(HoistIndices), schedule.get(Unroll)
    if "indices" not in dict(tiles):
        changed, staged = changed.without(HoistIndices), None
    return changed.put(
        None if staged is None else HoistIndices(now(staged.before)),
        None if unrolled is None else unrolled.replace(loop=now(unrolled.loop)),
        *(prefetch.replace(loop=now(prefetch.loop)) for prefetch in schedule.prefetches()),
    )


def without_owners(schedule: Schedule) -> Schedule:
    """Return a schedule without owners or sorted indices, and without what only these have."""
    alone = schedule.without(OwnerComputes, FuseIntoOwners)
    if not (schedule.has(CompactIndices) or schedule.has(GroupIndices)):
        return alone
    kept = alone.without(GroupIndices, ParallelizeSort, CompactIndices, VectorizeLists, Unroll)
    return kept.with_prefetches(schedule.prefetches("rows"))


def with_prefetches(schedule: Schedule, *kinds: str) -> Schedule:
    """Return a schedule with its prefetches of some kinds only."""
    return schedule.with_prefetches(schedule.prefetches(*kinds))


# Gives the microseconds that the nest takes under a schedule.
Predict = Callable[[Schedule], float]
Generator = Callable[[Space, Schedule], Iterable[Schedule]]
# Takes the schedules in the search, the new ones last, and returns those to go on with.
Keep = Callable[[Sequence[Schedule]], Sequence[Schedule]]


def candidates(space: Space) -> list[Schedule]:
    """Return the default, what the rules propose, and what differs from the default in one kind of step."""
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


def proposals(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """What the rules propose: of a gradient every way to share its additions."""
    if schedule == space.default and space.is_gradient and not space.nest.sums_bags:
        yield from gradient_ways(space.nest, space.machine)
    elif schedule == space.default:
        yield choose(space.nest, space.machine).schedule


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
    around = [loop for loop in space.nest.loops if loop not in space.nest.row]
    for place, (name, size) in enumerate(around):
        outside = tuple(outer for outer, _ in space.nest.loops[:place])
        if schedule.lanes is None or name != space.nest.loops[-1][0]:  # a vector would split the iterations of threads
            yield with_loops(space, schedule, tiles, (), (*outside, name, *shared))
        for count in TILES:
            piece_bytes = count * space.tile_bytes(place)
            if 2 * count <= size and piece_bytes in TILE_BYTES:
                cut = ((name, count), *tiles)
                yield with_loops(space, schedule, cut, (), (*outside, name.outer_tile, *shared))


def check_tiles(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Other tiles of the nest that checks the indices; and that nest on one thread."""
    checks = [name for name, _ in schedule.tiles if LoopName(name).nest == "check"]
    for count in CHECKED_TILES if checks else ():
        yield schedule.with_loops(tiles=tuple((n, count if n in checks else size) for n, size in schedule.tiles))
    if checks:
        yield without_checks(schedule)


def tiles_outermost(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The tiles of a loop as the outermost loop: one tile of the indices, or of the rows, for every slice."""
    names = [name for name, _ in space.nest.loops]
    cut = [LoopName(name) for name, _ in schedule.tiles if name in names]
    if space.is_gradient or schedule.order or len(cut) != 1 or names.index(cut[0]) == 0:
        return
    name, place = cut[0], names.index(cut[0])
    order = (name.outer_tile, *names[:place], name.inner_tile, *names[place + 1 :])
    yield with_loops(space, schedule, schedule.tiles, order, (order[0], *loops_beside(schedule)[1]))


def row_pieces(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Long rows in tiles that threads share, so that few long rows use all threads, too."""
    loops, place = space.nest.loops, len(space.nest.loops) - 1
    if schedule != space.default or not loops or loops[-1][0].role not in ROW:
        return
    (name, size), (tiles, shared) = loops[-1], loops_beside(schedule)
    for piece_bytes in PIECES_BYTES:
        count = piece_bytes // space.nest.width_bytes
        if 2 * count > size:
            return
        order = (name.outer_tile, *(outer for outer, _ in loops[:place]), name.inner_tile)
        cut = (*tiles, (name, count)) if space.is_gradient else ((name, count), *tiles)
        yield with_loops(space, without_owners(schedule), cut, order, (order[0], *shared))


def vectors(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """The innermost loop by vectors of 16, 32 or 64 bytes, or by elements."""
    if space.is_gradient or not space.nest.loops:
        return
    size = innermost(space, schedule)[1]
    for lanes in (count // space.nest.width_bytes for count in VECTORS_BYTES):
        if 2 <= lanes <= size:
            yield schedule.put(VectorizeInner(lanes))
    if schedule.lanes is not None:
        yield schedule.without(VectorizeInner, GatherLanes, StreamStores)


def gathered_lanes(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Lanes of elements with an index each by gather instructions, or by a load each."""
    if schedule.has(GatherLanes):
        yield schedule.without(GatherLanes)
    elif schedule.lanes is not None and not space.nest.is_row and space.nest.width_bytes in GATHERED_BYTES:
        yield schedule.put(GatherLanes())


def specialized_rows(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Code made for this size of row, where it is one loop of at most 1 KiB; and code for any."""
    name, size = space.nest.loops[-1] if space.nest.loops else ("", 0)
    if not space.is_gradient and name == "inner" and size * space.nest.width_bytes <= space.machine.unrolled_row_bytes:
        yield schedule.without(BoundInner).put(SpecializeInner(size * space.nest.width_bytes))
    if schedule.has(SpecializeInner) or schedule.has(BoundInner):
        yield schedule.without(SpecializeInner, BoundInner)


def hoisted_indices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Indices staged before the loops that repeat them, or resolved where they are read."""
    if schedule.has(HoistIndices):
        yield schedule.without(HoistIndices)
    names, cut = [name for name, _ in space.nest.loops], dict(schedule.tiles)
    sizes: dict[str, int] = dict(space.nest.loops)
    count = 1 << max(sizes.get("indices", 0) - 1, 0).bit_length()
    repeats = any(name not in space.nest.looked_up for name, _ in space.nest.loops if name not in dict(space.nest.row))
    if space.is_gradient or "indices" not in sizes or not repeats:
        return
    tile = LoopName("indices").outer_tile
    if "indices" in cut:
        loops = loops_under(space, schedule)
        yield schedule.put(HoistIndices(loops[loops.index(tile) + 1]))
    elif count <= MOST_STAGED and not schedule.order and "indices" not in (*schedule.parallel, names[0]):
        tiles = (*schedule.tiles, ("indices", count))
        loops = loops_under(space, schedule.with_loops(tiles=tiles))
        shared = [name for name in loops if name in schedule.parallel]
        order = (*shared, tile, *(name for name in loops if name not in (*shared, tile)))
        yield with_loops(space, schedule, tiles, order, schedule.parallel).put(HoistIndices(order[len(shared) + 1]))


def prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Prefetches of rows or elements near and far ahead, or none; of a gradient the latter alone."""
    if space.is_gradient:
        tried = [schedule.prefetches("slices", "tile")]
    else:
        tried = prefetches_of(space.nest, space.machine, schedule)
        tried += [(each,) for each in tried[-1] if len(tried[-1]) > 1]
    yield from (schedule.with_prefetches(each) for each in tried if each != schedule.prefetches())
    around = [name for name in loops_under(space, schedule) if name.role in ("outer", "batch")]
    slice_bytes = space.nest.width_bytes * trips([loop for loop in space.nest.loops if loop[0].role in ROW])
    if around and not space.is_gradient and slice_bytes <= LINE_BYTES:
        yield schedule.put(Prefetch("rows", around[-1], 1))


def fissioned_prefetches(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """A loop of their own for the prefetches of a bag's rows into L2, with none into L1 or beside these; or none."""
    far = [each for each in schedule.prefetches() if each.locality == FAR and LoopName(each.loop).role == "bag"]
    if any(each.separate for each in far):
        yield schedule.put(*(each.replace(separate=None) for each in schedule.prefetches()))
    elif far:
        separate = far[0].replace(separate=far[0].loop)
        for others in dict.fromkeys([(), tuple(each for each in schedule.prefetches() if each is not far[0])]):
            yield schedule.put(separate, *others)


def streamed_stores(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Non-temporal stores of vectors, or cached ones."""
    if schedule.lanes is not None:
        yield schedule.without(StreamStores) if schedule.has(StreamStores) else schedule.put(StreamStores())


def unrolled_loops(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Several iterations of the innermost loop in one, or one."""
    if schedule.has(Unroll):
        yield schedule.without(Unroll)
    elif space.nest.loops and not space.is_gradient and schedule.lanes is None:
        yield schedule.put(Unroll(loops_under(space, schedule)[-1], UNROLLED))


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


def owner_counts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient: owners of the positions of its longest axis, as many as threads or twice that; or none."""
    if schedule != space.default or not space.is_gradient or space.nest.sums_bags:
        return
    tiles, shared = loops_beside(schedule)
    alone = without_owners(schedule)
    yield with_loops(space, alone, tiles, (), shared)
    longest, positions = max(space.nest.axes, key=lambda loop: (loop[1], loop[0]), default=("", 0))
    for count in sorted({space.machine.threads, 2 * space.machine.threads} - {1}):
        if positions >= count:
            owned = OwnerComputes(count, longest)
            yield with_loops(space, alone, tiles, (), ("owners", *shared)).put(owned)
            if schedule.has(CompactIndices):
                yield schedule.put(owned)


def sort_parts(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of sorted indices: the sort by one thread, or in as many parts as there are threads."""
    if schedule.has(GroupIndices):
        alone = schedule.without(ParallelizeSort)
        shared = alone.put(ParallelizeSort(space.machine.threads)) if space.machine.threads > 1 else alone
        yield from (other for other in (alone, shared) if other != schedule)


def listed_elements(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of owners that list their indices: without lists, and in vectors or not."""
    if not schedule.has(CompactIndices):
        return
    if schedule.has(VectorizeLists):
        yield schedule.without(VectorizeLists)
        yield with_prefetches(schedule.without(Unroll), "rows", "slices")
    for count in LISTED_TILES:
        yield schedule.with_loops(tiles=tuple((n, count if n == "indices" else size) for n, size in schedule.tiles))


def prefetched_slices(space: Space, schedule: Schedule) -> Iterator[Schedule]:
    """Of a gradient of rows: those to add prefetched, or farther ahead, or not."""
    others = schedule.prefetches("rows", "tile")
    if slices := schedule.prefetches("slices"):
        yield schedule.with_prefetches(others)
        yield schedule.put(*others, slices[0].replace(ahead=2 * slices[0].ahead))
    elif space.is_gradient and space.nest.has_rows_of_one_axis:
        loop = "bag" if schedule.has(GroupIndices) else "indices_i" if "indices" in dict(schedule.tiles) else "indices"
        yield schedule.put(*others, slices_ahead(loop, space.nest.row_bytes, space.machine))


# In their order: first the loops, then the bodies.
GENERATORS: tuple[Generator, ...] = (
    *(proposals, serial_runs, row_pieces, owner_counts, cuts, tiles_outermost),
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
