"""What follows from measured times, on machines that are made up."""

import pytest

from gathernest.kernels.machine.fit import (
    cache_ends,
    derived_fields,
    distance,
    element_fields,
    intervals,
    is_wide,
    shared_from_ns,
    streamed_bytes,
    vector_bytes,
)
from gathernest.lowering.schedule.machine_model import BUILT_IN

ZEN3 = BUILT_IN["zen3"]
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


def test_the_nearest_distance_that_is_as_good_as_the_best_is_taken():
    assert distance({32: 18.0, 64: 11.8, 128: 8.0, 256: 7.9}, usual=64) == 128
    assert distance({32: 8.0, 64: 8.1, 128: 8.0, 256: 7.9}, usual=16) == 32


TIMES = {
    **{f"rows {size} by {vector}": 1.0 for size in (64, 256) for vector in (16, 32, 64)},
    "lane loads": 0.3,
    "wide lane loads": 0.3,
    "gathered scalars": 0.63,
    "check": 0.12,
    "scalars": 0.42,
    "stream by 32": 80.0,
    "stream by 64": 80.0,
    "idle": 500.0,
    "serial": 20_500.0,
    "launch": 11_500.0,
    "rested serial": 21_000.0,
    "wake": 31_000.0,
}


@pytest.mark.parametrize(
    ("changed", "usual", "expected"),
    [
        ({}, 32, 32),
        ({}, 64, 64),
        ({"rows 64 by 64": 1 / 1.18, "rows 256 by 64": 0.95}, 32, 64),
        ({"rows 64 by 64": 1 / 1.18, "wide lane loads": 0.4}, 32, 32),
        ({"rows 64 by 16": 0.9, "rows 256 by 16": 0.9}, 32, 16),
        ({"rows 64 by 64": 1.2, "rows 256 by 64": 1.2}, 64, 16),
    ],
    ids=["as fast", "as fast as wide ones", "wide", "wide lanes slower", "narrow", "wide ones slower"],
)
def test_vectors_are_the_usual_ones_unless_others_gain_and_no_row_or_lane_loses(changed, usual, expected):
    assert vector_bytes({**TIMES, **changed}, usual) == expected


@pytest.mark.parametrize(
    ("changed", "usual", "expected"),
    [({}, 64, 64), ({}, 32, 32), ({"stream by 64": 70.0}, 32, 64), ({"stream by 32": 70.0}, 64, 32)],
)
def test_non_temporal_stores_are_the_usual_ones_unless_others_gain(changed, usual, expected):
    assert streamed_bytes({**TIMES, **changed}, usual) == expected


def test_fields_are_differences_of_times():
    fields = derived_fields(TIMES, ZEN3, threads=2)
    assert fields["byte_ns"] == pytest.approx(0.035)
    assert fields["lane_gather_ns"] == pytest.approx(1.5 * fields["lane_load_ns"])
    assert fields["launch_ns"] == 1000.0
    assert (fields["vector_bytes"], fields["wide_vector_bytes"]) == (32, 32)


@pytest.mark.parametrize("threads", [2, 16])
def test_sharing_pays_from_where_both_regrets_are_equal(threads):
    work_ns = shared_from_ns(1000.0, 10_000.0, threads)
    asleep, spinning = (work_ns + 10_000.0) / work_ns, work_ns / (work_ns / threads + 1000.0)
    assert asleep == pytest.approx(spinning)
    assert derived_fields(TIMES, ZEN3, threads=2)["wake_ns"] == shared_from_ns(1000.0, 10_000.0, 2)


def test_one_thread_launches_nothing():
    assert not {"launch_ns", "wake_ns"} & derived_fields(TIMES, ZEN3, threads=1).keys()


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
