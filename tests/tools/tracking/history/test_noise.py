"""Change points of sixty commits: none where nothing changed, and the commit of a step where something did."""

import json
from pathlib import Path

import numpy as np
import pytest

from gathernest.tools.tracking.history.noise import Candidate, find_changes, noise_of

FLAT = 60
# What otava 0.8.0 answers to `noisy(kind, seed)`, by kind: for each seed from 0, its change points and their p-values.
RECORDED = json.loads((Path(__file__).parent / "otava_answers.json").read_text(encoding="utf-8"))


def noisy(kind, seed):
    """Return sixty numbers near 100 that differ by noise alone."""
    draw = np.random.default_rng(seed)
    return list(
        100.0
        * {
            "normal": lambda: 1 + 0.01 * draw.standard_normal(FLAT),
            "uniform": lambda: 1 + 0.01 * draw.uniform(-1, 1, FLAT),
            "two levels": lambda: 1 + 0.03 * draw.integers(0, 2, FLAT),
            "far outliers": lambda: (
                (1 + 0.002 * draw.standard_normal(FLAT)) * np.where(draw.random(FLAT) < 0.05, 1.2, 1)
            ),
            "sometimes one more": lambda: 1 + 0.01 * (draw.random(FLAT) < 0.1),
        }[kind]()
    )


def test_equal_numbers_have_no_change():
    assert find_changes([2.0] * FLAT) == []


def test_noise_is_no_change_where_otava_suspects_one_but_twice_in_250():
    answered = [(kind, seed, answer) for kind, answers in RECORDED.items() for seed, answer in enumerate(answers)]
    changes = [
        find_changes(noisy(kind, seed), [Candidate(*point) for point in answer]) for kind, seed, answer in answered
    ]
    assert (len(answered), sum(bool(answer) for _, _, answer in answered)) == (250, 25)
    assert sum(map(bool, changes)) <= 2


@pytest.mark.parametrize("index", [5, 30, 58, 59])
def test_step_of_exact_numbers_is_a_change_at_its_commit(index):
    (change,) = find_changes([1000.0] * index + [1020.0] * (FLAT - index))
    assert (change.index, change.before, change.after) == (index, 1000, 1020)
    assert change.relative == pytest.approx(0.02)


def test_step_of_exact_numbers_needs_no_otava_but_has_its_p_value():
    values = [1000.0] * 30 + [1001.0] * 30
    assert [change.p_value for change in find_changes(values)] == [None]
    assert [change.p_value for change in find_changes(values, [Candidate(30, 1e-9)])] == [1e-9]


def test_regression_that_is_reverted_is_two_changes():
    values = [5.0] * 20 + [6.0] + [5.0] * 20
    assert [change.index for change in find_changes(values)] == [20, 21]


@pytest.mark.parametrize("candidates", [(), [Candidate(40, 1e-6)]], ids=["alone", "with otava"])
def test_step_above_the_noise_is_found_at_its_commit(candidates):
    values = [1e6 * (1 + 0.0005 * np.sin(97 * number)) * (1.02 if number >= 40 else 1) for number in range(FLAT)]
    (change,) = find_changes(values, candidates)
    assert change.index == 40
    assert change.relative == pytest.approx(0.02, abs=0.002)


def test_step_below_the_noise_is_no_change_even_where_otava_sees_it():
    values = [value * (1.005 if number >= 30 else 1) for number, value in enumerate(noisy("normal", 1))]
    assert find_changes(values, [Candidate(30, 1e-6)]) == []


def test_one_disturbed_commit_is_no_change():
    values = noisy("normal", 2)
    values[30] *= 2
    assert find_changes(values, [Candidate(30, 1e-6), Candidate(31, 1e-6)]) == []


def test_threshold_is_the_third_quartile_plus_three_interquartile_ranges():
    values = [100.0, 101.0] * 30
    assert noise_of(values).threshold == pytest.approx(0.01 + 3 * (0.01 - 1 / 101))
    assert not noise_of(values).is_exact


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [1.0, 1.0, 2.0], [1.0, 1.1, 0.9, 1.2, 5.0, 5.0, 5.0]])
def test_series_too_short_to_tell_has_no_change(values):
    assert find_changes(values) == []
    assert not noise_of(values).is_known


def test_step_from_zero_is_found():
    (change,) = find_changes([0.0] * 10 + [3.0] * 10)
    assert (change.index, change.relative) == (10, float("inf"))
