"""Owners that list single elements count them in place of a check, and a result is staged where out is given."""

import re

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import make_context
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, Gradient
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.passes.loops.stage_result import COPIED_TILE
from gathernest.lowering.pipeline import run_passes
from gathernest.lowering.schedule.schedule import Schedule

LISTS = (
    "owner-computes{owners=2 axis=axis},fuse-into-owners,"
    "tile-loops{loops=indices sizes=512},parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
    "vectorize-lists{lanes=8},unroll{loop=indices_i factor=8},prefetch{what=tile loop=indices_i ahead=2 locality=2}"
)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_a_call_whose_lists_are_counted_adds_and_leaves_out_as_it_was_where_an_index_is_outside(dtype, threads):
    rng, size = np.random.default_rng(4), 1001
    indices, grad = rng.integers(-size, size, 5003), rng.integers(-9, 9, 5003).astype(dtype)
    wanted = np.zeros(size, dtype)
    np.add.at(wanted, indices, grad)
    with gn.knobs.scope(num_threads=threads):
        new = gn.compile("gather_grad", wanted, indices, schedule=LISTS)
        assert "check-indices{how=counted}," in new.pipeline and "stage-result" not in new.pipeline
        staging = new.pipeline.replace("how=counted},", "how=counted},stage-result,")
        given = gn.compile("gather_grad", wanted, indices, pipeline=staging)
        room = np.zeros(2 * size, dtype)
        assert new(grad, indices).tobytes() == wanted.tobytes()
        for out in (np.full(size, 7, dtype), room[::2], room[::-2]):
            assert given(grad, indices, out=out).tobytes() == wanted.tobytes()
            for place in (0, 2500, 5002):
                for bad in (size, -size - 1, 2**40, -(2**63)):
                    wrong = indices.copy()
                    wrong[place] = bad
                    with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                        new(grad, wrong)
                    with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                        given(grad, wrong, out=out)
            assert out.tobytes() == wanted.tobytes()


@pytest.mark.thorough
def test_lists_are_counted_right_where_another_thread_writes_to_the_indices_meanwhile():
    text = make_plan(problem_of("gather_grad", "1000xf32", "5000xi64"), Schedule.parse(LISTS)).pipeline
    module = operator_module(Gather(), ArraySpec((1000,), "f4"), ArraySpec((5000,), "i8"), gradient=Gradient(1.0))
    run_passes(module, text, make_context())
    for listed in ("n_missing", "n_extra"):
        assert f"%{listed} = arith.subi" in str(module)
    assert "%n_outside = arith.maxsi %n_missing, %n_extra" in str(module)


def given_plan(*arguments) -> Plan:
    """Return the plan of a gather into an array of the caller's."""
    problem = problem_of(*arguments)
    return make_plan(problem.into(problem.result))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_a_staged_result_of_many_tiles_is_copied_whole(dtype, threads):
    rng, size = np.random.default_rng(6), 3 * COPIED_TILE + 1
    data, indices = rng.random(1000).astype(dtype), rng.integers(-1000, 1000, size)
    text = given_plan("gather", data, indices).pipeline
    text = re.sub(r"(check-indices\{how=staged|vectorize-inner|gather-lanes|stream-stores)[^,]*,", "", text)
    text = text.replace("hoist-inv", "check-indices{how=fused},stage-result,hoist-inv")
    with gn.knobs.scope(num_threads=threads):
        kernel, out = gn.compile("gather", data, indices, pipeline=text), np.full(size, 7, dtype)
        assert "stage-result" in kernel.with_out.pipeline
        assert kernel(data, indices, out=out).tobytes() == data[indices].tobytes()
        wrong = indices.copy()
        wrong[-1] = 1000
        with pytest.raises(gn.BoundsError, match="index 1000 at position"):
            kernel(data, wrong, out=out)
        assert out.tobytes() == data[indices].tobytes()
