"""When to stop, and the verdicts: restarts until every benchmark is decided, or the time is up.

The unit is the restart: its logarithm of head's time divided by base's is one number. The numbers are looked at three
times, at fixed shares of the time. Each look has a share of the error, and computes an interval (`signed_rank`) for
every benchmark that is not yet decided, which misses with the probability

    error · share of the look / number of benchmarks

at most. What a look leaves of its share, because so few restarts say nothing at that error, the next one has too. So by
the union bound all intervals of all looks hold together, but for the error. Equal revisions thus raise any alarm
in at most that share of comparisons, whatever depends on what, and wherever the noise has its outliers.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .signed_rank import centre, chance_of_missing, interval

Verdict = Literal["slower", "faster", "same", "cannot tell"]

# Of a comparison: how often equal revisions are said to differ in anything.
ERROR = 0.05
# At a share of the time, a share of the error.
LOOKS = ((0.4, 0.2), (0.7, 0.3), (1.0, 0.5))
# A change is reported when it is larger: where code lies in memory makes as much.
TOLERANCE = 0.01
# "same" is no change as large as this; of what starts a process, which varies most, as this.
MARGIN, START_MARGIN = 0.03, 0.10


@dataclass(slots=True)
class Series:
    """A benchmark's restarts and what they say.

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

    def look(self, error: float) -> None:
        """Decide by an interval of that error, and of what the looks before have left, if it tells."""
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


def fewest_restarts(benchmarks: int) -> int:
    """Return how many restarts the last look needs to decide anything about one of so many benchmarks."""
    return math.ceil(1 + math.log2(benchmarks / ERROR))


def error_of_last_look(restarts: int, benchmarks: int) -> float:
    """Return the error of the last interval of one of so many benchmarks, when so many restarts have not decided it."""
    unspent = 0.0
    for share, of_error in LOOKS[:-1]:
        unspent += ERROR * of_error / benchmarks
        unspent -= chance_of_missing(int(share * restarts), unspent)
    return unspent + ERROR * LOOKS[-1][1] / benchmarks


def sample(
    series: Iterable[Series],
    restart: Callable[[list[str], int], Mapping[str, tuple[float, float]]],
    seconds: float,
    clock: Callable[[], float],
) -> int:
    """Restart and look until all is decided or the time is up, and return the number of restarts.

    Args:
        series: empty; filled here.
        restart: times the benchmarks of these names, for the restart of this number; returns logarithm and time.
        seconds: how long, from now.
        clock: seconds, monotonic.
    """
    all_of_them = list(series)
    undecided, begin, restarts, last = all_of_them, clock(), 0, 0.0
    for share, of_error in LOOKS:
        while clock() - begin + last / 2 < share * seconds:
            start = clock()
            for name, (log_ratio, base_ns) in restart([one.name for one in undecided], restarts).items():
                one = next(each for each in undecided if each.name == name)
                one.log_ratios.append(log_ratio)
                one.base_ns.append(base_ns)
            restarts, last = restarts + 1, clock() - start
        for one in undecided:
            one.look(ERROR * of_error / len(all_of_them))
        undecided = [one for one in undecided if one.verdict == "cannot tell"]
        if not undecided:
            break
    return restarts
