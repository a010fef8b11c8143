"""What the cost model expects of sums of bags, and the stores that it chooses: an order, not a stopwatch."""

from dataclasses import replace

import pytest

from gathernest.lowering.schedule.candidates import choose_reduction, predict_us
from gathernest.lowering.schedule.cost.gather_cost import Prediction
from gathernest.lowering.schedule.cost.reduction_cost import ReductionModel
from gathernest.lowering.schedule.gradient_heuristic import choose_reduction_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

MACHINE = replace(BUILT_IN["zen4"], threads=2)
ALONE = replace(MACHINE, threads=1)


def nest(rows: int, inner: int, bags: int, bag: int, **facts) -> NestShape:
    return NestShape(
        (("indices", bags), ("bag", bag), ("inner", inner)),
        (("indices", bags), ("bag", bag)),
        4,
        (("axis", rows), ("inner", inner)),
        looked_up=frozenset({"indices", "bag"}),
        **facts,
    )


LARGE = nest(200_000, 256, 4096, 32)  # 128 MB of rows into 4 MB
SHORT = nest(20_000, 64, 200_000, 2)  # 5 MB of rows into 51 MB


def rules(shape: NestShape, machine=MACHINE) -> Schedule:
    return choose_reduction_schedule(shape, machine).schedule


def predicted(shape: NestShape, machine=MACHINE, **changes) -> Prediction:
    return ReductionModel(shape, machine).predict(replace(rules(shape, machine), **changes))


def test_rows_that_are_not_prefetched_take_longer():
    near, far = predicted(LARGE).lines, predicted(LARGE, prefetch=()).lines
    assert 1.5 * near < far


def test_threads_share_all_but_what_memory_moves():
    two, one = predicted(LARGE), predicted(LARGE, ALONE)
    assert two.lines == pytest.approx(one.lines / 2)
    assert (two.bandwidth > 0, one.bandwidth, one.threads) == (True, 0, 0)
    assert two.time_us < one.time_us


def test_memory_that_only_reads_moves_its_share():
    read_bytes = 4096 * 32 * (256 * 4 + 64)
    least_us = 1e-3 * read_bytes / (MACHINE.one_way_share * MACHINE.memory_bytes_per_ns)
    assert 0.9 * least_us < predicted(LARGE).time_us < 1.1 * least_us


def test_a_table_in_the_caches_is_read_faster():
    near = predicted(nest(1000, 256, 4096, 32), prefetch=())
    assert 3 * near.lines < predicted(LARGE, prefetch=()).lines
    assert near.bandwidth == 0


def test_sums_in_memory_take_more_instructions_than_those_in_registers():
    in_memory = ReductionModel(LARGE, MACHINE).predict(replace(rules(LARGE), specialize=None))
    assert in_memory.instructions > 2 * predicted(LARGE).instructions
    widened = nest(200_000, 256, 4096, 32, sum_bytes=4)
    assert predicted(widened).instructions > predicted(LARGE).instructions


def test_sums_of_few_elements_wait_for_the_addition_before():
    few, more = (predicted(nest(1000, inner, 4096, 32), lanes=4, prefetch=()) for inner in (4, 16))
    assert few.instructions == pytest.approx(more.instructions, rel=0.1)


def test_long_rows_are_read_piece_by_piece():
    shape = nest(50_000, 1024, 1000, 32)
    assert dict(rules(shape).tiles)["inner"] == 64
    whole = replace(rules(shape), tiles=(), order=())
    assert predicted(shape).lines > ReductionModel(shape, MACHINE).predict(whole).lines


def test_indices_are_read_again_where_they_are_checked():
    unchecked = replace(SHORT, checked=())
    assert predicted(SHORT).check > 0 == predicted(unchecked).check
    assert predicted(SHORT).indices > predicted(unchecked).indices
    many, shape = replace(MACHINE, threads=64), nest(1000, 16, 1_000_000, 16)  # memory bounds 128 MB of indices
    assert predicted(shape, many).bandwidth > 1.5 * predicted(replace(shape, checked=()), many).bandwidth


