"""What llvm-mca says of a loop of the assembly: cycles an iteration, busy ports, and the instructions that wait.

llvm-mca simulates an out-of-order core from LLVM's model of it. Every load hits the first cache, every branch is
predicted, and decoding takes no time: for a gather whose data is not in the first cache the cycles are a lower bound.
"""

import functools
import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from ..ir.errors import DependencyError, GathernestError
from ..lowering.programs import PROGRAMS, Installed, find_all, text_of
from ..lowering.provenance.assembly import Instruction, blocks_of, operands_of
from ..lowering.provenance.trace import Line, MachineLoop

ASSUMPTION = "every load hits the first cache, and every branch is predicted"
# Iterations that are simulated, and seconds that it may take.
ITERATIONS, TIMEOUT_S = 100, 30
_REGISTER_BYTES = {"zmm": 64, "ymm": 32, "xmm": 16}
_SCALAR_BYTES = {"ss": 4, "d": 4, "sd": 8, "q": 8, "lps": 8, "hps": 8, "lpd": 8, "hpd": 8}
_SUFFIX_BYTES = {"b": 1, "w": 2, "l": 4, "q": 8}
# How llvm-mca counts the cycles in which instructions wait.
_WAITS = {
    "ports": "ResourcePressureCycles",
    "registers": "RegisterDependencyCycles",
    "memory": "MemoryDependencyCycles",
}


class MachineAnalysisError(GathernestError, RuntimeError):
    """llvm-mca is installed, and does not analyse a loop."""


@dataclass(frozen=True, slots=True)
class MachineAnalysis:
    """The cycles of a loop, if every load hits the first cache and every branch is predicted.

    Attributes:
        tool: the command, such as `llvm-mca-22`.
        cpu: the CPU whose model was used, by LLVM's name.
        lines: numbers (from 0) of the lines of the assembly that are analysed: one way through the loop.
        stored_bytes: bytes that an iteration stores; None where an instruction does not say how many.
        element_bytes: bytes of a stored element, which is a position in a loop that stages them; None where not known.
        notes: the parts that the analysis leaves out, a sentence each.
        cycles: an iteration.
        instructions_per_cycle: how many end in a cycle.
        least_cycles: an iteration by ports and issue width alone, without waiting for results.
        ports: (name, cycles) that an iteration keeps each port busy, the busiest first.
        waits: (reason, part of the cycles) in which more instructions wait than before: `ports`, `registers`, `memory`.
        critical: numbers of the lines that make up the longest chain of waits.
    """

    tool: str
    cpu: str
    lines: tuple[int, ...]
    stored_bytes: int | None
    element_bytes: int | None
    notes: tuple[str, ...]
    cycles: float
    instructions_per_cycle: float
    least_cycles: float
    ports: tuple[tuple[str, float], ...]
    waits: tuple[tuple[str, float], ...]
    critical: tuple[int, ...]

    @property
    def cycles_per_element(self) -> float | None:
        """The cycles of a stored element; None where it is not known how many an iteration stores."""
        if not self.stored_bytes or not self.element_bytes:
            return None
        return self.cycles * self.element_bytes / self.stored_bytes

    def __str__(self) -> str:
        each = self.cycles_per_element
        element = "" if each is None else f", {each:.2f} an element"
        ports = ", ".join(f"{name} {cycles:.1f}" for name, cycles in self.ports[:6])
        waits = ", ".join(f"{reason} {part:.0%}" for reason, part in self.waits if part)
        lines = [
            f"{self.cycles:.1f} cycles an iteration{element}, {self.instructions_per_cycle:.1f} instructions a cycle; "
            f"{self.least_cycles:.1f} cycles by the ports alone",
            f"waits, in parts of the cycles: {waits or 'none'}",
            f"busiest ports, in cycles: {ports}",
            f"by {self.tool} for {self.cpu}: {ASSUMPTION}",
        ]
        return "\n".join([*lines, *self.notes]) + "\n"


