"""Medians and intervals, with times that are made up."""

import itertools

import pytest

from gathernest.kernels.calibration.samples import MIN_PASSES, Probe, intervals, is_wide, take_samples, timed


def probe(*times_ns: float) -> Probe:
    """Return a probe that takes these times again and again."""
    return Probe(itertools.cycle(times_ns).__next__)


def test_a_time_is_the_median_of_passes_over_all_probes():
    parts: list[float] = []
    probes = {"a": probe(9, 6, 7, 8, 6.5), "b": probe(5)}
    assert take_samples(probes, 0.0, parts.append) == {"a": 7, "b": 5}
    assert len(probes["a"].times_ns) == MIN_PASSES and parts == sorted(parts) and parts[-1] == 1.0


def test_an_interval_is_narrow_where_one_pass_of_many_is_slow_and_wide_between_two_speeds():
    """One slow pass of eleven does not move the median of drawn passes, and half of them do."""
    steady, two_speeds = Probe(float, [2.0] * 10 + [9.0]), Probe(float, [1.0, 2.0] * 5)
    found = intervals(
        {"steady": steady, "two": two_speeds}, lambda times: {"rate": times["steady"], "pair": (1.0, times["two"])}
    )
    assert found == {"rate": (2.0, 2.0), "pair": ((1.0, 1.0), (1.0, 2.0))}
    assert not is_wide(found["rate"], 1.25) and is_wide(found["pair"], 1.25)


@pytest.mark.parametrize(("ends", "wide"), [((4, 5), False), ((4, 5.1), True), ((0.0, 0.0), False), ((0.0, 0.1), True)])
def test_an_interval_is_wide_beyond_the_ratio(ends, wide):
    assert is_wide(ends, 1.25) is wide


def test_a_timer_gives_the_fastest_run_for_a_unit():
    calls: list[int] = []
    assert 0 < timed(lambda: calls.append(1), units=2, runs=3, warm=2)() < 1e9
    assert len(calls) == 5
