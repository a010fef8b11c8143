"""Search spaces: what they hold, what prunes them, and that every schedule in them is legal."""

from dataclasses import replace

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.semantics import Bounds
from gathernest.kernels.build import run_stages
from gathernest.kernels.plan import Plan, Problem, make_plan
from gathernest.lowering.schedule import NestShape, Schedule, choose_schedule
from gathernest.lowering.search_space import search_space

ROWS = NestShape((("batch", 1), ("outer", 1), ("indices", 100_000), ("inner", 64)), (("indices", 100_000),), 4)
MIDDLE = NestShape((("batch", 1), ("outer", 64), ("indices", 5000), ("inner", 32)), (), 4)


def space_of(nest: NestShape, **options) -> list[str]:
    return [str(schedule) for schedule in search_space(nest, choose_schedule(nest), **options)]


def test_the_default_comes_first_and_nothing_twice():
    for nest in (ROWS, MIDDLE):
        found = search_space(nest, choose_schedule(nest))
        assert found[0] == choose_schedule(nest)
        keys = [(frozenset(s.tiles), s.order, s.parallel, s.owners) for s in found]
        assert len(set(keys)) == len(keys) > 5


def test_tiles_of_8_kib_to_1_mib_are_tried_beside_the_default_check():
    tried = {dict(schedule.tiles).get("indices") for schedule in search_space(ROWS, choose_schedule(ROWS))}
    assert tried == {None, 64, 256, 1024, 4096}


def test_other_checks_are_tried_with_the_default_alone():
    found = space_of(ROWS)
    assert "tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o}" in found
    assert sum("check_indices sizes=256,16384" in text for text in found) == 1


def test_one_thread_is_tried():
    assert "" in space_of(ROWS)


def test_a_tile_inside_is_tried_outermost_too():
    order = "interchange-loops{order=indices_o,outer,indices_i,inner},parallelize-loops{loops=indices_o}"
    assert f"tile-loops{{loops=indices sizes=256}},{order}" in space_of(MIDDLE)


def test_long_rows_are_cut_and_their_pieces_shared():
    nest = NestShape((("indices", 3), ("inner", 2**20)), (), 4)
    order = "interchange-loops{order=inner_o,indices,inner_i},parallelize-loops{loops=inner_o}"
    assert f"tile-loops{{loops=inner sizes=4096}},{order}" in space_of(nest)


def test_a_nest_too_small_to_cut_has_few_schedules():
    nest = NestShape((("indices", 3), ("inner", 4)), (), 4)
    assert space_of(nest)[1:] == ["", "parallelize-loops{loops=indices}", "parallelize-loops{loops=indices,inner}"]


def test_a_gradient_has_owners_and_no_other_order_of_its_indices():
    nest = NestShape((("indices", 10**6), ("inner", 8)), (), 4, (("axis", 10**6), ("inner", 8)))
    found = search_space(nest, Schedule(), threads=2, is_gradient=True)
    assert [schedule.owners for schedule in found if schedule.owners] == [("axis", 2), ("axis", 4)]
    assert all("indices" not in schedule.parallel for schedule in found)


def test_what_the_default_says_beside_its_loops_is_kept():
    default = replace(choose_schedule(ROWS), owners=("axis", 2))
    cut = [schedule for schedule in search_space(ROWS, default) if schedule.tiles[:1] == (("indices", 64),)]
    assert [schedule.owners for schedule in cut] == [("axis", 2)]


def test_a_prediction_keeps_the_best_and_the_default():
    nest, default = MIDDLE, choose_schedule(MIDDLE)

    def predict(shape: NestShape, schedule: Schedule) -> float:
        assert shape is nest
        return 1e6 if schedule == default else float(dict(schedule.tiles).get("indices", 10**5))

    found = search_space(nest, default, predict=predict, most=3)
    assert found[0] == default
    assert [dict(schedule.tiles)["indices"] for schedule in found[1:]] == [64, 64]


@pytest.mark.parametrize("most", [1, 4, 1000])
def test_a_prediction_keeps_so_many(most):
    found = space_of(MIDDLE, predict=lambda nest, schedule: 1.0, most=most)
    assert len(found) == min(most, len(space_of(MIDDLE)))


def spec(shape: tuple[int, ...], dtype: str = "f4") -> ArraySpec:
    return ArraySpec(shape, dtype)


PROBLEMS = {
    "rows": Problem.checked(Gather(), spec((10**6, 64)), spec((10**5,), "i8"), Bounds.ERROR),
    "middle": Problem.checked(Gather(1), spec((64, 1000, 32)), spec((5000,), "i4"), Bounds.ZERO),
    "batches": Problem.checked(Gather(1, 1), spec((1000, 10, 8)), spec((1000, 300), "i8"), Bounds.ERROR),
    "scalars": Problem.checked(Gather(), spec((10**6,)), spec((10**6,), "i8"), Bounds.ERROR),
    "long rows": Problem.checked(Gather(), spec((9, 2**18)), spec((7,), "i8"), Bounds.CLIP),
    "strided": Problem.checked(Gather(), ArraySpec((500, 60), "f4", (4, 2000)), spec((4000,), "i8"), Bounds.ERROR),
    "odd elements": Problem.checked(Gather(), spec((500, 60), "S6"), spec((4000,), "i8"), Bounds.WRAP),
    "tuples": Problem.checked(GatherNd(), spec((100, 100, 16)), spec((9000, 2), "i8"), Bounds.ERROR),
    "elements": Problem.checked(GatherElements(1), spec((300, 400)), spec((300, 200), "i8"), Bounds.ERROR),
    "gradient of rows": Problem.checked(
        Gather(), spec((10**6, 16)), spec((10**5,), "i8"), Bounds.ERROR, gradient=Gradient(2.0)
    ),
    "gradient of long rows": Problem.checked(
        Gather(), spec((100, 10**5)), spec((50,), "i8"), Bounds.ERROR, gradient=Gradient()
    ),
    "gradient of batches": Problem.checked(
        Gather(1, 1), spec((100, 10, 64)), spec((100, 300), "i8"), Bounds.ERROR, gradient=Gradient()
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_schedule_of_a_space_is_legal(name):
    problem = PROBLEMS[name]
    plan: Plan = make_plan(problem)
    found = search_space(plan.nest, plan.schedule, threads=2, is_gradient=problem.gradient is not None)
    assert len(found) > 3
    for schedule in found:
        assert run_stages(make_plan(problem, schedule))[-1].text
