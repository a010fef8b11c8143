"""The pass `parallelize-loops`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from ...ir.dialect import LoopOp
from ...ir.errors import ScheduleError
from ..nest import enclosing_loops, find_loop, functions


@dataclass(frozen=True)
class ParallelizeLoops(ModulePass):
    """Let threads share the iterations of the outermost loops.

    Parallel loops that stand directly in each other are shared as one: their iterations are numbered through. So both
    a long list of rows and thousands of tiny batches fill the cores.

    before                              after parallelize-loops{loops=batch,indices_o}
        for batch in 0..n                   parallel for batch in 0..n
          for indices_o in 0..m step 64       parallel for indices_o in 0..m step 64
            for indices_i in ...                for indices_i in ...

    Preconditions: the loops exist; each is outermost or directly in a parallel loop; no two of their iterations write
    the same element, and the bounds of none come from another.

    Options:
        loops: names of the loops, outermost first.

    Input:
        gather.loop indices_o(%i_o) = %c0 to %n step %c64 { ... }
    Output:
        gather.loop parallel indices_o(%i_o) = %c0 to %n step %c64 { ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    name = "parallelize-loops"

    loops: tuple[str, ...]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for loop_name in self.loops:
                _parallelize(find_loop(function, loop_name))


def _parallelize(loop: LoopOp) -> None:
    outside = list(enclosing_loops(loop))
    if outside and outside[0].parallel is None:
        raise ScheduleError(
            f"parallelize-loops: {loop.label} stands in {outside[0].label}, which is not parallel; "
            "make that parallel first, or interchange the two"
        )
    for other in outside:
        if any(_derives_from(bound, other.induction) for bound in (loop.lower, loop.upper, loop.step)):
            raise ScheduleError(
                f"parallelize-loops: the bounds of {loop.label} come from {other.label}; "
                "only one of them can be parallel"
            )
    for store in loop.walk():
        if isinstance(store, memref.StoreOp) and not _writes_apart(store, loop):
            raise ScheduleError(f"parallelize-loops: iterations of {loop.label} would write the same element")
    loop.parallel = UnitAttr()


def _writes_apart(store: memref.StoreOp, loop: LoopOp) -> bool:
    """Return whether different iterations of `loop` write different elements.

    They do when a subscript of the store is the loop's counter, or that of a loop which starts at it (a tile).
    """
    return any(_is_counter(subscript, loop) for subscript in store.indices)


def _is_counter(value: SSAValue, loop: LoopOp) -> bool:
    if value is loop.induction:
        return True
    owner = value.owner
    if not isinstance(owner, Block) or not isinstance(parent := owner.parent_op(), LoopOp):
        return False
    return parent.lower is loop.induction


def _derives_from(value: SSAValue, counter: SSAValue) -> bool:
    if value is counter:
        return True
    return not isinstance(value.owner, Block) and any(
        _derives_from(operand, counter) for operand in value.owner.operands
    )
