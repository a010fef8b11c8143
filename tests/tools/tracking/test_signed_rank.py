import itertools
import math

import numpy as np
import pytest

from gathernest.tools.tracking.sampling import centre, chance_of_missing, interval


def chance_of_the_largest_averages(count: int, left_out: int) -> float:
    """Return how often coin flips as signs give a sum of ranks of `left_out` or less, by going through all of them."""
    signs = itertools.product((0, 1), repeat=count)
    return sum(sum(rank * sign for rank, sign in enumerate(row, 1)) <= left_out for row in signs) / 2**count


@pytest.mark.parametrize("error", [0.2, 0.05, 0.01])
def test_ends_leave_out_as_many_averages_as_the_error_allows(error):
    numbers = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    averages = sorted((a + b) / 2 for number, a in enumerate(numbers) for b in numbers[number:])
    low, high = interval(numbers, error)
    left_out = averages.index(low)
    assert averages[::-1].index(high) == left_out
    assert chance_of_missing(8, error) == pytest.approx(2 * chance_of_the_largest_averages(8, left_out))
    assert chance_of_the_largest_averages(8, left_out) <= error / 2 < chance_of_the_largest_averages(8, left_out + 1)


def test_few_numbers_have_no_bounds_at_a_small_error():
    assert interval([1.0, 2.0, 3.0], 0.05) == (-math.inf, math.inf)
    assert chance_of_missing(3, 0.05) == 0


def test_far_outlier_moves_the_centre_little():
    assert centre([1.0, 1.1, 0.9, 1.05, 0.95, 1000.0]) == pytest.approx(1.0, abs=0.1)


def test_interval_misses_as_often_as_it_says():
    rng = np.random.default_rng(0)
    drawn = rng.standard_t(2, (3000, 12))
    missed = sum(not low <= 0 <= high for low, high in (interval(row, 0.05) for row in drawn))
    assert 0.03 < missed / 3000 < 0.06
