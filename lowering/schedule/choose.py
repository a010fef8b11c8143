"""Choosing a schedule: the least predicted time among candidates that run from plain to elaborate. Plain Python.

The sizes of a nest and the machine give its loops, tiles and vectors; a gradient has several ways to share its
additions. The prediction chooses among these, then among stores, prefetches and loads. A more elaborate schedule must
gain clearly. Where memory is the limit, prefetches take no predicted time and gain up to a third: there they win ties.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import GATHERED_BYTES, LINE_BYTES, STREAM_BYTES, MachineModel, tile_size
from .prefetch_heuristic import (
    FAR,
    NEAR,
    beside_gathers,
    is_spread_out,
    next_slices,
    prefetches_of,
    prefetches_of_bags,
    slices_ahead,
)
from .schedule import Names, Schedule, Tiles
from .shape import Loop, Loops, NestShape, trips
from .steps import (
    MAX_PARTS,
    WHOLE_ROW,
    BoundInner,
    CompactIndices,
    FuseIntoOwners,
    GatherLanes,
    GroupIndices,
    HoistIndices,
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
from .thresholds import TILE_SIZES

if TYPE_CHECKING:
    from .predict import Comparison, Model

# Why a schedule has a step. Steps whose worth is predicted have times for a reason.
WHY: dict[type[Step], str] = {
    SpecializeInner: "rows of {bytes} B are copied or added without a loop: their size is part of the code",
    BoundInner: "rows of {least} B or more share a kernel",
    GroupIndices: "indices are sorted by position: threads add up the rows of positions, and write each row once",
    ParallelizeSort: "the indices are sorted in {parts} parts by as many threads",
    OwnerComputes: "{owners} owners add to their own parts of {axis}",
    CompactIndices: "each owner lists its indices of a tile before it adds",
    HoistIndices: "indices are resolved before {before}, which repeats them",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule, and the comparisons of predicted times that led to it."""

    schedule: Schedule
    compared: "tuple[Comparison | str, ...]" = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """One sentence for each step that has a reason, and for each comparison."""
        shared = [name for name in self.schedule.parallel if not LoopName(name).nest]
        who = f"threads share {' and '.join(shared)}" if shared else "one thread: to start others takes longer"
        steps = (WHY[type(step)].format(**vars(step)) for step in self.schedule if type(step) in WHY)
        return (who, *steps, *map(str, self.compared))


