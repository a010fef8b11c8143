"""From the settings to assembly, time and the bytes of whole arrays; runs in the worker, as an edit may crash it."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ...ir import reference
from ...ir.element_types import first_difference
from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...kernels.kernel import Kernel
from ...kernels.playground.scheduling import ScheduleScript
from ...kernels.runtime.compile import build_program
from ...kernels.runtime.launch import available_threads
from ...kernels.runtime.plan import Plan
from ...kernels.tuning.sample_arrays import sample_arrays
from ...lowering.numba.compiler import inspected_library
from ...lowering.provenance.record import assembly_level
from .live_stages import Mistake, begin, with_edit
from .settings import Settings

# Beyond that the reference takes seconds, and the bytes of whole arrays are not compared.
MOST_COMPARED = 20_000_000
# (seconds of the first call at most, rounds)
ROUNDS = ((0.05, 9), (0.5, 3), (float("inf"), 1))

# What is found, in parts, as JSON can hold them.
Part = dict[str, Any]


def machine_code(settings: Settings) -> Iterator[Part]:
    """Yield the assembly, and then the time and the comparison of the kernel of the settings.

    Yields:
        `assembly` (lines of text) and `hot_loops` (of each its `lines` by number, from 0, and its `name` in the nest);
        then `time_us` (of a call, median), `rounds`, `threads`, `difference` (text; None where bytes are equal) and
        `is_compared`. In the place of any of them `error` (text), and nothing after it.
    """
    try:
        script = _script(settings)
        plan = with_edit(script.plan, settings.stage, settings.text) if settings.text else script.plan
        if plan.action != "run":
            yield {"error": "nothing of it runs at these sizes"}
            return
        yield _assembly(plan)
        with _kernel(script, settings) as kernel:
            yield _timed(kernel)
    except GathernestError as error:
        yield {"error": str(error)}


def _assembly(plan: Plan) -> Part:
    """Return the assembly of a plan without directives, and its innermost loops that read or write memory."""
    program = build_program(plan)
    level = assembly_level(program, inspected_library(program, with_lines=True), 0)
    loops = [{"lines": loop.lines, "name": loop.name} for loop in level.hot_loops]
    return {"assembly": [line.text for line in level.lines], "hot_loops": loops}


def explained(settings: Settings) -> Iterator[Part]:
    """Yield the whole explanation of the kernel of the settings as `explanation` (text), or `error`."""
    try:
        with _kernel(_script(settings), settings) as kernel:
            yield {"explanation": str(kernel.explain())}
    except GathernestError as error:
        yield {"error": str(error)}


def _script(settings: Settings) -> ScheduleScript:
    """Return the script of the settings; raises GathernestError where they have a mistake."""
    begun = begin(settings)
    mistake = begun if isinstance(begun, Mistake) else begun.mistake
    if isinstance(begun, Mistake) or mistake is not None:
        raise GathernestError(f"{mistake.title}: {mistake.message}" if mistake else "")
    return begun.script


@contextmanager
def _kernel(script: ScheduleScript, settings: Settings) -> Iterator[Kernel]:
    """Compile the kernel of a script, with the stage that is edited."""
    if not settings.text:
        yield script.compile()
        return
    with tempfile.TemporaryDirectory(prefix="gathernest-play-") as folder:
        home = Path(folder) / script.plan.folder
        home.mkdir()
        (home / f"{settings.stage}.mlir").write_text(settings.text, encoding="utf-8")
        with knobs.scope(override_dir=folder):
            yield script.compile()


def _timed(kernel: Kernel) -> Part:
    """Return the time of a call with made-up arrays, and how its bytes differ from the reference."""
    data, indices = sample_arrays(kernel.problem)
    out = np.empty(kernel.problem.result.shape, kernel.problem.result.dtype)
    start = time.perf_counter()
    kernel(data, indices, out)
    first_s = time.perf_counter() - start
    rounds = next(rounds for most_s, rounds in ROUNDS if first_s <= most_s)
    timings = time_interleaved({"kernel": lambda: kernel(data, indices, out)}, rounds=rounds)
    is_compared = out.size + data.size <= MOST_COMPARED
    return {
        "time_us": 1e6 * timings.median_s("kernel"),
        "rounds": rounds,
        "threads": available_threads() if kernel._prepared.is_shared and kernel.schedule.parallel else 1,
        "is_compared": is_compared,
        "difference": _difference(kernel.problem, data, indices, out) if is_compared else None,
    }


def _difference(problem: Problem, data: np.ndarray, indices: np.ndarray, got: np.ndarray) -> str | None:
    wanted = reference.of_problem(problem, data, indices)
    found = first_difference(got, wanted)
    if found is None:
        return None
    position, count = found
    return (
        f"at {list(position)} of the result it must give {wanted[position]}, and it gives {got[position]}; "
        f"{count} of {wanted.size} elements differ"
    )
