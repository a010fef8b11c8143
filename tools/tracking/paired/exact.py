"""What two environments differ in exactly, without a clock: the kernels of the suite, and the exact counts."""

import json
import subprocess
from collections.abc import Callable, Sequence
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
# Counts that grow or shrink by less say nothing: other addresses make as much of instructions.
LEAST_CHANGE = 0.005
# A program that prints all counts; its argument is the folder of the benchmarks.
COUNT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from benchmarks.counts import Counted
print(json.dumps(Counted().setup_cache()))
"""


def kernel_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> tuple[str, ...]:
    """Return what the kernels of the suite differ in, as `gathernest bench --static --against` says it.

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
        return (str(error),)
    before, after = (
        StaticReport(conditions, each.versions, each.kernels, {name: {} for name in each.kernels}) for each in found
    )
    changes = differences(before, after, whole=False)
    kernels = len(after.grouped())
    failed = [f"{name}: {why}" for each in found for name, why in each.failed.items()]
    if not changes:
        return (f"all {kernels} kernels have the same schedule and assembly", *failed)
    lines = explained(changes, found[0].versions, found[1].versions)
    return (f"{len(changes)} of {kernels} kernels differ", *lines, *failed)


def count_differences(sides: Sequence[Side], advance: Callable[[int], object]) -> tuple[str, ...]:
    """Return which exact counts differ, largest change first; `advance` is called with 1 for each side."""
    found: list[dict[str, float]] = []
    for side in sides:
        benchmarks = side.folder / "gathernest" / "asv_bench"
        command = [side.python, "-c", COUNT, str(benchmarks)]
        try:
            ended = subprocess.run(
                command, env=side.environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return (f"the counts of {side.name} took more than {LIMIT_S} s",)
        if ended.returncode:
            reason = (ended.stderr.strip().splitlines() or [f"status {ended.returncode}"])[-1]
            return (f"{side.name} cannot be counted: {reason}",)
        found.append(by_name(json.loads(ended.stdout.splitlines()[-1])))
        advance(1)
    return changed_counts(*found)


def by_name(counts: Any, name: str = "") -> dict[str, float]:
    """Return nested counts by their names, joined with spaces; what is no number is left out."""
    if isinstance(counts, dict):
        return {key: value for part in counts for key, value in by_name(counts[part], f"{name} {part}".strip()).items()}
    return {name: counts} if isinstance(counts, int | float) else {}


def changed_counts(before: dict[str, float], after: dict[str, float]) -> tuple[str, ...]:
    """Return a line for each count of both that changed, and how many did not."""
    both = before.keys() & after.keys()
    changes = {name: after[name] - before[name] for name in both}
    changed = [name for name in both if abs(changes[name]) > LEAST_CHANGE * abs(before[name])]
    ordered = sorted(changed, key=lambda name: (-abs(changes[name]) / (abs(before[name]) or 1), name))
    lines = [f"{name}: {before[name]:g} → {after[name]:g}" for name in ordered]
    return (f"{len(changed)} of {len(both)} counts changed by more than {LEAST_CHANGE:.1%}", *lines)
