"""What the cost model expects: an order of schedules, not a stopwatch."""

import random
from dataclasses import replace

import pytest

from gathernest.lowering.schedule.candidates import predict_us
from gathernest.lowering.schedule.cost.gather_cost import GatherModel
from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN, held
from gathernest.lowering.schedule.schedule import Prefetch, Schedule

MACHINE = replace(BUILT_IN["zen4"], threads=2)


def nest(axis: int, indices: int, inner: int) -> NestShape:
    copied = (("indices", indices), ("inner", inner))
    return NestShape(copied, (), 4, (("axis", axis), ("inner", inner)), looked_up=frozenset({"indices"}))


LARGE = nest(1_000_000, 100_000, 64)


def test_the_chosen_schedule_is_expected_to_beat_the_nest_as_it_stands():
    for shape in (LARGE, nest(16_000_000, 1_000_000, 1), nest(1000, 20_000, 64)):
        chosen = choose_schedule(shape, MACHINE).schedule
        assert predict_us(shape, chosen, MACHINE) < predict_us(shape, Schedule(), MACHINE)


def test_each_pass_of_a_large_gather_is_expected_to_pay():
    machine = replace(MACHINE, memory_bytes_per_ns=200.0)
    whole = choose_schedule(LARGE, machine).schedule
    for left_out in ({"prefetch": ()}, {"stream": False}, {"parallel": ()}):
        assert predict_us(LARGE, replace(whole, **left_out), machine) > predict_us(LARGE, whole, machine)


def test_little_work_is_not_shared():
    small = nest(100, 50, 16)
    shared = Schedule((("indices", 16),), parallel=("indices_o",))
    assert predict_us(small, Schedule(), MACHINE) == predict_us(small, shared, MACHINE)


def predicted(shape: NestShape, machine=MACHINE, **changes):
    return GatherModel(shape, machine).predict(choose_schedule(shape, machine).schedule, changes)


def test_cached_stores_to_memory_cost_twice_the_bytes_of_non_temporal_ones():
    huge = nest(4_000_000, 2_000_000, 64)
    streamed, cached = predicted(huge), predicted(huge, stream=False)
    assert cached.stores == pytest.approx(2 * streamed.stores, rel=0.01)
    assert cached.lines == pytest.approx(streamed.lines, rel=0.02)


def test_non_temporal_stores_leave_the_last_cache_to_the_table():
    """64 MB of table, 4 MB of indices and 32 MB of out: the cache holds more of the table without out."""
    shape = nest(1_000_000, 500_000, 16)
    assert predicted(shape, stream=True).lines < 0.98 * predicted(shape, stream=False).lines


def test_a_cache_holds_all_that_fits_and_less_of_more():
    everything = held(100, 60, 40, 1.0, False)
    assert (everything.passing, everything.table, everything.there) == (1, 1, 1)
    halves = [held(100, size, 0, 1.0, False).passing for size in (110, 150, 200, 400)]
    assert halves == sorted(halves, reverse=True)
    assert halves[0] > 0.7
    assert halves[-1] < 0.05


@pytest.mark.parametrize(("passing", "table", "reads"), [(150, 0, 1.0), (50, 100, 0.5), (20, 200, 8.0)])
@pytest.mark.parametrize("is_window", [False, True])
def test_what_a_cache_holds_is_what_random_eviction_leaves(passing, table, reads, is_window):
    """A cache of 100 lines evicts a random one for each line that it lacks; 60 calls, each read once all over it."""
    drawn = random.Random(0)
    lines, cache = list[int](), set[int]()
    found, seen = [0, 0], [0, 0]  # of what passes and of the table
    for call in range(60):
        indexed = [drawn.randrange(table) for _ in range(round(reads * table))]
        indexed = sorted(set(indexed)) if is_window else indexed  # windows in their order, each line of one but once
        both = [
            (at / len(group), line)
            for group in (indexed, range(table, table + passing))
            for at, line in enumerate(group)
        ]
        for line in (line for _, line in sorted(both)):
            if call >= 10:
                found[line < table] += line in cache
                seen[line < table] += 1
            if line in cache:
                continue
            if len(lines) < 100:
                lines.append(line)
            else:
                place = drawn.randrange(100)
                cache.discard(lines[place])
                lines[place] = line
            cache.add(line)
    expected = held(100, passing, table, reads, is_window)
    assert found[False] / seen[False] == pytest.approx(expected.passing, abs=0.06)
    assert not table or found[True] / seen[True] == pytest.approx(expected.table, abs=0.06)


