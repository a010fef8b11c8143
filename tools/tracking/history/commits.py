"""The commits that results are shown for, and what each changed in the static report of its kernels."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ....kernels.host.checkout import RevisionError, git
from ...console.terminal import UsageError

STATIC = "asv_bench/static.json"
# Lines of a static difference that are shown.
MOST_LINES = 40


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the checkout; the date as YYYY-MM-DD."""

    name: str
    date: str
    subject: str

    def to_json(self) -> dict[str, str]:
        """Return it as JSON can hold it."""
        return {"commit": self.name, "date": self.date, "subject": self.subject}


def commits_of(range_: str) -> list[Commit]:
    """Return the commits of a range, such as `v1.0..main`, or a revision with all before it, oldest first.

    Raises:
        UsageError: there is no git or no checkout, or the range names a revision that does not exist.
    """
    try:
        said = git(
            *("log", "--reverse", "--topo-order", "--format=%H%x09%cs%x09%s", "--end-of-options", range_, "--"),
            otherwise=f"there is no revision or range {range_!r}; name a commit, branch or tag, or two with .. between",
        )
    except RevisionError as error:
        raise UsageError(str(error)) from None
    return [Commit(*line.split("\t", 2)) for line in said.splitlines()]


def static_difference(before: str, after: str) -> list[str]:
    """Return what differs between the static reports of two commits, one line a fact that changed."""
    old, new = _static_report(before), _static_report(after)
    if old is None or new is None:
        return [f"no static report at {(before if old is None else after)[:10]}"]
    facts, others = dict(_facts(old)), dict(_facts(new))
    lines = [
        f"{name}: {facts.get(name, 'none')} → {others.get(name, 'none')}"
        for name in dict.fromkeys([*facts, *others])
        if facts.get(name) != others.get(name)
    ]
    if len(lines) > MOST_LINES:
        lines[MOST_LINES:] = [f"and {len(lines) - MOST_LINES} more; git diff {before[:10]} {after[:10]} -- {STATIC}"]
    return lines or ["the static reports are equal: no kernel changed"]


def _static_report(commit: str) -> Any:
    """Return the static report of a commit; None where it has none that can be read."""
    try:
        return json.loads(git("show", f"{commit}:{STATIC}", otherwise="none"))
    except (RevisionError, ValueError):
        return None


def _facts(data: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield each leaf of a report by its path."""
    if isinstance(data, dict | list):
        for name, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _facts(value, (*names, str(name)))
    else:
        yield " ".join(names), str(data)