def machine_analysis(
    assembly: Sequence[Line], loop: MachineLoop, *, element_bytes: int | None = None, cpu: str | None = None
) -> MachineAnalysis | None:
    """Return llvm-mca's analysis of a loop, which assumes that every load hits the first cache.

    Of a loop with conditions inside, the way with the most instructions is analysed.

    Args:
        assembly: the lines of the level `assembly` of a `Trace`.
        loop: one of that level's loops; an innermost one.
        element_bytes: bytes of an element, for the cycles of one.
        cpu: LLVM's name of the CPU; that kernels are compiled for when omitted.

    Returns:
        The analysis. None where no llvm-mca is on the PATH, or none that knows the CPU.

    Raises:
        MachineAnalysisError: llvm-mca fails, or no version that is on the PATH is understood.
    """
    instructions = [Instruction(line.text, None, line.kind) for line in assembly]
    lines = longest_way(instructions, loop.lines)
    body = tuple(number for number in lines if not instructions[number].text.endswith(":"))
    if not body:
        return None
    ran, chosen = [instructions[number] for number in body], cpu or os.environ.get("NUMBA_CPU_NAME") or _host()[0]
    notes = list[str]()
    if left := sum(not instructions[number].text.endswith(":") for number in loop.lines) - len(body):
        notes.append(f"of the ways through the loop the longest is analysed; {left} instructions are on others only")
    if any(each.kind == "call" for each in ran):
        notes.append("the loop calls functions, which the analysis does not follow")
    for tool in _tools():
        found = _report(tool, chosen, "".join(f"{each.text}\n" for each in ran))
        if found is None:
            continue
        try:
            numbers = _numbers(found, body)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError):
            raise MachineAnalysisError(
                f"{tool} prints a report of another form; versions from {text_of(PROGRAMS['llvm-mca'].minimum)} on are "
                "understood"
            ) from None
        stored = _stored_bytes(ran)
        return MachineAnalysis(tool.name, chosen, body, stored, element_bytes, tuple(notes), **numbers)
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


def _report(tool: Installed, cpu: str, text: str) -> dict[str, Any] | None:
    """Return the JSON that llvm-mca prints; None where it does not know the CPU."""
    command = [tool.path, f"-mtriple={_host()[2]}", f"-mcpu={cpu}", "--json", "--bottleneck-analysis"]
    try:
        ended = subprocess.run(
            [*command, f"--iterations={ITERATIONS}", "-"], input=text, capture_output=True, encoding="utf-8",
            errors="replace", check=False, timeout=TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineAnalysisError(f"{tool.name} does not analyse the loop: {error}") from None
    if "is not a recognized processor" in ended.stderr:
        return None
    try:
        return json.loads(ended.stdout) or {}
    except (ValueError, RecursionError):
        reason = next((line for line in ended.stderr.splitlines() if "error:" in line), f"status {ended.returncode}")
        raise MachineAnalysisError(f"{tool.name} does not analyse the loop: {reason.strip()}") from None


def _numbers(found: dict[str, Any], body: tuple[int, ...]) -> dict[str, Any]:
    """Return the numbers of a `MachineAnalysis` that are in llvm-mca's report of the instructions of some lines."""
    (region,) = found["CodeRegions"]
    summary, limits = region["SummaryView"], region["BottleneckAnalysis"]
    # llvm-mca numbers several ports of one kind by a character behind a point.
    number_ports = functools.partial(re.sub, r"\.([\x00-\x1f])$", lambda number: f".{ord(number[1])}")
    names = [number_ports(name) for name in found["TargetInfo"]["Resources"]]
    # The row behind the last instruction is the sum over all of them.
    sums = {
        names[entry["ResourceIndex"]]: float(entry["ResourceUsage"])
        for entry in region["ResourcePressureView"]["ResourcePressureInfo"]
        if entry["InstructionIndex"] == len(body)
    }
    total = max(limits.get("TotalCycles", 0), 1)
    chain = {edge[end] % len(body) for edge in limits.get("DependencyEdge", []) for end in ("FromID", "ToID")}
    return {
        "cycles": summary["TotalCycles"] / summary["Iterations"],
        "instructions_per_cycle": summary["IPC"],
        "least_cycles": summary["BlockRThroughput"],
        "ports": tuple(sorted(sums.items(), key=lambda port: (-port[1], port[0]))),
        "waits": tuple((reason, limits.get(key, 0) / total) for reason, key in _WAITS.items()),
        "critical": tuple(sorted(body[number] for number in chain)),
    }


def _stored_bytes(instructions: Sequence[Instruction]) -> int | None:
    """Return the bytes that instructions store; None where one of them does not say how many, or calls a function."""
    total = 0
    for instruction in instructions:
        if instruction.kind == "call":
            return None
        if instruction.kind == "store":
            width = _width(instruction.text)
            if width is None:
                return None
            total += width
    return total


def _width(text: str) -> int | None:
    """Return the bytes that a store writes, by its name and the register that it stores."""
    mnemonic, _, operands = text.partition(" ")
    register = re.match(r"%([xyz]mm)", operands_of(operands)[0])
    if register is None:
        return _SUFFIX_BYTES.get(mnemonic[-1]) if mnemonic.startswith(("mov", "add", "inc", "dec", "sub")) else None
    scalar = re.fullmatch(r"v?mov(?:nt)?(ss|sd|d|q|lps|hps|lpd|hpd)", mnemonic)
    if scalar is not None and register[1] == "xmm":
        return _SCALAR_BYTES[scalar[1]]
    return _REGISTER_BYTES[register[1]] if re.match(r"v?mov", mnemonic) and "{" not in operands else None
