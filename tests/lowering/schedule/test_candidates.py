"""Candidates beside the schedule that is chosen: which there are, that each is legal, and which is chosen."""

import re
from dataclasses import replace

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.layout import Layout
from gathernest.kernels.runtime.plan import make_plan
from gathernest.kernels.runtime.select_schedule import chosen_schedule
from gathernest.lowering.schedule import candidates as candidates_module
from gathernest.lowering.schedule.candidates import candidates, choose_candidate, choose_gradient_schedule
from gathernest.lowering.schedule.cost.gather_cost import GatherModel
from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel
from gathernest.lowering.schedule.schedule import Choice, Schedule

MACHINE = replace(BUILT_IN["zen4"], threads=2)
PROBLEMS = {
    "rows": Problem.checked(Gather(), ArraySpec.parse("1000000x16xf32"), ArraySpec.parse("400000xi64"), Bounds.ERROR),
    "scalars": Problem.checked(Gather(), ArraySpec.parse("64000000xf32"), ArraySpec.parse("4000000xi64"), Bounds.ERROR),
    "elements": Problem.checked(
        GatherElements(1), ArraySpec.parse("8192x1024xf32"), ArraySpec.parse("8192x256xi64"), Bounds.ERROR
    ),
}


def proposed(name: str) -> tuple[Schedule, ...]:
    plan = make_plan(PROBLEMS[name], takes_tuned=False)
    return tuple(candidates(plan.layout.nest, MACHINE, plan.schedule, is_gradient=False))


@pytest.mark.parametrize("name", PROBLEMS)
def test_there_are_a_few_dozen_and_the_chosen_one_comes_first(name):
    found = proposed(name)
    assert found[0] == make_plan(PROBLEMS[name], takes_tuned=False).schedule
    assert 12 <= len(found) <= 48
    assert len(set(found)) == len(found)


def test_stores_vectors_and_prefetches_vary_together():
    bodies = {(each.lanes, each.stream, len(each.prefetch)) for each in proposed("rows")}
    assert {(None, False, 0), (8, False, 2), (8, True, 0), (16, True, 1)} <= bodies


@pytest.mark.parametrize("name", PROBLEMS)
def test_lanes_are_gathered_and_loaded_where_elements_have_an_index_each(name):
    assert {each.gather for each in proposed(name)} == ({False} if name == "rows" else {False, True})


def test_nothing_is_proposed_beside_a_nest_without_a_schedule():
    small = NestShape((("indices", 3), ("inner", 4)), (), 4, (("axis", 5), ("inner", 4)))
    assert list(candidates(small, MACHINE, Schedule(), is_gradient=False)) == [Schedule()]


def test_the_schedule_of_the_rules_is_a_candidate_where_another_is_chosen():
    rules = choose_schedule(ROWS, MACHINE).schedule
    other = replace(rules, lanes=4, stream=False)
    assert rules in candidates(ROWS, MACHINE, other, is_gradient=False)


def test_those_of_a_gradient_have_other_parallel_loops():
    nest = NestShape((("indices", 10**6), ("inner", 8)), (), 4, (("axis", 10**6), ("inner", 8)))
    chosen = choose_gradient_schedule(nest, MACHINE).schedule
    found = list(candidates(nest, MACHINE, chosen, is_gradient=True))
    assert found[0] == chosen
    assert {each.owners for each in found} >= {None, ("axis", 2), ("axis", 4)}


ROWS = NestShape(
    (("indices", 100_000), ("inner", 64)), (), 4, (("axis", 1_000_000), ("inner", 64)), looked_up=frozenset({"indices"})
)


def choice(machine: MachineModel, nest: NestShape = ROWS) -> Choice:
    return choose_candidate(nest, machine, choose_schedule(nest, machine))


def test_the_schedule_of_the_rules_stays_where_no_other_is_predicted_clearly_faster():
    rules = choose_schedule(ROWS, MACHINE)
    found = choice(MACHINE)
    assert found.schedule == rules.schedule
    assert found.reasons[: len(rules.reasons)] == rules.reasons


def test_what_the_rules_choose_is_told_beside_the_next_best():
    fast_memory = replace(MACHINE, memory_bytes_per_ns=200.0)
    text = choice(fast_memory).reasons[-1]
    time = r"[\d.]+ (µs|ms)"
    stores = r"stores of 16 elements"
    assert re.fullmatch(rf"non-temporal {stores}: {time} predicted, {time} with cached {stores}", text)


