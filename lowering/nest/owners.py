"""The loop over owners, and the addition that each owner does to its positions: for passes after `owner-computes`."""

from collections.abc import Iterator

from xdsl.dialects import arith, func
from xdsl.ir import SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ...ir.errors import ScheduleError
from .queries import loops

OWNERS = "owners"


def owned_sum(function: func.FuncOp, name: str) -> tuple[LoopOp, AccumulateOp, int]:
    """Return the loop over owners, the addition in it, and the dimension of the table whose positions they own.

    Raises:
        ScheduleError: the pass of that name runs before `owner-computes`, or on what is no gradient.
    """
    for loop in loops(function):
        if loop.label == OWNERS:
            for op in loop.walk():
                if isinstance(op, AccumulateOp) and (dim := _owned_dim(op, loop)) is not None:
                    return loop, op, dim
    raise ScheduleError(f"{name}: expected a loop {OWNERS}, whose iterations own positions; run owner-computes first")


def _owned_dim(accumulate: AccumulateOp, owners: LoopOp) -> int | None:
    """Return the dimension whose subscript the mask compares with the positions of an owner."""
    for value in conjuncts(accumulate.mask):
        test = value.owner
        if isinstance(test, arith.CmpiOp) and test.rhs is owners.step and isinstance(test.lhs.owner, arith.SubiOp):
            position, first = test.lhs.owner.operands
            if first is owners.induction and position in accumulate.subscripts:
                return list(accumulate.subscripts).index(position)
    return None


def conjuncts(mask: SSAValue | None) -> Iterator[SSAValue]:
    """Yield the truths that a mask is the conjunction of."""
    if mask is None:
        return
    if isinstance(mask.owner, arith.AndIOp):
        for operand in mask.owner.operands:
            yield from conjuncts(operand)
        return
    yield mask
