"""What follows from measured times, on machines that are made up."""

import pytest

from gathernest.kernels.machine.fit import (
    cache_ends,
    derived_fields,
    element_fields,
    intervals,
    is_wide,
    shared_from_ns,
)

KB, MB = 1024, 1024**2
REPORTED = (32 * KB, MB, 32 * MB)


def latencies(l1: float, l2: float, last: float) -> dict[int, float]:
    """Return the latency of tables of 16 KB to 512 MB on a machine with such caches."""
    ends = ((l1, 2.0), (l2, 5.0), (last, 16.0), (float("inf"), 128.0))
    return {size: next(ns for end, ns in ends if size <= end) for size in (1 << power for power in range(14, 30))}


def test_caches_end_where_the_system_says_they_do():
    assert cache_ends(latencies(*REPORTED), REPORTED) == REPORTED


def test_a_last_cache_shared_with_strangers_ends_where_reads_become_slow():
    l1, l2, last = cache_ends(latencies(48 * KB, 2 * MB, 40 * MB), (48 * KB, 2 * MB, 480 * MB))
    assert (l1, l2) == (48 * KB, 2 * MB)
    assert 32 * MB <= last <= 64 * MB


TIMES = {
    "gathered scalars": 0.63,
    "check": 0.12,
    "scalars": 0.42,
    "idle": 500.0,
    "serial": 20_500.0,
    "launch": 11_500.0,
    "rested serial": 21_000.0,
    "wake": 31_000.0,
}


def test_fields_are_differences_of_times():
    fields = derived_fields(TIMES, threads=2)
    assert fields["byte_ns"] == pytest.approx(0.035)
    assert fields["lane_gather_ns"] == pytest.approx(1.5 * fields["lane_load_ns"])
    assert fields["launch_ns"] == 1000.0


@pytest.mark.parametrize("threads", [2, 16])
def test_sharing_pays_from_where_both_regrets_are_equal(threads):
    work_ns = shared_from_ns(1000.0, 10_000.0, threads)
    asleep, spinning = (work_ns + 10_000.0) / work_ns, work_ns / (work_ns / threads + 1000.0)
    assert asleep == pytest.approx(spinning)
    assert derived_fields(TIMES, threads=2)["wake_ns"] == shared_from_ns(1000.0, 10_000.0, 2)


def test_one_thread_launches_nothing():
    assert not {"launch_ns", "wake_ns"} & derived_fields(TIMES, threads=1).keys()


def elements(**changes: float) -> dict[str, float]:
    ways = {"alone": 2.0, "near": 1.2, "far": 1.5, "near, streamed": 1.2, **changes}
    return {f"{level} elements {way}": took for level in ("L3", "memory") for way, took in ways.items()}


def test_elements_cost_what_they_differ_by_and_a_prefetch_costs_its_instructions():
    fields = element_fields(elements(), (1.4, 3.0), uop_ns=0.05)
    assert fields["near_line_ns"] == pytest.approx((1.1, 2.7))
    assert fields["alone_line_ns"] == pytest.approx((1.4 + 0.5 + 0.3, 3.0 + 0.5 + 0.3))
    assert fields["streamed_times"] == 1.0


def test_an_interval_is_narrow_where_one_pass_of_many_is_slow_and_wide_between_two_speeds():
    """One slow pass of eleven does not move the median of drawn passes, and half of them do."""
    steady, two_speeds = [2.0] * 10 + [9.0], [1.0, 2.0] * 5
    found = intervals(
        {"steady": steady, "two": two_speeds}, lambda times: {"rate": times["steady"], "pair": (1.0, times["two"])}
    )
    assert found == {"rate": (2.0, 2.0), "pair": ((1.0, 1.0), (1.0, 2.0))}
    assert not is_wide(found["rate"], 1.25) and is_wide(found["pair"], 1.25)


@pytest.mark.parametrize(("ends", "wide"), [((4, 5), False), ((4, 5.1), True), ((0.0, 0.0), False), ((0.0, 0.1), True)])
def test_an_interval_is_wide_beyond_the_ratio(ends, wide):
    assert is_wide(ends, 1.25) is wide
