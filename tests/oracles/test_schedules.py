"""Schedules drawn at random: a legal one changes no byte, an illegal one is refused with a ScheduleError."""

import os
import re

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.context import parse_module
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreter import interpret
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import Bounds
from gathernest.kernels.build import run_stages
from gathernest.kernels.plan import Plan, Problem, make_plan
from gathernest.lowering.schedule import Schedule

MORE = int(os.environ.get("GATHERNEST_TEST_MORE", "1"))
"""How many times as many examples to draw, and from 2 on other ones in every run: `make fuzz`."""

NO_SHRINKING = (Phase.explicit, Phase.generate)
EXACT = settings(deadline=None, derandomize=MORE == 1, database=None, phases=NO_SHRINKING)
SCHEDULED = ("tile-loops", "interchange-loops", "parallelize-loops", "hoist-invariants", "cse")
OPERATORS = pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])


def plan_of(case, schedule: Schedule) -> Plan:
    spec = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}[case.operator]
    data, indices, out = (ArraySpec.of(array) for array in (case.data, case.indices, case.empty_out()))
    return make_plan(Problem.checked(spec(**case.attributes()), data, indices, Bounds(case.bounds), out), schedule)


def loops_of(case) -> tuple[list[str], list[str]]:
    """Return the loops of the nest that copies and of the one that checks, outermost first."""
    stages = {stage.pass_name: stage.text for stage in run_stages(plan_of(case, Schedule()))}
    names = re.findall(r"gather\.loop (\w+)\(", stages["drop-unit-loops"])
    return [name for name in names if not name.startswith("check_")], [n for n in names if n.startswith("check_")]


def draw_tiles(draw, names: list[str]) -> dict[str, int]:
    return {name: draw(st.integers(1, 5)) for name in names if draw(st.booleans())}


def tiled(names: list[str], tiles: dict[str, int]) -> list[str]:
    return [part for name in names for part in ((f"{name}_o", f"{name}_i") if name in tiles else (name,))]


def draw_order(draw, names: list[str]) -> list[str]:
    """Draw an order of the loops in which no tile stands around the loop it starts at."""
    order = draw(st.permutations(names))
    for name in [name for name in order if name.endswith("_o")]:
        inner = f"{name[:-2]}_i"
        first, second = sorted((order.index(name), order.index(inner)))
        order[first], order[second] = name, inner
    return order


def draw_parallel(draw, order: list[str]) -> list[str]:
    """Draw how many of the outermost loops threads share: no further than the first loop inside a tile."""
    most = next((place for place, name in enumerate(order) if f"{name[:-2]}_o" in order[:place]), len(order))
    return order[: draw(st.integers(0, most))]


def draw_legal_schedule(draw, case) -> Schedule:
    copy, check = loops_of(case)
    tiles = draw_tiles(draw, copy + check)
    order = draw_order(draw, tiled(copy, tiles))
    parallel = draw_parallel(draw, order) + draw_parallel(draw, tiled(check, tiles))
    return Schedule(tuple(tiles.items()), tuple(order), tuple(parallel))


def check_scheduled_stages(oracle, case, schedule: Schedule, seed: int) -> None:
    wanted = oracle.expected(case)
    for stage in run_stages(plan_of(case, schedule)):
        if stage.pass_name not in SCHEDULED:
            continue
        module = parse_module(stage.text)
        run = lambda out, module=module: interpret(module, case.data, case.indices, out, seed=seed)  # noqa: E731
        assert oracle.agrees(case, wanted, run, BoundsError), f"{stage.name} of {case}:\n{stage.text}"


@settings(EXACT, max_examples=3 * MORE)
@given(data=st.data())
@OPERATORS
def test_a_legal_schedule_changes_no_byte(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, most=36)
    schedule = draw_legal_schedule(data.draw, case)
    check_scheduled_stages(oracle, case, schedule, data.draw(st.integers(0, 9)))


@settings(EXACT, max_examples=12 * MORE)
@given(data=st.data())
@OPERATORS
def test_any_schedule_is_refused_or_changes_no_byte(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, most=24)
    copy, check = loops_of(case)
    names = [*copy, *check, "batch", "outer", "indices"]
    tiles = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, 4), max_size=2))
    parts = sorted({*names, *tiled(names, tiles)})
    order = data.draw(st.one_of(st.just([]), st.permutations(tiled(copy, tiles)), st.permutations(copy)))
    parallel = data.draw(st.lists(st.sampled_from(parts), max_size=2))
    try:
        schedule = Schedule(tuple(tiles.items()), tuple(order), tuple(parallel))
        run_stages(plan_of(case, schedule))
    except ScheduleError:
        return
    check_scheduled_stages(oracle, case, schedule, seed=1)


@settings(EXACT, max_examples=8 * MORE)
@given(data=st.data())
def test_a_schedule_prints_as_what_it_parses_from(oracle, data):
    case = oracle.staged_case(data.draw, most=8)
    schedule = draw_legal_schedule(data.draw, case)
    assert Schedule.parse(str(schedule)) == schedule


def test_a_parallel_nest_gives_the_same_bytes_in_any_order_of_its_iterations(oracle):
    case = oracle.make(
        oracle.fill((3, 4, 5), np.dtype("f4")), oracle.fill((3, 6), np.dtype("i1")) % 4, axis=1, batch_dims=1
    )
    schedule = Schedule(tiles=(("indices", 4),), parallel=("batch", "indices_o"))
    for seed in range(8):
        check_scheduled_stages(oracle, case, schedule, seed)
