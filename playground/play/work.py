"""The work behind the page: from settings to a script, its stages, a check of bytes, and machine code with its time.

Machine code of an edited stage may read and write anywhere, so a child process compiles and runs it: `WORKER`.
"""

import itertools
import multiprocessing
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir import reference
from ...ir.errors import SOURCE_HINT, GathernestError, InvalidGatherError, ScheduleError
from ...ir.modules.context import make_context, parse_module
from ...ir.modules.pseudocode import print_loop_nest
from ...ir.modules.read_module import InputError
from ...ir.problem import Problem
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...kernels.kernel import Kernel
from ...kernels.runtime.compile import build_program, module_of
from ...kernels.runtime.launch import available_threads
from ...kernels.runtime.plan import Plan, make_plan
from ...kernels.tuning.sample_arrays import sample_arrays
from ...lowering.numba.compiler import inspected_library
from ...lowering.pipeline import Stage, parse_passes, read_edits, record_stages, run_passes
from ...lowering.provenance.record import assembly_level
from ...lowering.registry import SCHEDULED_NEST
from ...lowering.schedule_language.nest_script import StepError
from ...lowering.stage_files import StageFile
from ..accesses import small_instance
from ..check import check_stage, difference_text, samples_of
from ..script import ScheduleScript, schedule
from .settings import Settings, StepLineError, apply_lines


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the settings.

    Attributes:
        title: which of them.
        message: why, and the way out.
        text: the text with the mistake, such as the nest before an illegal step; empty where there is none.
        line: the line of the text to underline, from 1; None for none.
        column, length: the part of the line, from 1; the whole line where column is None.
    """

    title: str
    message: str
    text: str = ""
    line: int | None = None
    column: int | None = None
    length: int = 1


def begin(settings: Settings) -> ScheduleScript | Mistake:
    """Return the script of the settings' gather with their steps, or the first mistake in them."""
    title = "The gather"
    try:
        script = schedule(**settings.gather)
        if settings.steps is None:
            script.apply(make_plan(script.problem).schedule)
            return script
        title = "The schedule"
        apply_lines(script, settings.steps)
        script.plan  # noqa: B018  # rejects rows of other sizes than the steps say
    except StepLineError as error:
        return _of_step(error)
    except GathernestError as error:
        return Mistake(title, str(error))
    return script


def _of_step(error: StepLineError) -> Mistake:
    title, step = f"Line {error.line} of the steps: {error.text.strip()}", error.cause
    if not isinstance(step, StepError):
        return Mistake(title, str(step))
    lines = step.nest.splitlines()
    marked = next((number for number, line in enumerate(lines, 1) if line.startswith(">")), None)
    text = "".join(f"{line[2:].removesuffix(f'  <-- {step.loop}')}\n" for line in lines)
    return Mistake(title, f"{step.reason}. Way out: {step.way_out}.", text, marked)


def stage_names(stages: Sequence[Stage]) -> list[str]:
    """Return the names of stages' files in a dump: `00-operator` first."""
    return [f"{number:02}-{stage.pass_name}" for number, stage in enumerate(stages)]


def with_edit(plan: Plan, name: str, text: str) -> Plan:
    """Return a plan in which a text stands in the place of a stage; for its stages only, not for its kernel."""
    return replace(plan, edits=(StageFile(f"{name}.mlir", text),))


def stages(plan: Plan) -> list[Stage] | Mistake:
    """Return every stage of a plan, or the mistake in the stage that is edited."""
    passes, context = parse_passes(plan.pipeline), make_context()
    try:
        edits = read_edits(plan.edits, passes, context)
        # Without an edit the steps were verified when they were applied, and the worker verifies every stage.
        return list(record_stages(module_of(plan.problem), passes, context, edits=edits, verify=bool(edits)))
    except InputError as error:
        place = f"line {error.line}, column {error.column}: " if error.line else ""
        title, text = f"The stage {plan.edits[0].path.removesuffix('.mlir')}", plan.edits[0].text
        return Mistake(title, f"{place}{error.message}", text, error.line, error.column, error.length)
    except GathernestError as error:
        message = str(error).replace(SOURCE_HINT, "the text below")
        return Mistake("A pass behind the edited stage" if plan.edits else "The schedule", message, error.source)


def nest_of(stages: Sequence[Stage], edited: int | None = None) -> str:
    """Return the scheduled nest as pseudocode, or the edited stage where that is behind it."""
    names = [stage.pass_name for stage in stages]
    number = names.index(SCHEDULED_NEST) - 1 if SCHEDULED_NEST in names else len(names) - 1
    return print_loop_nest(parse_module(stages[max(number, edited or 0)].text))


