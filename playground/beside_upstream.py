"""A stage at loops level compiled by Numba, as kernels are, and by upstream's tools: bytes, time and assembly."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..ir import reference
from ..ir.errors import InvalidGatherError, out_of_range
from ..ir.interpreters.argument_views import bind_arguments, index_argument
from ..ir.modules.context import find_function, parse_module
from ..kernels.host.runtime import RUNTIME
from ..kernels.host.timing import time_interleaved
from ..kernels.runtime.plan import Plan
from ..kernels.tuning.sample_arrays import sample_arrays, strided_array
from ..lowering.numba.compiler import inspected_library
from ..lowering.numba.emitter import emit, not_lowered
from ..lowering.provenance.assembly import Instruction, loops_of, read_assembly
from ..lowering.upstream.machine_code import C_FORM, compile_upstream, find_tools
from .check import difference_text
from .stage import numba_call

OURS, THEIRS = "gathernest", "upstream"


@dataclass(frozen=True, slots=True)
class HotLoop:
    """An innermost loop of an assembly that moves data: its instructions, and how many there are of each kind."""

    lines: tuple[str, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BesideUpstream:
    """How a stage of a gather does by our code generator and by upstream's.

    Attributes:
        stage: its name.
        command: the programs that make upstream's assembly from the stage without our attributes, as a pipe.
        remark: what is not in the command; empty where it is all.
        differences: what is wrong with the bytes, by who made them; empty where both are the operator's reference's.
        times_us: microseconds of a call by one thread, by who compiled it; both are called from Python.
        ratio: how many times as fast ours is: the median of the ratios within each round.
        assemblies: text, by who compiled it.
    """

    stage: str
    command: str
    remark: str
    differences: Mapping[str, str]
    times_us: Mapping[str, float]
    ratio: float
    assemblies: Mapping[str, str]

    def hot_loops(self, maker: str) -> tuple[HotLoop, ...]:
        """Return the innermost loops that move data, in the order of the assembly of `OURS` or `THEIRS`.

        A loop that calls another function of the assembly, as that over tiles does, is around the loops of that.
        """
        instructions = _without_wrapper(read_assembly(self.assemblies[maker], ""))
        functions = {each.text[:-1] for each in instructions if _begins_function(each)}
        found: list[HotLoop] = []
        for loop in loops_of(instructions):
            lines = tuple(instructions[line].text for line in loop.lines)
            if loop.is_hot and functions.isdisjoint(re.findall(r"[\w.]+", " ".join(lines))):
                kinds = [instructions[line].kind for line in loop.lines if instructions[line].kind]
                counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
                found.append(HotLoop(lines, counts))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        loops = {maker: [loop.lines for loop in self.hot_loops(maker)] for maker in self.assemblies}
        return {**asdict(self), "hot_loops": loops}


def beside_upstream(plan: Plan, stage: str, text: str, rounds: int) -> BesideUpstream:
    """Compile a stage of a plan by both, compare the bytes of made-up arrays, and time them in turn.

    Args:
        stage, text: the name and the text of a stage at loops level.
        rounds: how often each is timed, 1 or more.

    Raises:
        InvalidGatherError: the stage is not at loops level, or nothing runs for these sizes.
        DependencyError: upstream's tools are not installed.
        CompileError: a tool rejects the stage.
        SampleError: arrays of these sizes do not fit in memory.
    """
    tools, module, problem = find_tools(), parse_module(text), plan.problem
    if left := not_lowered(module):
        raise InvalidGatherError(
            f"stage {stage!r} still has {', '.join(left)}, which upstream MLIR does not know; name a stage from "
            "'lower-nest-to-loops' on"
        )
    if plan.action != "run":
        raise InvalidGatherError("nothing runs for these sizes, so there is nothing to compare; give larger ones")
    code = RUNTIME.make(lambda: compile_upstream(module, tools))
    ours_asm: str = RUNTIME.make(lambda: inspected_library(emit(module)).get_asm_str())
    bind, function = code.load(), find_function(module, "gather")
    data, indices = sample_arrays(problem)
    given = index_argument(module, indices)
    inputs = [data] if given is None else [data, given]
    wanted = reference.of_problem(problem, data, indices)
    calls: dict[str, Callable[[], int]] = {}
    differences: dict[str, str] = {}
    for maker in (OURS, THEIRS):
        out = strided_array(problem.result)
        views, scales = bind_arguments(function, [*inputs, out])
        if maker == OURS:
            calls[maker] = numba_call(module, views, scales)
        else:
            calls[maker] = bind(views, [scale for scale, _ in scales])
        outside = calls[maker]()
        if said := out_of_range(outside) if outside else difference_text(out, wanted):
            differences[maker] = said
    timings = time_interleaved(calls, rounds=rounds)
    times_us = {maker: timings.median_s(maker) * 1e6 for maker in calls}
    assemblies = {OURS: ours_asm, THEIRS: code.assembly}
    ratio = timings.ratio(OURS, THEIRS)
    return BesideUpstream(stage, code.command, code.remark, differences, times_us, ratio, assemblies)


def _begins_function(instruction: Instruction) -> bool:
    """Return whether an instruction is the label of a function, not of a block of one."""
    return instruction.text.endswith(":") and not instruction.text.startswith(".L")


def _without_wrapper(instructions: list[Instruction]) -> list[Instruction]:
    """Return an assembly without the function for C, into which upstream has copied the whole of the other."""
    kept: list[Instruction] = []
    is_kept = True
    for instruction in instructions:
        if _begins_function(instruction):
            is_kept = not instruction.text.startswith(C_FORM)
        if is_kept:
            kept.append(instruction)
    return kept
