"""The pass `prefetch`: within the scheduled nest, level 3."""

import math
from collections.abc import Iterable, Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ...nest.bounds_arithmetic import is_clamp
from ...nest.builder import (
    NestBuilder,
    builder_at_end,
    builder_at_start,
    builder_before,
    collapsed,
    erase_unused,
    made_from,
)
from ...nest.owners import LISTING
from ...nest.queries import (
    argument_number,
    clone_slice,
    depends_on,
    enclosing_loops,
    find_loop,
    functions,
    inductions_of,
    line_elements,
    loops,
    memory_of,
    slice_of,
    static_size,
    tiled_end,
)
from ...schedule import steps
from ...schedule.steps import WHOLE_ROW

MAX_TILE_AHEAD = 64  # indices of the next tile for each addition
MAX_ROWS = 4096  # of a step: MAX_LINES for each of the 64 iterations that `unroll` puts in a step at most

# A read of data or, in a gradient, an addition to the table.
Access = memref.LoadOp | vector.LoadOp | AccumulateOp


@steps.pass_of_step
class Prefetch(ModulePass, steps.Prefetch):
    """Prefetch the lines that a later iteration reads or adds to.

    A prefetch changes no value, and may have any address, so positions are not clamped for it. It pays where the line
    misses the caches, and costs time elsewhere. Two prefetches use memory best: one far ahead into L2, which has more
    outstanding misses than L1, and one nearer into L1.

    **Rows** are of data or, in a gradient, of the table that is added to. In a loop over the indices, the pass resolves
    the index `ahead` iterations ahead and prefetches the first `lines` lines of its row, none behind the row's end. A
    tile prefetches for the next one. Near the end of all tiles, and in a tile with staged indices, the last index
    replaces indices that do not exist; in the loop over a bag, the first rows of the next bag do. Position 0 replaces a
    row to which nothing is added.

    With `lines=0` it prefetches whole rows: each step of the innermost loop prefetches its own place in the later row,
    and the last element is prefetched before the loop, since a row need not begin a line. More lines than a core can
    wait for at once hold back the copy between them. If `separate` names the innermost loop, a loop over the lines of
    the row in front of it has the prefetches.

    In a loop over slices of data with a loop over the indices inside, such as the outer loop of a gather along a later
    axis, the whole slice `ahead` iterations ahead is prefetched, a part in each step over the indices: `lines` lines
    where a row is known to fit in a line; otherwise `lines` rows, each by the innermost loop.

    before                              after prefetch{what=rows loop=indices_i ahead=16 lines=1}
        for indices_i in t..end             for indices_i in t..end
          p = resolve(indices[i])             ahead = resolve(indices[min(i + 16, n - 1)])
          for inner in 0..m                   prefetch data[ahead, 0]
            out[i, j] = data[p, j]            p = resolve(indices[i])
                                              for inner in 0..m
                                                out[i, j] = data[p, j]

    **Slices** are the parts of grad that a gradient adds. Each step of the innermost loop prefetches its own place in
    the later slice. In the last iterations the last slice replaces slices that do not exist. (Processors prefetch
    consecutive rows, but not beyond a page.)

    before                              after prefetch{what=slices loop=indices ahead=1 locality=2}
        for indices in 0..n                 for indices in 0..n
          for inner in 0..m                   for inner in 0..m
            out[p, j] += grad[i, j]             prefetch grad[min(i + 1, n - 1), j]
                                                out[p, j] += grad[i, j]

    **The tile** is the next one that an owner lists. Listing a tile reads memory in order, and adding it reads and
    writes a table in a cache: listing waits for memory, adding for the cache, and neither uses both. So each addition
    also prefetches `ahead` indices of the next tile, and the elements of grad beside them, and listing finds them in
    the second cache. Behind the last tile they need not exist.

    before                              after prefetch{what=tile loop=indices_i ahead=2 locality=2}
        for indices_o in 0..n step 2048     for indices_o in 0..n step 2048
          ...                                 ...
          for indices_i in 0..count           for indices_i in 0..count step 8
            out[positions[k]] += ...            prefetch indices[end + 2 * k], 16 of them
                                                prefetch grad[end + 2 * k], 16 of them
                                                out[positions[k]] += ...

    With `separate`, the prefetches move to a loop, or nest, of their own in front of a loop (loop fission). It has the
    iterations of the old loop, and resolves the same indices; then the old loop finds the rows in the caches. Between
    the loads of rows, prefetches wait for the same buffers as the loads. A processor may drop a prefetch that finds no
    free buffer: then the rows come late, hold the buffers longer, and the next prefetches are dropped, too. In a loop
    of their own, all are under way before the first row is read. The rows of all its iterations should fit in L2.

    before                              after prefetch{what=rows loop=bag ahead=64 locality=2 separate=bag}
        for bag in 0..n                     for prefetch_bag in 0..n
          for inner in 0..m                   prefetch data[i[k + 64], 0]
            out[j] += data[i[k], j]         for bag in 0..n
                                              for inner in 0..m
                                                out[j] += data[i[k], j]

    Preconditions: vectors are made before. Rows: the loop is around a load of data, or its innermost one; it is the
    innermost loop that counts indices. Slices: the loop adds elements of grad, other ones in each iteration. Tile:
    `compact-indices` has run, and the loop is best unrolled so that an iteration prefetches whole lines. Separate: the
    loop, and those in it around the prefetches, are not parallel, and no prefetches have a loop of their own there yet.

    Input:
        gather.loop indices_i(%i) = %t to %end step %c1 { ... memref.load %data[%b, %o, %position, %j] ... }
    Output:
        gather.loop indices_i(%i) = %t to %end step %c1 {
          %ahead = arith.minsi %later, %last : index
          ...
          memref.prefetch %data[%b, %o, %position_ahead, %c0], read, locality<3>, data : memref<1x1x?x?xi32>
          ... }

    What it does not do: prefetch the table of listed elements, which is in a cache where owners list their indices.

    Raises:
        ScheduleError: an option is out of range, a precondition does not hold, or nothing that the loop reads or adds
            to depends on its induction variable.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.what != "rows" and self.lines != 1:
            raise ScheduleError(f"prefetch: lines is an option of what=rows, got lines={self.lines} for {self.what}")
        if self.what == "tile" and self.ahead > MAX_TILE_AHEAD:
            raise ScheduleError(f"prefetch: expected ahead of 1 to {MAX_TILE_AHEAD}, got {self.ahead}")
        insert = {"rows": _prefetch_rows, "slices": _prefetch_slices, "tile": _prefetch_tile}[self.what]
        for function in functions(op):
            before = _prefetches(function)
            insert(function, find_loop(function, self.loop), self)
            inserted = _prefetches(function) - before
            if self.separate is not None and not _are_by_lines(inserted, self):
                _separate(function, find_loop(function, self.separate), inserted)


def _are_by_lines(inserted: set[Operation], options: Prefetch) -> bool:
    """Return whether prefetches of whole rows have a loop over lines already."""
    return options.lines == WHOLE_ROW and any(
        isinstance(loop := op.parent_op(), LoopOp) and loop.label == LoopName(options.separate or "").beside("prefetch")
        for op in inserted
    )


def _prefetches(root: Operation) -> set[Operation]:
    return {op for op in root.walk() if isinstance(op, PrefetchOp)}


# Rows


def _prefetch_rows(function: func.FuncOp, loop: LoopOp, options: Prefetch) -> None:
    accesses = _accesses(loop)
    loads: list[Access] = [op for op in accesses if isinstance(op, AccumulateOp) and _looked_up(op, loop)]
    loads = loads or [op for op in accesses if argument_number(memory_of(op), function) == 0]
    if not loads:
        raise ScheduleError(f"prefetch: {loop.label} reads no element of data")
    positions = [place for load in loads for place in _looked_up(load, loop)]
    if any(depends_on(place, loop) for place in positions) and not inductions_of(positions, loop) - {loop.induction}:
        insert = _sweep_rows if options.lines == WHOLE_ROW else _prefetch_positions
        return insert(function, loop, loads, options)
    if options.lines == WHOLE_ROW:
        raise ScheduleError(f"prefetch: lines=0 is for rows of one index each in {loop.label}; expected 1 or more")
    if not any(depends_on(place, loop) for place in set(_subscripts(loads[0])) - set(positions)):
        raise ScheduleError(
            f"prefetch: the row of data that {loop.label} reads depends on other loops, too; "
            "prefetch in the innermost loop that counts indices"
        )
    _prefetch_in_parts(loop, loads[0], options)


def _accesses(loop: LoopOp) -> list[Access]:
    """Return the reads of elements and the additions in a loop; remainder loops in it are left out."""
    remainders = {inner for inner in loops(loop) if inner.label.is_remainder and inner is not loop}
    return [op for op in loop.walk() if isinstance(op, Access) and op.parent_op() not in remainders]


def _subscripts(access: Access) -> list[SSAValue]:
    return list(access.subscripts if isinstance(access, AccumulateOp) else access.indices)


def _looked_up(load: Access, loop: LoopOp) -> list[SSAValue]:
    """Return the subscripts that come from memory: the positions."""
    return [
        place for place in _subscripts(load) if any(isinstance(op, memref.LoadOp) for op in slice_of([place], loop))
    ]


def _last_end(function: func.FuncOp, loop: LoopOp, loads: list[Access]) -> SSAValue:
    """Return the end of the loop's last tile where prefetches may reach into the next tile, else of this tile.

    They may do so where only arguments are read: staged indices end with their tile.
    """
    read = [op.memref for load in loads for op in slice_of(_subscripts(load), loop) if isinstance(op, memref.LoadOp)]
    if any(argument_number(memory, function) is None for memory in read):
        return loop.upper
    return tiled_end(loop) or loop.upper


def _prefetch_positions(function: func.FuncOp, loop: LoopOp, loads: list[Access], options: Prefetch) -> None:
    """Resolve the indices of a later iteration at the start of this one, for the first iteration of loops inside."""
    builder = builder_at_start(loop)
    if loop.label == "bag":
        later = _in_run_of_bags(builder, loop, loads, options.ahead) or _of_later_bag(builder, loop, options.ahead)
    else:
        later = _later_iteration(builder, loop, _last_end(function, loop, loads), options.ahead)
    for load in loads:
        mask = load.mask if isinstance(load, AccumulateOp) else None
        needed = [*_subscripts(load), *([] if mask is None else [mask])]
        copied = _first_iteration(builder, loop, loop, load, needed, later)
        places = [copied.get(place, place) for place in _subscripts(load)]
        if mask is not None:  # position 0, whose line is cached, where nothing is added; a branch is mispredicted
            positions, nowhere = _looked_up(load, loop), builder.index(0)
            for dim, place in enumerate(_subscripts(load)):
                if place in positions:
                    places[dim] = builder.select(copied.get(mask, mask), places[dim], nowhere, "asked")
        lines, memory, first = NestBuilder(builder.insertion_point, load), memory_of(load), places[-1]
        for offset in range(0, options.lines * line_elements(memory), line_elements(memory)):
            last = _within(lines, memory, first, offset, len(places) - 1) if offset else first
            lines.insert(PrefetchOp(memory, [*places[:-1], last], options.locality))


def _sweep_rows(function: func.FuncOp, loop: LoopOp, loads: list[Access], options: Prefetch) -> None:
    """Resolve the index of a later iteration, and prefetch its row along with the innermost loop."""
    for load in loads:
        innermost = load.parent_op()
        if isinstance(load, AccumulateOp) or not isinstance(innermost, LoopOp) or innermost.parent_op() is not loop:
            raise ScheduleError(
                f"prefetch: lines=0 expects one loop in {loop.label}, which copies a row; use 1 or more lines"
            )
        builder, memory, subscripts = builder_at_start(loop, load), memory_of(load), _subscripts(load)
        later = _later_iteration(builder, loop, _last_end(function, loop, loads), options.ahead)
        of_row = [place for place in subscripts if not depends_on(place, innermost)]
        mapping = _clone_for_prefetch(slice_of(of_row, loop), builder, later)
        places = [mapping.get(place, place) for place in subscripts]
        last = builder.compute(arith.SubiOp, builder.size(memory, len(places) - 1, "row"), 1, "row_last")
        builder.insert(PrefetchOp(memory, [*places[:-1], last], options.locality))
        if options.separate == innermost.label:
            _prefetch_by_lines(function, innermost, load, places, options)
            continue
        _sweep(innermost, load, memory, subscripts, of_row, mapping, options)


def _prefetch_by_lines(
    function: func.FuncOp, innermost: LoopOp, load: Access, places: list[SSAValue], options: Prefetch
) -> None:
    """Prefetch a row in a loop over its lines in front of the innermost loop; rows at two distances share the loop."""
    name, memory = innermost.label.beside("prefetch"), memory_of(load)
    made = next((loop for loop in loops(function) if loop.label == name), None)
    if made is None:
        builder = builder_before(innermost)
        step = builder.index(line_elements(memory))
        bounds = builder.index(0), builder.size(memory, len(places) - 1, "row"), step
        made = builder.loop(name, bounds, innermost.induction.name_hint, load)
        builder_at_end(made, load).insert(YieldOp())
    builder_at_start(made, load).insert(PrefetchOp(memory, [*places[:-1], made.induction], options.locality))


def _sweep(
    innermost: LoopOp,
    load: Operation,
    memory: SSAValue,
    subscripts: Sequence[SSAValue],
    of_row: Sequence[SSAValue],
    mapping: dict[SSAValue, SSAValue],
    options: Prefetch,
) -> None:
    """Prefetch the place of each step of the innermost loop in a later row, whose own subscripts are mapped."""
    inside = builder_at_start(innermost, load)
    along = [place for place in subscripts if place not in of_row]
    mapping = clone_slice(slice_of(along, innermost), inside, mapping)
    inside.insert(PrefetchOp(memory, [mapping.get(place, place) for place in subscripts], options.locality))


def _in_run_of_bags(
    builder: NestBuilder, loop: LoopOp, loads: list[Access], ahead: int
) -> dict[SSAValue, SSAValue] | None:
    """Insert the loads of the indices `ahead` places ahead in all bags; None where the bags do not lie in one run.

    All bags have the same size. Where a step takes several places, these may lie in two bags.
    """
    bags, ops = loop.parent_op(), dict.fromkeys(op for load in loads for op in slice_of(_subscripts(load), loop))
    read = [op for op in ops if isinstance(op, memref.LoadOp)]
    if not isinstance(bags, LoopOp) or bags.label.role != "indices" or static_size(loop.step) != 1:
        return None
    counted = bags.induction, loop.induction
    in_order = all(
        load.indices[:2] == counted and isinstance(SSAValue.get(load.memref, type=MemRefType).type.layout, NoneAttr)
        for load in read
    )
    if not in_order or any(place in counted for op in ops if op not in read for place in op.operands):
        return None
    mapping = dict[SSAValue, SSAValue]()
    for load in read:
        rest = range(2, len(load.indices))
        run = builder.named(collapsed(load.memref, [[0, 1], *([dim] for dim in rest)]), "bags_run")
        first = builder.compute(arith.MuliOp, bags.induction, loop.upper, "first")
        later = builder.compute(arith.AddiOp, first, ahead, "first_ahead")
        later = builder.compute(arith.AddiOp, later, loop.induction, "later")
        last = builder.compute(arith.SubiOp, builder.size(run, 0, "run"), 1, "last")
        place = builder.compute(arith.MinSIOp, later, last, "ahead")
        index = made_from(load, memref.LoadOp.get(run, [place, *load.indices[2:]]))
        mapping[load.res] = builder.named(index, load.res.name_hint)
    return mapping


def _of_later_bag(builder: NestBuilder, loop: LoopOp, distance: int) -> dict[SSAValue, SSAValue]:
    """Insert the place `distance` indices ahead: in this bag, or in a later one where this one ends before.

    All bags have the same size, so it is some whole bags and some places ahead. Where a step takes several places,
    `distance` counts steps, and the place begins a step.
    """
    bags = loop.parent_op()
    if not isinstance(bags, LoopOp) or bags.label.role != "indices":
        return _later_iteration(builder, loop, loop.upper, distance)
    one, ahead = builder.index(1), builder.index(distance * (static_size(loop.step) or 1))
    size = builder.compute(arith.MaxSIOp, loop.upper, one, "bag_size")
    whole_bags = builder.compute(arith.DivUIOp, ahead, size, "whole_bags")
    places = builder.compute(arith.RemUIOp, ahead, size, "places")
    later = builder.compute(arith.AddiOp, loop.induction, places, "later")
    is_next = builder.compare("sge", later, loop.upper, "is_next")
    over = builder.compute(arith.SubiOp, later, loop.upper, "over")
    last_bag = builder.compute(arith.SubiOp, tiled_end(bags) or bags.upper, one, "last_bag")
    later_bag = builder.compute(arith.AddiOp, bags.induction, whole_bags, "later_bag")
    following = builder.compute(arith.AddiOp, later_bag, one, "following")
    this_bag = builder.compute(arith.MinSIOp, later_bag, last_bag, "this_bag")
    next_bag = builder.compute(arith.MinSIOp, following, last_bag, "next_bag")
    return {
        loop.induction: builder.select(is_next, over, later, "ahead"),
        bags.induction: builder.select(is_next, next_bag, this_bag, "bag"),
    }


def _first_iteration(
    builder: NestBuilder,
    loop: LoopOp,
    inside: LoopOp,
    load: Access,
    places: Sequence[SSAValue],
    later: dict[SSAValue, SSAValue],
) -> dict[SSAValue, SSAValue]:
    """Compute places again for a later iteration of `loop`, in the loop `inside`, and return a copy of each value.

    `later` has the induction variables of the later iteration. The loops in `inside` are at their first iterations.
    """
    around: list[LoopOp] = []
    needed = inductions_of(places, loop)
    for inner in enclosing_loops(load):
        if inner is inside:
            break
        if inner.induction in needed:
            needed |= inductions_of([inner.lower], loop)
            around.append(inner)
    mapping = dict(later)
    for inner in reversed(around):
        mapping = clone_slice(slice_of([inner.lower], loop), builder, mapping)
        mapping[inner.induction] = mapping.get(inner.lower, inner.lower)
    return _clone_for_prefetch(slice_of(places, loop), builder, mapping)


def _prefetch_in_parts(loop: LoopOp, load: Access, options: Prefetch) -> None:
    """Prefetch a part of a later slice of data in each step through this slice, whatever its indices are."""
    looked_up = _looked_up(load, loop)
    counted = _counting_loop(load, loop, looked_up)
    if counted is None:
        raise ScheduleError(
            f"prefetch: a slice of data that {loop.label} reads is prefetched in parts by a loop in it that counts "
            "indices, and there is none"
        )
    dim, step = _subscripts(load).index(looked_up[0]), static_size(counted.step) or 1
    memory, line = SSAValue.get(memory_of(load), type=MemRefType), line_elements(memory_of(load))
    sizes = memory.type.get_shape()[dim + 1 :]
    is_known = isinstance(memory.type.layout, NoneAttr) and all(size > 0 for size in sizes)
    row = math.prod(sizes)  # elements between two places of the dimension
    if not is_known or row > line:
        if options.lines * step > MAX_ROWS:
            raise ScheduleError(
                f"prefetch: {counted.label} takes {step} indices a step, and lines={options.lines} asks for "
                f"{options.lines} rows for each; a step has {MAX_ROWS} prefetches at most, so tile the loop"
            )
        innermost = load.parent_op()
        assert isinstance(innermost, LoopOp)
        return _ask_for_rows(loop, counted, innermost, load, dim, range(options.lines * step), options)
    rows_a_step = options.lines * (line // row)
    if rows_a_step % step:
        raise ScheduleError(
            f"prefetch: lines={options.lines} holds {rows_a_step} rows, and {counted.label} takes {step} indices a "
            "step; use another number of lines"
        )
    _ask_for_rows(loop, counted, counted, load, dim, range(0, rows_a_step, line // row), options)


def _counting_loop(load: Access, loop: LoopOp, looked_up: list[SSAValue]) -> LoopOp | None:
    """Return the innermost loop in `loop` on which a load's one position depends, but no other subscript."""
    if len(looked_up) != 1:
        return None
    others = [place for place in _subscripts(load) if place is not looked_up[0]]
    for around in enclosing_loops(load):
        if around is loop:
            return None
        if depends_on(looked_up[0], around) and not any(depends_on(place, around) for place in others):
            return around
    return None


