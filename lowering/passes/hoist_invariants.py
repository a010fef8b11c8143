"""The pass `hoist-invariants`: within the scheduled nest, level 3."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator, is_side_effect_free

from ...ir.dialect import LoopOp
from ..nest import functions, loops

_PURE = (arith.ExtSIOp, arith.RemUIOp)
"""Operations that xDSL 0.74 does not know to be pure; the divisor of `remui` is the size of an axis, never 0."""


@dataclass(frozen=True)
class HoistInvariants(ModulePass):
    """Move what a loop's counter does not change out of the loop.

    So an index is loaded and resolved once a row, not once an element. A load moves when nothing in the function
    stores to its memref; it stays inside the loops that its subscripts come from, where they are in range.

    before                              after
        for indices in 0..n                 for indices in 0..n
          for inner in 0..m                   p = resolve(indices[i])
            p = resolve(indices[i])           for inner in 0..m
            out[i, j] = data[p, j]              out[i, j] = data[p, j]

    Preconditions: none.

    Input:
        gather.loop inner(%j) = ... { %index = memref.load %indices[%b, %i] : memref<1x?xi64> ... }
    Output:
        %index = memref.load %indices[%b, %i] : memref<1x?xi64>
        gather.loop inner(%j) = ... { ... }

    What it does not do: resolve the indices of all rows ahead of an outer loop; that needs a buffer, and is a pass of
    its own.
    """

    name = "hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            written = {inner.memref for inner in function.walk() if isinstance(inner, memref.StoreOp)}
            for loop in reversed(loops(function)):
                _hoist(loop, written)


def _hoist(loop: LoopOp, written: set[SSAValue]) -> None:
    for op in list(loop.body.block.ops):
        if _may_move(op, written) and not any(_is_inside(operand, loop) for operand in op.operands):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(loop))


def _may_move(op: Operation, written: set[SSAValue]) -> bool:
    if op.regions or op.has_trait(IsTerminator):
        return False
    if isinstance(op, memref.LoadOp):
        return op.memref not in written and len(op.indices) > 0
    return is_side_effect_free(op) or isinstance(op, _PURE)


def _is_inside(value: SSAValue, loop: LoopOp) -> bool:
    """Return whether a value is defined in the loop's body."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    return block is loop.body.block
