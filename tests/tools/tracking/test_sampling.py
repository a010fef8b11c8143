"""Simulated comparisons with a clock of their own: how often equal revisions raise an alarm, and what is found."""

import math

import numpy as np
import pytest

from gathernest.tools.tracking.sampling import ERROR, LOOKS, MARGIN, Series, fewest_restarts, interval, sample

BENCHMARKS = 20


class Machine:
    """Restarts of two seconds, whose noise has far outliers, as that of a busy machine."""

    def __init__(self, seed: int, noise: float, changes: dict[str, float]):
        self.random, self.noise, self.changes, self.now = np.random.default_rng(seed), noise, changes, 0.0

    def restart(self, names, number):
        self.now += 2.0
        drawn = self.noise * self.random.standard_t(3, len(names))
        return {name: (math.log(self.changes.get(name, 1.0)) + x, 1e5) for name, x in zip(names, drawn, strict=True)}


def compare(seed, *, noise=0.02, changes=None, seconds=90.0):
    machine = Machine(seed, noise, changes or {})
    series = [Series(f"case-{number}", MARGIN) for number in range(BENCHMARKS)]
    restarts, _ = sample(series, machine.restart, seconds, lambda: machine.now)
    return {one.name: one for one in series}, restarts


@pytest.mark.thorough
def test_equal_revisions_raise_no_more_alarms_than_said():
    alarmed = sum(any(one.verdict in ("slower", "faster") for one in compare(seed)[0].values()) for seed in range(200))
    assert alarmed <= 200 * ERROR


@pytest.mark.thorough
def test_intervals_of_all_looks_hold_together():
    missed = sum(any(not one.low <= 1 <= one.high for one in compare(seed)[0].values()) for seed in range(200))
    assert missed <= 200 * ERROR


def test_five_percent_are_found_where_the_interval_is_narrow():
    narrow = [
        found for seed in range(60) if (found := compare(seed, noise=0.012, changes={"case-3": 1.05})[0]["case-3"])
    ]
    narrow = [found for found in narrow if found.high / found.low < 1.04]
    assert len(narrow) >= 20
    assert sum(found.verdict == "slower" for found in narrow) >= 0.9 * len(narrow)


def test_sampling_ends_when_all_is_decided():
    found, restarts = compare(1, noise=0.001, changes={"case-3": 1.05, "case-4": 0.9})
    assert restarts == LOOKS[0][0] * 90 // 2
    assert (found["case-3"].verdict, found["case-4"].verdict) == ("slower", "faster")
    assert sum(one.verdict == "same" for one in found.values()) == BENCHMARKS - 2


def test_decided_benchmarks_are_not_timed_again():
    quiet, noisy = Machine(2, 0.001, {}), Machine(3, 0.5, {})

    def restart(names, number):
        return {**noisy.restart(names, number), **quiet.restart([name for name in names if name == "case-0"], number)}

    series = [Series("case-0", MARGIN), Series("case-1", MARGIN)]
    sample(series, restart, 90.0, lambda: quiet.now + noisy.now)
    assert [one.verdict for one in series] == ["same", "cannot tell"]
    assert len(series[0].log_ratios) < len(series[1].log_ratios)


@pytest.mark.parametrize("benchmarks", [1, 20, 52])
def test_fewest_restarts_are_enough_and_no_more(benchmarks):
    for number, decides in ((fewest_restarts(benchmarks), True), (fewest_restarts(benchmarks) - 1, False)):
        one = Series("case-0", MARGIN, [0.1] * number)
        for _, of_error in LOOKS:
            one.look(ERROR * of_error / benchmarks)
        assert (one.verdict == "slower") is decides


def test_last_look_has_what_too_few_restarts_left_of_the_error():
    one = Series("case-0", MARGIN)
    numbers = np.random.default_rng(4).normal(0, 0.02, 9).tolist()
    for count, (_, of_error) in zip((2, 4, 9), LOOKS, strict=True):
        one.log_ratios = numbers[:count]
        one.look(ERROR * of_error)
    assert (one.low, one.high) == tuple(map(math.exp, interval(numbers, ERROR)))


@pytest.mark.parametrize(("seconds", "kept"), [(90.0, 20), (26.0, 12), (1.0, 1)])
def test_last_benchmarks_are_dropped_until_enough_restarts_fit(seconds, kept):
    machine = Machine(5, 0.001, {"case-0": 132.0})
    series = [Series(f"case-{number}", MARGIN) for number in range(BENCHMARKS)]

    def restart(names, number):
        machine.now += 0.2 * len(names) - 2.0
        return machine.restart(names, number)

    costs_s = {one.name: 0.2 for one in series}
    restarts, left = sample(series, restart, seconds, lambda: machine.now, costs_s)
    assert [one.name for one in left] == [f"case-{number}" for number in range(kept)]
    assert restarts >= (fewest_restarts(kept) if seconds > 1 else 1)
    assert left[0].verdict == ("slower" if seconds > 1 else "probably slower")


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([132.0], "probably slower"), ([0.5, 0.6], "probably faster"), ([1.4, 1.1], "cannot tell"), ([], "cannot tell")],
)
def test_large_ratio_in_each_of_few_restarts_is_probable(ratios, verdict):
    one = Series("case-0", MARGIN, list(map(math.log, ratios)))
    one.guess()
    assert one.verdict == verdict
