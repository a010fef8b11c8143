"""Differences that need no clock: the cause of an alarm, the kernels of the suite, and the exact counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...asv_bench.benchmarks.cases import SUITE, Case
from ...kernels.host.machine import known_machine
from . import MACHINE, TARGET, THREADS
from .benchmarks import Benchmark
from .differences import differences, explained
from .kernel_facts import Conditions, StaticReport, collect
from .processes import LIMIT_S, Process, WorkerError
from .sides import Side

MAX_LINES = 60
UNCHANGED = "schedule and assembly are unchanged, so the kernel is not the cause: compare it again, alone"
# Counting takes two minutes of a quiet machine.
COUNT_LIMIT_S = 1800
# A count has changed if it differs by more than this part, and a count of instructions by more than this number, too:
# other addresses of code and data change instructions by as much.
MIN_CHANGE, MIN_INSTRUCTIONS = 0.005, 60
# Files of gathernest and passes whose numbers of called functions are listed for an alarm.
MAX_CALLERS = 12


@dataclass(frozen=True, slots=True)
class Finding:
    """A difference that needs no clock, or the explanation of an alarm.

    Attributes:
        summary: one line: the first difference, or that there is none.
        lines: the differences.
        is_code: of an alarm, whether the kernel's code differs; None where it cannot be shown, or it is no kernel.
        worse: the names of the counts that grew.
        is_known: whether both sides have something to compare.
    """

    summary: str
    lines: tuple[str, ...] = ()
    is_code: bool | None = None
    worse: tuple[str, ...] = ()
    is_known: bool = True


def explain_alarms(
    sides: Sequence[Side], alarms: Sequence[Benchmark], threads: int, advance: Callable[[int], object]
) -> dict[str, Finding]:
    """Return the causes of alarms by name: the code of kernels, and the Python functions that others call.

    Args:
        sides: base and head.
        alarms: benchmarks that are slower or faster.
        threads: that schedules share the work among.
        advance: called with 1 for each alarm of each side.
    """
    cases = [alarm.case for alarm in alarms if alarm.is_kernel and alarm.case is not None]
    found = {alarm.name: _explain_calls(sides, alarm, advance) for alarm in alarms if not alarm.is_kernel}
    if not cases:
        return found
    model = known_machine().model
    caches = {field: getattr(model, field) for field in ("l1_bytes", "l2_bytes", "l3_bytes")}
    conditions = Conditions(None, {"base": model.name, "threads": threads, **caches})  # as the timed processes have it
    try:
        base, head = _reports(sides, cases, conditions, advance)
    except WorkerError as error:
        return found | {case.name: Finding(f"the code cannot be shown: {error}") for case in cases}
    return found | {case.name: explain_code(case.name, base, head) for case in cases}


def _reports(
    sides: Sequence[Side], cases: Sequence[Case], conditions: Conditions, advance: Callable[[int], object]
) -> list[StaticReport]:
    return [
        collect(cases, conditions, environment=side.environment, python=side.python, advance=advance) for side in sides
    ]


def explain_code(name: str, base: StaticReport, head: StaticReport) -> Finding:
    """Return the difference between the kernels of a case."""
    failed = base.failed.get(name) or head.failed.get(name)
    if failed is not None:
        return Finding(f"the code cannot be shown: {failed}")
    changes = differences(base.only(name), head.only(name))
    if all(change.same_code for change in changes):
        return Finding(UNCHANGED, is_code=False)
    summary, *lines = explained(changes, base.versions, head.versions)
    more = len(lines) - MAX_LINES
    shown = [*lines[:MAX_LINES], *([f"... {more} more lines"] if more > 0 else [])]
    return Finding(summary.removesuffix(f": {name}"), tuple(line for line in shown if line), is_code=True)


def _explain_calls(sides: Sequence[Side], alarm: Benchmark, advance: Callable[[int], object]) -> Finding:
    """Return the difference in the Python functions that a call, the pipeline or an import calls."""
    asked = {"calls": {"of": "import"} if alarm.forks else alarm.question}
    try:
        before, after = _ask_sides(sides, [asked, asked], LIMIT_S, advance)
    except WorkerError as error:
        return Finding(str(error))
    return compare_calls(before["calls"], after["calls"])


def _ask_sides(
    sides: Sequence[Side], questions: Sequence[dict[str, Any]], limit_s: float, advance: Callable[[int], object]
) -> list[dict[str, Any]]:
    """Return the answer of a fresh process of each side to its question; raises WorkerError where a side has none."""
    answers: list[dict[str, Any]] = []
    for side, question in zip(sides, questions, strict=True):
        try:
            with Process.of(side, threads=1) as process:
                answer = process.ask(question, limit_s)
        except WorkerError as error:
            answer = {"missing": str(error)}
        if "missing" in answer:
            raise WorkerError(f"{side.name} cannot be counted: {answer['missing']}")
        answers.append(answer)
        advance(1)
    return answers


def compare_calls(before: Mapping[str, int], after: Mapping[str, int]) -> Finding:
    """Return the passes and files whose numbers of called functions differ, the largest difference first."""
    numbers = {name: (before.get(name, 0), after.get(name, 0)) for name in {*before, *after}}
    changed = [name for name, (old, new) in numbers.items() if abs(new - old) > MIN_CHANGE * old]
    if not changed:
        return Finding("it calls as many Python functions as before, so they are not the cause")
    changed.sort(key=lambda name: (-abs(numbers[name][1] - numbers[name][0]), name))
    lines = [f"{name}: {numbers[name][0]} → {numbers[name][1]}" for name in changed[:MAX_CALLERS]]
    more = [f"and {len(changed) - MAX_CALLERS} more"] if len(changed) > MAX_CALLERS else []
    totals = f"{sum(before.values())} → {sum(after.values())}"
    return Finding(f"it calls {totals} Python functions; by pass and file:", (*lines, *more))


def kernel_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> Finding:
    """Return the differences between the kernels of the suite, as `gathernest bench --static --against` prints them.

    Args:
        sides: base and head.
        advance: called with 1 for each case of each side.
    """
    conditions = Conditions(TARGET, {"base": MACHINE, "threads": THREADS})
    try:
        before, after = _reports(sides, SUITE, conditions, advance)
    except WorkerError as error:
        return Finding(str(error), is_known=False)
    changes = differences(before, after, whole=False)
    kernels = len(after.grouped())
    failed = [f"{name}: {why}" for each in (before, after) for name, why in each.failed.items()]
    if not changes:
        same = f"all {kernels} kernels have the same schedule and assembly"
        return Finding(same, tuple(failed), is_known=kernels > 0)
    lines = explained(changes, before.versions, after.versions)
    return Finding(f"{len(changes)} of {kernels} kernels differ", (*lines, *failed))


def count_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> Finding:
    """Return the exact counts that differ, largest change first; `advance` is called with 1 for each side."""
    try:
        questions = [{"counts": str(side.folder / "gathernest" / "asv_bench")} for side in sides]
        answers = _ask_sides(sides, questions, COUNT_LIMIT_S, advance)
    except WorkerError as error:
        return Finding(str(error), is_known=False)
    return changed_counts(*(counts_by_name(answer["counts"]) for answer in answers))


def counts_by_name(counts: Any, name: str = "") -> dict[str, float]:
    """Return nested counts by their names, joined with spaces; values that are no numbers are left out."""
    if isinstance(counts, dict):
        parts = (counts_by_name(counts[part], f"{name} {part}".strip()) for part in counts)
        return {key: value for part in parts for key, value in part.items()}
    return {name: counts} if isinstance(counts, int | float) else {}


def changed_counts(before: Mapping[str, float], after: Mapping[str, float]) -> Finding:
    """Return a line for each count of both that changed, and the number of all."""
    both = before.keys() & after.keys()
    changes = {name: after[name] - before[name] for name in both}
    changed = [name for name in both if abs(changes[name]) > _count_noise(name, before[name])]
    ordered = sorted(changed, key=lambda name: (-abs(changes[name]) / (abs(before[name]) or 1), name))
    lines = [f"{name}: {before[name]:g} → {after[name]:g}" for name in ordered]
    summary = f"{len(changed)} of {len(both)} counts changed by more than {MIN_CHANGE:.1%}"
    worse = tuple(name for name in ordered if changes[name] > 0)
    return Finding(summary, tuple(lines), worse=worse, is_known=bool(both))


def _count_noise(name: str, count: float) -> float:
    """Return the largest change of a count that means nothing."""
    return max(MIN_CHANGE * abs(count), MIN_INSTRUCTIONS if name.startswith("instructions") else 0)
