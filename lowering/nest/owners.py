"""The loop over owners, and the addition that each owner does to its positions: for passes after `owner-computes`."""

from collections.abc import Iterator

from xdsl.dialects import arith, func
from xdsl.ir import Block, Operation, SSAValue

from ...ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ...ir.errors import ScheduleError
from .queries import loops, static_size

OWNERS = "owners"
LISTING = "compact"


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
    test = _owned_test(accumulate, owners)
    position = None if test is None else _offset_of(test).operands[0]
    return None if position is None else list(accumulate.subscripts).index(position)


def owned_test(accumulate: AccumulateOp, owners: LoopOp) -> arith.CmpiOp:
    """Return the comparison that says whether an owner has the position of an addition that `owned_sum` found."""
    test = _owned_test(accumulate, owners)
    assert test is not None
    return test


def interleaved_period(accumulate: AccumulateOp, owners: LoopOp) -> int | None:
    """Return how many positions all owners have a block of, after `interleave-owners`; None before it."""
    within = owned_test(accumulate, owners).lhs.owner
    last = static_size(within.rhs) if isinstance(within, arith.AndIOp) else None
    return None if last is None else last + 1


def is_owned(accumulate: AccumulateOp, loop: LoopOp) -> bool:
    """Return whether a mask selects positions that no other iteration of a loop adds to.

    They are those from the induction variable to before its next step, or all blocks of that many positions that begin
    at multiples of a power of two behind them.
    """
    test = _owned_test(accumulate, loop)
    if test is None or arith.CMPI_COMPARISON_OPERATIONS[test.predicate.value.data] != "ult":
        return False
    return isinstance(test.lhs.owner, arith.SubiOp) or _takes_turns(loop, interleaved_period(accumulate, loop))


def has_blocks_of(blocks: LoopOp, owners: LoopOp) -> bool:
    """Return whether a loop runs over the beginnings of the blocks that an owner has in turn with the others."""
    return blocks.lower is owners.induction and _takes_turns(owners, static_size(blocks.step))


def _takes_turns(owners: LoopOp, period: int | None) -> bool:
    """Return whether a loop runs over the beginnings of some of the blocks that a power of two of positions has."""
    block, ends = static_size(owners.step), operands_of(owners.upper, arith.MinSIOp)
    return (
        period is not None
        and period & (period - 1) == 0
        and block is not None
        and period % block == 0
        and static_size(owners.lower) == 0
        and any((end := static_size(value)) is not None and end <= period for value in ends)
    )


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
    for value in conjuncts(accumulate.mask):
        test = value.owner
        if isinstance(test, arith.CmpiOp) and test.rhs is owners.step and isinstance(_offset_of(test), arith.SubiOp):
            position, first = _offset_of(test).operands
            if first is owners.induction and position in accumulate.subscripts:
                return test
    return None


def _offset_of(test: arith.CmpiOp) -> Operation:
    """Return what computes how far a position is behind an owner's first one; the test where nothing does."""
    within = test.lhs.owner
    offset = within.lhs.owner if isinstance(within, arith.AndIOp) else within
    return offset if isinstance(offset, Operation) else test


def conjuncts(mask: SSAValue | None) -> Iterator[SSAValue]:
    """Yield the truths that a mask is the conjunction of."""
    if mask is None:
        return
    if isinstance(mask.owner, arith.AndIOp):
        for operand in mask.owner.operands:
            yield from conjuncts(operand)
        return
    yield mask
