"""The pass `prefetch-indices`: within the scheduled nest, level 3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, depends_on, inductions_of, slice_of
from ...nest.builder import index_constant, named, size_of
from ...nest.located import builder_at, builder_at_start, made_from
from ...nest.prefetching import MOST_DISTANCE, check_ranges, clone_for_prefetch, later_iteration
from ...nest.queries import (
    argument_number,
    enclosing_loops,
    find_loop,
    functions,
    loops,
    memory_of,
    static_size,
    tiled_end,
)
from ...nest.vector_checks import collapsed
from ...schedule.machine_model import LINE_BYTES
from ...schedule.schedule import WHOLE_ROW
from ...schedule.thresholds import MOST_PREFETCHED_LINES

MOST_ROWS = 4096  # of a step; MOST_PREFETCHED_LINES for each of the 64 iterations that `unroll` makes one at most

# A read of data or, in a gradient, an addition to the table.
Access = memref.LoadOp | vector.LoadOp | AccumulateOp


@dataclass(frozen=True)
class PrefetchIndices(ModulePass):
    """Prefetch the lines of data that a later iteration reads.

    In a loop over the indices, the pass resolves the index `distance` iterations ahead and prefetches the first `lines`
    lines of its row, none behind the row's end. A tile prefetches for the next one. Near the end of all tiles, and in a
    tile with staged indices, the last index stands for those that do not exist.

    With `lines=0` it prefetches the whole row: each step of the innermost loop prefetches its own place in the later
    row, and the last element is prefetched before them, since a row need not begin a line. More lines than a core can
    wait for at once hold back the copy between them.

    In a loop over slices of data with a loop over the indices inside, such as the outer loop of a gather along a later
    axis, it prefetches the whole slice `distance` iterations ahead, a part in each step over the indices: `lines` lines
    where a row is known to fit in a line; otherwise `lines` rows, each by the innermost loop.

    In a gradient it prefetches the rows that are added to, and position 0 where nothing is added. In the loop over a
    bag, the last iterations prefetch the first rows of the next bag.

    A prefetch changes no value, and may have any address, so positions are not clamped for it. It pays where the table
    misses the caches, and costs elsewhere. Two of them use memory best: one far ahead into L2, which has more
    outstanding misses than L1, and one nearer into L1.

    before                              after prefetch-indices{loop=indices_i distance=16 lines=1}
        for indices_i in t..end             for indices_i in t..end
          p = resolve(indices[i])             ahead = resolve(indices[min(i + 16, n - 1)])
          for inner in 0..m                   prefetch data[ahead, 0]
            out[i, j] = data[p, j]            p = resolve(indices[i])
                                              for inner in 0..m
                                                out[i, j] = data[p, j]

    Preconditions: the loop is around a load of data, or its innermost one; of the loops that count indices, it is the
    innermost; vectors are made before.

    Options:
        loop: name of the loop.
        distance: iterations ahead, 1 to 4096; steps, where the loop takes several elements at a time.
        lines: of 64 bytes, a row or a step, or rows a step, 1 to 64; 0 for the whole row, by the innermost loop.
        locality: 3 keeps the line in every cache, 0 in none after its use.

    Input:
        gather.loop indices_i(%i) = %t to %end step %c1 { ... memref.load %data[%b, %o, %position, %j] ... }
    Output:
        gather.loop indices_i(%i) = %t to %end step %c1 {
          %ahead = arith.minsi %later, %last : index
          ...
          memref.prefetch %data[%b, %o, %position_ahead, %c0], read, locality<3>, data : memref<1x1x?x?xi32>
          ... }

    Raises:
        ScheduleError: an option is out of range, or no load in the loop depends on its induction variable.
    """

    name = "prefetch-indices"

    loop: str
    distance: int = 16
    lines: int = 1
    locality: int = 3

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_ranges(
            self.name,
            ("distance", self.distance, 1, MOST_DISTANCE),
            ("lines", self.lines, WHOLE_ROW, MOST_PREFETCHED_LINES),
            ("locality", self.locality, 0, 3),
        )
        for function in functions(op):
            _prefetch(function, find_loop(function, self.loop), self)


def _prefetch(function: func.FuncOp, loop: LoopOp, options: PrefetchIndices) -> None:
    loads = _table_accesses(function, loop)
    if not loads:
        raise ScheduleError(f"prefetch-indices: {loop.label} reads no element of data")
    looked_up = [_looked_up(load, loop) for load in loads]
    positions = [place for places in looked_up for place in places]
    if any(depends_on(place, loop) for place in positions) and not inductions_of(positions, loop) - {loop.induction}:
        if options.lines == WHOLE_ROW:
            return _sweep_rows(function, loop, loads, options)
        return _prefetch_positions(function, loop, loads, options)
    if options.lines == WHOLE_ROW:
        raise ScheduleError(
            f"prefetch-indices: lines=0 is for rows of one index each in {loop.label}; expected 1 or more"
        )
    if not any(depends_on(place, loop) for place in set(_subscripts(loads[0])) - set(positions)):
        raise ScheduleError(
            f"prefetch-indices: the row of data that {loop.label} reads depends on other loops, too; "
            "prefetch in the innermost loop that counts indices"
        )
    _prefetch_rows(loop, loads[0], options)


def _table_accesses(function: func.FuncOp, loop: LoopOp) -> list[Access]:
    """Return the loads of data in a loop, or a gradient's additions, without those of remainder loops."""
    remainders = {inner for inner in loops(loop) if inner.label.is_remainder and inner is not loop}
    accesses = [op for op in loop.walk() if isinstance(op, Access) and op.parent_op() not in remainders]
    sums: list[Access] = [op for op in accesses if isinstance(op, AccumulateOp) and _looked_up(op, loop)]
    return sums or [op for op in accesses if argument_number(memory_of(op), function) == 0]


