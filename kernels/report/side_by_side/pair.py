"""The sections of a kernel and of what stands beside it, and the times of both in turn."""

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.errors import GathernestError, InvalidGatherError, show
from ....lowering.registry import Pipeline
from ....lowering.schedule.schedule import Schedule
from ...host.knobs import knobs
from ...machine.explain import CompiledKernel
from ..section import Section, section_of
from .beside import ONE_BESIDE, Beside, beside, said
from .in_turn import InTurn, timed_in_turn
from .revision import section_at


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sections, and the times of both; None where they cannot be timed in turn, or are not to be."""

    sections: tuple[Section, Section]
    in_turn: InTurn | None


def pair_of(
    kernel: CompiledKernel,
    given: Schedule | Pipeline | None,
    other: Beside | CompiledKernel,
    *,
    timing: bool,
    rounds: int,
    say: Callable[[str], object] = lambda name: None,
) -> Pair:
    """Return the sections of a kernel and of what stands beside it.

    Args:
        kernel, given: the kernel, and its schedule or pipeline; None where the sizes chose.
        other: what stands beside it.
        timing, rounds: as for `section_of`.
        say: is called with the name of each before its section is made.

    Raises:
        GathernestError: one of them cannot be compiled.
    """
    name = f"A, {said(given)}"
    say(name)
    left = section_of(kernel, name=name, timing=timing, rounds=rounds)
    if isinstance(other, Beside):
        say(other.name)
        if other.revision is not None:
            assert not isinstance(given, Pipeline)
            return Pair((left, section_at(other.revision, left, given, name=other.name)), None)
        with knobs.scope(interpret=knobs.interpret or not timing):  # the section compiles it on its own
            second = kernel.with_schedule(other.given)
        right = section_of(second, name=other.name, timing=timing, rounds=rounds, remarks=other.remarks)
    else:
        say("B, the other kernel")
        second, right = other, section_of(other, name="B, the other kernel", timing=timing, rounds=rounds)
    if left.explanation is None or right.explanation is None:
        return Pair((left, right), None)
    try:
        return Pair((left, right), timed_in_turn(kernel, second, rounds))
    except (GathernestError, MemoryError):  # the arrays of both are too many
        return Pair((left, right), None)


def other_of(
    kernel: CompiledKernel,
    given: Schedule | Pipeline | None,
    against: CompiledKernel | Schedule | str | None,
    **others: str | None,
) -> Beside | CompiledKernel:
    """Return what `Kernel.report` is asked to put beside a kernel; raises as `beside`."""
    if against is None or isinstance(against, Schedule | str):
        return beside(kernel.problem, given, schedule=against, **others)
    if not isinstance(against, type(kernel)):
        raise InvalidGatherError(f"a kernel, a schedule or its text stands beside a kernel, got {show(against)}")
    if any(other is not None for other in others.values()):
        raise InvalidGatherError(f"{ONE_BESIDE}, got several; leave out the others")
    return against
