"""What follows from measured times, on machines that are made up."""

import pytest

from gathernest.kernels.machine.calibrate import DRAWS, cache_ends, fit_fields, interval, is_wide, shared_from_ns
from gathernest.lowering.schedule.machine_model import BUILT_IN

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


ELEMENTS = {
    f"{level} elements {way}": took
    for level in ("L3", "memory")
    for way, took in {"alone": 2.0, "near": 1.2, "far": 1.5, "near, streamed": 1.2}.items()
}
TIMES = {
    **{f"latency {size}": took for size, took in latencies(*REPORTED).items()},
    **{f"{place} {way}": 0.02 for place in ("L2", "L3", "memory") for way in ("cached stores", "non-temporal stores")},
    "all threads cached stores": 0.04,
    "all threads non-temporal stores": 0.05,
    "all threads read": 2.0,
    "summed rows, interleaved": 3.0,
    "summed rows, fissioned": 2.0,
    "lines L1": 0.3,
    "lines L2": 0.7,
    "lines L3 far": 1.4,
    "lines L3 near": 1.6,
    **{f"far {each}": took for each, took in ((64, 4.0), (128, 3.0), (256, 5.0))},
    "ascending scalars": 6.0,
    "ascending gathered scalars": 3.0,
    "gathered scalars": 0.63,
    "check": 0.12,
    "scalars": 0.42,
    "idle": 500.0,
    "serial": 20_500.0,
    "launch": 11_500.0,
    "rested serial": 21_000.0,
    "wake": 31_000.0,
    **ELEMENTS,
}


def test_fields_are_ratios_and_differences_of_times():
    fields = fit_fields(TIMES, BUILT_IN["zen4"], threads=2)
    assert fields["byte_ns"] == pytest.approx(0.035)
    assert fields["lane_gather_ns"] == pytest.approx(1.5 * fields["lane_load_ns"])
    assert fields["launch_ns"] == 1000.0
    assert fields["line_ns"] == (0.3, 0.7, 1.4, 3.0)
    assert (fields["interleaved_times"], fields["strayed_lines"]) == (1.5, 1.0)
    assert fields["memory_bytes_per_ns"] == pytest.approx(50) and fields["one_way_share"] == 1.0
    assert fields["memory_ns"] == 128.0
    no_copy = fit_fields({**TIMES, "all threads read": 8.0}, BUILT_IN["zen4"], threads=2)
    assert no_copy["one_way_share"] == 0.5  # 16 bytes a nanosecond of 50


@pytest.mark.parametrize("threads", [2, 16])
def test_sharing_pays_from_where_both_regrets_are_equal(threads):
    work_ns = shared_from_ns(1000.0, 10_000.0, threads)
    asleep, spinning = (work_ns + 10_000.0) / work_ns, work_ns / (work_ns / threads + 1000.0)
    assert asleep == pytest.approx(spinning)
    assert fit_fields(TIMES, BUILT_IN["zen4"], threads=2)["wake_ns"] == shared_from_ns(1000.0, 10_000.0, 2)


def test_one_thread_launches_nothing():
    assert not {"launch_ns", "wake_ns"} & fit_fields(TIMES, BUILT_IN["zen4"], threads=1).keys()


def test_elements_cost_what_they_differ_by_and_a_prefetch_costs_its_instructions():
    fields = fit_fields(TIMES, BUILT_IN["zen4"], threads=1)
    near, alone = fields["near_line_ns"], fields["alone_line_ns"]
    assert near == pytest.approx((1.1, 2.7))
    assert alone[1] - alone[0] == pytest.approx(1.6) and alone[0] > 1.4 + 0.5
    assert fields["streamed_times"] == 1.0
    slower = fit_fields({**TIMES, "memory elements near, streamed": 3.9}, BUILT_IN["zen4"], threads=1)
    assert slower["streamed_times"] == pytest.approx(2.0)


def test_an_interval_leaves_out_the_lowest_and_the_highest_tenth():
    assert interval([float(number) for number in range(DRAWS)]) == (4.0, 35.0)
    assert interval([(1.0, float(number)) for number in range(DRAWS)]) == ([1.0, 4.0], [1.0, 35.0])


@pytest.mark.parametrize(("ends", "wide"), [((4, 5), False), ((4, 5.1), True), ((0.0, 0.0), False), ((0.0, 0.1), True)])
def test_an_interval_is_wide_beyond_the_ratio(ends, wide):
    low, high = ends
    assert is_wide(low, high) is wide and is_wide((1.0, low), (1.0, high)) is wide