# the check of bytes

# Elements of data and the result that are interpreted in all: one takes some 30 microseconds.
MOST_ELEMENTS = 12_000
# Of a row: more than a vector of 8 lanes, and a remainder.
ROW = 11
# Sizes of other dimensions, tried in turn; the least size of indices, and how many lie behind the border of a tile.
OUTER, LEAST_INDICES, BEHIND = (3, 2), 7, 3


@dataclass(frozen=True, slots=True)
class BytesCheck:
    """The result of the check.

    Attributes:
        difference: the first difference; None where the bytes are equal, or nothing could be interpreted.
        tried: the gather that was interpreted last; None where none could be.
        cases: how many pairs of arrays were interpreted.
        crossed: whether its indices fill the largest tile.
    """

    difference: str | None
    tried: Problem | None
    cases: int = 0
    crossed: bool = True

    def __str__(self) -> str:
        if self.tried is None:
            return (
                "Nothing is interpreted, as no smaller arrays fit: the edited stage has large sizes in its text, "
                "or the axis is empty. The kernel's own bytes are compared below."
            )
        where = f"{self.tried.name} of {self.tried.source} by {self.tried.indices}"
        if self.difference is not None:
            return f"{where}: {self.difference}"
        note = "" if self.crossed else " No tile is full at these sizes."
        cases = "1 pair of arrays" if self.cases == 1 else f"{self.cases} pairs of arrays"
        return f"{where}: the bytes of the reference, for {cases} with indices at both ends and outside.{note}"


def check_bytes(plan: Plan) -> BytesCheck:
    """Interpret the last stage of a plan for a small gather, or its own where it is small, and compare the bytes.

    An edited stage replaces a stage of the passes, so it must not have the sizes in its text.
    """
    for problem, pipeline in _smaller(plan):
        size, cases = problem.result.size + problem.source.size, 0
        if size > MOST_ELEMENTS or 0 in problem.axis_sizes:
            continue
        with suppress(InvalidGatherError, ScheduleError):  # the passes, or the edited stage, are for other sizes
            module = _lowered(plan, problem, pipeline)
            for cases, (data, indices) in enumerate(samples_of(problem), 1):
                found = check_stage(module, problem, data, indices, "interpreter")
                if found is not None:
                    return BytesCheck(str(found), problem, cases)
                if (cases + 1) * size > MOST_ELEMENTS:
                    break
            return BytesCheck(None, problem, cases, crossed=problem.indices.size > _largest_tile(pipeline))
    return BytesCheck(None, None)


def _lowered(plan: Plan, problem: Problem, pipeline: str) -> ModuleOp:
    """Return the last stage of a pipeline for a problem of other sizes; an edited stage stays as it is."""
    passes, context = parse_passes(pipeline), make_context()
    edits = read_edits(plan.edits, passes, context)
    number, module = max(edits.items(), default=(0, None), key=lambda item: item[0])
    module = module_of(problem) if module is None else module
    run_passes(module, ",".join(map(str, passes[number:])), context)
    return module


def _largest_tile(pipeline: str) -> int:
    """Return the size of the largest tile over indices; 0 for none."""
    tiles = re.findall(r"tile-loops\{loops=([^ }]*) sizes=([^ }]*)", pipeline)
    pairs = [pair for loops, sizes in tiles for pair in zip(loops.split(","), sizes.split(","), strict=False)]
    return max((int(size) for loop, size in pairs if "inner" not in loop and size.isdecimal()), default=0)


def _smaller(plan: Plan) -> Iterator[tuple[Problem, str]]:
    """Yield smaller forms of a plan with their pipelines: forms that cross a tile, smaller tiles, other forms."""
    tile = _largest_tile(plan.pipeline)
    crossing, others = list[Problem](), list[Problem]()
    for problem in _small(plan.problem, tile):
        (crossing if problem.indices.size > tile else others).append(problem)
    yield from ((problem, plan.pipeline) for problem in crossing)
    if not plan.edits:
        instance = small_instance(plan)
        yield from ((instance.problem, pipeline) for pipeline in reversed(instance.pipelines))
    yield from ((problem, plan.pipeline) for problem in others)


