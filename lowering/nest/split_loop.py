"""Splitting a loop in one that takes several iterations at a time and the rest."""

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ...ir.dialects.gather_dialect import LoopOp
from .builder import index_constant
from .queries import static_size, static_trips

REST = "_rest"
"""What the name of a loop ends with that runs the iterations which do not fill a vector."""
HEAD = "_head"
"""What the name of a loop ends with that runs the iterations before the first aligned one."""


def split_off_rest(loop: LoopOp, count: int) -> tuple[LoopOp, bool]:
    """Put an empty loop of steps of `count` before a loop of step 1, which is left with what does not fill a step.

    Returns:
        The new loop, which takes over the name and has no terminator yet, and whether any rest may be left; where it
        is known that none is, the loop is left as it was, for the caller to take what it needs and erase it.
    """
    builder = Builder(InsertPoint.before(loop))
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = loop.induction.name_hint
    trips = static_trips(loop)
    has_rest = trips is None or trips % count != 0
    end = whole_end(builder, loop.lower, loop.upper, count) if has_rest else loop.upper
    made = builder.insert(LoopOp(loop.label, loop.lower, end, index_constant(builder, count), body))
    if has_rest:
        loop.loop_name = StringAttr(loop.label + REST)
        loop.operands[0] = end
    return made, has_rest


def overlapping_rest(whole: LoopOp, rest: LoopOp) -> LoopOp | None:
    """Put an empty loop of one step in place of a rest, which ends where the rest does and begins among what is done.

    The caller takes what it needs of the rest and erases it.

    Args:
        whole: the loop of whole steps that `split_off_rest` has made.
        rest: what it has left.

    Returns:
        The new loop, which has no terminator yet; None where it is not known that there is a rest behind a whole step.
    """
    first, last, count = static_size(whole.lower), static_size(rest.upper), static_size(whole.step)
    if first is None or last is None or count is None or last - first <= count:
        return None
    builder = Builder(InsertPoint.before(rest))
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = rest.induction.name_hint
    begin = index_constant(builder, last - count)
    return builder.insert(LoopOp(rest.label, begin, rest.upper, whole.step, body))


def whole_end(builder: Builder, lower: SSAValue, upper: SSAValue, count: int) -> SSAValue:
    """Insert the largest end up to `upper` that whole steps of `count` from `lower` reach."""
    first, last = static_size(lower), static_size(upper)
    if first is not None and last is not None:
        return index_constant(builder, last - (last - first) % count)
    trips = upper
    if static_size(lower) != 0:
        trips = builder.insert(arith.SubiOp(upper, lower)).result
        trips.name_hint = "trips"
    rest = builder.insert(arith.RemUIOp(trips, index_constant(builder, count))).result
    rest.name_hint = "rest"
    whole = builder.insert(arith.SubiOp(upper, rest)).result
    whole.name_hint = "whole"
    return whole
