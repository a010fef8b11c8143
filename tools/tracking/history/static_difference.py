"""What a commit changed in the code of kernels: its committed static report beside that of another commit."""

import functools

from ....kernels.host.checkout import RevisionError, git
from ..static_report.command import COMMITTED
from ..static_report.compare import differences
from ..static_report.explain import explained
from ..static_report.report import StaticFileError, StaticReport, read_report

# Lines that are shown.
MOST_LINES = 60


def static_difference(before: str, after: str) -> list[str]:
    """Return lines that say what differs between the static reports of two commits, or why nothing can be said."""
    try:
        old, new = _report_at(before), _report_at(after)
    except StaticFileError as error:
        return [str(error)]
    if old.conditions != new.conditions:
        return ["the static reports are for different machines"]
    changes = differences(old, new)
    lines = [line for line in explained(changes, old.versions, new.versions) if line]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"… {len(lines) - MOST_LINES} more lines: git diff {before} {after} -- {COMMITTED}"]
    return lines or ["the static reports are equal, so no kernel changed"]


@functools.lru_cache(maxsize=8)
def _report_at(commit: str) -> StaticReport:
    try:
        text = git("show", f"{commit}:{COMMITTED}", otherwise="")
    except RevisionError:
        raise StaticFileError(f"no static report at {commit[:10]}") from None
    return read_report(text, f"{COMMITTED} of {commit[:10]}")
