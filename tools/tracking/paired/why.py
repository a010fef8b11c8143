"""Why a kernel is slower or faster: what its code differs in, by the static report, or that it does not differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ....kernels.host.machine import known_machine
from ..static_report.collect import Collected, StaticReportError, collect
from ..static_report.compare import differences
from ..static_report.explain import explained
from ..static_report.kernel_facts import Conditions
from ..static_report.report import StaticReport
from .benchmarks import BENCHMARKS
from .sides import Side

MOST_LINES = 60
UNCHANGED = "schedule and assembly are unchanged, so the kernel is not the cause"


@dataclass(frozen=True, slots=True)
class Why:
    """What explains an alarm.

    Attributes:
        summary: one line: what differs first, or that nothing does.
        lines: the loops that differ, with the difference of their instructions.
        is_code: whether the kernel's code differs; None where it cannot be shown.
    """

    summary: str
    lines: tuple[str, ...] = ()
    is_code: bool | None = None


def explain_kernels(
    sides: Sequence[Side], names: Sequence[str], threads: int, advance: Callable[[int], object]
) -> dict[str, Why]:
    """Compile the kernels of cases at both sides for this machine, and return what differs.

    Args:
        sides: base and head.
        names: of the cases.
        threads: that schedules share the work among.
        advance: called with 1 for each kernel of each side.
    """
    cases = [case for name in names if (case := BENCHMARKS[name].case) is not None]
    conditions = Conditions(None, _this_machine(threads))
    try:
        base, head = (
            collect(cases, conditions, environment=side.environment, python=side.python, advance=advance)
            for side in sides
        )
    except StaticReportError as error:
        return dict.fromkeys(names, Why(f"the code cannot be shown: {error}"))
    return {name: _why(name, base, head, conditions) for name in names}


def _this_machine(threads: int) -> dict[str, object]:
    """Return the machine model that the timed processes have, as the fields of a file."""
    model = known_machine().model
    caches = {field: getattr(model, field) for field in ("l1_bytes", "l2_bytes", "l3_bytes")}
    return {"base": model.name, "threads": threads, **caches}


def _why(name: str, base: Collected, head: Collected, conditions: Conditions) -> Why:
    failed = base.failed.get(name) or head.failed.get(name)
    if failed is not None:
        return Why(f"the code cannot be shown: {failed}")
    before, after = (
        StaticReport(conditions, found.versions, {name: found.kernels[name]}, {name: {}}) for found in (base, head)
    )
    changes = differences(before, after)
    if all(change.same_code for change in changes):
        return Why(UNCHANGED, is_code=False)
    summary, *lines = explained(changes, before.versions, after.versions)
    more = len(lines) - MOST_LINES
    shown = [*lines[:MOST_LINES], *([f"... {more} more lines"] if more > 0 else [])]
    return Why(summary.removesuffix(f": {name}"), tuple(line for line in shown if line), is_code=True)
