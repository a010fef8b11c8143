"""Splitting a loop in one that takes several iterations at a time and the rest."""

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from ..ir.dialect import LoopOp
from .nest import static_size, static_trips
from .nest_builder import index_constant

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


def whole_end(builder: Builder, lower: SSAValue, upper: SSAValue, count: int) -> SSAValue:
    """Insert the largest end up to `upper` that whole steps of `count` from `lower` reach."""
    trips = upper
    if static_size(lower) != 0:
        trips = builder.insert(arith.SubiOp(upper, lower)).result
        trips.name_hint = "trips"
    rest = builder.insert(arith.RemUIOp(trips, index_constant(builder, count))).result
    rest.name_hint = "rest"
    whole = builder.insert(arith.SubiOp(upper, rest)).result
    whole.name_hint = "whole"
    return whole