def test_a_cache_that_others_use_too_is_bypassed_though_the_result_fits():
    ours = replace(BUILT_IN["xeon-avx512"], threads=2, l3_bytes=480 << 20)
    found = choice(replace(ours, l3_share=0.02))
    assert (choice(ours).schedule.stream, found.schedule.stream) == (False, True)
    assert found.reasons[-1].startswith("but non-temporal stores of 16 elements: ")


def test_prefetches_are_added_where_the_second_cache_lacks_what_the_third_is_slow_to_give():
    nest = replace(ROWS, copied=(("indices", 10**6),), table=(("axis", 10**6),))
    near, far = (
        replace(MACHINE, line_ns=(0.3, 0.7, ns, 20.0), alone_line_ns=(2 * ns, 40.0), near_line_ns=(1.5 * ns, 30.0))
        for ns in (0.8, 10.0)
    )
    assert [bool(choice(machine, nest).schedule.prefetch) for machine in (near, far)] == [False, True]


def scalars(axis: int, indices: int, width_bytes: int = 4) -> NestShape:
    table, looked_up = (("axis", axis),), frozenset({"indices"})
    return NestShape((("indices", indices),), (), width_bytes, table, looked_up=looked_up)


@pytest.mark.parametrize(("elements", "is_gathered"), [(1_000_000, True), (65_536, False)], ids=["4 MB", "256 KB"])
def test_lanes_of_tables_beyond_l2_are_gathered_where_nothing_is_prefetched(elements, is_gathered):
    """By rates of a calibrated Zen 4, loads take 1.28 times as long from 4 MB as gathers without a prefetch."""
    rates = {"alone_line_ns": (2.45, 8.4), "lane_load_ns": 0.155, "lane_gather_ns": 0.17, "strayed_lines": 1.0}
    machine = replace(MACHINE, line_ns=(0.64, 0.87, 2.03, 4.3), copy_bytes_per_ns=(77.0, 57.0, 48.0), **rates)
    found = choice(machine, scalars(elements, 1_000_000))
    assert not found.schedule.prefetch
    assert found.schedule.gather == is_gathered


def test_lanes_are_gathered_where_loads_are_far_slower_for_ascending_indices():
    found = choice(MACHINE, scalars(64_000_000, 4_000_000))
    assert not choose_schedule(scalars(64_000_000, 4_000_000), MACHINE).schedule.gather
    assert found.schedule.gather
    way = "but lanes are loaded by gather instructions: predicted to take"
    times = re.fullmatch(
        rf"{way} ([\d.]+) times as long for random indices, ([\d.]+) times for ascending ones", found.reasons[-1]
    )
    assert times is not None
    assert float(times[1]) < 1.1
    assert float(times[2]) < 0.85


@pytest.mark.parametrize(
    ("nest", "machine"),
    [
        (scalars(16_000_000, 4_000_000), MACHINE),  # each line is read, so no load leads the processor astray
        (scalars(1_000_000, 60_000), MACHINE),  # from the last cache
        (scalars(64_000_000, 4_000_000, 16), MACHINE),  # no gather instruction has such lanes
        (scalars(64_000_000, 4_000_000), replace(MACHINE, lane_gather_ns=1.0)),
        (replace(scalars(64_000, 4_000_000), table=(("axis", 8_000), ("axis_1", 8_000))), MACHINE),
    ],
)
def test_lanes_are_loaded_where_gathers_may_be_the_slower_ones(nest, machine):
    assert not choice(machine, nest).schedule.gather


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_choice_takes_a_dozen_predictions_of_some_ten_microseconds(name, monkeypatch):
    nest, asked, predict = Layout.of(PROBLEMS[name]).nest, list[Schedule](), GatherModel.predict

    def counted(model, rules, *changes, **order):
        asked.append(rules)
        return predict(model, rules, *changes, **order)

    monkeypatch.setattr(GatherModel, "predict", counted)
    choice(MACHINE, nest)
    assert 3 <= len(asked) <= 12


def test_results_too_small_for_a_schedule_are_not_predicted(monkeypatch):
    monkeypatch.setattr(candidates_module, "choose_candidate", lambda nest, machine, proposed: pytest.fail("predicted"))
    small = replace(ROWS, copied=(("indices", 3), ("inner", 4)), table=(("axis", 5), ("inner", 4)))
    assert chosen_schedule(small, is_gradient=False).schedule == Schedule()


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_are_legal(name):
    found = proposed(name)
    for schedule in found[-4::2] + found[len(found) // 2 :][:1]:
        run_stages(make_plan(PROBLEMS[name], schedule))
