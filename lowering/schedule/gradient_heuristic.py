"""Choosing the schedule of a gradient, or of a reduction, with reasons. Plain Python; imports no xDSL.

The sizes of the nest give the ways to share the work, and the prediction chooses among them.
"""

from collections.abc import Iterator
from dataclasses import replace

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import GATHERED_BYTES, LINE_BYTES, STREAM_BYTES, MachineModel
from .predict import Model
from .prefetch_heuristic import FAR, NEAR, near_and_far_rows, slices_ahead
from .schedule import Choice, Schedule, Tiles
from .shape import NestShape, trips
from .steps import (
    CompactIndices,
    FuseIntoOwners,
    GroupIndices,
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
from .tiling import tile_checks, tile_innermost


def choose_gradient(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the way of the least predicted time, with the stores and the prefetches that pay, and with its reasons."""
    ways = gradient_ways(nest, machine)
    if ways == [Choice(Schedule(), ways[0].reasons)]:
        return ways[0]
    model = Model(nest, machine, is_gradient=True)
    found, why = model.choose([(way.schedule, way.reasons[0]) for way in ways], fixed.LEAST_PREDICTED_GAIN)
    reasons = next(way.reasons for way in ways if way.schedule is found)
    bodies = [(found, "cached stores and these prefetches")]
    if not (found.has(GroupIndices) or found.has(FuseIntoOwners)) and clears_in_vectors(nest):
        bodies.append((found.put(StreamStores()), "non-temporal stores of zeros"))
    if found.prefetches("rows"):
        bodies.append((found.with_prefetches(found.prefetches("slices", "tile")), "no prefetch of rows"))
    found, also = model.choose(bodies, fixed.LEAST_GAIN_OF_STORES)
    return Choice(found, (*why, *(reasons[1:] if why else reasons), *also))


def gradient_ways(nest: NestShape, machine: MachineModel) -> list[Choice]:
    """Return the ways to add a gradient in which no two threads add to the same element, the plainest first.

    One thread adds; threads share batches and outer slices; parts of rows; parts of the table, whose owners read all
    indices, list their own, or, of scalars, list them in vectors; or positions, by which indices are sorted first. Rows
    are added as vectors; rows of a specialized size are prefetched where the table exceeds L2. The loops of the nest
    that copy are those that add.
    """
    if machine.threads > fixed.MOST_OWNERS:
        machine = replace(machine, threads=fixed.MOST_OWNERS)
    if nest.out_bytes + nest.table_bytes < machine.min_shared_bytes:
        return [Choice(Schedule(), ("one thread adds: there is little to add, and to clear",))]
    rows = _rows(nest, machine)
    ways = [_with_rows(nest, machine, way, rows) for way in _shares(nest, machine, rows)]
    if _can_group(nest, machine):
        ways.append(_share_groups(nest, machine))
    return ways


def _with_rows(nest: NestShape, machine: MachineModel, way: Choice, rows: Schedule) -> Choice:
    """Return a way that adds rows as vectors, and prefetches them where the table exceeds L2."""
    schedule, reasons, prefetch = way.schedule, way.reasons, ()
    if rows.row_bytes is not None:
        reasons = (*reasons, f"rows of {rows.row_bytes} B are added without a loop: their size is part of the code")
    counted = [name for name, size in nest.copied if size != 1 and name.role == "indices"]
    if counted and rows.row_bytes is not None and nest.table_bytes > machine.l2_bytes:
        part_bytes = min(dict(schedule.tiles).get("inner", nest.run_bytes) * nest.width_bytes, nest.run_bytes)
        distance = min(max(machine.near_bytes // (4 * part_bytes), machine.near_rows // 2, 1), 2 * machine.near_rows)
        lines = 1 + -(-part_bytes // LINE_BYTES)
        prefetch = (Prefetch("rows", counted[-1], distance, lines, NEAR),)
        reasons = (*reasons, f"the table exceeds L2: rows are prefetched {distance} indices ahead")
    return Choice(schedule.put(*rows, *prefetch, *schedule.prefetches()), reasons)


def _can_group(nest: NestShape, machine: MachineModel) -> bool:
    """Return whether indices can be sorted by position: of rows that are whole vectors.

    Then each row of out is written once, with non-temporal stores, and none is read.
    """
    row_bytes = nest.run_bytes
    whole = machine.wide_vector_bytes if row_bytes <= fixed.GROUPED_PIECE_BYTES else fixed.GROUPED_PIECE_BYTES
    are_rows = nest.has_rows_of_one_axis and nest.has_plain_rows and nest.has_packed_rows
    return are_rows and nest.is_packed and not nest.scales and row_bytes % whole == 0


def _share_groups(nest: NestShape, machine: MachineModel) -> Choice:
    """Give threads the positions: each adds up the rows of one, in pieces that registers hold."""
    (indices, places), (inner, elements) = nest.loops
    axis, positions = nest.axes[0]
    row_bytes = nest.run_bytes
    most = fixed.GROUPED_PIECE_BYTES // nest.width_bytes
    tiles, parallel = tile_checks(nest.checked, machine)
    rows = max(machine.tile_bytes // row_bytes, 1)
    tiles, order, slices = (*tiles, (axis, rows)), (), slices_ahead(LoopName("bag"), row_bytes, machine)
    if elements > most:
        tiles = (*tiles, (inner, most))
        order = (axis.outer_tile, axis.inner_tile, inner.outer_tile, "bag", inner.inner_tile)
        slices = slices.replace(ahead=max(machine.near_bytes // (2 * fixed.GROUPED_PIECE_BYTES), 1))
    parts = _sort_parts(places, positions, machine.threads)
    loops = Schedule().with_loops(tiles=tiles, order=order, parallel=(axis.outer_tile, *parallel))
    schedule = loops.put(
        SpecializeInner(row_bytes),
        GroupIndices(indices),
        None if parts is None else ParallelizeSort(parts),
        VectorizeInner(machine.wide_vector_bytes // nest.width_bytes),
        slices,
        StreamStores(),
    )
    why = "indices are sorted by position: threads add up the rows of positions, and write each row once"
    sharing = () if parts is None else (f"the indices are sorted in {parts} parts by as many threads",)
    return Choice(schedule, (why, *sharing, "sums are written with non-temporal stores"))


def _sort_parts(places: int, positions: int, threads: int) -> int | None:
    """Return in how many parts threads sort so many indices; None where one thread does.

    Each part has counts for all positions, which one thread sums: so parts are fewer where positions are more.
    """
    parts = 1 << threads.bit_length() - 1
    while parts > 1 and parts * parts * positions > fixed.SORT_TO_SUM * places:
        parts //= 2
    return parts if parts > 1 else None


def _rows(nest: NestShape, machine: MachineModel) -> Schedule:
    """Return the schedule of rows: vectors, unless rows are short or strided."""
    row_bytes, least = nest.run_bytes, max(machine.vector_bytes // 2, 2 * nest.width_bytes)
    if not (nest.has_plain_rows and nest.is_packed and nest.has_packed_rows) or row_bytes < least:
        return Schedule()
    if row_bytes > machine.unrolled_row_bytes:
        return Schedule([VectorizeInner(machine.wide_vector_bytes // nest.width_bytes)])
    vector_bytes = min(machine.vector_bytes, 1 << row_bytes.bit_length() - 1)
    return Schedule([SpecializeInner(row_bytes), VectorizeInner(vector_bytes // nest.width_bytes)])


def clears_in_vectors(nest: NestShape) -> bool:
    """Return whether a run of the innermost clearing loop is whole vectors, or much longer than its two ends."""
    name, size = next((loop for loop in reversed(nest.table) if loop[1] != 1), (LoopName(), 0))
    run_bytes = nest.width_bytes * size
    is_even = run_bytes % STREAM_BYTES == 0 and name.role != "axis"
    return nest.has_packed_rows and (is_even or run_bytes >= fixed.MIN_PEELED_BYTES)


def _shares(nest: NestShape, machine: MachineModel, rows: Schedule) -> Iterator[Choice]:
    """Yield the ways to share the additions, but for sorted indices."""
    threads = machine.threads
    beside = _share_beside(nest, machine) if threads > 1 else Schedule()
    counted = [name for name, _ in nest.loops if name.role == "indices"]
    inner = [loop for loop in nest.loops if loop[0].role in ("inner", "unit")]
    row_bytes, table_bytes = (nest.width_bytes * trips(group) for group in (inner, nest.table))
    alone = [Choice(beside, ("one thread adds",))]
    if counted and rows.row_bytes is not None:
        sliced = beside.put(slices_ahead(counted[-1], row_bytes, machine))
        # Leaving these prefetches out is never taken for plainer where grad comes from memory: 51 MB of rows of 256 B,
        # predicted to take 1.09 times as long without by a calibrated Zen 4, took 1.9 times as long.
        at = 0 if machine.exceeds_last_level_cache(nest.out_bytes) else 1
        alone.insert(at, Choice(sliced, ("one thread adds, and prefetches grad",)))
    yield from alone
    if threads == 1:
        return
    free = [loop for loop in nest.loops if loop[0].role in ("batch", "outer")]
    if trips(free) >= threads:
        schedule = beside.with_loops(parallel=(*(name for name, _ in free), *beside.parallel))
        yield Choice(schedule, (f"{' and '.join(name for name, _ in free)} parallel: they add to different elements",))
        return
    is_large = machine.exceeds_last_level_cache(2 * table_bytes)
    shares_lines = rows.row_bytes is not None and row_bytes % LINE_BYTES != 0 and not is_large
    parts = min(threads, row_bytes // LINE_BYTES) if rows.row_bytes is not None and not shares_lines else 0
    piece = -(-row_bytes // parts // LINE_BYTES) * LINE_BYTES // nest.width_bytes if parts > 1 else 0
    if parts <= 1 and len(inner) == 1 and not shares_lines:
        piece = next((size for size in fixed.TILE_SIZES if threads * size * nest.width_bytes <= row_bytes), 0)
        piece = piece if piece * nest.width_bytes >= LINE_BYTES else 0
    if piece:
        name = inner[0][0]
        order = (name.outer_tile, *(other for other, _ in nest.loops if other != name), name.inner_tile)
        tiles, parallel = (*beside.tiles, (name, piece)), (name.outer_tile, *beside.parallel)
        schedule = beside.with_loops(tiles=tiles, order=order, parallel=parallel)
        yield Choice(schedule, (f"rows parallel, in tiles of {piece * nest.width_bytes} B",))
    axis, positions = max(nest.axes, key=lambda loop: loop[1])
    if any(name.loop != name for name, _ in nest.table) or positions < threads * fixed.MIN_POSITIONS_OF_AN_OWNER:
        return
    schedule = beside.with_loops(parallel=("owners", *beside.parallel)).put(OwnerComputes(threads, axis))
    yield Choice(schedule, (f"owner-computes: each of {threads} threads adds to its own part of {axis}",))
    if len(counted) == 1 and rows.lanes is not None and rows.row_bytes is None:
        parts = -(-nest.table_bytes // machine.l2_bytes), row_bytes // fixed.LISTED_ROW_BYTES
        wanted = max(min(*parts, positions // fixed.MIN_POSITIONS_OF_AN_OWNER), 1)
        owned = OwnerComputes(-(-wanted // threads) * threads, axis)
        slices = slices_ahead(counted[0].inner_tile, row_bytes, machine)
        yield _share_lists(nest, machine, owned, counted[0], machine.staged_indices, "indices", slices)
    if counted and _lists_scalars(nest, machine):
        owned, listed = OwnerComputes(1 << threads.bit_length() - 1, axis), counted[0].inner_tile
        steps = (
            VectorizeLists(min(machine.wide_vector_bytes // 8, fixed.LISTED_LANES)),  # positions have 8 bytes
            Unroll(listed, fixed.LISTED_LANES),
            Prefetch("tile", listed, owned.owners, locality=FAR),
        )
        yield _share_lists(nest, machine, owned, counted[0], fixed.LISTED_TILE, "elements", *steps)


def _lists_scalars(nest: NestShape, machine: MachineModel) -> bool:
    """Return whether single elements are added along one axis that is long enough, by a processor with vectors of 4.

    Vectors of them, and of their indices, are loaded where these lie side by side.
    """
    is_run = nest.is_packed and nest.has_packed_indices and len(nest.axes) == 1 and len(nest.loops) == 1
    return is_run and nest.width_bytes in GATHERED_BYTES and nest.table_bytes >= fixed.MIN_OWNED_BYTES * machine.threads


def _share_lists(
    nest: NestShape, machine: MachineModel, owned: OwnerComputes, loop: LoopName, tile: int, what: str, *steps: Step
) -> Choice:
    """Give each owner a part of the table, which it clears, adds to and scales, by lists of its indices.

    An owner lists its indices of a tile while nothing else is read. Each line of the table comes from memory once. It
    need not come where a non-temporal store clears it, and comes later for each row that is added to it: that is less
    where grad has fewer rows than the table.
    """
    tiles, parallel = tile_checks(nest.checked, machine)
    loops = Schedule().with_loops(tiles=(*tiles, (loop, tile)), parallel=("owners", *parallel))
    why = f"owner-computes: {owned.owners} owners list the {what} of their own parts of {owned.axis}"
    return Choice(loops.put(owned, FuseIntoOwners(), CompactIndices(loop.inner_tile), *steps), (why,))


def _share_beside(nest: NestShape, machine: MachineModel) -> Schedule:
    """Pick the parallel loops of the nests that check, clear and scale."""
    tiles, parallel = tile_checks(nest.checked, machine)
    rows = 1 + nest.table.index(nest.axes[-1])
    outside = [loop for loop in nest.table[:rows] if loop[1] != 1 or loop in nest.axes]  # code is for any axis
    unit = nest.width_bytes * trips(nest.table[rows:])
    for other in ("clear", *(["scale"] if nest.scales else [])):
        loops = [(name.beside(other), size) for name, size in outside]
        more_tiles, more_parallel = tile_innermost(loops, unit, machine.min_shared_bytes, machine.tile_bytes)
        tiles, parallel = (*tiles, *more_tiles), (*parallel, *more_parallel)
    return Schedule().with_loops(tiles=tiles, parallel=parallel)


def choose_reduction(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the proposal of the rules, with non-temporal stores of whole rows where these are predicted to gain."""
    proposed = choose_reduction_schedule(nest, machine)
    cached = proposed.schedule
    name, size = nest.innermost
    if cached.row_bytes is None or name in dict(cached.tiles) or size % (cached.lanes or size + 1) != 0:
        return proposed
    options = [(cached, "cached stores of sums"), (cached.put(StreamStores()), "non-temporal stores of sums")]
    is_separate = any(each.separate for each in cached.prefetches())
    gain = fixed.LEAST_GAIN_OF_FISSIONED_STORES if is_separate else fixed.LEAST_GAIN_OF_STORES
    found, why = Model(nest, machine).choose(options, gain)
    return Choice(found, (*proposed.reasons, *why))


def choose_reduction_schedule(nest: NestShape, machine: MachineModel) -> Choice:
    """Pick how bags are summed: each bag by one thread, its sums in registers where a row fits in them.

    Bags are parallel, in tiles of similar work. Rows are added as vectors; the size of a row is a part of the code, so
    that `promote-sums` finds their sums registers. A long row that pieces divide is summed piece by piece: each piece
    of all rows of a bag. Rows of a table that exceeds L2 are prefetched.
    """
    schedule, reasons = _summed_rows(nest, machine)
    pieces = schedule.tiles
    if nest.out_bytes >= machine.min_shared_bytes and machine.threads > 1:
        bags = [loop for loop in nest.loops if loop[0].role == "indices"]
        unit = nest.width_bytes * trips([loop for loop in nest.loops if loop[0].role != "indices"])
        tiles, parallel = tile_innermost(bags, unit, machine.min_shared_bytes, machine.tile_bytes)
        check_tiles, check_parallel = tile_checks(nest.checked, machine)
        schedule = schedule.with_loops(tiles=(*check_tiles, *tiles, *pieces), parallel=(*parallel, *check_parallel))
        reasons = (*reasons, "bags are parallel: each is summed by one thread, in the order of its indices")
    loop = next((name for name, _ in reversed(nest.loops) if name.role in ("bag", "indices")), LoopName())
    loop = loop.inner_tile if loop in dict(schedule.tiles) else loop
    can_prefetch = schedule.row_bytes is not None and loop
    prefetches, why = _prefetches(nest, machine, loop, pieces) if can_prefetch else ((), ())
    return Choice(schedule.put(*prefetches), (*reasons, *why))


def _is_fissioned(nest: NestShape, machine: MachineModel, loop: LoopName) -> bool:
    """Return whether the rows of a bag are prefetched by a loop of their own: rows of some lines from memory."""
    return (
        machine.interleaved_times >= fixed.LEAST_INTERLEAVED_TIMES
        and loop.role == "bag"
        and nest.run_bytes > LINE_BYTES
        and machine.exceeds_last_level_cache(nest.table_bytes)
    )


def _prefetches(
    nest: NestShape, machine: MachineModel, loop: LoopName, pieces: Tiles
) -> tuple[tuple[Prefetch, ...], tuple[str, ...]]:
    """Return the prefetches of the rows of a bag, and why.

    They go on into the next bag; those of bags of one are of the rows of others.
    """
    if min(nest.read_bytes, nest.table_bytes) <= machine.l2_room_bytes:
        return (), ()
    if pieces:
        (_, elements), (_, all_elements) = pieces[0], nest.innermost
        near, _ = near_and_far_rows(
            nest, machine, loop, nest.indices * (all_elements // elements), elements * nest.width_bytes
        )
        return (near,), (f"data exceeds L2: pieces of rows are prefetched {near.ahead} indices ahead",)
    near, far = near_and_far_rows(nest, machine, loop, nest.indices)
    if not machine.exceeds_last_level_cache(nest.whole_bytes):
        return (near,), (f"data exceeds L2: rows are prefetched {near.ahead} indices ahead",)
    ahead = f"rows are prefetched {far.ahead} indices ahead"
    if not _is_fissioned(nest, machine, loop):
        return (far, near), (f"data exceeds the last cache: {ahead} into L2 and {near.ahead} into L1",)
    far, why = far.replace(separate=loop), f"{ahead}, by a loop in front of each bag"
    if nest.run_bytes <= fixed.MOST_FAR_ALONE_BYTES:
        return (far,), (why,)
    return (far, near), (why, f"and {near.ahead} ahead into L1 between them")


def _summed_rows(nest: NestShape, machine: MachineModel) -> tuple[Schedule, tuple[str, ...]]:
    """Return the schedule of rows: vectors, unless rows are short or strided."""
    width_bytes = nest.sum_bytes or nest.width_bytes
    row_bytes, least = width_bytes * nest.innermost[1], max(machine.vector_bytes // 2, 2 * width_bytes)
    if not (nest.has_plain_rows and nest.is_packed and nest.has_packed_rows) or row_bytes < least:
        return Schedule(), ("rows are short or strided: elements are added one by one",)
    vector_bytes = min(machine.wide_vector_bytes, 1 << row_bytes.bit_length() - 1)
    schedule = Schedule([SpecializeInner(nest.run_bytes), VectorizeInner(vector_bytes // width_bytes)])
    why = "their size is part of the code"
    if row_bytes <= fixed.MOST_SUMMED_BYTES:
        return schedule, (f"rows of {nest.run_bytes} B are summed in registers: {why}",)
    even_bytes = min(machine.wide_vector_bytes, row_bytes & -row_bytes)
    piece_bytes = next(size for size in range(fixed.GROUPED_PIECE_BYTES, 0, -even_bytes) if row_bytes % size == 0)
    has_pieces = even_bytes >= least and piece_bytes >= LINE_BYTES
    if has_pieces and any(name.role == "bag" for name, _ in nest.loops):
        inner = nest.innermost[0]
        tiles, order = ((inner, piece_bytes // width_bytes),), (inner.outer_tile, "bag", inner.inner_tile)
        schedule = schedule.with_loops(tiles=tiles, order=order).put(VectorizeInner(even_bytes // width_bytes))
        return schedule, (f"rows are summed in registers in pieces of {piece_bytes} B: {why}",)
    return schedule.without(SpecializeInner), ("sums of long rows stay in the first cache",)
