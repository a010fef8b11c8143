"""llvm-mca's report of a loop of the assembly: cycles of its iterations, busy ports, and the instructions that wait.

llvm-mca simulates an out-of-order core from LLVM's model of it. Every load hits the first cache, every branch is
predicted, and decoding takes no time: for a gather whose data is not in the first cache the cycles are a lower bound.
"""

import functools
import os
import subprocess
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from ..ir.errors import DependencyError, GathernestError
from ..lowering.programs import Installed, find_all
from ..lowering.provenance.assembly import Instruction, blocks_of
from ..lowering.provenance.trace import Line, MachineLoop

OPTIONS = ("--iterations=100", "--bottleneck-analysis", "--instruction-info=false")


class MachineAnalysisError(GathernestError, RuntimeError):
    """llvm-mca is installed, and does not analyse a loop."""


def machine_analysis(assembly: Sequence[Line], loop: MachineLoop, *, cpu: str | None = None) -> str | None:
    """Return llvm-mca's report of 100 iterations of a loop, below a line for each assumption.

    Of a loop with conditions inside, the way with the most instructions is analysed.

    Args:
        assembly: the lines of the level `assembly` of a `Trace`.
        loop: one of that level's loops; an innermost one.
        cpu: LLVM's name of the CPU; that kernels are compiled for when omitted.

    Returns:
        The text. None where no llvm-mca is on the PATH, or none that knows the CPU.

    Raises:
        MachineAnalysisError: llvm-mca fails, or no version that is on the PATH is understood.
    """
    instructions = [Instruction(line.text, None, line.kind) for line in assembly]
    lines = longest_way(instructions, loop.lines)
    ran = [instructions[number] for number in lines if not instructions[number].text.endswith(":")]
    chosen = cpu or os.environ.get("NUMBA_CPU_NAME") or _host()[0]
    notes = ["every load hits the first cache, and every branch is predicted"]
    if left := sum(not instructions[number].text.endswith(":") for number in loop.lines) - len(ran):
        notes.append(f"of the ways through the loop the longest is analysed; {left} instructions are on others only")
    if any(each.kind == "call" for each in ran):
        notes.append("the loop calls functions, which the analysis does not follow")
    for tool in _tools():
        report = _report(tool, chosen, "".join(f"{each.text}\n" for each in ran))
        if report is not None:
            return "\n".join([f"{tool.name} for {chosen}", *notes, "", report])
    return None


def _tools() -> list[Installed]:
    """Return the versions of llvm-mca that are understood, Numba's first; raises MachineAnalysisError for others."""
    try:
        return sorted(find_all("llvm-mca"), key=lambda tool: tool.version[0] != _host()[1])
    except DependencyError as error:
        raise MachineAnalysisError(str(error)) from None


@functools.cache
def _host() -> tuple[str, int, str]:
    """Return LLVM's name of this CPU, the number of LLVM's version, and the name of the target."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.llvm_version_info[0], llvm.get_process_triple()


def longest_way(instructions: Sequence[Instruction], loop: Sequence[int]) -> list[int]:
    """Return the lines of the way through an innermost loop that has the most; all lines of a loop with loops in it.

    Args:
        instructions: the whole assembly.
        loop: the lines of the loop.
    """
    there, blocks = set(loop), blocks_of(instructions)
    inside = [number for number, block in enumerate(blocks) if there.issuperset(block.lines)]
    # A natural loop is entered at one block, to which every way through it comes back.
    header = next((number for number in inside if not set(inside).issuperset(blocks[number].preceding)), inside[0])
    graph = {
        number: [other for other in blocks[number].following if other in inside and other != header]
        for number in inside
    }
    try:
        order = tuple(TopologicalSorter(graph).static_order())  # blocks that follow come first
    except CycleError:
        return list(loop)
    longest: dict[int, list[int]] = {}
    for number in order:
        ways = [longest[other] for other in graph[number] if other in longest]
        if ways or header in blocks[number].following:
            longest[number] = [*blocks[number].lines, *max(ways, key=len, default=[])]
    return longest.get(header, list(loop))


def _report(tool: Installed, cpu: str, text: str) -> str | None:
    """Return the report that llvm-mca prints; None where it does not know the CPU."""
    try:
        ended = subprocess.run(
            [tool.path, f"-mtriple={_host()[2]}", f"-mcpu={cpu}", *OPTIONS, "-"], input=text, capture_output=True,
            encoding="utf-8", errors="replace", check=False, timeout=30,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineAnalysisError(f"{tool.name} does not analyse the loop: {error}") from None
    if "is not a recognized processor" in ended.stderr:
        return None
    if ended.returncode or not ended.stdout.strip():
        reason = next((line for line in ended.stderr.splitlines() if "error:" in line), f"status {ended.returncode}")
        raise MachineAnalysisError(f"{tool.name} does not analyse the loop: {reason.strip()}")
    return ended.stdout.strip() + "\n"