def _small(problem: Problem, tile: int) -> Iterator[Problem]:
    """Yield the problem where it is small, and then smaller forms of it."""
    if problem.result.size + problem.source.size <= MOST_ELEMENTS // 4:
        yield problem
    table, indices = problem.table.shape, problem.indices.shape
    for many in dict.fromkeys((max(tile + BEHIND, LEAST_INDICES), LEAST_INDICES)):
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((*(min(size, outer) for size in table[:-1]), *(min(size, row) for size in table[-1:])), other)
            for row, outer in itertools.product(dict.fromkeys((ROW, *table[-1:])), OUTER)
            for other in dict.fromkeys((outer, many, row))
        ]
        shapes.append((tuple(min(size, many) for size in table), many))
        for shape, other in shapes:
            last = *(min(size, other) for size in indices[:-1]), *(min(size, many) for size in indices[-1:])
            with suppress(GathernestError):
                yield problem.resized(shape, last)


# machine code

# Beyond that the reference takes seconds, and the bytes of whole arrays are not compared.
MOST_COMPARED = 20_000_000
# (seconds of the first call at most, rounds)
ROUNDS = ((0.05, 9), (0.5, 3), (float("inf"), 1))

# A part of an answer of the worker.
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
        program = build_program(plan)
        level = assembly_level(program, inspected_library(program, with_lines=True), 0)
        loops = [{"lines": loop.lines, "name": loop.name} for loop in level.hot_loops]
        yield {"assembly": [line.text for line in level.lines], "hot_loops": loops}
        with _kernel(script, settings) as kernel:
            yield _timed(kernel)
    except GathernestError as error:
        yield {"error": str(error)}


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
    if isinstance(begun, Mistake):
        raise GathernestError(f"{begun.title}: {begun.message}")
    return begun


@contextmanager
def _kernel(script: ScheduleScript, settings: Settings) -> Iterator[Kernel]:
    """Compile the kernel of a script, with the stage that is edited."""
    if not settings.text:
        yield script.compile()
        return
    with tempfile.TemporaryDirectory() as folder:
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
        "difference": difference_text(out, reference.of_problem(kernel.problem, data, indices))
        if is_compared
        else None,
    }


def _never() -> bool:
    return False


def serve(requests: Connection) -> None:
    """Answer requests, each (whether to explain, settings, folder for files), by parts and None, until they end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, which ends this
    with suppress(EOFError):
        while True:
            explains, settings, tempfile.tempdir = requests.recv()
            for part in (explained if explains else machine_code)(settings):
                requests.send(part)
            requests.send(None)


class Worker:
    """The child process, which is started when it is first needed, and again after a crash.

    One request is answered at a time; others wait.

    Args:
        target: the function that the process runs.
    """

    def __init__(self, target: Callable[[Connection], None] = serve) -> None:
        self._target = target
        self._process: Any = None
        self._pipe: Connection | None = None
        self._lock, self._joining = threading.Lock(), threading.Lock()
        self._gives_way: Callable[[], bool] = _never

    def start(self) -> None:
        """Start the process, unless it runs; by the main thread, so that Ctrl-C does not disturb its imports."""
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process inherits this
        with self._lock:
            self._started()
        signal.signal(signal.SIGINT, handler)

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._exit_status(process)

    def ask(
        self, settings: Settings, *, explain: bool = False, is_stale: Callable[[], bool] = _never
    ) -> Iterator[Part]:
        """Yield the parts of an answer; see `machine_code` and `explained`.

        Nothing is asked when `is_stale()` holds before the turn comes. An explanation, which takes long, is given up
        when another request comes and it is stale. A caller that closes the generator early ends the process.
        """
        if self._gives_way():
            self.stop()
        # The process may be killed, so this one removes its files.
        with self._lock, tempfile.TemporaryDirectory(prefix="gathernest-play-", ignore_cleanup_errors=True) as folder:
            if is_stale():
                return
            process, pipe = self._started()
            self._gives_way, is_done = is_stale if explain else _never, False
            try:
                pipe.send((explain, settings, folder))
                while (part := pipe.recv()) is not None:
                    yield part
                is_done = True
            except (EOFError, OSError):
                status = self._exit_status(process)
                how = f"by signal {-status}" if status < 0 else f"with status {status}"
                why = "an edited stage that leaves its arrays does that"
                why = why if settings.text else "there may be too little memory: try smaller arrays"
                yield {"error": f"the process that ran the kernel ended {how}; {why}"}
            finally:
                self._gives_way = _never
                if not is_done:
                    self.stop()

    def _exit_status(self, process: Any) -> int:
        """Wait for the end of the process; of two threads that wait at once, one would not see the status."""
        with self._joining:
            process.join()
            return process.exitcode

    def _started(self) -> "tuple[Any, Connection]":
        if self._process is None or self._pipe is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=self._target, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._process, self._pipe


WORKER = Worker()
