"""Processes of `worker.py`: one is asked; or one of each side of a comparison, fresh in each restart, take turns."""

import contextlib
import dataclasses
import json
import math
import os
import random
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from ...ir.errors import GathernestError
from ...kernels.host.checkout import RevisionError
from .benchmarks import Benchmark
from .sides import Side

CASES = Path(__file__).parents[2] / "asv_bench" / "benchmarks"
WORKER = Path(__file__).with_name("worker.py")
LIMIT_S = 300  # of one answer; the slowest is the first compile of a process

# Turns of a third of a millisecond: the load of a busy machine changes little from one to the next. On two busy cores
# of a Zen 4 the median of 60 such pairs varied by 1 to 2.5 % between restarts, that of 4 pairs of 4 ms by 2 to 14 %.
SLOT_NS = 3e5
CASE_NS = 3e7  # of one benchmark in a restart, both sides together
FEWEST_TURNS, MOST_TURNS = 4, 60
FORKS = {"import": 12, "first-call": 1}
MAX_PADDING = 4096  # bytes of the environment, which moves the stack


Said = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Turns:
    """How a benchmark is timed in each restart: calls in a row, and turns of both sides; 0 calls of a fork."""

    number: int
    turns: int


@dataclass(frozen=True, slots=True)
class Session:
    """Two sides that have run every benchmark once, so that their caches have the kernels.

    Attributes:
        sides: base and head.
        benchmarks: those that both sides have, by name.
        turns: how each is timed, by name.
        missing: why others are not timed, by name.
        late: those that there was no time to prepare.
        arrays: folder of their arrays.
        threads: that gathernest may use; with one, both processes have the same core.
        costs_s: seconds that each takes in a restart, by name.
    """

    sides: tuple[Side, Side]
    benchmarks: Mapping[str, Benchmark]
    turns: Mapping[str, Turns]
    missing: Mapping[str, str]
    late: Sequence[str]
    arrays: Path
    threads: int
    costs_s: dict[str, float] = field(default_factory=dict)

    def restart(self, names: Sequence[str], number: int) -> dict[str, tuple[float, float]]:
        """Time benchmarks in a fresh process of each side, in turn.

        Args:
            names: of the benchmarks.
            number: of the restart, which decides the core, who is prepared first, and who has the first turn.

        Returns:
            By name, the logarithm of head's time over base's, as the mean of the medians over both halves of the turns,
            and base's nanoseconds.

        Raises:
            WorkerError: a process ends.
        """
        cores = _cores(self.threads)
        core, seed = cores[number // 4 % len(cores)] if cores else None, random.randrange(2**32)
        order = (1, -1)[number // 2 % 2]  # what is prepared last was 3 % faster in some kernels
        found: dict[str, tuple[float, float]] = {}
        with _processes(self.sides[::order], self.threads, core, seed) as processes:
            for name in names:
                begin = time.monotonic()
                times = _times(processes, self.benchmarks[name], self.turns[name], self.arrays, number % 2)
                self.costs_s[name] = time.monotonic() - begin
                if times is not None:
                    found[name] = _log_ratio(*times[::order]), statistics.median(times[::order][0])
        return found


class WorkerError(GathernestError):
    """A process of the worker has ended, or is silent."""


class Process:
    """A process of `worker.py`, which is asked by one JSON object a line and answers by one.

    Args:
        python: the interpreter.
        environment: its environment, whose PYTHONPATH names the gathernest that it imports.
        folder: its working folder, which gets a file of its errors.
        name: what messages call it.
        advice: the way out that messages name when it ends.
        threads: that gathernest may use; with one, times are CPU times.
        core: that it runs on; None for all.
        pipes: the ends of the baton.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        folder: Path,
        name: str,
        advice: str,
        *,
        threads: int = 1,
        core: int | None = None,
        pipes: tuple[int, int] | None = None,
    ):
        self.name, self.advice = name, advice
        self.errors = tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8")  # noqa: SIM115  # see __exit__
        self.process = subprocess.Popen(
            [python, "-P", str(WORKER), *map(str, pipes or (-1, -1))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
            cwd=folder,
            pass_fds=pipes or (),
        )
        self.tell({"cases": str(CASES), "threads": threads, "core": core})

    @classmethod
    def of(
        cls, side: Side, *, threads: int, core: int | None = None, seed: int = 0, pipes: tuple[int, int] | None = None
    ) -> "Process":
        """Return a process with the package of a side; a place of its own for the stack, and for hashed objects."""
        environment = side.environment | {
            "GATHERNEST_NUM_THREADS": str(threads),
            "PYTHONHASHSEED": str(seed),
            "GATHERNEST_COMPARE_PADDING": "x" * random.randrange(MAX_PADDING),
        }
        name = f"the process of {side.name}, {side.revision},"
        settings = {"threads": threads, "core": core, "pipes": pipes}
        return cls(side.python, environment, side.folder, name, "name another revision", **settings)

    def __enter__(self) -> "Process":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.process.kill()
        with contextlib.suppress(OSError):
            self.process.communicate()
        self.errors.close()

    def tell(self, given: dict[str, Any]) -> None:
        """Send one object; a process that has ended shows when its answer is read."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(given) + "\n")
            self.process.stdin.flush()

    def heard(self, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Return the next answer; raises WorkerError where the process ends, or is silent for that many seconds."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], limit_s)
        line = self.process.stdout.readline() if ready else ""
        while line and not line.startswith("{"):  # a module such as `sitecustomize` has printed it
            line = self.process.stdout.readline()
        if line:
            return json.loads(line)
        self.errors.seek(0)
        said = (self.errors.read().strip().splitlines() or ["it said nothing"])[-1]
        why = f"ended: {said}" if ready else f"took more than {limit_s:g} s"
        raise WorkerError(f"{self.name} {why}; {self.advice}")

    def ask(self, given: dict[str, Any], limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Send one object and return the answer."""
        self.tell(given)
        return self.heard(limit_s)


def prepare(
    sides: tuple[Side, Side],
    benchmarks: Sequence[Benchmark],
    threads: int,
    said: Said,
    is_late: Callable[[], bool] = bool,
) -> Session:
    """Run every benchmark once in a process of each side, both at once, which compiles kernels to the sides' caches.

    Args:
        sides: base and head.
        benchmarks: what to time.
        threads: that gathernest may use.
        said: called with 1 three times for each benchmark.
        is_late: when to leave out all benchmarks but the first that are not yet prepared.

    Raises:
        WorkerError: a process ends.
        RevisionError: a side can run nothing.
    """
    arrays = sides[0].folder.parent / "arrays"
    arrays.mkdir()
    written: list[Benchmark] = []
    for benchmark in benchmarks:
        if written and is_late():
            break
        benchmark.write_arrays(arrays)
        written.append(benchmark)
        said(1)
    with ThreadPoolExecutor(len(sides)) as pool:
        of_side = partial(_prepared, benchmarks=written, arrays=arrays, threads=threads, said=said, is_late=is_late)
        answers = list(pool.map(of_side, sides, range(len(sides))))
    turns: dict[str, Turns] = {}
    missing: dict[str, str] = {}
    late = [one.name for one in benchmarks if any(one.name not in answer for answer in answers)]
    for benchmark in benchmarks:
        if benchmark.name in late:
            continue
        of_sides = [answer[benchmark.name] for answer in answers]
        why = [
            f"not there at {side.name}: {answer['missing']}"
            for side, answer in zip(sides, of_sides, strict=True)
            if "missing" in answer
        ]
        if why:
            missing[benchmark.name] = "; ".join(why)
        elif benchmark.forks:
            turns[benchmark.name] = Turns(0, FORKS[benchmark.name])
        else:
            turns[benchmark.name] = _turns(of_sides[0]["number"], statistics.mean(a["ns"] for a in of_sides))
    left = {one.name: one for one in benchmarks if one.name in turns}
    return Session(sides, left, turns, missing, late, arrays, threads)


def _prepared(
    side: Side,
    number: int,
    *,
    benchmarks: Sequence[Benchmark],
    arrays: Path,
    threads: int,
    said: Said,
    is_late: Callable[[], bool],
) -> dict[str, dict[str, Any]]:
    """Return a side's answer for each benchmark that is prepared in time.

    Raises:
        RevisionError: there is nothing that the side can run.
    """
    answers: dict[str, dict[str, Any]] = {}
    cores = _cores(threads)
    with Process.of(side, threads=threads, core=cores[number % len(cores)] if cores else None) as process:
        for benchmark in benchmarks:
            if answers and is_late():
                break
            given = {"fork": benchmark.name, "turns": 2, "starts": True}
            answers[benchmark.name] = process.ask(given if benchmark.forks else _ready(benchmark, arrays))
            said(1)
    reasons = [answer.get("missing") for answer in answers.values()]
    if all(reasons):
        raise RevisionError(f"nothing runs at {side.name}, {side.revision}: {reasons[0]}; name another revision")
    return answers


@contextlib.contextmanager
def _processes(sides: Sequence[Side], threads: int, core: int | None, seed: int) -> Iterator[list[Process]]:
    """Start a process of each side; they hand the baton to each other."""
    with contextlib.ExitStack() as stack:
        first, second = os.pipe(), os.pipe()
        processes: list[Process] = []
        try:
            for side, pipes in zip(sides, ((first[0], second[1]), (second[0], first[1])), strict=True):
                process = Process.of(side, threads=threads, core=core, seed=seed, pipes=pipes)
                processes.append(stack.enter_context(process))
        finally:
            for end in (*first, *second):
                os.close(end)
        yield processes


def _times(
    processes: Sequence[Process], benchmark: Benchmark, turns: Turns, arrays: Path, starts: int
) -> list[list[float]] | None:
    """Return the nanoseconds of each turn of both sides; None where one fails, as a busy machine may make it."""
    given: dict[str, Any] = {"turns": turns.turns, "number": turns.number}
    if benchmark.forks:
        given = {"fork": benchmark.name, "turns": turns.turns}
    elif any("missing" in process.ask(_ready(benchmark, arrays, turns.number)) for process in processes):
        return None
    for number, process in enumerate(processes):
        process.tell({**given, "starts": number == starts})
    answers = [process.heard() for process in processes]
    return None if any("missing" in answer for answer in answers) else [answer["ns"] for answer in answers]


def _log_ratio(base: Sequence[float], head: Sequence[float]) -> float:
    """Return the logarithm of head's time over base's: the mean of both halves, which have other processes first."""
    ratios = [math.log(after / before) for before, after in zip(base, head, strict=True)]
    half = len(ratios) // 2
    return statistics.mean(statistics.median(part) for part in (ratios[:half], ratios[half:]) if part)


def question(kind: str, benchmark: Benchmark, arrays: Path, **given: Any) -> dict[str, Any]:
    """Return the question "ready" or "calls" about a benchmark, for the worker."""
    if benchmark.case is None:
        return {kind: benchmark.name, **given}
    folder = None if benchmark.is_full else str(arrays / benchmark.name)
    return {kind: dataclasses.asdict(benchmark.case), "arrays": folder, **given}


def _ready(benchmark: Benchmark, arrays: Path, number: int = 0) -> dict[str, Any]:
    return question("ready", benchmark, arrays, slot_ns=SLOT_NS, number=number)


def _turns(number: int, ns: float) -> Turns:
    """Return how often calls of so many nanoseconds are timed in a restart; each turn has an untimed call too."""
    turns = int(CASE_NS / (2 * (number + 1) * ns))
    return Turns(number, min(max(turns, FEWEST_TURNS), MOST_TURNS))


def _cores(threads: int) -> list[int]:
    """Return the cores that processes of one thread are placed on: both sides on the same one."""
    return sorted(os.sched_getaffinity(0)) if threads == 1 and hasattr(os, "sched_getaffinity") else []
