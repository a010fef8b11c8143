"""The pass `parallelize-sort`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ....ir.loop_name import LoopName
from ...nest.builder import NestBuilder, builder_at_end, builder_before, replace_op
from ...nest.queries import clone_slice, functions, loops
from ...schedule import steps
from .group_indices import COUNTING, EMPTYING, ENDING, PLACING


@steps.pass_of_step
class ParallelizeSort(ModulePass, steps.ParallelizeSort):
    """Share the counting sort of a gradient's indices among threads.

    The indices are cut into parts. Each part counts its own indices for every position, and writes their places behind
    those that earlier parts have for the position: so places stay in their order. Between the two one thread sums the
    counts, of all parts.

    before, of group-indices            after parallelize-sort{parts=2}, of which each has its own ends
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

    What it does not do: sum the counts on several threads. They are as many as parts and positions, so parts should be
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
        """Let an access to ends be one to those of a part, which begin at `own`."""
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