def _ask_for_rows(
    loop: LoopOp, counted: LoopOp, inside: LoopOp, load: Access, dim: int, rows: range, options: Prefetch
) -> None:
    """Prefetch rows of a later slice in each iteration of a loop, other rows in each step over the indices.

    `loop` counts the slices, and `counted` the indices in it. The prefetches go into the loop `inside`: `counted`, or
    the innermost loop, which prefetches at its own place in the row. A step has `rows.stop` rows along `dim`, and
    prefetches those in `rows`.
    """
    memory, step = memory_of(load), static_size(counted.step) or 1
    builder = builder_at_start(inside)
    later = _later_iteration(builder, loop, tiled_end(loop) or loop.upper, options.ahead)
    sweep = builder.compute(arith.MuliOp, counted.induction, rows.stop // step, "sweep")
    others = [place for number, place in enumerate(_subscripts(load)) if number != dim]
    copied = _first_iteration(builder, loop, inside, load, others, later)
    places = [copied.get(place, place) for place in _subscripts(load)]
    for row in rows:
        places[dim] = _within(builder, memory, sweep, row, dim)
        builder.insert(made_from(load, PrefetchOp(memory, places, options.locality)))


def _within(builder: NestBuilder, memory: SSAValue, first: SSAValue, offset: int, dim: int) -> SSAValue:
    """Insert the place `offset` behind another along a dimension, or the last place where that comes before."""
    size = builder.size(memory, dim, "row")
    start, length = static_size(first), static_size(size)
    if start is not None and length is not None:
        return builder.index(min(start + offset, max(length - 1, 0)))
    line = builder.compute(arith.AddiOp, first, offset, "line") if offset else first
    return builder.compute(arith.MinSIOp, line, builder.compute(arith.SubiOp, size, 1, "row_last"), "row_line")


# Slices


def _prefetch_slices(function: func.FuncOp, loop: LoopOp, options: Prefetch) -> None:
    load = _added_element(loop)
    innermost, (memory, *subscripts) = next(enclosing_loops(load)), load.operands
    if inductions_of(subscripts, loop) - {loop.induction, innermost.induction}:
        raise ScheduleError(f"prefetch: slices that {loop.label} adds depend on a loop in it; expected their loop")
    builder = builder_at_start(loop, load)
    later = _later_iteration(builder, loop, _end_of_slices(loop), options.ahead)
    of_row = [place for place in subscripts if not inductions_of([place], loop) - {loop.induction}]
    mapping = clone_slice(slice_of(of_row, loop), builder, later)
    if innermost is not loop:
        return _sweep(innermost, load, memory, subscripts, of_row, mapping, options)
    builder.insert(PrefetchOp(memory, [mapping.get(place, place) for place in subscripts], options.locality))


def _end_of_slices(loop: LoopOp) -> SSAValue:
    """Return the end of a loop; a loop over the places of a position has the end of all places."""
    for use in loop.induction.uses:
        load = use.operation
        if isinstance(load, memref.LoadOp) and isinstance(load.memref.owner, memref.AllocOp):
            return load.memref.owner.dynamic_sizes[0]
    return loop.upper


def _added_element(loop: LoopOp) -> memref.LoadOp | vector.LoadOp:
    """Return the load of the element that a loop adds."""
    for op in _accesses(loop):
        if isinstance(op, AccumulateOp):
            load = op.element.owner
            if isinstance(load, memref.LoadOp | vector.LoadOp) and any(
                depends_on(place, loop) for place in load.operands[1:]
            ):
                return load
    raise ScheduleError(f"prefetch: {loop.label} adds no elements of grad that depend on its iteration")


# The next tile


def _prefetch_tile(function: func.FuncOp, loop: LoopOp, options: Prefetch) -> None:
    end, loads = _listed(function, loop)
    builder = builder_at_start(loop)
    step = static_size(loop.step) or 1
    offset = builder.compute(arith.MuliOp, loop.induction, options.ahead, "ahead")
    first = builder.compute(arith.AddiOp, end, offset, "next")
    for load, dim in loads:
        for place in range(0, options.ahead * step, line_elements(load.memref)):
            there = builder.compute(arith.AddiOp, first, place, "next") if place else first
            subscripts = [there if number == dim else value for number, value in enumerate(load.indices)]
            builder.insert(PrefetchOp(load.memref, subscripts, options.locality))


def _listed(function: func.FuncOp, loop: LoopOp) -> tuple[SSAValue, list[tuple[memref.LoadOp, int]]]:
    """Return the end of the tile that a loop adds, and a load of its indices and one of its elements, each with the
    dimension along which it reads them.
    """
    name = loop.label.beside(LISTING)
    listings = [listing for listing in loops(function) if listing.label in (name, name.remainder)]
    if not listings:
        raise ScheduleError(f"prefetch: nothing is listed for {loop.label}; run compact-indices first")
    last = listings[-1]
    found: dict[SSAValue, tuple[memref.LoadOp, int]] = {}
    for op in last.walk():
        if isinstance(op, memref.LoadOp) and argument_number(op.memref, function) is not None:
            along = [dim for dim, place in enumerate(op.indices) if place is last.induction]
            found |= {op.memref: (op, along[0])} if along else {}
    return last.upper, list(found.values())


# A loop of their own


def _separate(function: func.FuncOp, loop: LoopOp, inserted: set[Operation]) -> None:
    """Move prefetches to a copy of a loop in front of it."""
    if loop.label.beside("prefetch") in {other.label for other in loops(function)}:
        raise ScheduleError(f"prefetch: prefetches of {loop.label} have a loop of their own already")
    if loop.parallel is not None:
        raise ScheduleError(f"prefetch: {loop.label} is parallel, so separate names a loop in it")
    prefetches = [op for op in loop.walk() if op in inserted]
    if len(prefetches) < len(inserted):
        raise ScheduleError(f"prefetch: separate={loop.label} expects the loop of the prefetches, or one around it")
    around = set[Operation]()
    for op in prefetches:
        while op is not loop:
            parent = op.parent_op()
            if not isinstance(parent, LoopOp) or parent.parallel is not None:
                raise ScheduleError(
                    f"prefetch: expected prefetches in {loop.label} in loops alone, which are not parallel"
                )
            around.add(op := parent)
    bounds = [bound for op in around if isinstance(op, LoopOp) for bound in (op.lower, op.upper, op.step)]
    needed = slice_of([*(place for op in prefetches for place in op.operands), *bounds], loop)
    if any(op.regions for op in needed):
        raise ScheduleError(f"prefetch: prefetches in {loop.label} need the result of a loop in it")
    _copy(loop, builder_before(loop), {*needed, *prefetches}, around, {})
    for op in prefetches:
        Rewriter.erase_op(op)
    erase_unused(needed)


def _copy(
    loop: LoopOp,
    builder: NestBuilder,
    copied: set[Operation],
    around: set[Operation],
    mapping: dict[SSAValue, SSAValue],
) -> None:
    """Insert a copy of a loop with the operations `copied` in it, and of the loops `around` them."""
    bounds = [mapping.get(bound, bound) for bound in (loop.lower, loop.upper, loop.step)]
    name, kind = loop.label.beside("prefetch"), {"ordered": loop.ordered is not None}
    made = builder.loop(name, bounds, loop.induction.name_hint, loop, sums=False, parallel=False, **kind)
    mapping[loop.induction] = made.induction
    inner = builder_at_end(made, loop)
    for op in loop.body.block.ops:
        if op in around and isinstance(op, LoopOp):
            _copy(op, inner, copied, around, mapping)
        elif op in copied:
            mapping |= clone_slice([op], inner, mapping)
    inner.insert(YieldOp())


# All of them


def _later_iteration(builder: NestBuilder, loop: LoopOp, end: SSAValue, distance: int) -> dict[SSAValue, SSAValue]:
    """Insert the induction value `distance` iterations ahead, clamped to the last one before `end`, and map it.

    Raises:
        ScheduleError: the value may not fit in an index.
    """
    step = static_size(loop.step) or 1
    if distance * step >= 2**62:  # half of the largest index; the induction variable is added to it
        raise ScheduleError(
            f"prefetch: {distance} iterations ahead of {loop.label} are {distance * step} places, which no index "
            "holds; use a smaller distance or step"
        )
    later = builder.compute(arith.AddiOp, loop.induction, distance * step, "later")
    last = builder.compute(arith.SubiOp, end, step, "last")
    return {loop.induction: builder.compute(arith.MinSIOp, later, last, "ahead")}


def _clone_for_prefetch(
    ops: Iterable[Operation], builder: NestBuilder, values: Mapping[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """Clone operations as `clone_slice` does, without the clamps of positions: a prefetch may have any address."""
    mapping = dict(values)
    for op in ops:
        if is_clamp(op):
            mapping[op.results[0]] = mapping.get(op.operands[0], op.operands[0])
        else:
            mapping = clone_slice([op], builder, mapping)
    return mapping
