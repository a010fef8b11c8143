"""Results that nobody has yet are checked while they are copied; the caller's out is untouched by an error."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.problem import Problem
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.kernel import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.registry import Pipeline
from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.tiling import fused_check

COUNT = 30_000
DATA = np.random.default_rng(0).random(1000, dtype=np.float32)
INDICES = np.random.default_rng(1).integers(-1000, 1000, COUNT)
FUSION = "fuse-bounds-check{loop=indices_o}"


def plan_of(*arguments, is_fresh: bool = True, **options) -> Plan:
    problem = problem_of(*arguments, **options)
    return make_plan(problem if is_fresh else problem.into(problem.result))


@pytest.mark.parametrize(
    ("arguments", "loop"),
    [
        (("gather", "1000xf32", "30000xi64"), "indices_o"),
        (("gather_nd", "30x30xf32", "30000x2xi64"), "indices_o"),
        (("gather_elements", "1000x600xf32", "1000x600xi64"), "indices_i"),  # 600 at a time
        (("gather_elements", "1000x60xf32", "1000x60xi64"), "indices_o"),
        (("gather", "1000x16xf32", "20000xi64"), "indices_o"),
        (("gather", "5x4xf32", "3xi64"), None),  # serial: there is nothing to gain
        (("gather", "30x9x8xf32", "9000xi64", 1), None),  # indices that the outer loop repeats
        (("gather", "1000xf32", "30000xi8"), None),  # nothing to check
        (("gather_grad", "1000xf32", "30000xi64"), None),
    ],
)
def test_indices_are_checked_in_a_parallel_loop_or_inside_it_where_that_pays(arguments, loop):
    assert plan_of(*arguments).checked_in == loop
    assert plan_of(*arguments, is_fresh=False).checked_in is None
    assert ("fuse-bounds-check" in plan_of(*arguments).pipeline) == (loop is not None)


@pytest.mark.parametrize(("count", "loop"), [(900, "batch_i"), (128, "batch_i"), (127, "batch_o")])
def test_batches_are_checked_one_by_one_where_they_have_enough_indices(count, loop):
    assert plan_of("gather", "512x4000xf32", f"512x{count}xi64", 1, batch_dims=1).checked_in == loop


@pytest.mark.parametrize(
    ("arguments", "prefetches_all"),
    [
        (("gather", "512x4000xf32", "512x900xi64", 1, 1), True),
        (("gather", "512x4000xf32", "512x128xi64", 1, 1), True),
        (("gather", "512x4000xf32", "512x200xi32", 1, 1), False),  # as few lines as the processor fetches ahead
        (("gather", "512x4000xf32", "512x3000xi64", 1, 1), False),  # twice as many bytes as L1 has
        (("gather", "1000x16xf32", "20000xi64"), False),  # rows
    ],
)
def test_indices_that_are_checked_next_are_prefetched_where_the_cache_has_room(arguments, prefetches_all):
    axis, batch_dims = (*arguments, 0, 0)[3:5]
    nest, machine = plan_of(*arguments[:3], axis, batch_dims=batch_dims).layout.nest, BUILT_IN["zen4"]
    check = fused_check(nest, choose_schedule(nest, machine).schedule, machine)
    assert check is not None and check.prefetches_all == prefetches_all


def test_a_fused_kernel_has_a_key_of_its_own_and_no_other_class():
    fused, separate = (plan_of("gather", "1000xf32", "30000xi64", is_fresh=fresh) for fresh in (True, False))
    assert fused.key == f"{separate.key}, checked in indices_o"
    assert fused.problem_class == separate.problem_class
    assert "indices_o checks the indices of an iteration right before it copies" in fused.reasons[-1]


def test_a_fused_call_gathers_and_finds_the_index_outside_and_leaves_out_as_it_was():
    bad, out = INDICES.copy(), np.full(COUNT, -1, np.float32)
    bad[[7, COUNT - 1]] = 1000, -1001
    kernel = gn.compile("gather", DATA, INDICES)
    for gather in (gn.gather, kernel):
        for _ in range(3):  # a new call, a prepared one, and one that the call cache has
            assert gather(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
            for options in ({}, {"out": out}):
                with pytest.raises(gn.BoundsError, match=r"index 1000 at position \(7,\).*\(2 of 30000 indices are"):
                    gather(DATA, bad, **options)
            assert (out == -1).all()
    assert FUSION in kernel.pipeline


def test_a_given_pipeline_that_fuses_does_not_for_an_out_of_the_caller():
    problem, given = problem_of("gather", DATA, INDICES), Pipeline(plan_of("gather", DATA, INDICES).pipeline)
    fresh, into = make_plan(problem, given), make_plan(problem.into(problem.result), given)
    assert FUSION in fresh.pipeline and FUSION in fresh.key
    assert into.pipeline == fresh.pipeline.replace(f"{FUSION},", "") and FUSION not in into.key


def test_a_pipeline_for_an_out_of_the_caller_has_no_fusion():
    for text in (f"canonical,{FUSION},cse", f"canonical, {FUSION} , cse", "canonical,fuse-bounds-check,cse"):
        assert "fuse" in Pipeline(text).expanded()
        without = Pipeline(text).expanded(is_fresh=False)
        assert "fuse" not in without and without.replace(" ", "").endswith("collapse-dims,cse")


def test_a_problem_into_an_array_of_the_caller_is_not_fresh():
    problem: Problem = problem_of("gather", DATA, INDICES)
    assert problem.is_fresh and not problem.into(problem.result).is_fresh


def test_a_kernel_for_calls_with_out_is_compiled_ahead_where_that_is_asked_for(forget):
    out = np.empty(COUNT, np.float32)
    for with_out, ahead in ((False, 1), (True, 2)):
        forget()
        kernel = gn.compile("gather", DATA, INDICES, with_out=with_out)
        assert len(RUNTIME.loaded) == ahead and FUSION in kernel.pipeline
        assert kernel(DATA, INDICES, out=out) is out and out.tobytes() == DATA[INDICES].tobytes()
        assert len(RUNTIME.loaded) == 2
    forget()
    gn.compile("gather", DATA, INDICES, bounds="zero", with_out=True)
    assert len(RUNTIME.loaded) == 1
