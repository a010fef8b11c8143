"""The statistical test of a schedule that may replace another: pairs of timings, one right after the other. Pure."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEAST_PAIRS = 15
# The largest share of candidates that are no faster and yet confirmed.
FALSE_POSITIVES = 0.01
LEAST_GAIN = 1.02


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether a candidate beat the default in pairs of timings, one right after the other.

    It must win more pairs than a candidate that is no faster wins in 99 % of all tunings (a one-sided sign test: 17 of
    21 pairs, which chance gives in 0.4 %), and the median of the ratios must be 1.02 or more. A sign test assumes only
    that noise hits both alike; the pairs are fresh, so the choice of the best of many gives no advantage.

    Attributes:
        ratio: the speed relative to the default: the median of the pairs.
        pairs, wins, wins_needed: the number of pairs, of pairs that it won, and of pairs that it had to win.
        default_us, other_us: medians, in microseconds.
    """

    ratio: float
    pairs: int
    wins: int
    wins_needed: int
    default_us: float
    other_us: float

    @property
    def holds(self) -> bool:
        """Whether the candidate replaces the default."""
        return self.pairs >= LEAST_PAIRS and self.wins >= self.wins_needed and self.ratio >= LEAST_GAIN


def confirmation(default_s: Sequence[float], other_s: Sequence[float]) -> Confirmation:
    """Judge paired timings, in seconds; equal times count as lost."""
    ratios = [default / other for default, other in zip(default_s, other_s, strict=True)]
    return Confirmation(
        ratio=statistics.median(ratios),
        pairs=len(ratios),
        wins=sum(ratio > 1 for ratio in ratios),
        wins_needed=wins_needed(len(ratios)),
        default_us=statistics.median(default_s) * 1e6,
        other_us=statistics.median(other_s) * 1e6,
    )


def wins_needed(pairs: int) -> int:
    """Return the fewest wins in that number of fair tosses that chance gives with a probability of at most 1 %."""
    wins, ways = pairs + 1, 1
    while ways <= FALSE_POSITIVES * 2**pairs:
        wins -= 1
        ways += math.comb(pairs, wins - 1)
    return wins
