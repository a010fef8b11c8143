"""When timings are believed: with times that are made up, in rounds of one pass."""

import itertools
from types import SimpleNamespace

import pytest

from gathernest.kernels.calibration import stable_times as module
from gathernest.kernels.calibration.stable_times import BusyMachineError, Probe, stable_times, timed


def probe(*times_ns: float) -> Probe:
    """Return a probe that takes these times, and then the last one."""
    left = list(times_ns)
    return Probe(lambda: left.pop(0) if len(left) > 1 else left[0])


def test_a_time_is_the_best_once_two_rounds_have_not_improved_it():
    said: list[str] = []
    times = stable_times({"a": probe(9, 7, 7, 8, 1), "b": probe(5, 5, 5, 5)}, 0.0, 10.0, said.append)
    assert times == {"a": 7, "b": 5}
    assert said == ["2 unstable", "1 unstable", "stable", "stable"]


def test_a_small_improvement_counts_without_another_round():
    assert stable_times({"a": probe(100, 97, 96, 10)}, 0.0, 10.0) == {"a": 96}


def test_a_probe_knows_the_median_of_its_passes():
    found = probe(9, 6, 7, 8)
    stable_times({"a": found}, 0.0, 10.0)
    assert (found.times_ns, found.median_ns, found.best_ns) == ([9, 6, 7, 8], 7, 6)


def test_a_machine_on_which_times_keep_falling_is_too_busy(monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    falling = probe(*(0.8**power for power in range(100)))
    with pytest.raises(BusyMachineError) as caught:
        stable_times({"copy": falling, "check": probe(1.0)}, 1.0, 9.0)
    assert str(caught.value) == (
        "this machine is too busy to be measured: after 9 s, 1 of 2 times still fell by more than 5 %, 'copy' by 20 %; "
        "run it again when other processes are done"
    )


def test_a_timer_gives_the_fastest_run_for_a_unit():
    calls: list[int] = []
    assert 0 < timed(lambda: calls.append(1), units=2, runs=3, warm=2)() < 1e9
    assert len(calls) == 5
