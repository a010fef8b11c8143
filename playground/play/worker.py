"""A process that compiles and times kernels for the page: an edited stage may read and write anywhere.

It reads a line of JSON for each request, `{"explain": bool, "settings": {...}}`, and writes a line for each part of
the answer; the last is `{"done": true}`. It ends when its input does.
"""

import atexit
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ...ir import reference
from ...ir.element_types import first_difference
from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...kernels.kernel import Kernel
from ...kernels.runtime.compile import build_program
from ...kernels.runtime.launch import available_threads
from ...kernels.runtime.plan import Plan
from ...kernels.tuning.sample_arrays import sample_arrays
from ...lowering.numba.compiler import inspected_library
from ...lowering.provenance.record import assembly_level
from ..script import ScheduleScript
from .live_stages import Mistake, begin, with_edit
from .settings import Settings

# Beyond that the reference takes seconds, and the bytes of whole arrays are not compared.
MOST_COMPARED = 20_000_000
# (seconds of the first call at most, rounds)
ROUNDS = ((0.05, 9), (0.5, 3), (float("inf"), 1))

# A part of an answer, as JSON can hold it.
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


def _never() -> bool:
    return False


class Worker:
    """The process, as its parent sees it; it is started when it is first needed, and again after a crash.

    One request is answered at a time; others wait.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._gives_way: Callable[[], bool] = _never
        atexit.register(self.stop)

    def start(self) -> None:
        """Start the process, unless it runs."""
        with self._lock:
            self._started()

    def stop(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def ask(
        self, settings: Settings, *, explain: bool = False, is_stale: Callable[[], bool] = _never
    ) -> Iterator[dict[str, Any]]:
        """Yield the parts of an answer; see `machine_code` and `explained`.

        Nothing is asked when `is_stale()` holds before the turn comes. An explanation, which takes long, is given up
        when another request comes and it is stale. A caller that closes the generator early ends the process.
        """
        if self._gives_way():
            self.stop()
        with self._lock:
            if is_stale():
                return
            process, is_done = self._started(), False
            assert process.stdin is not None and process.stdout is not None
            self._gives_way = is_stale if explain else _never
            try:
                request = {"explain": explain, "settings": dataclasses.asdict(settings)}
                process.stdin.write(f"{json.dumps(request)}\n")
                process.stdin.flush()
                for line in process.stdout:
                    if not line.startswith("{"):  # a module such as `sitecustomize` has printed it
                        continue
                    part = json.loads(line)
                    if "done" in part:
                        is_done = True
                        return
                    yield part
                is_done, self._process = True, None
                yield {"error": _crash(process.wait())}
            except BrokenPipeError:
                is_done, self._process = True, None
                yield {"error": _crash(process.wait())}
            finally:
                self._gives_way = _never
                if not is_done:
                    self.stop()

    def _started(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                start_new_session=True,  # Ctrl-C ends the server, which ends this
            )
        return self._process


def _crash(status: int) -> str:
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    return f"the process that ran the kernel ended {how}; an edited stage that leaves its arrays does that"


WORKER = Worker()


def serve() -> None:
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what anything else prints must not come between the answers

    for line in sys.stdin:
        request = json.loads(line)
        settings = Settings(**request["settings"])
        for part in (explained if request["explain"] else machine_code)(settings):
            _write(answers, part)
        _write(answers, {"done": True})


def _write(answers: TextIO, part: dict[str, Any]) -> None:
    answers.write(f"{json.dumps(part)}\n")
    answers.flush()