@pytest.mark.parametrize("machine", BUILT_IN)
def test_large_sums_of_short_bags_have_non_temporal_stores_and_small_ones_cached(machine):
    machine = replace(BUILT_IN[machine], threads=2)
    found = choose_reduction(SHORT, machine)
    assert found.schedule == replace(rules(SHORT, machine), stream=True)
    assert found.reasons[-1].startswith("sums are written with non-temporal stores: ")
    longer = nest(200_000, 256, 1024, 128)
    assert choose_reduction(longer, machine).schedule == rules(longer, machine)
    small = nest(20_000, 64, 2000, 2)
    assert choose_reduction(small, machine).schedule == rules(small, machine)


@pytest.mark.parametrize("interleaved_times", [1.0, 1.4])
def test_stores_beside_prefetches_in_a_loop_of_their_own_are_non_temporal_for_less(interleaved_times):
    machine = replace(MACHINE, interleaved_times=interleaved_times)
    found = choose_reduction(LARGE, machine).schedule
    assert (found.fission is not None) == found.stream == (interleaved_times > 1)


@pytest.mark.parametrize(("inner", "why"), [(66, "vectors end within a row"), (1024, "pieces"), (3, "elements")])
def test_other_rows_keep_the_stores_of_the_rules(inner, why):
    shape = nest(20_000, inner, 400_000, 2)
    assert choose_reduction(shape, MACHINE) == choose_reduction_schedule(shape, MACHINE), why


@pytest.mark.parametrize("sizes", [(0, 16, 10, 2), (10, 0, 10, 2), (10, 16, 0, 2), (10, 16, 10, 0)])
def test_a_nest_without_work_takes_no_time_for_rows_and_keeps_the_stores_of_the_rules(sizes):
    found = choose_reduction(nest(*sizes), MACHINE)
    assert found == choose_reduction_schedule(nest(*sizes), MACHINE)
    assert ReductionModel(nest(*sizes), MACHINE).predict(found.schedule).time_us < 1


def test_predictions_of_bags_are_those_of_this_model():
    assert predict_us(LARGE, rules(LARGE), MACHINE) == predicted(LARGE).time_us


@pytest.mark.parametrize(
    ("rows", "width", "bag", "times", "prefetched"),
    [
        (10**6, 64, 8, 1.2, [2]),
        (10**6, 64, 8, 1.19, None),
        (10**6, 64, 7, 1.4, None),
        (10**6, 128, 8, 1.4, [2]),
        (10**6, 132, 8, 1.4, [2, 3]),  # rows of more than 512 B
        (10**6, 256, 8, 1.4, [2, 3]),
        (10**6, 17, 8, 1.4, [2, 3]),
        (10**6, 16, 8, 1.4, None),  # one line
        (10**6, 63, 8, 1.4, [2, 3]),  # rows of less than 256 B
        (131_073, 64, 32, 1.4, [2]),
        (131_072, 64, 32, 1.4, None),  # a table that the last cache holds
    ],
)
def test_far_prefetches_of_bags_have_a_loop_of_their_own_on_machines_that_drop_others(
    rows, width, bag, times, prefetched
):
    found = choose_reduction_schedule(nest(rows, width, 8192, bag), replace(MACHINE, interleaved_times=times))
    assert found.schedule.fission == (None if prefetched is None else ("bag", 2))
    localities = [each.locality for each in found.schedule.prefetch]
    assert localities == ([2, 3] if prefetched is None else prefetched)
    assert any("by a loop in front of each bag" in reason for reason in found.reasons) == (prefetched is not None)


def test_staged_positions_are_checked_longer_and_read_and_resolved_faster():
    wide, narrow = (replace(nest(rows, 16, 40_000, 16), checked=(("indices", 640_000),)) for rows in (1 << 17, 1 << 16))
    of_wide, of_narrow = (ReductionModel(shape, ALONE).predict(rules(wide, ALONE)) for shape in (wide, narrow))
    assert of_narrow.check == 2 * of_wide.check
    assert of_narrow.indices < of_wide.indices and of_narrow.instructions < of_wide.instructions
    assert predicted(nest(1 << 16, 16, 40_000, 16)).check == predicted(wide).check  # two loops check, and stage nothing
