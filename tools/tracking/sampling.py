"""When to stop, and the verdicts: restarts until every benchmark is decided, or the time is up.

The unit is the restart: its logarithm of head's time divided by base's is one number. The numbers are looked at three
times, at fixed shares of the time. Each look has a share of the error, and computes an interval for
every benchmark that is not yet decided, which misses with the probability

    error · share of the look / number of benchmarks

at most. The part of its share that a look cannot use, because few restarts say nothing at that error, goes to the next
one. So by the union bound all intervals of all looks hold together, but for the error. Equal revisions thus raise any
alarm in at most that share of comparisons, whatever depends on what, and wherever the noise has its outliers.

Intervals follow from Wilcoxon's signed ranks. It is exact for numbers from any symmetric distribution. The logarithms
of paired ratios have one when both sides of a pair are alike: exchanging them changes the sign alone. So the error rate
holds on a busy machine with far outliers.

After the first restart, the benchmarks that come last are dropped until enough restarts fit the time. A benchmark that
is undecided at the end is probably slower, or faster, if each of its restarts is: see `PROBABLE_RATIO`.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np


def interval(numbers: Sequence[float], error: float) -> tuple[float, float]:
    """Return an interval that misses the centre of symmetry of the numbers' distribution with probability `error`.

    It is infinite where so few numbers say nothing at that error: n of them reach 2 / 2**n.
    """
    ordered = walsh_averages(numbers)
    left_out = _left_out(len(numbers), error / 2)
    return (-math.inf, math.inf) if left_out < 0 else (ordered[left_out], ordered[-1 - left_out])


def chance_of_missing(count: int, error: float) -> float:
    """Return the probability that the interval of `count` numbers misses: `error` at most, 0 where it is infinite."""
    left_out = _left_out(count, error / 2)
    return 0.0 if left_out < 0 else 2 * float(np.sum(_rank_sums(count)[: left_out + 1]))


def centre(numbers: Sequence[float]) -> float:
    """Return the estimate by Hodges and Lehmann: the median of the averages of all pairs."""
    return float(np.median(walsh_averages(numbers)))


def walsh_averages(numbers: Sequence[float]) -> np.ndarray:
    """Return the averages of all pairs of numbers, each with itself too, ascending."""
    values = np.asarray(numbers, float)
    first, second = np.triu_indices(len(values))
    return np.sort((values[first] + values[second]) / 2)


@functools.cache
def _left_out(count: int, error: float) -> int:
    """Return the number of averages outside an end of the interval, which misses with probability `error` at most.

    -1 where even the largest average is not far enough.
    """
    below = np.cumsum(_rank_sums(count))
    return int(np.searchsorted(below, error, side="right")) - 1


def _rank_sums(count: int) -> np.ndarray:
    """Return the distribution of the sum of the positive ranks of `count` numbers whose signs are coin flips."""
    chances = np.zeros(count * (count + 1) // 2 + 1)
    chances[0] = 1
    for rank in range(1, count + 1):
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    return chances


Verdict = Literal["slower", "faster", "same", "probably slower", "probably faster", "cannot tell"]

# The probability that a comparison of equal revisions raises any alarm.
ERROR = 0.05
# At a share of the time, a share of the error.
LOOKS = ((0.4, 0.2), (0.7, 0.3), (1.0, 0.5))
# A change is reported when it is larger: where code lies in memory makes as much.
TOLERANCE = 0.01
# "same" is no change as large as the first; of the start of a process, which varies most, as the second.
MARGIN, START_MARGIN = 0.03, 0.10
# An undecided benchmark is probably slower if its ratio is larger in every restart, of which there may be one.
PROBABLE_RATIO = 1.3


@dataclass(slots=True)
class Series:
    """A benchmark's restarts and its verdict.

    Attributes:
        name: of the benchmark.
        margin: a change of less than this is none, as a part of the time.
        log_ratios: of each restart, the logarithm of head's time divided by base's.
        base_ns: of each restart, base's time.
        verdict: "cannot tell" until an interval tells.
        low, high: of the ratio, by the last look that it had.
        unspent: the error that its looks have left.
    """

    name: str
    margin: float
    log_ratios: list[float] = field(default_factory=list)
    base_ns: list[float] = field(default_factory=list)
    verdict: Verdict = "cannot tell"
    low: float = 0.0
    high: float = math.inf
    unspent: float = 0.0

    @property
    def ratio(self) -> float:
        """Head's time divided by base's."""
        return math.exp(centre(self.log_ratios)) if self.log_ratios else math.nan

    @property
    def median_ns(self) -> float | None:
        """Base's time; None before the first restart."""
        return sorted(self.base_ns)[len(self.base_ns) // 2] if self.base_ns else None

    def look(self, error: float) -> None:
        """Decide by an interval of that error, and of the error that the looks before have left, if it tells."""
        self.unspent += error
        low, high = interval(self.log_ratios, self.unspent)
        self.unspent -= chance_of_missing(len(self.log_ratios), self.unspent)
        self.low, self.high = math.exp(low), math.exp(high)
        if self.low > 1 + TOLERANCE:
            self.verdict = "slower"
        elif self.high < 1 / (1 + TOLERANCE):
            self.verdict = "faster"
        elif 1 / (1 + self.margin) < self.low and self.high < 1 + self.margin:
            self.verdict = "same"

    def guess(self) -> None:
        """Take a large ratio in every restart for a probable change; no error rate holds for it."""
        limit = math.log(PROBABLE_RATIO)
        if self.log_ratios and min(self.log_ratios) > limit:
            self.verdict = "probably slower"
        elif self.log_ratios and max(self.log_ratios) < -limit:
            self.verdict = "probably faster"


def fewest_restarts(benchmarks: int) -> int:
    """Return the number of restarts that the last look needs to decide about one of some benchmarks."""
    return math.ceil(1 + math.log2(benchmarks / ERROR))


def affordable(
    series: Sequence[Series], costs_s: Mapping[str, float], restart_s: float, seconds: float
) -> list[Series]:
    """Return the first benchmarks that leave time for enough restarts, one at least.

    Args:
        series: the most telling ones first.
        costs_s: seconds of each in a restart, by name.
        restart_s: seconds of a restart of all, of which there was one.
        seconds: for all restarts.
    """
    kept, left_s = list(series), seconds - restart_s
    while len(kept) > 1 and (fewest_restarts(len(kept)) - 1) * restart_s > left_s:
        restart_s -= costs_s.get(kept.pop().name, 0.0)
    return kept


def sample(
    series: Sequence[Series],
    restart: Callable[[list[str], int], Mapping[str, tuple[float, float]]],
    seconds: float,
    clock: Callable[[], float],
    costs_s: Mapping[str, float] = MappingProxyType({}),
) -> tuple[int, list[Series]]:
    """Restart and look until all is decided or the time is up.

    Args:
        series: empty, the most telling ones first; filled here.
        restart: times the benchmarks of these names, for the restart of this number; returns logarithm and time.
        seconds: how long, from now.
        clock: seconds, monotonic.
        costs_s: seconds of each benchmark in the last restart, by name.

    Returns:
        The number of restarts, and the series that there was time for.
    """
    kept = undecided = list(series)
    begin, restarts, last = clock(), 0, 0.0
    for share, of_error in LOOKS:
        while clock() - begin + last / 2 < share * seconds:
            start = clock()
            for name, (log_ratio, base_ns) in restart([one.name for one in undecided], restarts).items():
                one = next(each for each in undecided if each.name == name)
                one.log_ratios.append(log_ratio)
                one.base_ns.append(base_ns)
            restarts, last = restarts + 1, clock() - start
            if restarts == 1:
                kept = undecided = affordable(series, costs_s, last, seconds)
        for one in undecided:
            one.look(ERROR * of_error / len(kept))
        undecided = [one for one in undecided if one.verdict == "cannot tell"]
        if not undecided:
            break
    for one in undecided:
        one.guess()
    return restarts, kept
