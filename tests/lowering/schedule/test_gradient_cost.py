"""What the cost model expects of gradients: an order of ways, not a stopwatch."""

from dataclasses import replace

import pytest

from gathernest.lowering.schedule.candidates import choose_gradient_schedule
from gathernest.lowering.schedule.cost.gather_cost import Prediction
from gathernest.lowering.schedule.cost.gradient_cost import GradientModel
from gathernest.lowering.schedule.gradient_heuristic import gradient_ways
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

MACHINE = replace(BUILT_IN["zen4"], threads=2)


def nest(axis: int, indices: int, inner: int) -> NestShape:
    return NestShape(
        (("indices", indices), ("inner", inner)),
        (("indices", indices),),
        4,
        (("axis", axis), ("inner", inner)),
        looked_up=frozenset({"indices"}),
    )


def priced(shape: NestShape, machine=MACHINE) -> list[tuple[Schedule, Prediction]]:
    return [
        (way.schedule, GradientModel(shape, machine).predict(way.schedule)) for way in gradient_ways(shape, machine)
    ]


def one(found: list[tuple[Schedule, Prediction]], field: str) -> Prediction:
    """Return the prediction of the first way that has a field."""
    return next(prediction for schedule, prediction in found if getattr(schedule, field))


def test_halves_of_rows_are_read_as_slowly_as_whole_rows():
    found = priced(nest(100, 200_000, 64))
    assert one(found, "order").indices >= found[1][1].indices
    assert found[0][0].slices and found[0][1].indices < found[1][1].indices


def test_the_part_of_an_owner_stays_in_l2_and_one_thread_reads_the_last_cache():
    found = priced(nest(10_000, 40_000, 1024))
    assert one(found, "compact").lines < found[0][1].lines / 3


def test_indices_are_sorted_by_one_thread_and_no_line_of_the_table_is_read():
    shape, more = nest(100_000, 100_000, 64), replace(MACHINE, threads=16)
    assert one(priced(shape), "grouped").lines == 0
    sorting = [one(priced(shape, machine), "grouped").threads for machine in (MACHINE, more)]
    assert 0 < sorting[0] <= sorting[1]


def test_counted_lists_have_no_check_and_a_result_that_is_copied():
    counted, checked = (one(priced(nest(axis, 4_000_000, 1)), "list_lanes") for axis in (1_000_000, 2_000_000))
    assert counted.check == 0 < checked.check
    assert counted.stores > checked.stores / 2


def sorting_us(shape: NestShape, machine=MACHINE) -> dict[int | None, float]:
    """Return what is predicted of launches and of the sort, by its parts."""
    (schedule,) = [way.schedule for way in gradient_ways(shape, machine) if way.schedule.grouped]
    model = GradientModel(shape, machine)
    return {parts: model.predict(replace(schedule, sort_parts=parts)).threads for parts in (None, 2, 4)}


def test_a_sort_in_parts_is_faster_on_as_many_threads_and_sums_the_counts_of_each():
    shape = nest(100_000, 100_000, 64)
    times, slow = sorting_us(shape), sorting_us(shape, replace(MACHINE, launch_ns=51_000.0))
    assert times[2] < times[None] and times[2] < times[4]
    assert slow[2] - times[2] - (slow[None] - times[None]) == pytest.approx(2 * 50)
    many = sorting_us(nest(1_000_000, 50_000, 64))
    assert many[2] > many[None]


def test_additions_to_one_position_wait_for_each_other_whoever_adds():
    times = [[each.time_us for _, each in priced(nest(axis, 400_000, 1))] for axis in (1, 64)]
    assert min(times[0]) > 1.5 * min(times[1])


@pytest.mark.parametrize("axis", [1_000_000, 4_000_000])
def test_memory_bounds_zeros_and_additions_one_after_the_other(axis):
    shape, slow = nest(axis, 100_000, 16), replace(MACHINE, memory_bytes_per_ns=2.0)
    for schedule, prediction in priced(shape, slow):
        cleared_bytes = shape.table_bytes if not schedule.grouped else 0
        assert prediction.time_us > (cleared_bytes + shape.out_bytes) / 2.0 / 1000


def test_a_choice_tells_its_prediction_and_the_next_best():
    reasons = choose_gradient_schedule(nest(100_000, 100_000, 64), MACHINE).reasons
    assert any(" µs predicted, " in reason and " where " in reason for reason in reasons)
