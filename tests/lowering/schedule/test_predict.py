"""What the model expects: an order of schedules, not a stopwatch."""

import math
import random
from dataclasses import replace

import pytest

from gathernest.lowering.schedule.machine_model import BUILT_IN, held
from gathernest.lowering.schedule.predict import predict
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.shape import NestShape
from gathernest.lowering.schedule.steps import StreamStores

MACHINE = replace(BUILT_IN["zen4"], threads=2)


def nest(axis: int, indices: int, inner: int) -> NestShape:
    copied = (("indices", indices), ("inner", inner))
    return NestShape(copied, (), 4, (("axis", axis), ("inner", inner)), looked_up=frozenset({"indices"}))


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


def nests_of_zero_sizes():
    """Yield (nest, schedule) of sizes of which one is 0, for a schedule with all kinds of steps."""
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
            yield NestShape(rows, rows[:1], 4, table, looked_up=by), schedule
            yield NestShape(rows, rows[:1], 4, table, True, looked_up=by), schedule
            yield NestShape(scalars, (), 4, (("outer", axis), ("axis", inner)), looked_up=by), schedule
            yield NestShape(bags, bags[:2], 4, table, looked_up=by), schedule


def test_every_schedule_of_a_nest_of_size_0_has_a_time():
    for shape, schedule in nests_of_zero_sizes():
        for threads in (1, 2):
            found = predict(schedule, shape, replace(MACHINE, threads=threads))
            assert 0 < found.time_us < math.inf
