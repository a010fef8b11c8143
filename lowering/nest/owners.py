"""The loop over owners, and the addition that each owner does to its positions: for passes after `owner-computes`."""

from collections.abc import Iterator

from xdsl.dialects import arith, func
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ...ir.errors import ScheduleError
from .queries import loops

OWNERS = "owners"
LISTING = "compact"


def owned_sum(function: func.FuncOp, name: str) -> tuple[LoopOp, AccumulateOp, int]:
    """Return the loop over owners, the addition in it, and the dimension of the table whose positions they own.

    Raises:
        ScheduleError: the pass `name` runs before `owner-computes`, or on a function that is no gradient.
    """
    for loop in loops(function):
        if loop.label == OWNERS:
            for op in loop.walk():
                test = _owned_test(op, loop) if isinstance(op, AccumulateOp) else None
                if isinstance(op, AccumulateOp) and test is not None and isinstance(test.lhs.owner, arith.SubiOp):
                    return loop, op, list(op.subscripts).index(test.lhs.owner.lhs)
    raise ScheduleError(f"{name}: expected a loop {OWNERS}, whose iterations own positions; run owner-computes first")


def is_owned(accumulate: AccumulateOp, loop: LoopOp) -> bool:
    """Return whether a mask selects positions that no other iteration of a loop adds to.

    An iteration owns the positions from its induction variable up to the next iteration's.
    """
    test = _owned_test(accumulate, loop)
    return test is not None and arith.CMPI_COMPARISON_OPERATIONS[test.predicate.value.data] == "ult"


def ends_within(loop: LoopOp, step: SSAValue) -> bool:
    """Return whether a loop ends at most `step` behind its beginning."""
    ends = operands_of(loop.upper, arith.MinSIOp)
    return any(isinstance(end.owner, arith.AddiOp) and set(end.owner.operands) == {loop.lower, step} for end in ends)


def loop_of(value: SSAValue) -> LoopOp | None:
    """Return the loop whose induction variable a value is."""
    parent = value.owner.parent_op() if isinstance(value.owner, Block) else None
    return parent if isinstance(parent, LoopOp) else None


def operands_of(value: SSAValue, kind: type[Operation]) -> list[SSAValue]:
    """Return the operands of the operation of a kind that computes a value; the value where another does."""
    return list(value.owner.operands) if isinstance(value.owner, kind) else [value]


def _owned_test(accumulate: AccumulateOp, owners: LoopOp) -> arith.CmpiOp | None:
    """Return the comparison that says whether an owner has the position of an addition: `position - first < part`."""
    for value in conjuncts(accumulate.mask):
        test = value.owner
        if isinstance(test, arith.CmpiOp) and test.rhs is owners.step and isinstance(test.lhs.owner, arith.SubiOp):
            position, first = test.lhs.owner.operands
            if first is owners.induction and position in accumulate.subscripts:
                return test
    return None


def conjuncts(mask: SSAValue | None) -> Iterator[SSAValue]:
    """Yield the conditions whose conjunction a mask is."""
    if mask is None:
        return
    if isinstance(mask.owner, arith.AndIOp):
        for operand in mask.owner.operands:
            yield from conjuncts(operand)
        return
    yield mask
