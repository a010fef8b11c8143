"""The passes `group-indices` and `parallelize-sort`: a counting sort of the indices of a gradient, level 3."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, ModuleOp, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ...nest.builder import NestBuilder, builder_at_end, builder_at_start, builder_before, erase_unused, replace_op
from ...nest.queries import (
    clone_slice,
    enclosing_loops,
    find_loop,
    functions,
    inductions_of,
    loops,
    slice_of,
    static_size,
    view_of,
)
from ...schedule import steps

# The names of the four nests of a sort.
EMPTYING, COUNTING, ENDING, PLACING = "empty", "count", "end", "place"


@steps.pass_of_step
class GroupIndices(ModulePass, steps.GroupIndices):
    """Sort indices by position, and then add up the slices of each position.

    This is a counting sort: it counts the indices of each position, sums the counts, and writes the place of each index
    behind the earlier places of its position. So the places of a position, and its additions, stay in order. The loop
    that adds goes through the positions, and through the places of each: its iterations are independent, and where the
    sums are in registers (`promote-sums`), it reads nothing of out.

    before                              after group-indices{loop=indices}
        for indices in 0..n                 for count_indices in 0..n
          p = resolve(indices[i])             positions[i] = p = resolve(indices[i])
          out[p] += grad[i]                   ends[p + 2] += 1
                                            for end_axis in 1..n_axis + 3
                                              ends[a] += ends[a - 1]
                                            for place_indices in 0..n
                                              p = positions[i]
                                              places[ends[p + 1]] = i
                                              ends[p + 1] += 1
                                            for axis in 0..n_axis
                                              for bag in ends[a]..ends[a + 1]
                                                out[a] += grad[places[k]]

    Indices that add nothing are placed behind the last position. Each index is read once: another thread that writes to
    it meanwhile cannot make counts and places disagree. The memory is taken before out is cleared, so a call that
    gets none leaves out as it was.

    Preconditions: the loop over the indices of a gradient is in no other loop, and neither tiled nor parallel; there
    are no owners.

    Input:
        gather.loop ordered indices(%i) = %c0 to %n step %c1 { ... gather.accumulate %element, %out[%b, %o, %p, %j] }
    Output:
        %ends = memref.alloc(%n_ends) : memref<?xi64>
        %places = memref.alloc(%n) : memref<?xi64>
        %positions = memref.alloc(%n) : memref<?xi64>
        ...
        gather.loop axis(%axis) = %c0 to %n_axis step %c1 {
          gather.loop ordered bag(%k) = %begin to %end step %c1 {
            %place = memref.load %places[%k] : memref<?xi64>
            ... gather.accumulate %element, %out[%b, %o, %axis, %j] ... }}
        memref.dealloc %positions : memref<?xi64>
        memref.dealloc %places : memref<?xi64>
        memref.dealloc %ends : memref<?xi64>

    What it does not do: sort on several threads, which `parallelize-sort` does; sort indices of batches, or tuples.

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _group(function, find_loop(function, self.loop))


def _group(function: func.FuncOp, loop: LoopOp) -> None:
    accumulate, dim = _check(loop)
    view = view_of(accumulate.memref, function)
    axis = LoopName("axis") if view is None else view.dims[dim]
    builder = builder_before(loop)
    zero, one = builder.index(0), builder.index(1)
    size = builder.size(accumulate.memref, dim, "grouped")
    n_ends = builder.compute(arith.AddiOp, size, 3, "n_ends")
    counts = {"ends": n_ends, "places": loop.upper, "positions": loop.upper}
    memories = [
        builder.named(memref.AllocOp.get(i64, None, [DYNAMIC_INDEX], [count]), name) for name, count in counts.items()
    ]
    _sort(builder, loop, (accumulate.subscripts[dim], accumulate.mask), (axis, size, n_ends), memories)
    assert loop.parent is not None
    for op in [op for op in loop.parent.ops if isinstance(op, LoopOp) and op.label.nest == "clear"]:
        op.detach()  # out is cleared behind the sort, which takes memory
        builder.insert(op)
    ends, places, _ = memories
    _add(builder, loop, accumulate, dim, (axis, size), (ends, places), (zero, one))
    for memory in reversed(memories):
        builder.insert(memref.DeallocOp.get(memory))
    replace_op(loop, (), [])


