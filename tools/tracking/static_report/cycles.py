"""The cycles of loops by llvm-mca, where it is installed: they explain, and are never compared."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ....lowering.provenance.assembly import kind_of
from ....lowering.provenance.trace import Line, MachineLoop
from ....playground.machine_analysis import MachineAnalysisError, machine_analysis
from .kernel_facts import LoopFacts


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of a loop, if every load hits the first cache and every branch is predicted.

    Attributes:
        an_element: of a stored element; None where the loop stores none, or calls functions.
        tool: the command that says so.
    """

    an_element: float | None
    tool: str


def cycles_of(
    loops: Iterable[tuple[LoopFacts, int]], target: str | None, advance: Callable[[int], object]
) -> dict[tuple[str, ...], Cycles | None]:
    """Return the cycles of innermost loops by their code, of equal ones once; None of one that it cannot analyse.

    Args:
        loops: each with the bytes of an element that it stores.
        target: LLVM's name of the CPU.
        advance: called with 1 after each loop.

    Returns:
        Nothing where no llvm-mca is installed, or none that knows the CPU.
    """
    found: dict[tuple[str, ...], Cycles | None] = {}
    for loop, element_bytes in loops:
        if loop.code and loop.code not in found:
            try:
                found[loop.code] = _cycles(loop.code, element_bytes, target)
            except MachineAnalysisError:
                found[loop.code] = None
        advance(1)
    return found if any(found.values()) else {}


def _cycles(code: tuple[str, ...], element_bytes: int, target: str | None) -> Cycles | None:
    lines = [Line(text, (), "" if text.endswith(":") else kind_of(*text.partition(" ")[::2])) for text in code]
    loop = MachineLoop(tuple(range(len(lines))), 1, True)
    analysis = machine_analysis(lines, loop, element_bytes=element_bytes, cpu=target)
    return None if analysis is None else Cycles(analysis.cycles_per_element, analysis.tool)
