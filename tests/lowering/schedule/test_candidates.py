"""Candidates beside the schedule that is chosen: which there are, and that each is legal."""

from dataclasses import replace

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.candidates import candidates
from gathernest.lowering.schedule.gradient_heuristic import choose_gradient_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

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


def test_nothing_is_proposed_beside_a_nest_without_a_schedule():
    nest = make_plan(PROBLEMS["rows"]).layout.nest
    assert list(candidates(nest, MACHINE, Schedule(), is_gradient=False)) == [Schedule()]


def test_those_of_a_gradient_have_other_parallel_loops():
    nest = NestShape((("indices", 10**6), ("inner", 8)), (), 4, (("axis", 10**6), ("inner", 8)))
    chosen = choose_gradient_schedule(nest, MACHINE).schedule
    found = list(candidates(nest, MACHINE, chosen, is_gradient=True))
    assert found[0] == chosen
    assert {each.owners for each in found} >= {None, ("axis", 2), ("axis", 4)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_are_legal(name):
    found = proposed(name)
    for schedule in found[-4::2] + found[len(found) // 2 :][:1]:
        run_stages(make_plan(PROBLEMS[name], schedule))
