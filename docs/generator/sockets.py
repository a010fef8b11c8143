"""The prediction of gathers for a machine of several sockets, which docs/experiments/threads.md shows.

python docs/generator/sockets.py docs/two_sockets.json
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from gathernest.ir.errors import GathernestError
from gathernest.ir.numbers import parse_json
from gathernest.kernels.host.machine import described_machine
from gathernest.kernels.runtime.layout import Layout
from gathernest.lowering.schedule.machine_model import MachineModel
from gathernest.lowering.schedule.predict import Terms
from gathernest.lowering.schedule.predict import predict as predict_terms
from gathernest.lowering.schedule.shared_kernels import choose_shared
from gathernest.tools.bench.cases import Case, describe, problem_of_case
from gathernest.tools.bench.report import ratio_text
from gathernest.tools.console.terminal import markdown_table, time_text

# What bounds a gather stands for its family.
CASES = (
    Case("scalars from a line", "instructions", (16,), (200_000,)),
    Case("scalars from the first cache", "instructions", (4096,), (400_000,)),
    Case("last axis in the caches", "instructions", (512, 1024), (512,), axis=1),
    Case("scalars", "latency", (64_000_000,), (400_000,)),
    Case("rows of 64 B", "latency", (4_000_000, 16), (100_000,)),
    Case("rows of 256 B", "latency", (1_000_000, 64), (100_000,)),
    Case("rows of 64 KB", "bandwidth", (2000, 16384), (150,)),
    Case("last axis", "bandwidth", (8192, 1024), (512,), axis=1),
)

# The largest number of a machine's file: sockets, cores, nanoseconds and ratios.
_MAX_NUMBER = 1e6


@dataclass(frozen=True, slots=True)
class Sockets:
    """A machine of several sockets.

    Attributes:
        core: the model of one core, with the memory of its socket.
        sockets, cores: the number of sockets, and of cores in each.
        launch_ns_of_thread: the time that each thread adds to a launch.
        remote_lines: how many times as long a random line of memory takes where the threads of all sockets read it.
    """

    core: MachineModel
    sockets: int
    cores: int
    launch_ns_of_thread: float
    remote_lines: float

    @property
    def threads(self) -> list[int]:
        """The numbers of threads to predict for."""
        return sorted({1, 2, 8, self.cores // 2 or 1, self.cores, self.cores * self.sockets})

    def model(self, threads: int) -> MachineModel:
        """Return the model with `threads` threads, on as few sockets as they need."""
        core, used = self.core, -(-threads // self.cores)
        times = self.remote_lines if used > 1 else 1.0
        return replace(
            core,
            threads=threads,
            launch_ns=core.launch_ns + threads * self.launch_ns_of_thread,
            memory_bytes_per_ns=used * core.memory_bytes_per_ns,
            memory_ns=times * core.memory_ns,
            line_ns=(*core.line_ns[:3], times * core.line_ns[3]),
        )


@dataclass(frozen=True, slots=True)
class Predicted:
    """A gather and its prediction for each number of threads."""

    case: Case
    by_threads: dict[int, Terms]


def read_sockets(path: Path) -> Sockets:
    """Return the machine in a file: a JSON object of the fields of `Sockets`, `core` as GATHERNEST_MACHINE takes it.

    Raises:
        GathernestError: the file cannot be read, or describes none.
    """
    names = [field.name for field in fields(Sockets)]
    try:
        said: Any = parse_json(path.read_bytes())
        if not isinstance(said, dict) or sorted(said) != sorted(names):
            raise ValueError(f"has not the fields {', '.join(names)}")
        numbers = {name: said[name] for name in names if name != "core"}
        for name, value in numbers.items():
            is_right = type(value) is int if name in ("sockets", "cores") else type(value) in (int, float)
            if not is_right or not 1 <= value <= _MAX_NUMBER:
                raise ValueError(f"says {name} = {json.dumps(value)}, expected a number from 1 to {_MAX_NUMBER:g}")
        core, _ = described_machine(said["core"])
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GathernestError(f"{path} describes no machine of several sockets ({reason})") from None
    return Sockets(core, **numbers)


def predict(cases: Sequence[Case], machine: Sockets) -> list[Predicted]:
    """Return the prediction of each case, with the schedule that is chosen for the number of threads."""
    return [
        Predicted(case, {threads: _predicted(case, machine, threads) for threads in machine.threads}) for case in cases
    ]


def _predicted(case: Case, machine: Sockets, threads: int) -> Terms:
    problem = problem_of_case(case)
    nest, model = Layout.of(problem.into(problem.result)).nest, machine.model(threads)
    return predict_terms(choose_shared(nest, model).schedule, nest, model)


def predictions_as_markdown(predicted: Sequence[Predicted]) -> str:
    """Return a table: the time on one thread, how many times as fast more threads are, and the largest term of all."""
    rows: list[tuple[str, ...]] = []
    for one in predicted:
        (_, alone), *others = one.by_threads.items()
        gains = [ratio_text(alone.time_us / each.time_us) for _, each in others]
        terms = others[-1][1]._asdict() if others else alone._asdict()
        name = f"{one.case.name}: {describe(one.case)}"
        rows.append((one.case.family, name, time_text(alone.time_us), *gains, max(terms, key=lambda term: terms[term])))
    counts = list(predicted[0].by_threads)
    numbers = (f">{count}" for count in counts[1:])
    return markdown_table(("bound by", "what", ">1 thread", *numbers, f"largest term on {counts[-1]}"), rows)


if __name__ == "__main__":
    print(predictions_as_markdown(predict(CASES, read_sockets(Path(sys.argv[1])))))
