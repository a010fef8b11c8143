"""The pass `fission-prefetches`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.dialects.upstream import PrefetchOp
from ....ir.errors import ScheduleError
from ...nest.backward_slice import clone_slice, slice_of
from ...nest.builder import insert_loop
from ...nest.located import builder_at_end, builder_before
from ...nest.prefetching import check_ranges
from ...nest.queries import find_loop, functions, loops


@dataclass(frozen=True)
class FissionPrefetches(ModulePass):
    """Give prefetches in a loop a loop of their own in front of it.

    Loop fission: the new loop, or nest, has the same iterations, resolves the same indices and prefetches the same
    lines. Behind it, the old one reads what is in the caches; prefetches of another locality stay in it.

    Prefetches between the loads of rows wait for the same buffers as these. A processor may drop those that find no
    free one: then the rows come late, hold the buffers longer, and the next prefetches are dropped, too. In a loop of
    their own, they are all under way before the first row is read.

    before                              after fission-prefetches{loop=bag locality=2}
        for bag in 0..n                     for prefetch_bag in 0..n
          prefetch data[i[k + 64], 0]         prefetch data[i[k + 64], 0]
          for inner in 0..m                 for bag in 0..n
            out[j] += data[i[k], j]           for inner in 0..m
                                                out[j] += data[i[k], j]

    Preconditions: the loop is not parallel, and such prefetches are in it, in no branch; that has not been done before.
    The rows of all its iterations should fit in L2.

    Options:
        loop: its name.
        locality: of the prefetches, 0 to 3: 2 for those from the second cache on.

    Input:
        gather.loop ordered bag(%k) = %c0 to %n step %c1 {
          memref.prefetch %data[%position, %c0], read, locality<2>, data : memref<?x64xf32>
          ... }
    Output:
        gather.loop ordered prefetch_bag(%k) = %c0 to %n step %c1 {
          memref.prefetch %data[%position, %c0], read, locality<2>, data : memref<?x64xf32> }
        gather.loop ordered bag(%k) = %c0 to %n step %c1 { ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    name = "fission-prefetches"

    loop: str
    locality: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_ranges(self.name, ("locality", self.locality, 0, 3))
        for function in functions(op):
            loop, names = find_loop(function, self.loop), {loop.label for loop in loops(function)}
            if loop.label.beside("prefetch") in names:
                raise ScheduleError(f"fission-prefetches: prefetches of {loop.label} have a loop of their own already")
            _fission(loop, self.locality)


def _fission(loop: LoopOp, locality: int) -> None:
    prefetches = [op for op in loop.walk() if isinstance(op, PrefetchOp) and op.locality.value.data == locality]
    if loop.parallel is not None:
        raise ScheduleError(f"fission-prefetches: {loop.label} is parallel; name a loop in it")
    if not prefetches:
        raise ScheduleError(
            f"fission-prefetches: there are no prefetches of locality {locality} in {loop.label}; run prefetch-indices "
            "first"
        )
    around = set[Operation]()
    for op in prefetches:
        while op is not loop:
            parent = op.parent_op()
            if not isinstance(parent, LoopOp) or parent.parallel is not None:
                raise ScheduleError(
                    f"fission-prefetches: expected prefetches in {loop.label} in loops alone, which are not parallel"
                )
            around.add(op := parent)
    bounds = [bound for op in around if isinstance(op, LoopOp) for bound in (op.lower, op.upper, op.step)]
    needed = slice_of([*(place for op in prefetches for place in op.operands), *bounds], loop)
    if any(op.regions for op in needed):
        raise ScheduleError(f"fission-prefetches: prefetches in {loop.label} need the result of a loop in it")
    _copy(loop, builder_before(loop), {*needed, *prefetches}, around, {})
    for op in prefetches:
        Rewriter.erase_op(op)
    for op in reversed(needed):
        if not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def _copy(
    loop: LoopOp, builder: Builder, copied: set[Operation], around: set[Operation], mapping: dict[SSAValue, SSAValue]
) -> None:
    """Insert a loop with copies of some operations in it, and of those in the loops `around` them."""
    bounds = [mapping.get(bound, bound) for bound in (loop.lower, loop.upper, loop.step)]
    name, kind = loop.label.beside("prefetch"), {"ordered": loop.ordered is not None}
    made = insert_loop(builder, name, bounds, loop.induction.name_hint, loop, sums=False, parallel=False, **kind)
    mapping[loop.induction] = made.induction
    inner = builder_at_end(made, loop)
    for op in loop.body.block.ops:
        if op in around and isinstance(op, LoopOp):
            _copy(op, inner, copied, around, mapping)
        elif op in copied:
            mapping |= clone_slice([op], inner, mapping)
    inner.insert(YieldOp())
