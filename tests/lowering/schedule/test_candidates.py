"""Schedules that are chosen and proposed: each is legal for its nest, whatever the sizes are."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import build_program, run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.candidates import Space, candidates
from gathernest.lowering.schedule.choose import choose
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule

MACHINE = replace(BUILT_IN["zen4"], threads=2)
PROBLEMS = {
    "rows": problem_of("gather", "1000000x16xf32", "400000xi64"),
    "scalars": problem_of("gather", "64000000xf32", "4000000xi64"),
    "elements": problem_of("gather_elements", "8192x1024xf32", "8192x256xi64", 1),
}


def proposed(name: str) -> tuple[Schedule, ...]:
    with knobs.scope(num_threads=2):
        plan = make_plan(PROBLEMS[name], takes_tuned=False)
    return tuple(candidates(Space(plan.layout.nest, plan.schedule, MACHINE)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_there_are_ten_to_48_and_the_chosen_one_comes_first(name):
    found = proposed(name)
    with knobs.scope(num_threads=2):
        assert found[0] == make_plan(PROBLEMS[name], takes_tuned=False).schedule
    assert 10 <= len(found) <= 48
    assert len(set(found)) == len(found)


def test_candidates_are_the_reviewed_ones(golden):
    lines: list[str] = []
    for name in PROBLEMS:
        lines += [name, *(f"    {str(schedule) or 'none'}" for schedule in proposed(name))]
    golden("schedules/candidates.txt", "\n".join(lines))


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", PROBLEMS)
def test_candidates_are_legal(name):
    found = proposed(name)
    for schedule in found[-4::2] + found[len(found) // 2 :][:1]:
        run_stages(make_plan(PROBLEMS[name], schedule))


SIZES = st.sampled_from([1, 2, 3, 17, 500, 5000, 70_000])


@pytest.mark.thorough
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    *(SIZES, SIZES, SIZES, SIZES),
    st.sampled_from([Bounds.ERROR, Bounds.ZERO, Bounds.WRAP]),
    st.sampled_from(["packed", "strided", "reversed"]),
    st.sampled_from(["i1", "f4", "c16", "S12"]),
    st.sampled_from(["i8", "u4"]),
)
def test_chosen_schedule_is_legal_for_its_nest(batch, outer, indices, inner, bounds, layout, dtype, index_dtype):
    assume(16 * batch * outer * indices * inner < 2**63)  # a result of more bytes is rejected
    unit = {"packed": None, "strided": (-1, 0, 1, 5, 1, 0), "reversed": (9, 9, 9, 9, -1, 1)}[layout]
    strides = unit and [int(dtype[1:]) * stride for stride in unit]
    data = ArraySpec((batch, outer, 1, 9, inner, 1), dtype, strides)
    problem = Problem.checked(Gather(3, 1), data, ArraySpec((batch, indices), index_dtype), bounds)
    plan = make_plan(problem)
    assert make_plan(problem) == plan
    assert ("share(team, " in build_program(plan).source) == bool(plan.schedule.parallel)


def nests_of_sizes(sizes):
    """Return the nest of every operator, on data and indices with each of the sizes at every place."""
    nests = set()
    for batch, axis, inner, count in product(sizes, repeat=4):
        indices = [(Gather(1), (count,)), (Gather(2, 1), (batch, count)), (GatherNd(), (batch, count, 2))]
        indices += [(GatherNd(1), (batch, count, 1)), (GatherElements(1), (batch, count, inner))]
        for (operator, shape), gradient in product(indices, (None, Gradient(2.0))):
            specs = ArraySpec((batch, axis, inner), "f4"), ArraySpec(shape, "i8")
            plan = make_plan(Problem.checked(operator, *specs, Bounds.ERROR, gradient=gradient), Schedule())
            nests.add(plan.layout.nest)
    return nests


@pytest.mark.thorough
def test_a_schedule_is_chosen_for_sizes_of_zero_at_every_place():
    nests, sizes = nests_of_sizes((0, 3, 5000)), ((12, 16), (20, 25))
    assert len(nests) > 300
    machines = [
        replace(MACHINE, l2_bytes=1 << l2, l3_bytes=1 << l3, threads=threads)
        for (l2, l3), threads in product(sizes, (1, 2, 64))
    ]
    for shape, machine in product(nests, machines):
        schedule = choose(shape, machine).schedule
        assert Schedule.parse(str(schedule)) == schedule


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("operator", "table", "indices", "strides"),
    [
        (Gather(1, 1), (500, 200, 64), (500, 1), None),
        (Gather(1, 1), (500, 200, 64), (500, 3), None),
        (Gather(1), (3000, 40, 64), (1,), None),
        (Gather(), (100_000, 64), (300, 5), (8, 2400)),
        (GatherNd(1), (3000, 30, 30, 64), (3000, 1, 2), None),
        (GatherNd(), (300, 300, 64), (3000, 2), None),
        (GatherNd(), (1, 30_000, 64), (3000, 2), None),
    ],
)
def test_chosen_schedule_of_a_gradient_is_legal(operator, table, indices, strides, threads):
    with knobs.scope(num_threads=threads, machine="zen4"):
        out, index = ArraySpec(table, "f4"), ArraySpec(indices, "i8", strides)
        grad = ArraySpec(operator.result_shape(table, indices), "f4")
        plan = make_plan(Problem.checked(operator, out, index, Bounds.ERROR, grad, gradient=Gradient(1.0)))
        assert plan.schedule.lanes == 8
        assert build_program(plan)
