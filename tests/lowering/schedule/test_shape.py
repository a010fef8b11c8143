"""The loops of a nest under a schedule are the loops of its IR, for candidates of the whole suite."""

import math
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.nest_ops import LoopOp
from gathernest.ir.errors import ScheduleError
from gathernest.ir.modules.context import make_context
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import module_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.nest import queries
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.schedule.candidates import Space, candidates
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.shape import scheduled_loops
from gathernest.tools.bench.cases import SUITE

CASES = [case for case in SUITE if case.family != "call"]
# The steps that move loops, and the pass before them.
MOVING = ("drop-unit-loops", "tile-loops", "interchange-loops", "parallelize-loops")
# Loops of the sort by position.
SORTING = {"empty", "count", "end", "place"}


def plan_of(case, schedule: Schedule | None = None) -> Plan:
    """Return the plan of a case into an array that is given."""
    data, indices = (ArraySpec(case.data, np.dtype(case.dtype)), ArraySpec(case.indices, np.dtype(case.index_dtype)))
    problem = problem_of(case.operator, data, indices, axis=case.axis, batch_dims=case.batch_dims)
    with knobs.scope(num_threads=2, machine="zen4", tuning="off"):
        return make_plan(problem.into(problem.result), schedule)


def schedules_of(case) -> list[Schedule]:
    plan, machine = plan_of(case), replace(BUILT_IN["zen4"], threads=2)
    return candidates(Space(plan.layout.nest, plan.schedule, machine))


def nest_of(plan: Plan) -> ModuleOp:
    """Return the nest behind the steps of a plan that move its loops."""
    module, context = module_of(plan.problem), make_context()
    passes = list(parse_passes(plan.pipeline))
    last = max(place for place, step in enumerate(passes) if step.name in MOVING)
    for step in passes[: last + 1]:
        step.apply(context, module)
    return module


def main_loops(module: ModuleOp) -> list[LoopOp]:
    """Return the loops of the nest that copies or adds."""
    return [loop for loop in queries.loops(module) if not loop.label.nest and loop.label.role not in SORTING]


def tiles_of(module: ModuleOp) -> dict[str, int]:
    """Return the steps of the loops over tiles."""
    outer = [loop for loop in main_loops(module) if loop.label.is_outer_tile]
    return {loop.label: constant(loop) for loop in outer}


def constant(loop: LoopOp) -> int:
    owner = loop.step.owner
    assert isinstance(owner, arith.ConstantOp)
    return owner.value.value.data


def check(case, schedule: Schedule) -> bool:
    """Compare a candidate with its IR; return False where a pass rejects it."""
    plan = plan_of(case, schedule)
    try:
        shape, module = plan.layout.nest, nest_of(plan)
    except ScheduleError:
        return False
    loops = scheduled_loops(shape, schedule)
    there = [(loop.label, loop.parallel is not None) for loop in main_loops(module)]
    assert [(loop.name, loop.is_parallel) for loop in loops] == there
    trips = {loop.name: loop.trips for loop in loops}
    for name, size in tiles_of(module).items():
        assert trips.get(name.untiled.inner_tile, size) == size or trips[name] == 1
    assert math.prod(trips.values()) * shape.width_bytes >= (0 if case.is_gradient else case.gathered_bytes)
    return True


@pytest.mark.draw(4)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_loops_are_those_of_the_ir(case):
    assert sum(check(case, schedule) for schedule in schedules_of(case)[:2]) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_they_are_for_every_candidate(case):
    assert sum(check(case, schedule) for schedule in schedules_of(case)) > 1
