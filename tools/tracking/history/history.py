"""The history of stored results: series over commits, their noise and change points, and why each change came."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .commits import Commit
from .noise import Candidate, Change, Noise, find_changes, noise_of
from .series import Series
from .static_difference import static_difference


@dataclass(frozen=True, slots=True)
class Judged:
    """A series with its noise and its change points."""

    series: Series
    noise: Noise
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """What changed at a commit.

    Attributes:
        since: the commit that was measured before it.
        between: commits from `since` to this one; any of them can be the cause. 1 where each was measured.
        changes: with their series, the largest first.
        static: what differs between the static reports of both, a line each.
    """

    commit: Commit
    since: Commit
    between: int
    changes: tuple[tuple[Series, Change], ...]
    static: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class History:
    """Everything that the page shows.

    Attributes:
        commits: those with results, oldest first.
        judged: every series, by group and name.
        at: commits with changes, the newest first.
        otava: its version; "" where the thresholds alone decided.
        notes: lines about what was left out.
    """

    commits: Sequence[Commit]
    judged: Sequence[Judged]
    at: Sequence[CommitChanges]
    otava: str
    notes: Sequence[str]

    def regressions(self, after: int = 0) -> Iterator[tuple[CommitChanges, Series, Change]]:
        """Yield the changes for the worse at commits from the `after`-th on."""
        late = {commit.name for commit in self.commits[after:]}
        for group in self.at:
            if group.commit.name in late:
                yield from ((group, *pair) for pair in group.changes if pair[1].after > pair[1].before)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it; a threshold that is not known is null."""
        return {
            "commits": [commit.to_json() for commit in self.commits],
            "otava": self.otava or None,
            "notes": list(self.notes),
            "changes": [
                {
                    "commit": at.commit.name,
                    "date": at.commit.date,
                    "subject": at.commit.subject,
                    "since": at.since.name,
                    "commits_between": at.between,
                    "static": list(at.static),
                    "series": [_change_json(series, change) for series, change in at.changes],
                }
                for at in self.at
            ],
            "series": [
                {
                    "name": judged.series.name,
                    "group": judged.series.group,
                    "unit": judged.series.unit,
                    "is_exact": judged.noise.is_exact,
                    "threshold": judged.noise.threshold if judged.noise.is_known else None,
                    "commits": list(judged.series.commits),
                    "values": list(judged.series.values),
                }
                for judged in self.judged
            ],
        }


def judge(series: Sequence[Series], candidates: Mapping[str, Sequence[Candidate]]) -> list[Judged]:
    """Return series with their change points; `candidates` are otava's by the key of a series, empty without it."""
    judged: list[Judged] = []
    for each in series:
        found = find_changes(each.values, candidates.get(each.key, ()))
        judged.append(Judged(each, noise_of(each.values, found), tuple(found)))
    return judged


def make_history(
    commits: Sequence[Commit], judged: Sequence[Judged], *, otava: str, notes: Sequence[str] = ()
) -> History:
    """Return the history of series over the commits of a range, oldest first."""
    places = {commit.name: place for place, commit in enumerate(commits)}
    grouped: dict[tuple[int, int], list[tuple[Series, Change]]] = {}
    for each in judged:
        for change in each.changes:
            at, since = (places[each.series.commits[index]] for index in (change.index, change.index - 1))
            grouped.setdefault((at, since), []).append((each.series, change))
    found = [
        CommitChanges(
            commits[at],
            commits[since],
            at - since,
            tuple(sorted(grouped[at, since], key=lambda pair: -abs(pair[1].relative))),
            tuple(static_difference(commits[since].name, commits[at].name)),
        )
        for at, since in sorted(grouped, reverse=True)
    ]
    measured = {commit for each in judged for commit in each.series.commits}
    return History([commit for commit in commits if commit.name in measured], judged, found, otava, notes)


def _change_json(series: Series, change: Change) -> dict[str, Any]:
    return {
        "name": series.name,
        "group": series.group,
        "before": change.before,
        "after": change.after,
        "relative": change.relative if change.before else None,
        "p_value": change.p_value,
    }