def _sort(
    builder: NestBuilder,
    loop: LoopOp,
    found: tuple[SSAValue, SSAValue | None],
    owned: tuple[LoopName, SSAValue, SSAValue],
    memories: Sequence[SSAValue],
) -> None:
    """Build the loops that sort the iterations of `loop` by position; iterations that add nothing come last."""
    (axis, size, n_ends), (ends, places, positions) = owned, memories
    zero, one, two = (builder.index(number) for number in range(3))
    none = builder.constant(0, i64, "none")
    each = builder.constant(1, i64, "each")

    inner, number = _loop(builder, axis.beside(EMPTYING), (zero, n_ends, one), loop)
    inner.insert(memref.StoreOp.get(none, ends, [number]))
    inner.insert(YieldOp())

    inner, number = _loop(builder, loop.label.beside(COUNTING), (zero, loop.upper, one), loop)
    position, valid = found
    copy = clone_slice(slice_of([position, *([] if valid is None else [valid])], loop), inner, {loop.induction: number})
    position, hint = copy[position], position.name_hint
    if valid is not None:  # an index that adds nothing has the number of positions
        position = inner.select(copy[valid], position, size, hint)
    wide = inner.cast(position, i64, position.name_hint)
    inner.insert(memref.StoreOp.get(wide, positions, [number]))
    _change(inner, ends, inner.compute(arith.AddiOp, position, two, "counted"), each)

    inner, number = _loop(builder, axis.beside(ENDING), (one, n_ends, one), loop)
    before = inner.compute(arith.SubiOp, number, one, "before")
    _change(inner, ends, number, inner.load(ends, [before], "so_far"))

    inner, number = _loop(builder, loop.label.beside(PLACING), (zero, loop.upper, one), loop)
    stored = inner.load(positions, [number], "position")
    position = inner.cast(stored, IndexType(), "position")
    place = inner.compute(arith.AddiOp, position, one, "grouped")
    end = inner.load(ends, [place], "end")
    free = inner.cast(end, IndexType(), "free")
    wide = inner.cast(number, i64, "place")
    inner.insert(memref.StoreOp.get(wide, places, [free]))
    inner.insert(memref.StoreOp.get(inner.compute(arith.AddiOp, end, each, "end"), ends, [place]))
    inner.insert(YieldOp())


def _add(
    builder: NestBuilder,
    loop: LoopOp,
    accumulate: AccumulateOp,
    dim: int,
    owned: tuple[LoopName, SSAValue],
    memories: tuple[SSAValue, SSAValue],
    constants: tuple[SSAValue, SSAValue],
) -> None:
    """Build the loop over the positions, and in it the loop over the places of each, with the body of `loop`."""
    (axis, size), (ends, places), (zero, one) = owned, memories, constants
    rows = builder.loop(axis, (zero, size, one), axis.induction, loop)
    inner = builder_at_end(rows, loop)
    behind = inner.compute(arith.AddiOp, rows.induction, one, "behind")
    first, last = (
        inner.cast(inner.load(ends, [at], name), IndexType(), name)
        for at, name in ((rows.induction, "begin"), (behind, "end"))
    )
    subscripts = [rows.induction if at == dim else place for at, place in enumerate(accumulate.subscripts)]
    made = AccumulateOp(accumulate.element, accumulate.memref, subscripts, None)
    position = [accumulate.subscripts[dim], *([] if accumulate.mask is None else [accumulate.mask])]
    Rewriter.replace_op(accumulate, made)
    erase_unused(slice_of(position, loop))
    body = loop.detach_region(loop.body)
    bag = inner.insert(LoopOp(LoopName("bag"), first, last, one, body, sums=False, parallel=False, ordered=True))
    inside = list(bag.induction.uses)
    start = builder_at_start(bag)
    wide = start.load(places, [bag.induction], "place")
    place = start.cast(wide, IndexType(), bag.induction.name_hint)
    for use in inside:
        use.operation.operands[use.index] = place
    bag.induction.name_hint = "k"
    inner.insert(YieldOp())


def _loop(
    builder: NestBuilder, name: LoopName, bounds: tuple[SSAValue, SSAValue, SSAValue], source: LoopOp
) -> tuple[NestBuilder, SSAValue]:
    made = builder.loop(name, bounds, name.induction, source, ordered=True)
    return builder_at_end(made, source), made.induction


def _change(inner: NestBuilder, ends: SSAValue, place: SSAValue, more: SSAValue) -> None:
    """Add to an element of `ends`, and end the loop."""
    before = inner.load(ends, [place], "count")
    after = inner.compute(arith.AddiOp, before, more, "count")
    inner.insert(memref.StoreOp.get(after, ends, [place]))
    inner.insert(YieldOp())


