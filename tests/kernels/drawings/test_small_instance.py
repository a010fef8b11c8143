"""A small instance has the loops of its plan, about its tiles, and sizes that can be drawn."""

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.kernels.drawings.accesses import accesses_of
from gathernest.kernels.drawings.small_instance import MOST_TILES, small_instance, spread_indices
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.registry import Pipeline
from gathernest.lowering.schedule.schedule import Schedule


def plan_of(operator: str, data, indices, schedule: str = "", axis: int = 0, **options) -> Plan:
    return make_plan(problem_of(operator, data, indices, axis, **options), Schedule.parse(schedule))


@pytest.mark.parametrize(
    ("count", "size", "tile"), [(100, 256, 12), (500, 256, 6), (700, 256, 4), (1000, 256, 3), (100000, 256, 3)]
)
def test_it_has_as_many_tiles_up_to_four(count, size, tile):
    instance = small_instance(
        plan_of("gather", "1000x64xf32", f"{count}xi64", f"tile-loops{{loops=indices sizes={size}}}")
    )
    assert f"tile-loops{{loops=indices sizes={tile}}}" in instance.pipelines[0]
    assert -(-12 // tile) == min(-(-count // size), MOST_TILES)


def test_passes_that_only_move_elements_are_left_out_of_the_first_pipeline():
    schedule = (
        "specialize-inner{bytes=256},tile-loops{loops=indices sizes=256},hoist-indices{before=indices_i},"
        "vectorize-inner{lanes=8},prefetch-indices{loop=indices_i distance=16 lines=1 locality=3},stream-stores"
    )
    first, second = small_instance(plan_of("gather", "1000x64xf32", "5000xi64", schedule)).pipelines
    assert "specialize-inner{bytes=128},tile-loops{loops=indices sizes=3},hoist-indices" in first
    assert not any(name in first for name in ("vectorize-inner", "prefetch-indices", "stream-stores"))
    assert "vectorize-inner{lanes=8},prefetch-indices" in second and "stream-stores" in second


def test_a_tile_of_a_tile_is_smaller_as_well():
    plan = plan_of("gather", "1000x64xf32", "100000xi64", "tile-loops{loops=indices sizes=1024}")
    twice = plan.pipeline.replace("sizes=1024},", "sizes=1024},tile-loops{loops=indices_i sizes=512},")
    assert twice != plan.pipeline
    instance = small_instance(make_plan(plan.problem, Pipeline(twice)))
    assert "tile-loops{loops=indices sizes=3},tile-loops{loops=indices_i sizes=2}" in instance.pipelines[0]
    assert instance.notes[1:] == (
        "tiles of indices have 3 iterations here, and 1024 in the gather",
        "tiles of indices_i have 2 iterations here, and 512 in the gather",
    )


def test_an_axis_has_four_owners_at_most():
    instance = small_instance(plan_of("gather_grad", "1000x4xf32", "900xi64", "owner-computes{owners=16 axis=axis}"))
    assert "owner-computes{owners=4 axis=axis}" in instance.pipelines[0].replace(
        "axis=axis owners=4", "owners=4 axis=axis"
    )
    assert "the axis has 4 owners here, and 16 in the gather" in instance.notes


def test_sizes_of_one_stay_and_no_other_becomes_one():
    problem = small_instance(plan_of("gather", "5x1x7x1000x3xf32", "5x1x90xi64", axis=3, batch_dims=2)).problem
    ones = [[size == 1 for size in spec.shape] for spec in (problem.table, problem.indices)]
    assert ones == [[False, True, False, False, False], [False, True, False]]


def test_strides_keep_their_order_signs_and_gaps():
    data = ArraySpec((1000, 64, 1), np.float32, (-512, 4, 4))
    table = small_instance(plan_of("gather", data, "500xi64")).problem.table
    assert (table.shape, table.strides[:2]) == ((12, 32, 1), (-132, 4))
    transposed = ArraySpec((1000, 64), np.float32, (4, 4000))
    table = small_instance(plan_of("gather", transposed, "500xi64")).problem.table
    assert (table.shape, table.strides) == ((12, 32), (4, 48))


def test_a_gather_that_is_small_stays_what_it_is():
    plan = plan_of("gather", "9x8xf32", "7xi64", "tile-loops{loops=indices sizes=2}")
    instance = small_instance(plan)
    assert (instance.problem, instance.pipelines, instance.notes) == (plan.problem, (plan.pipeline,), ())


def test_indices_lie_all_over_the_axis():
    problem = problem_of("gather_nd", "50x700xf32", "200x2xui8")
    indices = spread_indices(problem)
    assert indices.dtype == np.uint8
    first, second = (set(column.tolist()) for column in indices.T)
    assert max(first) < 50 and len(first) > 40
    assert max(second) > 200 and len(second) > 90


def test_the_last_element_of_bounds_zero_is_outside():
    sources = [element.source for element in accesses_of(plan_of("gather", "50xf32", "20xi64", bounds="zero")).elements]
    assert sources[-1] is None and None not in sources[:-1]
