"""The pass `prefetch-slices`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ....ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ....ir.dialects.types import element_size_bytes
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, depends_on, inductions_of, slice_of
from ...nest.builder import index_constant
from ...nest.located import builder_at_start
from ...nest.prefetching import MOST_DISTANCE, check_ranges, later_iteration
from ...nest.queries import enclosing_loops, find_loop, functions, loops, static_size
from ...schedule.machine_model import LINE_BYTES

MOST_LINES = 64


@dataclass(frozen=True)
class PrefetchSlices(ModulePass):
    """Prefetch the slices that a gradient adds in a later iteration.

    A row of known size is prefetched whole, at the start of the iteration: its lines, and that of its last element,
    since a row need not begin a line. Of a row of any size, each step of the innermost loop prefetches the same place
    in the later row. In the last iterations the last row stands for those that do not exist.

    A processor prefetches rows that follow each other itself, but not beyond a page; and what it prefetches where an
    owner adds every other row is the rows between.

    before                              after prefetch-slices{loop=indices distance=1 locality=2}
        for indices in 0..n                 for indices in 0..n
          for inner in 0..m                   for inner in 0..m
            out[p, j] += grad[i, j]             prefetch grad[min(i + 1, n - 1), j]
                                                out[p, j] += grad[i, j]

    Preconditions: the loop adds elements of grad, other ones in each iteration; vectors are made before.

    Options:
        loop: name of the loop.
        distance: iterations ahead, 1 to 4096.
        locality: 3 for every cache, 2 from the second cache on, 0 for none.

    Input:
        gather.loop ordered indices(%i) = %c0 to %n step %c1 { ... gather.accumulate %element, %out[...] }
    Output:
        gather.loop ordered indices(%i) = %c0 to %n step %c1 {
          %ahead = arith.minsi %later, %last : index
          memref.prefetch %grad[%b, %o, %ahead, %c0], read, locality<2>, data : memref<1x1x?x16xf32>
          ... }

    What it does not do: prefetch the rows that are added to; `prefetch-indices` does.

    Raises:
        ScheduleError: an option is out of range, or no addition in the loop depends on its induction variable.
    """

    name = "prefetch-slices"

    loop: str
    distance: int = 1
    locality: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_ranges(self.name, ("distance", self.distance, 1, MOST_DISTANCE), ("locality", self.locality, 0, 3))
        for function in functions(op):
            self._prefetch(function, find_loop(function, self.loop))

    def _prefetch(self, function: func.FuncOp, loop: LoopOp) -> None:
        load = _added_element(loop)
        innermost = next(enclosing_loops(load))
        memory = SSAValue.get(load.operands[0], type=MemRefType)
        line = max(LINE_BYTES // element_size_bytes(memory.type.element_type), 1)
        row = memory.type.get_shape()[-1]
        is_row = innermost is not loop and load.operands[-1] is innermost.induction
        is_whole = is_row and 0 < row <= MOST_LINES * line and static_size(innermost.lower) == 0
        if is_whole and inductions_of(load.operands[1:-1], loop) - {loop.induction}:
            raise ScheduleError(
                f"prefetch-slices: where the rows lie that {loop.label} adds depends on a loop inside of it; expected "
                "the loop that counts them"
            )
        builder = builder_at_start(loop, load)
        mapping = {loop.induction: later_iteration(self.name, builder, loop, _end(loop), self.distance)}
        of_row = [place for place in load.operands[1:] if not inductions_of([place], loop) - {loop.induction}]
        mapping = clone_slice(slice_of(of_row, loop), builder, mapping)
        if not is_whole and innermost is not loop:
            builder = builder_at_start(innermost, load)
            mapping = clone_slice(
                slice_of([place for place in load.operands[1:] if place not in of_row], loop), builder, mapping
            )
        places = [mapping.get(place, place) for place in load.operands[1:]]
        ends = [*range(0, row, line), row - 1] if is_whole else []
        for last in [index_constant(builder, end) for end in dict.fromkeys(ends)] or places[-1:]:
            builder.insert(PrefetchOp(memory, [*places[:-1], last], self.locality))


def _end(loop: LoopOp) -> SSAValue:
    """Return the end of a loop; of one over the places of a position, that of all places."""
    for use in loop.induction.uses:
        load = use.operation
        if isinstance(load, memref.LoadOp) and isinstance(load.memref.owner, memref.AllocOp):
            return load.memref.owner.dynamic_sizes[0]
    return loop.upper


def _added_element(loop: LoopOp) -> memref.LoadOp | vector.LoadOp:
    """Return the load of what a loop adds, not that of its remainder loop."""
    remainders = {inner for inner in loops(loop) if inner.label.is_remainder and inner is not loop}
    for op in loop.walk():
        if isinstance(op, AccumulateOp) and op.parent_op() not in remainders:
            load = op.element.owner
            if isinstance(load, memref.LoadOp | vector.LoadOp) and any(
                depends_on(place, loop) for place in load.operands[1:]
            ):
                return load
    raise ScheduleError(f"prefetch-slices: {loop.label} adds no elements of grad that depend on its iteration")
