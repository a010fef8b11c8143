"""The interval of a median from few numbers, by Wilcoxon's signed ranks.

Exact for numbers from any symmetric distribution. The logarithms of paired ratios have one when both sides of a pair
are alike: exchanging them changes the sign alone. So the error rate holds on a busy machine with far outliers.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np


def interval(numbers: Sequence[float], error: float) -> tuple[float, float]:
    """Return an interval that misses the centre of symmetry of the numbers' distribution with probability `error`.

    It is infinite where so few numbers say nothing at that error: n of them reach 2 / 2**n.
    """
    ordered = walsh_averages(numbers)
    left_out = _left_out(len(numbers), error / 2)
    return (-math.inf, math.inf) if left_out < 0 else (ordered[left_out], ordered[-1 - left_out])


def chance_of_missing(count: int, error: float) -> float:
    """Return how often the interval of `count` numbers misses: `error` at most, 0 where it is infinite."""
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
    """Return how many averages an end of the interval leaves out, so that it misses with probability `error` at most.

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
