"""What two environments differ in exactly, without a clock: the kernels of the suite, and the exact counts."""

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ....asv_bench.benchmarks.cases import SUITE
from ..static_report.collect import StaticReportError, collect
from ..static_report.command import MACHINE, TARGET, THREADS
from ..static_report.compare import differences
from ..static_report.explain import explained
from ..static_report.kernel_facts import Conditions
from ..static_report.report import StaticReport
from .sides import Side

# Counting takes two minutes of a quiet machine.
LIMIT_S = 1800
# A count has changed if it differs by more than this part, and a count of instructions by more than this number, too:
# other addresses of code and data change instructions by as much.
MIN_CHANGE, MIN_INSTRUCTIONS = 0.005, 60
# A program that prints all counts; its argument is the folder of the benchmarks.
COUNT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from benchmarks.counts import Counted
print(json.dumps(Counted().setup_cache()))
"""


@dataclass(frozen=True, slots=True)
class ExactDifference:
    """What differs without a clock.

    Attributes:
        lines: a summary, then the differences.
        worse: the names of the counts that grew.
        is_known: whether both sides have something to compare.
    """

    lines: tuple[str, ...]
    worse: tuple[str, ...] = ()
    is_known: bool = True


def kernel_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> ExactDifference:
    """Return the differences between the kernels of the suite, as `gathernest bench --static --against` prints them.

    Args:
        sides: base and head.
        advance: called with 1 for each case of each side.
    """
    conditions = Conditions(TARGET, {"base": MACHINE, "threads": THREADS})
    try:
        found = [
            collect(SUITE, conditions, environment=side.environment, python=side.python, advance=advance)
            for side in sides
        ]
    except StaticReportError as error:
        return ExactDifference((str(error),), is_known=False)
    before, after = (
        StaticReport(conditions, each.versions, each.kernels, {name: {} for name in each.kernels}) for each in found
    )
    changes = differences(before, after, whole=False)
    kernels = len(after.grouped())
    failed = [f"{name}: {why}" for each in found for name, why in each.failed.items()]
    if not changes:
        same = f"all {kernels} kernels have the same schedule and assembly"
        return ExactDifference((same, *failed), is_known=kernels > 0)
    lines = explained(changes, found[0].versions, found[1].versions)
    return ExactDifference((f"{len(changes)} of {kernels} kernels differ", *lines, *failed))


def count_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> ExactDifference:
    """Return the exact counts that differ, largest change first; `advance` is called with 1 for each side."""
    found: list[dict[str, float]] = []
    for side in sides:
        benchmarks = side.folder / "gathernest" / "asv_bench"
        command = [side.python, "-c", COUNT, str(benchmarks)]
        try:
            ended = subprocess.run(
                command, env=side.environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return ExactDifference((f"the counts of {side.name} took more than {LIMIT_S} s",), is_known=False)
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]
            return ExactDifference((f"{side.name} cannot be counted: {reason}",), is_known=False)
        found.append(by_name(json.loads(ended.stdout.splitlines()[-1])))
        advance(1)
    return changed_counts(*found)


def by_name(counts: Any, name: str = "") -> dict[str, float]:
    """Return nested counts by their names, joined with spaces; what is no number is left out."""
    if isinstance(counts, dict):
        return {key: value for part in counts for key, value in by_name(counts[part], f"{name} {part}".strip()).items()}
    return {name: counts} if isinstance(counts, int | float) else {}


def changed_counts(before: dict[str, float], after: dict[str, float]) -> ExactDifference:
    """Return a line for each count of both that changed, and the number of those that did not."""
    both = before.keys() & after.keys()
    changes = {name: after[name] - before[name] for name in both}
    changed = [name for name in both if abs(changes[name]) > _noise(name, before[name])]
    ordered = sorted(changed, key=lambda name: (-abs(changes[name]) / (abs(before[name]) or 1), name))
    lines = [f"{name}: {before[name]:g} → {after[name]:g}" for name in ordered]
    summary = f"{len(changed)} of {len(both)} counts changed by more than {MIN_CHANGE:.1%}"
    return ExactDifference((summary, *lines), tuple(name for name in ordered if changes[name] > 0), bool(both))


def _noise(name: str, count: float) -> float:
    """Return the largest change of a count that says nothing."""
    return max(MIN_CHANGE * abs(count), MIN_INSTRUCTIONS if name.startswith("instructions") else 0)
