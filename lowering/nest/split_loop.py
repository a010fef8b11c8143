"""Splitting a loop into one that takes several iterations at a time and a remainder loop."""

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ...ir.dialects.gather_dialect import LoopOp
from .builder import NestBuilder, builder_before, kind_of
from .queries import static_size, static_trips


def split_off_remainder(loop: LoopOp, count: int) -> tuple[LoopOp, bool]:
    """Put an empty loop of steps of `count` before a loop of step 1, which becomes the remainder loop.

    Returns:
        The new loop, which takes over the name and has no terminator yet, and whether iterations may remain; where none
        do, the old loop is unchanged, and the caller erases it.
    """
    builder = builder_before(loop)
    trips = static_trips(loop)
    has_remainder = trips is None or trips % count != 0
    end = whole_end(builder, loop.lower, loop.upper, count) if has_remainder else loop.upper
    bounds = loop.lower, end, builder.index(count)
    made = builder.loop(loop.label, bounds, loop.induction.name_hint)
    if has_remainder:
        loop.label = loop.label.remainder
        loop.operands[0] = end
    return made, has_remainder


def split_off_steps(loop: LoopOp, count: int) -> LoopOp:
    """Put an empty loop of the same kind, in steps of `count`, before a loop of step 1, which becomes its remainder.

    The new loop takes over the name, and has no terminator yet.
    """
    builder = builder_before(loop)
    end = whole_end(builder, loop.lower, loop.upper, count)
    bounds = loop.lower, end, builder.index(count)
    made = builder.loop(loop.label, bounds, loop.induction.name_hint, loop, **kind_of(loop))
    loop.label, loop.operands[0] = loop.label.remainder, end
    return made


def overlapping_remainder(whole: LoopOp, remainder: LoopOp) -> LoopOp | None:
    """Insert an empty loop of one step that ends with a remainder loop and overlaps the step before it.

    The caller erases the remainder loop. None where a remainder behind one of the `whole` steps is not certain.
    """
    first, last, count = static_size(whole.lower), static_size(remainder.upper), static_size(whole.step)
    if first is None or last is None or count is None or last - first <= count:
        return None
    builder = builder_before(remainder)
    bounds = builder.index(last - count), remainder.upper, whole.step
    return builder.loop(remainder.label, bounds, remainder.induction.name_hint)


def split_overlapping(loop: LoopOp, count: int, least: int, most: int) -> tuple[LoopOp, LoopOp] | None:
    """Put empty loops in steps of `count` before a loop of step 1 from 0, whose steps from both ends overlap.

    The caller erases the old loop.

    Args:
        loop: a loop of `least` iterations or more, and of `most` or fewer; 0 for any number.
        count: iterations a step.
        least, most: fix the numbers of steps at both ends; with any number there is one at the end.

    Returns:
        The loops; None where so few iterations are not whole steps from both ends.
    """
    if loop.parallel is not None or static_size(loop.lower) != 0 or static_size(loop.step) != 1 or least < count:
        return None
    first = least // count * count if most else 0
    behind = -(-(most - first) // count) * count if most else count
    if behind > least:
        return None
    builder, none, size = builder_before(loop), loop.lower, loop.upper
    step = builder.index(count)
    start = builder.compute(arith.SubiOp, size, behind, "last")
    end = builder.index(first) if most else start
    whole = builder.loop(loop.label, (none, end, step), loop.induction.name_hint)
    rest = builder.loop(loop.label.remainder, (start, size, step), loop.induction.name_hint)
    return whole, rest


def induction_of_copy(builder: NestBuilder, loop: LoopOp, copy: int) -> SSAValue:
    """Insert the induction value of the copy of a body that is `copy` iterations ahead in a loop of several."""
    if copy == 0:
        return loop.induction
    ahead = arith.AddiOp(loop.induction, builder.index(copy))
    return builder.named(ahead, f"{loop.induction.name_hint}_{copy}")


def whole_end(builder: NestBuilder, lower: SSAValue, upper: SSAValue, count: int) -> SSAValue:
    """Insert the largest end up to `upper` that whole steps of `count` from `lower` reach."""
    first, last = static_size(lower), static_size(upper)
    if first is not None and last is not None:
        return builder.index(last - (last - first) % count)
    trips = upper
    if static_size(lower) != 0:
        trips = builder.compute(arith.SubiOp, upper, lower, "trips")
    rest = builder.compute(arith.RemUIOp, trips, count, "rest")
    return builder.compute(arith.SubiOp, upper, rest, "whole")
