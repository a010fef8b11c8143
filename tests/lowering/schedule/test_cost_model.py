"""What the cost model expects: an order of schedules, not a stopwatch."""

from dataclasses import replace

from gathernest.lowering.schedule.cost_model import predict_us
from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

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
    whole = choose_schedule(LARGE, MACHINE).schedule
    for left_out in ({"prefetch": ()}, {"stream": False}, {"parallel": ()}):
        assert predict_us(LARGE, replace(whole, **left_out), MACHINE) > predict_us(LARGE, whole, MACHINE)


def test_threads_do_not_pay_for_little_work():
    small = nest(100, 50, 16)
    shared = Schedule((("indices", 16),), parallel=("indices_o",))
    assert predict_us(small, Schedule(), MACHINE) < predict_us(small, shared, MACHINE)


def test_faster_machines_are_expected_to_be_faster():
    schedule = choose_schedule(LARGE, MACHINE).schedule
    slow = replace(MACHINE, copy_bytes_per_ns=(10.0,) * 3, line_ns=(20.0,) * 4)
    assert predict_us(LARGE, schedule, MACHINE) < predict_us(LARGE, schedule, slow)
