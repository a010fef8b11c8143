"""What the model expects: an order of schedules, not a stopwatch."""

import math
import random
from dataclasses import replace

import pytest

from gathernest.lowering.schedule.choose import choose
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel, held
from gathernest.lowering.schedule.predict import Terms, predict
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.shape import NestShape
from gathernest.lowering.schedule.steps import ParallelizeLoops, Prefetch, StreamStores

MACHINE = replace(BUILT_IN["zen4"], threads=2)


def nest(axis: int, indices: int, inner: int) -> NestShape:
    copied = (("indices", indices), ("inner", inner))
    return NestShape(copied, (), 4, (("axis", axis), ("inner", inner)), looked_up=frozenset({"indices"}))


LARGE = nest(1_000_000, 100_000, 64)


def predict_us(shape: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    return predict(schedule, shape, machine).time_us


def test_the_chosen_schedule_is_expected_to_beat_the_nest_as_it_stands():
    for shape in (LARGE, nest(16_000_000, 1_000_000, 1), nest(1000, 20_000, 64)):
        chosen = choose(shape, MACHINE).schedule
        assert predict_us(shape, chosen, MACHINE) < predict_us(shape, Schedule(), MACHINE)


def test_each_pass_of_a_large_gather_is_expected_to_pay():
    machine = replace(MACHINE, memory_bytes_per_ns=200.0)
    whole = choose(LARGE, machine).schedule
    for left_out in (Prefetch, StreamStores, ParallelizeLoops):
        assert predict_us(LARGE, whole.without(left_out), machine) > predict_us(LARGE, whole, machine)


def test_little_work_is_not_shared():
    small = nest(100, 50, 16)
    shared = Schedule.parse("tile-loops{loops=indices sizes=16},parallelize-loops{loops=indices_o}")
    assert predict_us(small, Schedule(), MACHINE) == predict_us(small, shared, MACHINE)


def predicted(shape: NestShape, machine=MACHINE):
    return predict(choose(shape, machine).schedule, shape, machine)


def test_a_cache_holds_all_that_fits_and_less_of_more():
    everything = held(100, 60, 40, 1.0, False)
    assert everything == (1, 1)
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


def test_memory_that_only_reads_or_only_writes_moves_less_than_a_copy_does():
    half = replace(MACHINE, memory_bytes_per_ns=10.0, one_way_share=0.5)
    assert (half.moving_ns(50, 50), half.moving_ns(100, 0), half.moving_ns(0, 100)) == (10, 20, 20)
    assert half.moving_ns(80, 20) == 16
    writes = nest(100, 200_000, 64)
    assert predicted(writes, half).time_us > 1.5 * predicted(writes, replace(half, one_way_share=1.0)).time_us


def test_more_threads_than_tiles_are_idle():
    few = NestShape(
        (("indices", 4), ("inner", 10**7)), (), 4, (("axis", 4), ("inner", 10**7)), looked_up=frozenset({"indices"})
    )
    whole = Schedule.parse("parallelize-loops{loops=indices},vectorize-inner{lanes=16}")
    times = [predict(whole, few, replace(MACHINE, threads=count)).lines for count in (4, 64)]
    assert times[0] == times[1]


def test_faster_machines_are_expected_to_be_faster():
    schedule = choose(LARGE, MACHINE).schedule
    slow = replace(MACHINE, copy_bytes_per_ns=(10.0,) * 3, line_ns=(20.0,) * 4)
    assert predict_us(LARGE, schedule, MACHINE) < predict_us(LARGE, schedule, slow)


def nests_of_zero_sizes():
    """Yield (nest, schedule, is a gradient) of sizes of which one is 0, for a schedule with all kinds of steps."""
    steps = Schedule.parse(
        "tile-loops{loops=indices sizes=16},parallelize-loops{loops=indices_o},vectorize-inner{lanes=8},gather-lanes,"
        "prefetch{what=rows loop=indices_i ahead=4 lines=2 locality=2},"
        "prefetch{what=rows loop=indices_i ahead=1 lines=2}"
    )
    by = frozenset({"indices", "bag"})
    for axis, count, inner, bag in ((0, 20, 8, 3), (9, 0, 8, 3), (9, 20, 0, 3), (9, 20, 8, 0)):
        table = (("axis", axis), ("inner", inner))
        rows, scalars = (("indices", count), ("inner", inner)), (("outer", axis), ("indices", count))
        bags = (("indices", count), ("bag", bag), ("inner", inner))
        for stream in (False, True):
            schedule = steps.put(StreamStores() if stream else None)
            yield NestShape(rows, rows[:1], 4, table, looked_up=by), schedule, False
            yield NestShape(rows, rows[:1], 4, table, looked_up=by), schedule, True
            yield NestShape(scalars, (), 4, (("outer", axis), ("axis", inner)), looked_up=by), schedule, False
            yield NestShape(bags, bags[:2], 4, table, looked_up=by), schedule, False


def test_every_schedule_of_a_nest_of_size_0_has_a_time():
    for shape, schedule, is_gradient in nests_of_zero_sizes():
        for threads in (1, 2):
            found = predict(schedule, shape, replace(MACHINE, threads=threads), is_gradient=is_gradient)
            assert 0 < found.time_us < math.inf


def test_the_terms_print_themselves_and_leave_out_those_that_are_0():
    assert (
        str(Terms(1234.0, 20.0, 0.0, 0.5, 3.0, 0.0, 0.0))
        == "1,258 µs: lines 1,234, stores 20, check 0.5, instructions 3"
    )