def choose(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the candidate of the least predicted time, and what it was chosen from."""
    if nest.is_gradient:
        return _choose_gradient(nest, machine)
    return _choose_bags(nest, machine) if nest.sums_bags else _choose_gather(nest, machine)


def _model(nest: NestShape, machine: MachineModel) -> "Model":
    """Return the cost model, which is imported when a choice needs it: the first call of a small gather does not."""
    from .predict import Model

    return Model(nest, machine)


# Tiles that threads share


def tile_innermost(loops: Loops, unit: int, least: int, wanted: int) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) that tile the innermost of `loops` with enough work, in tiles of `wanted`.

    Args:
        loops: the loops, outermost first; each iteration of the innermost has `unit` work.
        least: the work of all iterations of a loop that is tiled.
    """
    for place in reversed(range(len(loops))):
        name, size = loops[place]
        if unit * size >= least or place == 0:
            tile, around = tile_size(wanted // max(unit, 1)), tuple(outer for outer, _ in loops[:place])
            return (((name, tile),), (*around, name.outer_tile)) if tile > 1 else ((), (*around, name))
        unit *= size
    return (), ()


def tile_checks(checked: Loops, machine: MachineModel) -> tuple[Tiles, Names]:
    """Return (tiles, parallel loops) of the nest that checks indices; none where one thread is as fast."""
    least = machine.min_shared_checks
    if trips(checked) < least:
        return (), ()
    loops = [(name.beside("check"), size) for name, size in checked if size != 1]
    return tile_innermost(loops, 1, least // 16, least // 4)


# Gathers


def _choose_gather(nest: NestShape, machine: MachineModel) -> Choice:
    if nest.out_bytes < fixed.MIN_VECTOR_WORK_BYTES:
        return Choice(Schedule(), (f"{nest.out_bytes} B are copied without a schedule: no pass pays",))
    lanes = _lanes(nest, machine)
    plain = _with_vectors(nest, machine, _gather_loops(nest, machine), lanes)
    if not plain.tiles and lanes is None:
        return Choice(plain)
    model = _model(nest, machine)
    bodies = [_with_prefetches(nest, machine, each) for each in _stores(nest, machine, plain)]
    found, why = model.choose([options[-1] for options in bodies])
    options = next(each for each in bodies if each[-1] is found)
    if machine.exceeds_last_level_cache(nest.whole_bytes):
        options.reverse()
    found, also = model.choose(options, fixed.LEAST_PREDICTED_GAIN)
    found, last = _with_loads(nest, machine, found, model)
    return Choice(found, (*why, *also, *last))


def _gather_loops(nest: NestShape, machine: MachineModel) -> Schedule:
    """Return tiles, order and parallel loops, and the loop before which indices are resolved."""
    if nest.out_bytes < machine.min_shared_bytes:
        return Schedule()
    around = [loop for loop in nest.loops if loop not in nest.row]
    repeating = _repeating(nest, machine, around)
    if repeating is not None and (not nest.is_row or nest.run_bytes <= LINE_BYTES):
        return _staged(nest, machine, around, repeating)
    is_large = nest.out_bytes >= fixed.LARGE_TILES * machine.large_tile_bytes
    wanted = machine.large_tile_bytes if is_large else machine.tile_bytes
    tiles, parallel = tile_innermost(around, nest.width_bytes * trips(nest.row), machine.min_shared_bytes, wanted)
    if nest.checked and _has_few_elements(nest) and not nest.repeats:
        rows = -(-fixed.MIN_CHECKED // nest.innermost[1])
        tiles = (*tiles, *((LoopName(name).inner_tile, rows) for name, _ in tiles))
    return _with_checks(nest, machine, tiles, (), parallel)


def _with_checks(nest: NestShape, machine: MachineModel, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
    """Return the schedule with loops, and with the tiles and the threads of the check of the indices."""
    check_tiles, check_parallel = tile_checks(nest.checked, machine) if parallel else ((), ())
    return Schedule().with_loops(tiles=(*tiles, *check_tiles), order=order, parallel=(*parallel, *check_parallel))


def _repeating(nest: NestShape, machine: MachineModel, around: Loops) -> Loop | None:
    """Return the innermost loop that repeats the indices of one loop inside it, where that pays."""
    if not nest.is_row and (nest.innermost[1] <= fixed.KNOWN_LANES or _has_few_elements(nest)):
        return None
    if len(around) < 2 or around[-1][0] not in nest.looked_up or around[-2][0] in nest.looked_up:
        return None
    pays = around[-2][1] >= TILE_SIZES[-1] and (nest.is_row or _lanes_of_elements(nest, machine) is not None)
    return around[-2] if pays else None


def _staged(nest: NestShape, machine: MachineModel, around: Loops, repeating: Loop) -> Schedule:
    """Tile the repeating loop and the indices in it, and stage each tile of indices for its rows."""
    (name, size), (counted, count), most = repeating, around[-1], machine.staged_indices
    tile_bytes = nest.width_bytes * trips(nest.row) * min(count, most)
    share = max(size * trips(around[:-2]) // (fixed.TILES_A_THREAD * machine.threads), 1)
    rows = tile_size(max(min(machine.tile_bytes // tile_bytes, share), TILE_SIZES[-1]))
    before = [loop for loop, _ in around[:-2]]
    tiled = (name.outer_tile, counted.outer_tile, name.inner_tile, counted.inner_tile)
    parallel = (*before, name.outer_tile, *([counted.outer_tile] if count > most else []))
    order = (*before, *tiled, *(loop for loop, _ in nest.row))
    loops = _with_checks(nest, machine, ((name, rows), (counted, most)), order, parallel)
    return loops.put(HoistIndices(name.inner_tile))


def _lanes(nest: NestShape, machine: MachineModel) -> int | None:
    """Return the elements of a vector; None where elements are copied one by one."""
    if not nest.is_packed:
        return None
    if not nest.is_row:
        return _lanes_of_elements(nest, machine)
    if nest.has_packed_rows:
        return _lanes_of_row(nest, machine.vector_bytes)
    return lanes if 2 <= (lanes := _most_lanes(nest, machine)) <= nest.innermost[1] else None


def _lanes_of_row(nest: NestShape, vector_bytes: int) -> int | None:
    """Return the largest number of lanes, of vectors of a width in bytes, that a row fills; None for one lane."""
    lanes = vector_bytes // nest.width_bytes
    while lanes > 1 and lanes * nest.width_bytes > nest.run_bytes:
        lanes //= 2
    return lanes if lanes >= 2 else None


def _most_lanes(nest: NestShape, machine: MachineModel) -> int:
    """Return the most lanes for elements that are loaded one by one."""
    return min(min(machine.vector_bytes, fixed.MOST_LANE_BYTES) // nest.width_bytes, fixed.MOST_LANES)


def _lanes_of_elements(nest: NestShape, machine: MachineModel) -> int | None:
    """Return the lanes that pay for elements with an index each; None where vectors do not pay."""
    wanted, size = _most_lanes(nest, machine), nest.innermost[1]
    if _has_few_elements(nest):
        known = max(STREAM_BYTES // nest.width_bytes, fixed.KNOWN_LANES)
        wanted = min(wanted, known, 2 * fixed.KNOWN_LANES, 1 << size.bit_length() - 1)
    if fixed.KNOWN_LANES <= size < wanted and size & (size - 1) == 0:
        wanted = size  # one whole vector
    is_column = nest.innermost[0].role == "inner" and not is_spread_out(nest, machine)
    if size < wanted or wanted < 2 or not nest.is_packed or (is_column and next_slices(nest, machine) is None):
        return None
    return wanted


def _has_few_elements(nest: NestShape) -> bool:
    """Return whether few elements with an index each lie side by side, and others behind them.

    Where loops around them repeat the indices, fewer elements count as few, and the slices must be short.
    """
    name, size = nest.innermost
    is_near = nest.span_bytes < fixed.MIN_NEXT_ROW_BYTES
    most = fixed.MOST_KNOWN_ELEMENTS if is_near and not nest.repeats else 2 * fixed.KNOWN_LANES - 1
    is_run = name == "indices" and len(nest.loops) > 1 and nest.is_packed
    return is_run and 2 < size <= most and (is_near or not nest.repeats)


def _overlaps(nest: NestShape, lanes: int | None) -> bool:
    """Return whether rows end with an overlapping vector."""
    is_odd = lanes is not None and nest.innermost[1] % lanes != 0
    return is_odd and nest.run_bytes <= fixed.LONG_ROW_BYTES and nest.has_plain_rows and nest.has_packed_rows


def _with_vectors(nest: NestShape, machine: MachineModel, schedule: Schedule, lanes: int | None) -> Schedule:
    """Return a schedule with vectors, and with the size of a row as a part of the code where that pays."""
    is_known = lanes is not None and _has_few_elements(nest)
    is_short = nest.has_plain_rows and nest.run_bytes <= machine.unrolled_row_bytes
    return schedule.without(SpecializeInner, VectorizeInner).put(
        SpecializeInner(nest.run_bytes) if is_known or is_short or _overlaps(nest, lanes) else None,
        None if lanes is None else VectorizeInner(lanes),
    )


def _stores(nest: NestShape, machine: MachineModel, cached: Schedule) -> list[Schedule]:
    """Return a schedule with non-temporal stores, where these may pay, and the one with cached stores."""
    lanes = cached.lanes
    if nest.is_row and nest.has_packed_rows and nest.is_packed:  # vectors fill a row, or the last one overlaps
        least = max(STREAM_BYTES, 2 * nest.width_bytes)
        filling = min(nest.run_bytes & -nest.run_bytes, machine.wide_vector_bytes)
        lanes = _lanes_of_row(nest, max(filling, least))
    if lanes is None or 2 * nest.out_bytes <= machine.l3_room_bytes:
        return [cached]
    name, is_odd = nest.innermost[0], nest.innermost[1] % lanes != 0
    is_known = _has_few_elements(nest) and not nest.repeats  # a run of whole vectors has no elements to peel
    least = fixed.MIN_STREAMED_ROW_BYTES if is_odd and _overlaps(nest, lanes) else fixed.MIN_PEELED_BYTES
    if not is_odd and (name.role != "indices" or (is_known and lanes * nest.width_bytes >= STREAM_BYTES)):
        least = STREAM_BYTES
    if nest.run_bytes < least:
        return [cached]
    return [_with_vectors(nest, machine, cached, lanes).put(StreamStores()), cached]


def _with_prefetches(nest: NestShape, machine: MachineModel, schedule: Schedule) -> list[Schedule]:
    """Return a schedule with each choice of prefetches; a choice for long rows comes with a narrower copy."""
    found, lanes = list[Schedule](), schedule.lanes
    for prefetches in dict.fromkeys(prefetches_of(nest, machine, schedule)):
        steps: list[Step] = list(prefetches)
        if lanes and any(each.lines == WHOLE_ROW for each in prefetches):
            steps.append(VectorizeInner(min(lanes, machine.vector_bytes // nest.width_bytes)))
        found.append(schedule.put(*steps) if steps else schedule)
    return found


def _with_loads(
    nest: NestShape, machine: MachineModel, loaded: Schedule, model: "Model"
) -> tuple[Schedule, tuple[str, ...]]:
    """Return the schedule with the lanes loaded as the least regret asks for.

    The regret of a way is how many times as long as the other it takes, for random or for ascending indices,
    whichever is more: nothing is known of the indices but their number.
    """
    is_loaded = loaded.lanes is not None and not nest.is_row and loaded.row_bytes is None
    if not (is_loaded and len(nest.axes) == 1 and nest.width_bytes in GATHERED_BYTES):
        return loaded, ()
    gathered = loaded.put(GatherLanes())
    if not loaded.has(HoistIndices):
        gathered = gathered.with_prefetches(beside_gathers(nest, machine, loaded.prefetches()))
    at_random, ascending = (
        model.time_us(gathered, ascending=order) / model.time_us(loaded, ascending=order) for order in (False, True)
    )
    # Regrets that differ by less than a thousandth are equal: such a difference is one of rounding.
    if max(1 / at_random, 1 / ascending, 1.0) <= max(at_random, ascending, 1.0) * 1.001:
        return loaded, ()
    orders = f"{at_random:.2f} times as long for random indices, {ascending:.2f} times for ascending ones"
    return gathered, (f"gather-lanes: predicted to take {orders}",)


# Gradients


def _choose_gradient(nest: NestShape, machine: MachineModel) -> Choice:
    ways = gradient_ways(nest, machine)
    if ways == [Schedule()]:
        return Choice(ways[0], ("one thread adds: there is little to add, and to clear",))
    model = _model(nest, machine)
    found, why = model.choose(ways, fixed.LEAST_PREDICTED_GAIN)
    bodies = [found]
    if not (found.has(GroupIndices) or found.has(FuseIntoOwners)) and clears_in_vectors(nest):
        bodies.append(found.put(StreamStores()))
    if found.prefetches("rows"):
        bodies.append(found.with_prefetches(found.prefetches("slices", "tile")))
    found, also = model.choose(bodies, fixed.LEAST_GAIN_OF_STORES)
    return Choice(found, (*why, *also))


def gradient_ways(nest: NestShape, machine: MachineModel) -> list[Schedule]:
    """Return the ways to add a gradient in which no two threads add to the same element, the plainest first.

    One thread adds; threads share batches and outer slices; parts of rows; parts of the table, whose owners read all
    indices, list their own, or, of scalars, list them in vectors; or positions, by which indices are sorted first. Rows
    are added as vectors; rows of a specialized size are prefetched where the table exceeds L2.
    """
    if nest.out_bytes + nest.table_bytes < machine.min_shared_bytes:
        return [Schedule()]
    if machine.threads > MAX_PARTS:
        machine = replace(machine, threads=MAX_PARTS)
    rows = _summed_rows(nest, machine, nest.run_bytes, machine.vector_bytes)
    if nest.run_bytes > machine.unrolled_row_bytes and rows:
        rows = Schedule([VectorizeInner(machine.wide_vector_bytes // nest.width_bytes)])
    ways = [_with_row_prefetch(nest, machine, way, rows) for way in _shares(nest, machine, rows)]
    return [*ways, *_grouped(nest, machine)]


def _summed_rows(nest: NestShape, machine: MachineModel, row_bytes: int, most_bytes: int) -> Schedule:
    """Return the schedule of rows of sums, of a given size in bytes: vectors, unless rows are short or strided."""
    width_bytes = nest.sum_bytes or nest.width_bytes
    if not nest.has_whole_rows or row_bytes < max(machine.vector_bytes // 2, 2 * width_bytes):
        return Schedule()
    vector_bytes = min(most_bytes, 1 << row_bytes.bit_length() - 1)
    return Schedule([SpecializeInner(nest.run_bytes), VectorizeInner(vector_bytes // width_bytes)])


def _with_row_prefetch(nest: NestShape, machine: MachineModel, way: Schedule, rows: Schedule) -> Schedule:
    """Return a way that adds rows as vectors, and prefetches them where the table exceeds L2."""
    prefetch: tuple[Prefetch, ...] = ()
    counted = [name for name, size in nest.copied if size != 1 and name.role == "indices"]
    if counted and rows.row_bytes is not None and nest.table_bytes > machine.l2_bytes:
        part_bytes = min(dict(way.tiles).get("inner", nest.run_bytes) * nest.width_bytes, nest.run_bytes)
        distance = min(max(machine.near_bytes // (4 * part_bytes), machine.near_rows // 2, 1), 2 * machine.near_rows)
        prefetch = (Prefetch("rows", counted[-1], distance, 1 + -(-part_bytes // LINE_BYTES), NEAR),)
    return way.put(*rows, *prefetch, *way.prefetches())


def _shares(nest: NestShape, machine: MachineModel, rows: Schedule) -> Iterator[Schedule]:
    """Yield the ways to share the additions, but for sorted indices."""
    threads = machine.threads
    beside = _share_beside(nest, machine) if threads > 1 else Schedule()
    counted = [name for name, _ in nest.loops if name.role == "indices"]
    inner = [loop for loop in nest.loops if loop[0].role in ("inner", "unit")]
    row_bytes = nest.width_bytes * trips(inner)
    alone = [beside]
    if counted and rows.row_bytes is not None:
        # Leaving these prefetches out is never taken for plainer where grad comes from memory: 51 MB of rows of 256 B,
        # predicted to take 1.09 times as long without by a calibrated Zen 4, took 1.9 times as long.
        at = 0 if machine.exceeds_last_level_cache(nest.out_bytes) else 1
        alone.insert(at, beside.put(slices_ahead(counted[-1], row_bytes, machine)))
    yield from alone
    if threads == 1:
        return
    free = [loop for loop in nest.loops if loop[0].role in ("batch", "outer")]
    if trips(free) >= threads:
        yield beside.with_loops(parallel=(*(name for name, _ in free), *beside.parallel))
        return
    is_large = machine.exceeds_last_level_cache(2 * nest.table_bytes)
    shares_lines = rows.row_bytes is not None and row_bytes % LINE_BYTES != 0 and not is_large
    parts = min(threads, row_bytes // LINE_BYTES) if rows.row_bytes is not None and not shares_lines else 0
    piece = -(-row_bytes // parts // LINE_BYTES) * LINE_BYTES // nest.width_bytes if parts > 1 else 0
    if parts <= 1 and len(inner) == 1 and not shares_lines:
        piece = next((size for size in TILE_SIZES if threads * size * nest.width_bytes <= row_bytes), 0)
        piece = piece if piece * nest.width_bytes >= LINE_BYTES else 0
    if piece:
        name = inner[0][0]
        order = (name.outer_tile, *(other for other, _ in nest.loops if other != name), name.inner_tile)
        tiles, parallel = (*beside.tiles, (name, piece)), (name.outer_tile, *beside.parallel)
        yield beside.with_loops(tiles=tiles, order=order, parallel=parallel)
    axis, positions = max(nest.axes, key=lambda loop: loop[1])
    if any(name.loop != name for name, _ in nest.table) or positions < threads:
        return
    yield beside.with_loops(parallel=("owners", *beside.parallel)).put(OwnerComputes(threads, axis))
    if len(counted) == 1 and rows.lanes is not None and rows.row_bytes is None:
        parts = -(-nest.table_bytes // machine.l2_bytes), row_bytes // LINE_BYTES
        wanted = max(min(*parts, positions), 1)
        slices = slices_ahead(counted[0].inner_tile, row_bytes, machine)
        owned = OwnerComputes(-(-wanted // threads) * threads, axis)
        yield _listed(nest, machine, owned, counted[0], machine.staged_indices, slices)
    # Vectors of single elements, and of their indices, are loaded where these lie side by side.
    is_run = nest.is_packed and nest.has_packed_indices and len(nest.axes) == 1 and len(nest.loops) == 1
    if counted and is_run and nest.width_bytes in GATHERED_BYTES:
        owned, listed = OwnerComputes(1 << threads.bit_length() - 1, axis), counted[0].inner_tile
        lanes = machine.wide_vector_bytes // 8  # positions have 8 bytes
        steps = (VectorizeLists(lanes), Unroll(listed, lanes), Prefetch("tile", listed, owned.owners, locality=FAR))
        yield _listed(nest, machine, owned, counted[0], fixed.LISTED_TILE, *steps)


def _listed(
    nest: NestShape, machine: MachineModel, owned: OwnerComputes, loop: LoopName, tile: int, *steps: Step
) -> Schedule:
    """Give each owner a part of the table, which it clears, adds to and scales, by lists of its indices.

    An owner lists its indices of a tile while nothing else is read. Each line of the table comes from memory once. It
    need not come where a non-temporal store clears it, and comes later for each row that is added to it: that is less
    where grad has fewer rows than the table.
    """
    tiles, parallel = tile_checks(nest.checked, machine)
    loops = Schedule().with_loops(tiles=(*tiles, (loop, tile)), parallel=("owners", *parallel))
    return loops.put(owned, FuseIntoOwners(), CompactIndices(loop.inner_tile), *steps)


def _grouped(nest: NestShape, machine: MachineModel) -> Iterator[Schedule]:
    """Yield the way that sorts indices by position, of rows that are whole vectors.

    Threads share the positions: each adds up the rows of one, in pieces that registers hold. Each row of out is written
    once, with non-temporal stores, and none is read. The sort has parts for threads; one thread sums the counts of all
    positions of each part, so parts are fewer where positions are more.
    """
    row_bytes, most_bytes = nest.run_bytes, fixed.GROUPED_PIECE_BYTES
    whole_bytes = machine.wide_vector_bytes if row_bytes <= most_bytes else most_bytes
    if not nest.has_rows_of_one_axis or not nest.has_whole_rows or nest.scales or row_bytes % whole_bytes:
        return
    (indices, places), (inner, _) = nest.loops
    axis, positions = nest.axes[0]
    tiles, parallel = tile_checks(nest.checked, machine)
    tiles, order = (*tiles, (axis, max(machine.tile_bytes // row_bytes, 1))), ()
    slices = slices_ahead(LoopName("bag"), row_bytes, machine)
    if row_bytes > most_bytes:
        tiles = (*tiles, (inner, most_bytes // nest.width_bytes))
        order = (axis.outer_tile, axis.inner_tile, inner.outer_tile, "bag", inner.inner_tile)
        slices = slices.replace(ahead=max(machine.near_bytes // (2 * most_bytes), 1))
    parts = 1 << machine.threads.bit_length() - 1
    while parts > 1 and parts * parts * positions > fixed.SORT_TO_SUM * places:
        parts //= 2
    yield (
        Schedule()
        .with_loops(tiles=tiles, order=order, parallel=(axis.outer_tile, *parallel))
        .put(
            SpecializeInner(row_bytes),
            GroupIndices(indices),
            ParallelizeSort(parts) if parts > 1 else None,
            VectorizeInner(machine.wide_vector_bytes // nest.width_bytes),
            slices,
            StreamStores(),
        )
    )


def clears_in_vectors(nest: NestShape) -> bool:
    """Return whether a run of the innermost clearing loop is whole vectors, or much longer than its two ends."""
    name, size = next((loop for loop in reversed(nest.table) if loop[1] != 1), (LoopName(), 0))
    run_bytes = nest.width_bytes * size
    is_even = run_bytes % STREAM_BYTES == 0 and name.role != "axis"
    return nest.has_packed_rows and (is_even or run_bytes >= fixed.MIN_PEELED_BYTES)


def _share_beside(nest: NestShape, machine: MachineModel) -> Schedule:
    """Return the parallel loops of the nests that check, clear and scale."""
    tiles, parallel = tile_checks(nest.checked, machine)
    rows = 1 + nest.table.index(nest.axes[-1])
    outside = [loop for loop in nest.table[:rows] if loop[1] != 1 or loop in nest.axes]  # code is for any axis
    unit = nest.width_bytes * trips(nest.table[rows:])
    for other in ("clear", *(["scale"] if nest.scales else [])):
        loops = [(name.beside(other), size) for name, size in outside]
        more_tiles, more_parallel = tile_innermost(loops, unit, machine.min_shared_bytes, machine.tile_bytes)
        tiles, parallel = (*tiles, *more_tiles), (*parallel, *more_parallel)
    return Schedule().with_loops(tiles=tiles, parallel=parallel)


# Bags


def _choose_bags(nest: NestShape, machine: MachineModel) -> Choice:
    """Choose how bags are summed, with non-temporal stores of whole rows where these are predicted to gain."""
    cached = choose_bag_loops(nest, machine)
    name, size = nest.innermost
    if cached.row_bytes is None or name in dict(cached.tiles) or size % (cached.lanes or size + 1) != 0:
        return Choice(cached)
    options = [cached, cached.put(StreamStores())]
    return Choice(*_model(nest, machine).choose(options, fixed.LEAST_GAIN_OF_STORES))


def choose_bag_loops(nest: NestShape, machine: MachineModel) -> Schedule:
    """Return how bags are summed: each bag by one thread, its sums in registers where a row fits in them.

    Bags are parallel, in tiles of similar work. Rows are added as vectors; the size of a row is a part of the code, so
    that `promote-sums` finds their sums registers. A long row that pieces divide is summed piece by piece: each piece
    of all rows of a bag. Rows of a table that exceeds L2 are prefetched.
    """
    schedule = _bag_rows(nest, machine)
    pieces = schedule.tiles
    if nest.out_bytes >= machine.min_shared_bytes and machine.threads > 1:
        bags = [loop for loop in nest.loops if loop[0].role == "indices"]
        unit = nest.width_bytes * trips([loop for loop in nest.loops if loop[0].role != "indices"])
        tiles, parallel = tile_innermost(bags, unit, machine.min_shared_bytes, machine.tile_bytes)
        check_tiles, check_parallel = tile_checks(nest.checked, machine)
        schedule = schedule.with_loops(tiles=(*check_tiles, *tiles, *pieces), parallel=(*parallel, *check_parallel))
    loop = next((name for name, _ in reversed(nest.loops) if name.role in ("bag", "indices")), LoopName())
    loop = loop.inner_tile if loop in dict(schedule.tiles) else loop
    if schedule.row_bytes is None or not loop:
        return schedule
    piece_bytes = pieces[0][1] * nest.width_bytes if pieces else None
    return schedule.put(*prefetches_of_bags(nest, machine, loop, piece_bytes))


def _bag_rows(nest: NestShape, machine: MachineModel) -> Schedule:
    """Return the schedule of the rows of bags; those beyond the registers are summed in pieces, or in L1."""
    width_bytes = nest.sum_bytes or nest.width_bytes
    row_bytes, most_bytes = width_bytes * nest.innermost[1], machine.wide_vector_bytes
    schedule = _summed_rows(nest, machine, row_bytes, most_bytes)
    if row_bytes <= fixed.MOST_SUMMED_BYTES or not schedule:
        return schedule
    even_bytes = min(most_bytes, row_bytes & -row_bytes)
    piece_bytes = next(size for size in range(fixed.GROUPED_PIECE_BYTES, 0, -even_bytes) if row_bytes % size == 0)
    is_even = even_bytes >= max(machine.vector_bytes // 2, 2 * width_bytes) and piece_bytes >= LINE_BYTES
    if not is_even or not any(name.role == "bag" for name, _ in nest.loops):
        return schedule.without(SpecializeInner)
    inner = nest.innermost[0]
    tiles, order = ((inner, piece_bytes // width_bytes),), (inner.outer_tile, "bag", inner.inner_tile)
    return schedule.with_loops(tiles=tiles, order=order).put(VectorizeInner(even_bytes // width_bytes))