def _subscripts(access: Access) -> list[SSAValue]:
    return list(access.subscripts if isinstance(access, AccumulateOp) else access.indices)


def _looked_up(load: Access, loop: LoopOp) -> list[SSAValue]:
    """Return the subscripts that come from memory: the positions."""
    return [
        place for place in _subscripts(load) if any(isinstance(op, memref.LoadOp) for op in slice_of([place], loop))
    ]


def _line_elements(memory: SSAValue) -> int:
    element = SSAValue.get(memory, type=MemRefType).type.element_type
    return max(LINE_BYTES // element_size_bytes(element), 1)


def _last_end(function: func.FuncOp, loop: LoopOp, loads: list[Access]) -> SSAValue:
    """Return the end of the loop's last tile where prefetches may reach into the next tile, else of this tile.

    They may where only arguments are read: staged indices end with their tile.
    """
    read = [op.memref for load in loads for op in slice_of(_subscripts(load), loop) if isinstance(op, memref.LoadOp)]
    if any(argument_number(memory, function) is None for memory in read):
        return loop.upper
    return tiled_end(loop) or loop.upper


def _prefetch_positions(function: func.FuncOp, loop: LoopOp, loads: list[Access], options: PrefetchIndices) -> None:
    """Resolve the indices of a later iteration at the start of this one; loops inside stand at their first ones."""
    builder = builder_at_start(loop)
    if loop.label == "bag":
        later = _in_run_of_bags(builder, loop, loads, options.distance)
        later = later or _of_later_bag(builder, loop, options.distance)
    else:
        end = _last_end(function, loop, loads)
        later = {loop.induction: later_iteration(options.name, builder, loop, end, options.distance)}
    for load in loads:
        mask = load.mask if isinstance(load, AccumulateOp) else None
        needed = [*_subscripts(load), *([] if mask is None else [mask])]
        copied = _first_iteration(builder, loop, loop, load, needed, later)
        places = [copied.get(place, place) for place in _subscripts(load)]
        if mask is not None:
            _stay_near(builder, loop, load, places, copied.get(mask, mask))
        _insert_lines(builder_at(builder.insertion_point, load), memory_of(load), places, options)


def _sweep_rows(function: func.FuncOp, loop: LoopOp, loads: list[Access], options: PrefetchIndices) -> None:
    """Resolve the index of a later iteration, and prefetch its row along with the innermost loop."""
    for load in loads:
        innermost = load.parent_op()
        if isinstance(load, AccumulateOp) or not isinstance(innermost, LoopOp) or innermost.parent_op() is not loop:
            raise ScheduleError(
                f"prefetch-indices: lines=0 expects one loop in {loop.label}, which copies a row; use 1 or more lines"
            )
        builder, memory, subscripts = builder_at_start(loop, load), memory_of(load), _subscripts(load)
        end = _last_end(function, loop, loads)
        later = {loop.induction: later_iteration(options.name, builder, loop, end, options.distance)}
        of_row = [place for place in subscripts if not depends_on(place, innermost)]
        mapping = clone_for_prefetch(slice_of(of_row, loop), builder, later)
        places = [mapping.get(place, place) for place in subscripts]
        last = named(
            builder,
            arith.SubiOp(size_of(builder, memory, len(places) - 1, "row"), index_constant(builder, 1)),
            "row_last",
        )
        builder.insert(PrefetchOp(memory, [*places[:-1], last], options.locality))
        inside = builder_at_start(innermost, load)
        along = [place for place in subscripts if place not in of_row]
        mapping = clone_slice(slice_of(along, innermost), inside, mapping)
        inside.insert(PrefetchOp(memory, [mapping.get(place, place) for place in subscripts], options.locality))


def _in_run_of_bags(
    builder: Builder, loop: LoopOp, loads: list[Access], distance: int
) -> dict[SSAValue, SSAValue] | None:
    """Insert the loads of the indices `distance` places ahead in all bags, which lie in one run; None elsewhere.

    All bags have as many places. Where a step takes several places they need not lie in one bag.
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
        run = named(builder, collapsed(load.memref, [[0, 1], *([dim] for dim in rest)]), "bags_run")
        first = named(builder, arith.MuliOp(bags.induction, loop.upper), "first")
        later = named(builder, arith.AddiOp(first, index_constant(builder, distance)), "first_ahead")
        later = named(builder, arith.AddiOp(later, loop.induction), "later")
        last = named(builder, arith.SubiOp(size_of(builder, run, 0, "run"), index_constant(builder, 1)), "last")
        ahead = named(builder, arith.MinSIOp(later, last), "ahead")
        index = made_from(load, memref.LoadOp.get(run, [ahead, *load.indices[2:]]))
        mapping[load.res] = named(builder, index, load.res.name_hint)
    return mapping


def _of_later_bag(builder: Builder, loop: LoopOp, distance: int) -> dict[SSAValue, SSAValue]:
    """Insert the place `distance` indices ahead: in this bag, or in a later one where this one ends before.

    All bags have as many places, so it is some whole bags and some places ahead. Where a step takes several places,
    `distance` counts steps, and what is ahead begins one.
    """
    bags = loop.parent_op()
    if not isinstance(bags, LoopOp) or bags.label.role != "indices":
        return {loop.induction: later_iteration(PrefetchIndices.name, builder, loop, loop.upper, distance)}
    one, ahead = index_constant(builder, 1), index_constant(builder, distance * (static_size(loop.step) or 1))
    size = named(builder, arith.MaxSIOp(loop.upper, one), "bag_size")
    whole_bags = named(builder, arith.DivUIOp(ahead, size), "whole_bags")
    places = named(builder, arith.RemUIOp(ahead, size), "places")
    later = named(builder, arith.AddiOp(loop.induction, places), "later")
    is_next = named(builder, arith.CmpiOp(later, loop.upper, "sge"), "is_next")
    over = named(builder, arith.SubiOp(later, loop.upper), "over")
    last_bag = named(builder, arith.SubiOp(tiled_end(bags) or bags.upper, one), "last_bag")
    later_bag = named(builder, arith.AddiOp(bags.induction, whole_bags), "later_bag")
    following = named(builder, arith.AddiOp(later_bag, one), "following")
    this_bag = named(builder, arith.MinSIOp(later_bag, last_bag), "this_bag")
    next_bag = named(builder, arith.MinSIOp(following, last_bag), "next_bag")
    return {
        loop.induction: named(builder, arith.SelectOp(is_next, over, later), "ahead"),
        bags.induction: named(builder, arith.SelectOp(is_next, next_bag, this_bag), "bag"),
    }


def _stay_near(builder: Builder, loop: LoopOp, access: Access, places: list[SSAValue], wanted: SSAValue) -> None:
    """Select position 0, whose line is cached, where nothing is added: a branch would be mispredicted too often."""
    nowhere = index_constant(builder, 0)
    for dim, place in enumerate(_subscripts(access)):
        if place in _looked_up(access, loop):
            places[dim] = named(builder, arith.SelectOp(wanted, places[dim], nowhere), "asked")


def _first_iteration(
    builder: Builder,
    loop: LoopOp,
    inside: LoopOp,
    load: Access,
    places: Sequence[SSAValue],
    later: dict[SSAValue, SSAValue],
) -> dict[SSAValue, SSAValue]:
    """Insert places again, for a later iteration of `loop`, and return what stands for each value they come from.

    `later` has the induction variables there. The loops in `inside`, the loop that they are inserted in, stand at their
    first iterations.
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
    return clone_for_prefetch(slice_of(places, loop), builder, mapping)


def _prefetch_rows(loop: LoopOp, load: Access, options: PrefetchIndices) -> None:
    """Prefetch a part of a later slice in each step through this one, whatever its indices are."""
    looked_up = _looked_up(load, loop)
    counted = _counting_loop(load, loop, looked_up)
    if counted is None:
        raise ScheduleError(
            f"prefetch-indices: a slice of data that {loop.label} reads is prefetched in parts by a loop in it that "
            "counts indices, and there is none"
        )
    dim, step = _subscripts(load).index(looked_up[0]), static_size(counted.step) or 1
    row, line = _static_row(load, dim), _line_elements(memory_of(load))
    if row is None or row > line:
        if options.lines * step > MOST_ROWS:
            raise ScheduleError(
                f"prefetch-indices: {counted.label} takes {step} indices a step, and lines={options.lines} asks for "
                f"{options.lines} rows for each; a step has {MOST_ROWS} prefetches at most, so tile the loop"
            )
        innermost = load.parent_op()
        assert isinstance(innermost, LoopOp)
        return _ask_for_rows(loop, counted, innermost, load, dim, range(options.lines * step), options)
    rows_a_step = options.lines * (line // row)
    if rows_a_step % step:
        raise ScheduleError(
            f"prefetch-indices: lines={options.lines} holds {rows_a_step} rows, and {counted.label} takes {step} "
            "indices a step; use another number of lines"
        )
    _ask_for_rows(loop, counted, counted, load, dim, range(0, rows_a_step, line // row), options)


def _counting_loop(load: Access, loop: LoopOp, looked_up: list[SSAValue]) -> LoopOp | None:
    """Return the innermost loop in `loop` that decides nothing of a load but its one position, and that in steps."""
    if len(looked_up) != 1:
        return None
    others = [place for place in _subscripts(load) if place is not looked_up[0]]
    for around in enclosing_loops(load):
        if around is loop:
            return None
        if depends_on(looked_up[0], around) and not any(depends_on(place, around) for place in others):
            return around
    return None


def _static_row(load: Access, dim: int) -> int | None:
    """Return how many elements lie between two places of a dimension of data, or None where the code does not know."""
    memory = SSAValue.get(memory_of(load), type=MemRefType).type
    sizes = memory.get_shape()[dim + 1 :]
    is_packed = isinstance(memory.layout, NoneAttr)
    return math.prod(sizes) if is_packed and all(size > 0 for size in sizes) else None


def _ask_for_rows(
    loop: LoopOp, counted: LoopOp, inside: LoopOp, load: Access, dim: int, rows: range, options: PrefetchIndices
) -> None:
    """Prefetch rows of a later slice in each iteration of a loop, other rows in each step over the indices.

    `loop` counts the slices, and `counted` the indices in it. The prefetches go inside that, or inside the innermost
    loop, which prefetches at its own place in the row. A step has `rows.stop` rows along `dim`, some of which it gets.
    """
    memory, step = memory_of(load), static_size(counted.step) or 1
    builder = builder_at_start(inside)
    ahead = later_iteration(options.name, builder, loop, tiled_end(loop) or loop.upper, options.distance)
    sweep = named(builder, arith.MuliOp(counted.induction, index_constant(builder, rows.stop // step)), "sweep")
    others = [place for number, place in enumerate(_subscripts(load)) if number != dim]
    copied = _first_iteration(builder, loop, inside, load, others, {loop.induction: ahead})
    places = [copied.get(place, place) for place in _subscripts(load)]
    for row in rows:
        places[dim] = _within(builder, memory, sweep, row, dim)
        builder.insert(made_from(load, PrefetchOp(memory, places, options.locality)))


def _insert_lines(builder: Builder, memory: SSAValue, places: list[SSAValue], options: PrefetchIndices) -> None:
    """Insert the prefetch of lines that begin at a place and follow each other along the last dimension."""
    dim = len(places) - 1
    for line in range(options.lines):
        at = list(places)
        if line:
            at[dim] = _within(builder, memory, places[dim], line * _line_elements(memory), dim)
        builder.insert(PrefetchOp(memory, at, options.locality))


def _within(builder: Builder, memory: SSAValue, first: SSAValue, offset: int, dim: int) -> SSAValue:
    """Insert the place so far behind another along a dimension; the last one, where it would lie behind that."""
    size = size_of(builder, memory, dim, "row")
    start, length = static_size(first), static_size(size)
    if start is not None and length is not None:
        return index_constant(builder, min(start + offset, max(length - 1, 0)))
    line = first
    if offset:
        line = named(builder, arith.AddiOp(first, index_constant(builder, offset)), "line")
    last = named(builder, arith.SubiOp(size, index_constant(builder, 1)), "row_last")
    return named(builder, arith.MinSIOp(line, last), "row_line")
