"""Which changes of a series are real: the threshold is the series' own noise, as rustc-perf computes it.

The threshold of a series is the third quartile of its absolute relative changes plus three interquartile ranges. What
is compared is the median of the `WINDOW` commits from a commit on with that of the `WINDOW` before it, so one commit
that was disturbed is no change, and neither is a drift that the threshold has seen before. A series of exact numbers,
such as source lines, has no noise: its threshold is 0, and every step of it is a change at its commit.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# Commits on either side of a change of a noisy series: at least, and at most as far as the next change.
WINDOW, WIDE_WINDOW = 3, 10
# Relative changes that a threshold needs at least, and equal neighbours that make a series exact.
FEWEST_CHANGES, FEWEST_EQUAL = 5, 3
# Of an exact series: steps back to the level before the last. A regression that was reverted is one; noise has more.
MOST_REVERSALS = 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit at which otava sees another level, and the probability of that by chance at this commit alone."""

    index: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Change:
    """A change point of a series.

    Attributes:
        index: of the first commit with the new level.
        before, after: the levels: medians of a noisy series, the two values of an exact one.
        p_value: what otava says; None where otava did not run, or did not see it.
    """

    index: int
    before: float
    after: float
    p_value: float | None

    @property
    def relative(self) -> float:
        """The change as a share of the level before; 0.02 is 2 % more."""
        return _relative(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Noise:
    """What a series says of itself.

    Attributes:
        is_exact: its numbers have no noise.
        threshold: the largest relative change that is noise; 0 for an exact series, infinite for one too short to tell.
    """

    is_exact: bool
    threshold: float

    @property
    def is_known(self) -> bool:
        """Whether the series is long enough to tell."""
        return math.isfinite(self.threshold)


def noise_of(values: Sequence[float], changes: Sequence[Change] = ()) -> Noise:
    """Return the noise of a series, measured away from its changes."""
    if _is_exact(values):
        return Noise(True, 0.0)
    return Noise(False, _Windows(values).threshold(*(change.index for change in changes)))


def find_changes(values: Sequence[float], candidates: Sequence[Candidate] = ()) -> list[Change]:
    """Return the change points of a series.

    Args:
        values: finite numbers, one a commit, oldest first.
        candidates: where otava sees another level, oldest first; none where it did not run.

    Returns:
        Of an exact series, each step. Of a noisy one, the candidates and the largest other steps, where the level
        changes by more than the threshold: from the `WINDOW` commits before to the `WINDOW` from it on, and from up to
        `WIDE_WINDOW` to as many.
    """
    p_values = {candidate.index: candidate.p_value for candidate in candidates}
    if _is_exact(values):
        at = [index for index in range(1, len(values)) if values[index] != values[index - 1]]
        return [Change(index, values[index - 1], values[index], p_values.get(index)) for index in at]
    windows = _Windows(values)
    at = sorted([*p_values, *windows.largest(p_values)])
    edges = [0, *at, len(values)]
    found: list[Change] = []
    for begin, index, end in zip(edges, at, edges[2:], strict=False):
        before = float(np.median(values[max(begin, index - WIDE_WINDOW) : index]))
        after = float(np.median(values[index : min(end, index + WIDE_WINDOW)]))
        change = Change(index, before, after, p_values.get(index))
        least = min(abs(change.relative), windows.changes.get(index, 0.0))
        if min(index - begin, end - index) >= WINDOW and least > windows.threshold(index):
            found.append(change)
    return found


class _Windows:
    """The absolute relative changes of a noisy series: between neighbours, and between the windows beside a commit."""

    def __init__(self, values: Sequence[float]):
        self.steps = np.array([abs(_relative(*pair)) for pair in itertools.pairwise(values)])
        self.changes: dict[int, float] = {}
        if len(values) >= 2 * WINDOW:
            medians = np.median(sliding_window_view(np.asarray(values, float), WINDOW), axis=1)
            pairs = zip(medians, medians[WINDOW:], strict=False)
            self.changes = {WINDOW + number: abs(_relative(*pair)) for number, pair in enumerate(pairs)}

    def threshold(self, *without: int) -> float:
        """Return the threshold, measured without the windows that have a change in their middle part."""
        far = [change for at, change in self.changes.items() if all(abs(at - index) >= WINDOW for index in without)]
        steps = np.delete(self.steps, [index - 1 for index in without])
        if not (fence := _fence(steps)):  # most neighbours are equal, and the others are the noise
            fence = math.sqrt(WINDOW) * float(steps.max())
        return max(_fence(far), fence / math.sqrt(WINDOW))

    def largest(self, others: Iterable[int]) -> list[int]:
        """Return the changes above the threshold and away from others, each at the largest step beside it."""
        chosen: list[int] = []
        taken = list(others)
        for index in sorted(self.changes, key=lambda at: -self.changes[at]):
            if self.changes[index] <= self.threshold(index):
                break
            near = max(range(index - 1, index + 2), key=lambda at: self.steps[at - 1])
            if all(abs(near - other) >= 2 * WINDOW for other in taken):
                chosen.append(near)
                taken.append(near)
        return chosen


def _is_exact(values: Sequence[float]) -> bool:
    """Return whether three of four neighbours are equal, the largest step aside, and levels do not alternate."""
    levels = [level for level, _ in itertools.groupby(values)]
    equal, steps = len(values) - len(levels), len(levels) - 1
    reversals = sum(first == third for first, third in zip(levels, levels[2:], strict=False))
    return equal >= max(FEWEST_EQUAL, 3 * (steps - 1)) and reversals <= MOST_REVERSALS


def _fence(changes: Sequence[float] | np.ndarray) -> float:
    """Return the third quartile plus three interquartile ranges; infinite where too few changes are known."""
    if len(changes) < FEWEST_CHANGES:
        return math.inf
    first, third = np.percentile(changes, (25, 75))
    return float(third + 3 * (third - first)) if math.isfinite(third) else math.inf


def _relative(before: float, after: float) -> float:
    if before == after:
        return 0.0
    return (after - before) / abs(before) if before else math.copysign(math.inf, after)