@pytest.mark.parametrize(("axis", "is_led_astray"), [(64_000_000, True), (16_000_000, False)])
def test_loads_of_lanes_fetch_lines_in_vain_where_ascending_indices_skip_lines(axis, is_led_astray):
    shape = NestShape((("indices", 4_000_000),), (), 4, (("axis", axis),), looked_up=frozenset({"indices"}))
    schedule, model = choose_schedule(shape, MACHINE).schedule, GatherModel(shape, MACHINE)
    loads, gathers = (model.predict(schedule, {"gather": way}, ascending=True).lines for way in (False, True))
    assert (loads > 1.5 * gathers) == is_led_astray
    assert gathers <= loads
    assert gathers < model.predict(schedule).lines  # a line that is read again is in L1


def test_a_row_waits_longer_for_its_lines_than_an_element():
    rows, elements = nest(4_000_000, 1_000_000, 4), nest(16_000_000, 1_000_000, 1)
    assert predicted(rows, prefetch=()).lines > 1.4 * predicted(elements, prefetch=(), lanes=8).lines


def test_stores_of_what_the_caches_hold_are_cheaper_than_non_temporal_ones():
    held = nest(1000, 20_000, 64)
    assert predicted(held, stream=False).stores < predicted(held, stream=True).stores


def test_lines_that_are_not_prefetched_cost_more_and_prefetches_cost_instructions():
    whole, without = predicted(LARGE), predicted(LARGE, prefetch=())
    assert without.lines > 1.5 * whole.lines
    assert without.instructions < whole.instructions


def test_a_prefetch_as_far_ahead_as_its_loop_is_long_is_of_no_use():
    late = (Prefetch("indices_i", 4096, 5, 2),)
    assert predicted(LARGE, prefetch=late).lines == predicted(LARGE, prefetch=()).lines


def test_the_latency_of_memory_bounds_rows_that_are_prefetched_a_few_ahead():
    rows = nest(1_000_000, 400_000, 16)
    costs = [predicted(rows, prefetch=(Prefetch("indices_i", distance, 2, 2),)).lines for distance in (4, 16, 64, 256)]
    assert costs[0] > 1.5 * costs[1] > 1.5 * costs[2]
    assert costs[2] <= costs[3]  # far enough: more come too late at the beginning of a tile
    near = predicted(rows, prefetch=(Prefetch("indices_i", 64, 2, 3),)).lines
    assert near > costs[2]  # the first cache waits for fewer lines than the second


def test_memory_that_is_slow_for_all_threads_bounds_the_time():
    slow = replace(MACHINE, memory_bytes_per_ns=1.0)
    moved_bytes = LARGE.out_bytes + LARGE.all_index_bytes
    assert predicted(LARGE, slow).time_us > moved_bytes / 1000
    assert predicted(LARGE, slow).bandwidth > 0 == predicted(nest(1000, 20_000, 64), slow).bandwidth


def test_memory_that_only_reads_or_only_writes_moves_less_than_a_copy_does():
    half = replace(MACHINE, memory_bytes_per_ns=10.0, one_way_share=0.5)
    assert (half.moving_ns(50, 50), half.moving_ns(100, 0), half.moving_ns(0, 100)) == (10, 20, 20)
    assert half.moving_ns(80, 20) == 16
    writes = nest(100, 200_000, 64)
    assert predicted(writes, half).time_us > 1.5 * predicted(writes, replace(half, one_way_share=1.0)).time_us


def test_a_check_reads_the_indices_twice_and_takes_the_time_of_the_machine():
    checked = replace(LARGE, checked=(("indices", 100_000),))
    schedule = choose_schedule(LARGE, MACHINE).schedule
    slow = replace(MACHINE, check_ns=1.0, l2_bytes=128 << 10)  # which holds no indices that are read again
    before, after = (GatherModel(shape, slow).predict(schedule) for shape in (LARGE, checked))
    assert (before.check, after.check) == (0.0, 100.0)  # no loop that checks is parallel
    assert before.indices < after.indices <= 2 * before.indices


def test_more_threads_than_tiles_are_idle():
    few = NestShape(
        (("indices", 4), ("inner", 10**7)), (), 4, (("axis", 4), ("inner", 10**7)), looked_up=frozenset({"indices"})
    )
    whole = Schedule(parallel=("indices",), lanes=16)
    times = [GatherModel(few, replace(MACHINE, threads=count)).predict(whole).lines for count in (4, 64)]
    assert times[0] == times[1]


def test_faster_machines_are_expected_to_be_faster():
    schedule = choose_schedule(LARGE, MACHINE).schedule
    slow = replace(MACHINE, copy_bytes_per_ns=(10.0,) * 3, line_ns=(20.0,) * 4)
    assert predict_us(LARGE, schedule, MACHINE) < predict_us(LARGE, schedule, slow)