def _check(loop: LoopOp) -> tuple[AccumulateOp, int]:
    """Return the addition, and the dimension of the table that the indices select from."""
    found = [op for op in loop.walk() if isinstance(op, AccumulateOp)]
    if len(found) != 1 or loop.ordered is None or loop.label.role != "indices":
        raise ScheduleError(f"group-indices: expected {loop.label} to be the loop over the indices of a gradient")
    if next(enclosing_loops(loop), None) is not None or static_size(loop.lower) != 0 or static_size(loop.step) != 1:
        raise ScheduleError(f"group-indices: expected {loop.label} to stand in no other loop, and not to be tiled")
    accumulate, own = found[0], {loop.induction}
    moving = [dim for dim, place in enumerate(accumulate.subscripts) if loop.induction in inductions_of([place], loop)]
    masks = [] if accumulate.mask is None else [accumulate.mask]
    if len(moving) != 1 or inductions_of([accumulate.subscripts[moving[0]], *masks], loop) != own:
        raise ScheduleError(f"group-indices: not every iteration of {loop.label} adds one slice to one position")
    return accumulate, moving[0]


@steps.pass_of_step
class ParallelizeSort(ModulePass, steps.ParallelizeSort):
    """Share the counting sort of a gradient's indices among threads.

    The indices are cut into parts. Each part counts its own indices for every position, and writes their places behind
    the places that earlier parts have for the position, so that places stay in order. In between, one thread sums the
    counts of all parts.

    before                              after parallelize-sort{parts=2}
        for empty_axis in 0..n_ends         parallel for count_indices_o in 0..2
          ends[a] = 0                         for empty_axis in 0..n_ends
        for count_indices in 0..n               ends[part][a] = 0
          ends[positions[i] + 2] += 1         for count_indices_i in part
                                                ends[part][positions[i] + 2] += 1
        for end_axis in 1..n_ends           for end_axis in 1..n_ends
          ends[a] += ends[a - 1]              ends[0][a] = ends[1][a] + ends[1][a - 1]
                                              ends[1][a] = ends[0][a] + ends[0][a + 1]
        for place_indices in 0..n           parallel for place_indices_o in 0..2
          places[ends[...]] = i               for place_indices_i in part
                                                places[ends[part][...]] = i
        for axis in 0..n_axis               for axis in 0..n_axis
          ... ends[a]..ends[a + 1] ...        ... ends[1][a]..ends[1][a + 1] ...

    Preconditions: `group-indices` has run, and nothing after it.

    Input:
        %ends = memref.alloc(%n_ends) : memref<?xi64>
        gather.loop ordered count_indices(%count_indices) = %c0 to %n step %c1 { ... }
    Output:
        %all_ends = arith.muli %n_ends, %c2 : index
        %ends = memref.alloc(%all_ends) : memref<?xi64>
        gather.loop parallel count_indices_o(%part) = %c0 to %c2 step %c1 { ...
          gather.loop ordered count_indices_i(%count_indices) = %first to %last step %c1 { ... } }

    What it does not do: sum the counts on several threads. Each part has a count for every position, so parts should be
    few where positions are many.

    Raises:
        ScheduleError: a precondition does not hold, or `parts` is out of range.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _Sort(function, self.parts).share()


class _Sort:
    """The loops of a counting sort."""

    def __init__(self, function: func.FuncOp, parts: int):
        found = {loop.label.partition("_")[0]: loop for loop in loops(function)}
        if not {COUNTING, PLACING, EMPTYING, ENDING} <= found.keys():
            raise ScheduleError("parallelize-sort: expected indices that are sorted; run group-indices first")
        self._count, self._place, self._empty, self._end = (
            found[name] for name in (COUNTING, PLACING, EMPTYING, ENDING)
        )
        if any(loop.parallel is not None for loop in loops(function)):
            raise ScheduleError("parallelize-sort: a loop is parallel already; run it right after group-indices")
        self._parts = parts
        (emptied,) = [op for op in self._empty.body.block.ops if isinstance(op, memref.StoreOp)]
        self._ends = emptied.memref

    def share(self) -> None:
        """Make the loops parallel."""
        allocation = self._ends.owner
        assert isinstance(allocation, memref.AllocOp)
        (self._n_ends,) = allocation.dynamic_sizes
        builder = builder_before(allocation)
        self._zero, self._one = builder.index(0), builder.index(1)
        self._n_parts = builder.index(self._parts)
        all_ends = builder.compute(arith.MuliOp, self._n_ends, self._n_parts, "all_ends")
        last = builder.index(self._parts - 1)
        self._last = builder.compute(arith.MuliOp, self._n_ends, last, "last_part")
        size = self._count.upper
        padded = builder.compute(arith.AddiOp, size, last, "padded")
        self._share = builder.compute(arith.DivUIOp, padded, self._n_parts, "share")
        sorted_ = {self._count, self._place, self._empty, self._end}
        uses = [use.operation for use in self._ends.uses]
        others = [op for op in uses if not any(loop.is_ancestor(op) for loop in sorted_)]
        for op in others:
            if isinstance(op, memref.LoadOp):
                self._shift(op, self._last)
        allocation.operands[0] = all_ends
        self._part_of(self._count, [self._empty])
        self._part_of(self._place, [])
        self._sum_counts()
        replace_op(self._empty, (), [])

    def _part_of(self, loop: LoopOp, before: list[LoopOp]) -> None:
        """Cut a loop over the indices into parts, which are parallel; in each, the loops before it come first."""
        builder = builder_before(loop)
        bounds = self._zero, self._n_parts, self._one
        around = builder.loop(loop.label.outer_tile, bounds, "part", loop, parallel=True)
        inner = builder_at_end(around, loop)
        own = inner.compute(arith.MuliOp, around.induction, self._n_ends, "own")
        first = inner.compute(arith.MuliOp, around.induction, self._share, "first")
        behind = inner.compute(arith.AddiOp, first, self._share, "behind")
        last = inner.compute(arith.MinSIOp, behind, loop.upper, "last")
        for other in before:
            self._copy(inner, other, other.label, (other.lower, other.upper), own)
        self._copy(inner, loop, loop.label.inner_tile, (first, last), own)
        inner.insert(YieldOp())
        replace_op(loop, (), [])

    def _copy(
        self, builder: NestBuilder, loop: LoopOp, name: LoopName, bounds: tuple[SSAValue, SSAValue], own: SSAValue
    ) -> None:
        """Copy a loop, with other bounds and a part's own ends."""
        made = builder.loop(name, (*bounds, loop.step), loop.induction.name_hint, loop, ordered=True)
        inner = builder_at_end(made, loop)
        clone_slice(list(loop.body.block.ops)[:-1], inner, {loop.induction: made.induction})
        inner.insert(YieldOp())
        for op in list(made.body.block.ops):
            if isinstance(op, memref.LoadOp | memref.StoreOp) and op.memref is self._ends:
                self._shift(op, own)

    def _shift(self, op: memref.LoadOp | memref.StoreOp, own: SSAValue) -> None:
        """Make an access to ends read or write the ends of a part, which begin at `own`."""
        (place,) = op.indices
        shifted = builder_before(op).compute(arith.AddiOp, own, place, place.name_hint)
        op.operands[list(op.operands).index(place)] = shifted

    def _sum_counts(self) -> None:
        loop = self._end
        builder = builder_before(loop)
        bounds = loop.lower, loop.upper, loop.step
        made = builder.loop(loop.label, bounds, loop.induction.name_hint, loop, ordered=True)
        inner = builder_at_end(made, loop)

        def place(part: int, of: SSAValue) -> SSAValue:
            if part == 0:
                return of
            begin = self._last
            if part != self._parts - 1:
                begin = inner.compute(arith.MuliOp, self._n_ends, part, "part")
            return inner.compute(arith.AddiOp, begin, of, "end")

        def count(at: SSAValue) -> SSAValue:
            return inner.load(self._ends, [at], "count")

        before = inner.compute(arith.SubiOp, made.induction, self._one, "before")
        after = inner.compute(arith.AddiOp, made.induction, self._one, "after")
        final = self._parts - 1
        sum_ = inner.compute(arith.AddiOp, count(place(final, made.induction)), count(place(final, before)), "so_far")
        inner.insert(memref.StoreOp.get(sum_, self._ends, [made.induction]))
        for part in range(1, self._parts):
            sum_ = inner.compute(arith.AddiOp, sum_, count(place(part - 1, after)), "so_far")
            inner.insert(memref.StoreOp.get(sum_, self._ends, [place(part, made.induction)]))
        inner.insert(YieldOp())
        replace_op(loop, (), [])
