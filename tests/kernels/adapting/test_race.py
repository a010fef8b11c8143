"""Races of a candidate on made-up times: what is kept, what is not, and when a race ends."""

import itertools
import math
import random

import pytest

from gathernest.kernels.adapting import race as races
from gathernest.kernels.adapting.race import LOST_AT_ONCE, PAIRS, Race

USUAL_S = 1e-3


def run(gain: float, noise: float, seed: int, rhythm: tuple[float, ...] = (1.0,)) -> Race:
    """Race a candidate that is `gain` times as fast; noise is the standard deviation of the logarithm of a time."""
    rng = random.Random(seed)
    race = Race(USUAL_S, rng.random)
    for factor in itertools.cycle(rhythm):
        time_s = USUAL_S * factor / (gain if race.next_is_other() else 1.0)
        race.took(time_s * math.exp(rng.gauss(0, noise)))
        if race.verdict is not None:
            return race
    raise AssertionError


def share_won(gain: float, noise: float, **options) -> float:
    return sum(run(gain, noise, seed, **options).verdict == "won" for seed in range(100)) / 100


@pytest.mark.parametrize("noise", [0.01, 0.4])
def test_a_candidate_that_is_no_faster_is_rarely_kept(noise):
    assert share_won(1.0, noise) < 0.02


def test_a_rhythm_of_the_calls_makes_no_winner():
    assert share_won(1.0, 0.02, rhythm=(1.0, 8.0)) < 0.02  # two tables in turn, one of them in a cache
    assert share_won(1.0, 0.02, rhythm=(1.0, 1.0, 1.0, 3.0)) < 0.02


@pytest.mark.parametrize(("noise", "found"), [(0.05, 1.0), (0.2, 0.98), (0.4, 0.7)])
def test_a_candidate_that_is_a_fifth_faster_is_found(noise, found):
    assert share_won(1.2, noise) >= found


def test_a_gain_of_less_than_two_percent_is_not_kept():
    assert run(1.015, 0.0, 0).verdict == "lost"
    assert run(1.025, 0.0, 0).verdict == "won"


def test_a_slow_candidate_has_lost_after_a_few_pairs():
    race = run(1 / 3, 0.05, 0)
    assert race.verdict == "lost"
    assert race.confirmation().pairs == LOST_AT_ONCE
    assert race.extra_s == pytest.approx(LOST_AT_ONCE * 2 * USUAL_S, rel=0.3)


def test_a_winner_has_all_pairs():
    race = run(1.2, 0.05, 0)
    assert race.confirmation().pairs == PAIRS
    assert race.extra_s == 0.0


def test_gains_of_some_calls_pay_for_losses_of_others_but_not_before():
    race = Race(USUAL_S, lambda: 0.0)  # the candidate goes first in every pair
    race.next_is_other()
    race.took(3 * USUAL_S)
    assert race.extra_s == pytest.approx(2 * USUAL_S)
    assert race.next_is_other() is False
    race.took(USUAL_S)
    race.next_is_other()
    race.took(0.5 * USUAL_S)
    assert race.extra_s == pytest.approx(1.5 * USUAL_S)


def test_a_stall_of_the_machine_counts_no_more_than_the_budget_had_room_for():
    race = Race(USUAL_S, lambda: 0.0)
    race.next_is_other()
    race.took(500 * USUAL_S)
    assert race.extra_s <= race.risk_s
    race.next_is_other()
    race.took(USUAL_S)
    assert race.extra_s <= race.risk_s


def test_the_order_within_pairs_is_a_toss(monkeypatch):
    race, orders = Race(USUAL_S, random.Random(0).random), []
    monkeypatch.setattr(races, "LOST_AT_ONCE", 0)
    for _ in range(30):
        first = race.next_is_other()
        race.took(USUAL_S)
        assert race.next_is_other() is not first
        race.took(USUAL_S)
        orders.append(first)
    assert 8 <= sum(orders) <= 22
