"""How a winner is found and confirmed, on made-up times: no clock is read here."""

import random
import statistics
from collections.abc import Sequence

import pytest

from gathernest.kernels.host.timing import Timings
from gathernest.kernels.tuned_schedules.confirmation import LEAST_PAIRS, confirmation, wins_needed
from gathernest.kernels.tuning.tuner import race


class FakeTimer:
    """Gives each candidate its own time in every round, and remembers the heats."""

    def __init__(self, times_s: dict[str, float], noise: float = 0.0, seed: int = 0):
        self.times_s, self.noise, self.rng = times_s, noise, random.Random(seed)
        self.heats: list[tuple[int, int]] = []

    def __call__(self, names: Sequence[str], rounds: int) -> Timings:
        self.heats.append((len(names), rounds))
        return Timings(
            {name: [self.times_s[name] * (1 + self.rng.random() * self.noise) for _ in range(rounds)] for name in names}
        )


def test_the_fastest_wins_and_the_others_follow_by_when_they_fell_out():
    timer = FakeTimer({"default": 1.0, **{name: 1 + number / 10 for number, name in enumerate("abcdefg")}})
    assert race("default", list("gfedcba"), timer) == list("abcdefg")


def test_each_heat_has_half_the_candidates_and_twice_the_rounds():
    timer = FakeTimer({"default": 1.0, **dict.fromkeys("abcdefg", 1.0)})
    race("default", list("abcdefg"), timer)
    assert timer.heats == [(8, 3), (5, 6), (3, 12)]


@pytest.mark.parametrize("others", [[], ["a"]])
def test_one_candidate_or_none_needs_no_race(others):
    timer = FakeTimer({"default": 1.0, "a": 1.0})
    assert race("default", others, timer) == others
    assert timer.heats == []


@pytest.mark.parametrize(("pairs", "needed"), [(15, 13), (21, 17), (31, 23), (51, 35), (3, 4)])
def test_wins_needed_are_those_that_chance_gives_in_one_percent_at_most(pairs, needed):
    assert wins_needed(pairs) == needed


def test_a_clear_winner_is_confirmed():
    found = confirmation([1.2] * 21, [1.0] * 21)
    assert found.holds
    assert (found.ratio, found.pairs, found.wins, found.wins_needed) == (pytest.approx(1.2), 21, 21, 17)
    assert (found.default_us, found.other_us) == (pytest.approx(1.2e6), pytest.approx(1e6))


@pytest.mark.parametrize(("won", "holds"), [(17, True), (16, False)])
def test_a_winner_needs_its_wins(won, holds):
    default_s = [1.5] * won + [0.99] * (21 - won)
    assert confirmation(default_s, [1.0] * 21).holds is holds


def test_a_gain_of_one_percent_is_not_worth_another_schedule():
    assert not confirmation([1.01] * 21, [1.0] * 21).holds


def test_equal_times_are_no_win():
    assert confirmation([1.0] * 21, [1.0] * 21).wins == 0


def test_fewer_pairs_than_15_confirm_nothing():
    pairs = LEAST_PAIRS - 1
    assert not confirmation([2.0] * pairs, [1.0] * pairs).holds


def noisy(rng: random.Random, kind: str) -> float:
    """Return the time of a call that takes 1 on an idle machine."""
    if kind == "spread":
        return rng.lognormvariate(0, 0.5)
    if kind == "bursts":
        return 1.0 if rng.random() < 0.7 else rng.uniform(1.5, 20)
    return 1.0 + rng.paretovariate(1.1)


@pytest.mark.parametrize("kind", ["spread", "bursts", "heavy tail"])
def test_equal_candidates_under_heavy_noise_keep_the_default_in_95_percent_of_tunings(kind):
    rng, kept = random.Random(1), 0

    def timer(names: Sequence[str], rounds: int) -> Timings:
        return Timings({name: [noisy(rng, kind) for _ in range(rounds)] for name in names})

    for _ in range(1000):
        best = race("default", [str(number) for number in range(12)], timer)[0]
        times_s = timer(["default", best], 21).rounds_s
        kept += not confirmation(times_s["default"], times_s[best]).holds
    assert kept >= 980


def test_noise_that_both_of_a_pair_meet_is_not_picked_either():
    rng, kept = random.Random(2), 0
    for _ in range(1000):
        load = [rng.choice([1, 1, 1, 5]) for _ in range(21)]
        default_s, other_s = ([factor * rng.lognormvariate(0, 0.1) for factor in load] for _ in range(2))
        kept += not confirmation(default_s, other_s).holds
    assert kept >= 980


def test_a_schedule_a_third_faster_is_found_among_twelve_and_confirmed_under_noise():
    rng, found = random.Random(3), 0

    def timer(names: Sequence[str], rounds: int) -> Timings:
        speeds = {name: 0.75 if name == "7" else 1.0 for name in names}
        return Timings({name: [speeds[name] * rng.lognormvariate(0, 0.1) for _ in range(rounds)] for name in names})

    for _ in range(200):
        best = race("default", [str(number) for number in range(12)], timer)[0]
        times_s = timer(["default", best], 21).rounds_s
        found += best == "7" and confirmation(times_s["default"], times_s[best]).holds
    assert found >= 180


def test_the_ratio_is_the_median_of_the_pairs():
    default_s, other_s = [1.0, 4.0, 3.0] * 5, [1.0, 2.0, 1.0] * 5
    assert confirmation(default_s, other_s).ratio == statistics.median([1.0, 2.0, 3.0])
