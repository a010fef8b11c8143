"""What the passes that prefetch have in common: the ranges of their options, and the iteration that they read ahead."""

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ...ir.dialects.gather_dialect import LoopOp
from ...ir.errors import ScheduleError
from .builder import index_constant, named
from .queries import static_size

MOST_DISTANCE = 4096


def check_ranges(by: str, *ranges: tuple[str, int, int, int]) -> None:
    """Check options of a pass, each as (name, value, least, most); raises ScheduleError."""
    for name, value, least, most in ranges:
        if not least <= value <= most:
            raise ScheduleError(f"{by}: expected {name} of {least} to {most}, got {value}")


def later_iteration(by: str, builder: Builder, loop: LoopOp, end: SSAValue, distance: int) -> SSAValue:
    """Insert the induction value `distance` iterations ahead, clamped to the last one before `end`.

    Raises:
        ScheduleError: no index holds it; the message begins with `by`, the name of a pass.
    """
    step = static_size(loop.step) or 1
    if distance * step >= 2**62:  # half of what an index holds; the induction variable is added to it
        raise ScheduleError(
            f"{by}: {distance} iterations ahead of {loop.label} are {distance * step} places, which no index holds; "
            "use a smaller distance or step"
        )
    later = named(builder, arith.AddiOp(loop.induction, index_constant(builder, distance * step)), "later")
    last = named(builder, arith.SubiOp(end, index_constant(builder, step)), "last")
    return named(builder, arith.MinSIOp(later, last), "ahead")
