"""The loops that a gather is timed beside: what ways there are, what they work on, and the bound they make."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.host.timing import Timings
from gathernest.kernels.machine import probes
from gathernest.kernels.machine.probes import FISSIONED_READS, READS, Probe, Window
from gathernest.kernels.machine.roofline import loop_ways, model_bound, reference_loops
from gathernest.kernels.machine.traffic import Traffic
from gathernest.kernels.runtime.array_checks import address
from gathernest.lowering.schedule.machine_model import BUILT_IN

ON_ONE = ", on one thread"


def traffic_of(total_bytes: float, lines: float, piece_lines: float = 1.0, output_bytes: float = 0.0) -> Traffic:
    streams = ("data", total_bytes - output_bytes), ("output", output_bytes)
    return Traffic(streams, lines, piece_lines, is_counted=True)


def windows_of(call: Probe, count: int) -> list[Window]:
    return list(itertools.islice(call.windows, count))


def ways_of(traffic: Traffic, table_bytes: int, threads: int = 2, sets: int = 1):
    return loop_ways(traffic, table_bytes, threads, sets)


def test_copy_goes_past_the_caches_and_through_them_and_lines_have_every_distance():
    ways = ways_of(traffic_of(2**24, 2**12), 2**20)
    assert set(ways) == {"copy", "random lines"}
    assert set(ways["copy"]) == {"non-temporal stores", "cached stores"}
    parallel = [name for name in ways["random lines"] if not name.endswith(ON_ONE)]
    assert parallel == [
        "without prefetching",
        "prefetching 16 lines ahead into the first cache",
        "prefetching 64 lines ahead into the second cache",
        "prefetching 128 and 16 lines ahead",
        "prefetching 256 lines ahead into the second cache",
        "prefetching 256 and 16 lines ahead",
    ]


SIZES = [
    (traffic_of(1, 1), 4, 1),
    (traffic_of(100, 0), 40, 2),
    (traffic_of(1000, 3.2), 200, 4),
    (traffic_of(5000, 20, 2.6), 3333, 3),
    (traffic_of(9000, 65, 64.0), 64 * 65, 4),
    (traffic_of(70_000, 40, 7.0), 1000, 2),
    (traffic_of(300_000, 1000, 900.0), 64 * 1001, 2),
    (traffic_of(10_000, 30, 3.0), 10**6 + 7, 16),
    (traffic_of(10_000, 30, 3.0, output_bytes=9_500), 200, 4),
    (traffic_of(70_000, 40, 7.0, output_bytes=70_000), 1000, 2),
]


@pytest.mark.parametrize(("traffic", "table_bytes", "sets"), SIZES)
def test_every_window_lies_within_memory(traffic, table_bytes, sets):
    ways = ways_of(traffic, table_bytes, sets=sets)
    for candidate in ways["copy"].values():
        table, target = candidate.call.memory
        for source, _, to, first, last in windows_of(candidate.call, sets):
            assert (first, to % 64, source % 64) == (0, 0, 0)
            assert last % probes.BLOCK_BYTES == 0
            blocks = last // probes.BLOCK_BYTES - 1
            end = (blocks * candidate.call.size // probes.ALL_BLOCKS + 1) * probes.BLOCK_BYTES
            assert address(table) <= source <= source + end <= address(table) + len(table)
            assert address(target) == to and last <= len(target)
            written_bytes = max(traffic.total_bytes / 2, dict(traffic.streams)["output"])
            assert last * candidate.call.repeats == pytest.approx(candidate.times * written_bytes)
    for candidate in ways["random lines"].values():
        call, (table, places) = candidate.call, candidate.call.memory
        assert places.max() < len(table) // (64 * call.lines)
        for source, numbers, _, first, last in windows_of(call, sets):
            assert (source, numbers) == (address(table), address(places))
            assert 0 <= first <= last <= len(places) - probes.MAX_DISTANCE
            read = (last - first) * call.lines
            assert read * call.repeats == pytest.approx(candidate.times * traffic.lines) or traffic.lines == 0


@pytest.mark.parametrize(("traffic", "table_bytes", "sets"), SIZES)
@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_runs_on_any_size(traffic, table_bytes, sets, threads):
    with knobs.scope(num_threads=threads):
        for offered in loop_ways(traffic, table_bytes, threads, sets).values():
            for candidate in offered.values():
                for _ in range(sets + 1):
                    candidate.call()


def test_the_bound_is_the_larger_of_both_medians_for_the_work_of_the_gather():
    with knobs.scope(num_threads=1):
        found = reference_loops(traffic_of(2000, 20), 4096)
    times = {name: candidate.times for name, candidate in found.timed.items()}
    assert list(times) == ["copy", "random lines"]
    for rounds_us, which in (
        ({"copy": 3, "random lines": 2}, "copy"),
        ({"copy": 3, "random lines": 5}, "random lines"),
    ):
        bound = found.measured(Timings({name: [1e-6 * rounds_us[name] * times[name]] for name in times}))
        assert (bound.time_us, bound.bound_by) == (pytest.approx(max(rounds_us.values())), which)
        assert bound.fraction(30) == pytest.approx(bound.time_us / 30)
        stored = bound.to_json()
        assert (stored["lines"], stored["time_us"]) == (20, bound.time_us)
        assert set(stored["rounds_us"]) == set(stored["ways"]) == set(times)


def test_copy_copies_the_place_that_it_is_given():
    for threads in (1, 2, 3):
        with knobs.scope(num_threads=threads):
            for candidate in loop_ways(traffic_of(5000, 1), 10**5, threads, 2)["copy"].values():
                table, target = candidate.call.memory
                table[:] = np.arange(len(table)) % 251
                for _ in range(2):
                    target[:] = 0
                    (window,) = windows_of(candidate.call, 1)
                    replace(candidate.call, windows=itertools.repeat(window), size=probes.ALL_BLOCKS, repeats=1)()
                    start = window[0] - address(table)
                    np.testing.assert_array_equal(target, table[start : start + len(target)])


@pytest.mark.parametrize(
    ("output_bytes", "read_blocks"),
    [
        (0, 32),  # half of all is written
        (64 * 128, 32),
        (64 * 192, 16),
        (64 * 252, 1),
        (64 * 256, 1),  # nothing but stores
    ],
)
def test_copy_reads_less_where_the_gather_writes_more_than_it_reads(output_bytes, read_blocks):
    block, traffic = probes.BLOCK_BYTES, traffic_of(64 * 256, 1, output_bytes=output_bytes)
    for candidate in loop_ways(traffic, 10**5, 1)["copy"].values():
        table, target = candidate.call.memory
        (window,) = windows_of(candidate.call, 1)
        assert len(target) == window[4] == max(output_bytes, 64 * 128)
        table[:] = np.arange(len(table)) // block % 256
        candidate.call()
        first = (window[0] - address(table)) // block
        assert sorted({*target.tolist()}) == list(range(first, first + read_blocks))
        assert (np.diff(target.reshape(-1, block)[:, 0].astype(int)) >= 0).all()


@pytest.mark.parametrize(("loop", "far"), [(READS, 0), (READS, 3), (FISSIONED_READS, 3)])
@pytest.mark.parametrize("shares", [1, 2, 3, 7])
def test_shares_read_every_piece_once_where_they_do_not_divide_them(shares, loop, far):
    traffic = traffic_of(1000, 150, 2.0)
    candidate = loop_ways(traffic, 64 * 160, shares)["random lines"]["without prefetching"]
    table, places = candidate.call.memory
    table[:] = 0
    values = table.view(np.int64)[::8]
    values[:] = np.random.default_rng(0).integers(0, 2**50, len(values))
    total = replace(candidate.call, loop=loop, shares=shares, lines=2, far=far, repeats=1)()
    read = np.concatenate([[2 * place, 2 * place + 1] for place in places[:75]])
    assert total == int(values[read].sum())


def test_the_bound_by_a_model_is_the_larger_of_both_times():
    model = replace(BUILT_IN["zen4"], threads=2)
    scalars = model_bound(traffic_of(1.4e7, 1e6), model)
    assert scalars.bound_by == "random lines"
    assert scalars.time_us == scalars.lines_us > scalars.copy_us
    assert scalars.lines_us == pytest.approx(1e6 * 4.0 / 2 / 1e3)
    rows = model_bound(traffic_of(5.6e8, 4.4e6, 65536.0), model)
    assert rows.bound_by == "copy" and rows.copy_us == pytest.approx(5.6e8 / 56 / 1e3)
    assert rows.fraction(2 * rows.time_us) == pytest.approx(0.5)


def test_the_bound_by_a_model_falls_with_the_place_of_the_bytes_and_the_threads():
    one, two = (replace(BUILT_IN["zen4"], threads=threads) for threads in (1, 2))
    sizes = (2**14, 2**18, 2**24, 2**28)
    rates = [model_bound(traffic_of(2 * size, size / 64), two) for size in sizes]
    assert [bound.copy_bytes_per_s for bound in rates] == sorted((b.copy_bytes_per_s for b in rates), reverse=True)
    assert [bound.lines_per_s for bound in rates] == sorted((b.lines_per_s for b in rates), reverse=True)
    for size in sizes:
        assert (
            model_bound(traffic_of(2 * size, size / 64), one).time_us
            >= model_bound(traffic_of(2 * size, size / 64), two).time_us
        )
    assert model_bound(traffic_of(0, 0), two).time_us == 0
