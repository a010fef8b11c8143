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
class BesideUpstream:
    """How a stage of a gather does by our code generator and by upstream's.

    Attributes:
        stage: its name.
        command: the programs that make upstream's assembly from the stage without our attributes, as a pipe.
        remark: the steps that are not in the command; empty where it has all.
        differences: the difference from the operator's reference by compiler; empty where the bytes of both are equal.
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

    def hot_loops(self, maker: str) -> list[list[Instruction]]:
        """Return the innermost loops that move data, in the order of the assembly of `OURS` or `THEIRS`.

        A loop that calls a function of the assembly, as the loop over tiles does, is around the loops of the function.
        The function for C, into which upstream copies the kernel, is left out.
        """
        kept, found = list[Instruction](), list[list[Instruction]]()
        functions = [""]
        for each in read_assembly(self.assemblies[maker], ""):
            if each.text.endswith(":") and not each.text.startswith(".L"):  # the label of a function, not of a block
                functions.append(each.text[:-1])
            if not functions[-1].startswith(C_FORM):
                kept.append(each)
        for loop in loops_of(kept):
            lines = [kept[line] for line in loop.lines]
            words = {word for each in lines for word in re.findall(r"[\w.]+", each.text)}
            if loop.is_hot and words.isdisjoint(functions):
                found.append(lines)
        return found

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        loops = {maker: [[each.text for each in loop] for loop in self.hot_loops(maker)] for maker in self.assemblies}
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
