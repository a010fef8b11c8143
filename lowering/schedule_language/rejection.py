"""What an illegal step says: the step, why, the nest with the loop marked, and the way out."""

import re
from collections.abc import Sequence

from ...ir.errors import ScheduleError

# How the part of a pass's reason begins that says what to do instead.
_ADVICE = re.compile(
    r"; ((?:give|hoist|interchange|leave|make|prefetch|run|tile|unroll|use|vectorize|where)\b.*)", re.DOTALL
)


class StepError(ScheduleError):
    """A step of a schedule is not legal; the nest is as it was before it.

    Attributes:
        step: the call.
        reason: why it is not legal.
        way_out: what to do instead.
        loop: the loop that is marked; None where the step is about none.
        nest: the nest, with the loop marked.
    """

    step: str
    reason: str
    way_out: str
    loop: str | None
    nest: str


def step_error(number: int, call: str, reason: str, remedy: str, nest: str, loops: Sequence[str]) -> StepError:
    """Return the error of an illegal step.

    Args:
        number: of the step, from 1.
        call: the step.
        reason: why it is not legal; advice in it goes before the remedy.
        remedy: what to do instead.
        nest: the nest before the step.
        loops: the loops that the step is about; the one that the reason names first is marked, or else the first.
    """
    advice = _ADVICE.search(reason)
    if advice is not None:
        reason, remedy = reason[: advice.start()], advice[1]
    present = [loop for loop in loops if _head(loop).search(nest)]
    words = re.findall(r"\w+", reason)
    loop = min(present, key=lambda name: words.index(name) if name in words else len(words), default=None)
    marked = mark(nest, loop)
    error = StepError(f"step {number}, {call}, is not legal: {reason}\n\n{marked}\nWay out: {remedy}.")
    error.step, error.reason, error.way_out, error.loop, error.nest = call, reason, remedy, loop, marked
    return error


def mark(nest: str, loop: str | None) -> str:
    """Return a nest with `>` before the line of a loop and its name behind it."""
    head = None if loop is None else _head(loop)
    lines = [
        f"> {line}  <-- {loop}" if head is not None and head.search(line) else f"  {line}" for line in nest.splitlines()
    ]
    return "\n".join(lines) + "\n"


def _head(loop: str) -> re.Pattern[str]:
    return re.compile(rf"\bfor (?:.*, )?{re.escape(loop)}\(.*:$", re.MULTILINE)
