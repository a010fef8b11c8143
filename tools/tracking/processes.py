"""Processes of `worker.py`: one is asked; or one of each side of a comparison, fresh in each restart, take turns."""

import contextlib
import json
import math
import os
import random
import select
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True, slots=True)
class Session:
    """Two sides that have run every benchmark once, so that their caches have the kernels.

    Attributes:
        sides: base and head.
        benchmarks: the benchmarks that both sides have, by name.
        turns: the number of calls in a turn, and of turns in a restart, by name.
        missing: why others are not timed, by name.
        late: the benchmarks that there was no time to prepare.
        threads: that gathernest may use; with one, both processes have the same core.
        costs_s: seconds that each takes in a restart, by name.
    """

    sides: tuple[Side, Side]
    benchmarks: Mapping[str, Benchmark]
    turns: Mapping[str, tuple[int, int]]
    missing: Mapping[str, str]
    late: Sequence[str]
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
        order = (1, -1)[number // 2 % 2]  # the side that is prepared last was 3 % faster in some kernels
        found: dict[str, tuple[float, float]] = {}
        with contextlib.ExitStack() as stack:
            settings = {"threads": self.threads, "core": core, "seed": seed}
            processes = [stack.enter_context(Process.of(side, **settings)) for side in self.sides[::order]]
            for name in names:
                begin = time.monotonic()
                times = self._times(processes, name, number % 2)
                self.costs_s[name] = time.monotonic() - begin
                if times is not None:
                    base, head = times[::order]
                    found[name] = _log_ratio(base, head), statistics.median(base)
        return found

    def _times(self, processes: "Sequence[Process]", name: str, first: int) -> list[list[float]] | None:
        """Return the nanoseconds of each turn of both processes; None where one fails, as a busy machine may make it.

        The process of the number `first` has the first turn of each pair, and in the second half of the pairs the
        second.
        """
        benchmark, (calls, turns) = self.benchmarks[name], self.turns[name]
        if not benchmark.forks:
            ready = _ready(benchmark, calls)
            if any("missing" in process.ask(ready) for process in processes):
                return None
        times: list[list[float]] = [[], []]
        for turn in range(turns):
            given = {"turn": name if benchmark.forks else calls, "place": turn / turns}
            begins = first if turn < turns // 2 else 1 - first
            for number in (begins, 1 - begins):
                answer = processes[number].ask(given)
                if "missing" in answer:
                    return None
                times[number].append(answer["ns"])
        return times


class WorkerError(GathernestError):
    """A process of the worker has ended, or is silent."""


class Process:
    """A process of `worker.py`, which is asked by one JSON object a line and answers by one.

    Args:
        python: the interpreter.
        environment: its environment, whose PYTHONPATH names the gathernest that it imports.
        folder: its working folder, which gets a file of its errors.
        name: its name in messages.
        advice: the way out that messages name when it ends.
        threads: that gathernest may use; with one, times are CPU times.
        core: that it runs on; None for all.
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
    ):
        self.name, self.advice = name, advice
        self.errors = tempfile.TemporaryFile("w+", dir=folder, encoding="utf-8")  # noqa: SIM115  # see __exit__
        settings = json.dumps({"cases": str(CASES), "threads": threads, "core": core})
        self.process = subprocess.Popen(
            [python, "-P", str(WORKER), settings],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
            cwd=folder,
        )

    @classmethod
    def of(cls, side: Side, *, threads: int, core: int | None = None, seed: int = 0) -> "Process":
        """Return a process with the package of a side; a place of its own for the stack, and for hashed objects."""
        environment = side.environment | {
            "GATHERNEST_NUM_THREADS": str(threads),
            "PYTHONHASHSEED": str(seed),
            "GATHERNEST_COMPARE_PADDING": "x" * random.randrange(MAX_PADDING),
        }
        name = f"the process of {side.name}, {side.revision},"
        return cls(side.python, environment, side.folder, name, "name another revision", threads=threads, core=core)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.process.kill()
        with contextlib.suppress(OSError):
            self.process.communicate()
        self.errors.close()

    def ask(self, given: dict[str, Any], limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Send one object and return the answer; raises WorkerError where the process ends, or is silent for long."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # a process that has ended shows when its answer is read
            self.process.stdin.write(json.dumps(given) + "\n")
            self.process.stdin.flush()
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


def prepare(
    sides: tuple[Side, Side],
    benchmarks: Sequence[Benchmark],
    threads: int,
    said: Callable[[int], None],
    is_late: Callable[[], bool] = bool,
) -> Session:
    """Run every benchmark once in a process of each side, both at once, which compiles kernels to the sides' caches.

    Args:
        sides: base and head.
        benchmarks: the benchmarks to time.
        threads: that gathernest may use.
        said: called with 1 for each benchmark of each side.
        is_late: when to leave out all benchmarks but the first that are not yet prepared.

    Raises:
        WorkerError: a process ends.
        RevisionError: a side can run nothing.
    """
    cores = _cores(threads)

    def ask(number: int) -> dict[str, dict[str, Any]]:
        side, answers = sides[number], dict[str, dict[str, Any]]()
        with Process.of(side, threads=threads, core=cores[number % len(cores)] if cores else None) as process:
            for benchmark in benchmarks:
                if answers and is_late():
                    break
                given = {"turn": benchmark.name} if benchmark.forks else _ready(benchmark)
                answers[benchmark.name] = process.ask(given)
                said(1)
        reasons = [answer.get("missing") for answer in answers.values()]
        if all(reasons):
            raise RevisionError(f"nothing runs at {side.name}, {side.revision}: {reasons[0]}; name another revision")
        return answers

    with ThreadPoolExecutor(len(sides)) as pool:
        answers = list(pool.map(ask, range(len(sides))))
    left, turns = dict[str, Benchmark](), dict[str, tuple[int, int]]()
    missing, late = dict[str, str](), list[str]()
    for benchmark in benchmarks:
        name = benchmark.name
        found = [(side, answer.get(name)) for side, answer in zip(sides, answers, strict=True)]
        if any(answer is None for _, answer in found):
            late.append(name)
        elif why := [f"not there at {side.name}: {one['missing']}" for side, one in found if one and "missing" in one]:
            missing[name] = "; ".join(why)
        else:
            left[name] = benchmark
            ns, number = statistics.mean(answer[name]["ns"] for answer in answers), answers[0][name].get("number", 1)
            turns[name] = (1, FORKS[name]) if benchmark.forks else (number, _turns(number, ns))
    return Session(sides, left, turns, missing, late, threads)


def _log_ratio(base: Sequence[float], head: Sequence[float]) -> float:
    """Return the logarithm of head's time over base's: the mean of both halves, which have other processes first."""
    ratios = [math.log(after / before) for before, after in zip(base, head, strict=True)]
    half = len(ratios) // 2
    return statistics.mean(statistics.median(part) for part in (ratios[:half], ratios[half:]) if part)


def _ready(benchmark: Benchmark, number: int = 0) -> dict[str, Any]:
    return {"ready": benchmark.question, "slot_ns": SLOT_NS, "number": number}


def _turns(number: int, ns: float) -> int:
    """Return the turns in a restart, each of `number` calls of `ns` nanoseconds and an untimed one."""
    return min(max(int(CASE_NS / (2 * (number + 1) * ns)), FEWEST_TURNS), MOST_TURNS)


def _cores(threads: int) -> list[int]:
    """Return the cores that processes of one thread are placed on: both sides on the same one."""
    return sorted(os.sched_getaffinity(0)) if threads == 1 and hasattr(os, "sched_getaffinity") else []
