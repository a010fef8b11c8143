"""Results that nobody has yet are checked while they are copied; the caller's out is untouched by an error."""

import re

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.registry import Pipeline
from gathernest.lowering.schedule.checks import StagedCheck
from gathernest.lowering.schedule.schedule import Schedule

COUNT = 30_000
DATA = np.random.default_rng(0).random(1000, dtype=np.float32)
INDICES = np.random.default_rng(1).integers(-1000, 1000, COUNT)
FUSION = "check-indices{how=fused loop=indices_o}"


def plan_of(*arguments, is_fresh: bool = True, **options) -> Plan:
    problem = problem_of(*arguments, **options)
    return make_plan(problem if is_fresh else problem.into(problem.result))


@pytest.mark.draw(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("check", ["check-indices{how=fused loop=indices_o}", "check-indices{how=staged bits=16}"])
@pytest.mark.parametrize("operator", ["gather_reduce", "gather_mean", "gather_max", "gather_grad"])
def test_sums_keep_their_bytes_and_find_every_index_outside(operator, check, threads):
    rng, rows = np.random.default_rng(3), 1000
    is_gradient = operator == "gather_grad"
    indices = rng.integers(-rows, rows, 5000 if is_gradient else (3000, 5))
    data = rng.random((rows, 8), dtype=np.float32)
    source = rng.random((indices.size, 8), dtype=np.float32) if is_gradient else data
    loops = "clear_axis" if is_gradient else "clear_indices"
    tiles = f"tile-loops{{loops=indices,{loops} sizes=64,64}},parallelize-loops{{loops={loops}_o}}"
    if not is_gradient:
        tiles = "tile-loops{loops=indices sizes=64},parallelize-loops{loops=indices_o}"
    plain = gn.compile(operator, data, indices, schedule=tiles)
    base = re.sub(r"check-indices\{how=(fused|staged)[^}]*\},", "", plain.pipeline)
    kernel = gn.compile(operator, data, indices, pipeline=base.replace("hoist-inv", f"{check},hoist-inv", 1))
    assert check in kernel.pipeline
    with gn.knobs.scope(num_threads=threads):
        wanted = gn.compile(operator, data, indices, pipeline=base)(source, indices)
        out = np.full(wanted.shape, 9, np.float32)
        assert kernel(source, indices).tobytes() == kernel(source, indices, out=out).tobytes() == wanted.tobytes()
        for place in (0, indices.size // 2, indices.size - 1):
            for bad in (rows, -rows - 1, 65536 + rows, 2**40, -(2**63)):
                wrong = indices.copy()
                wrong.flat[place] = bad
                with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                    kernel(source, wrong)
                with pytest.raises(gn.BoundsError, match=f"index {bad} at position"):
                    kernel(source, wrong, out=out)
        assert out.tobytes() == wanted.tobytes()


def test_a_kernel_that_stages_positions_has_a_key_and_a_reason_of_its_own():
    new, given = (
        plan_of("gather_elements", "100000x64xf32", "100000x64xi64", 1, is_fresh=fresh) for fresh in (True, False)
    )
    assert given.key.endswith(", check-indices{how=staged bits=8}") and "staged" not in new.key
    assert given.problem_class == new.problem_class and given.check == StagedCheck(8)
    assert "check-indices{how=staged bits=8},hoist-invariants" in given.pipeline
    assert "how=staged" not in new.pipeline
    assert given.reasons[-1] == "out is given: the check stages positions of 8 bits, and the copy reads these"


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["int8", "float32", "complex128"])
def test_a_call_that_stages_positions_gathers_and_leaves_out_as_it_was_where_an_index_is_outside(dtype, threads):
    data = np.arange(3001 * 61).reshape(3001, 61).astype(dtype)
    indices = np.random.default_rng(2).integers(-61, 61, (3001, 61))
    chosen = gn.compile("gather_elements", data, indices, 1).with_out.pipeline
    plain = re.sub(r"check-indices\{[^}]*\},", "", chosen)
    text = plain.replace("hoist-inv", "check-indices{how=staged bits=8},hoist-inv")
    with gn.knobs.scope(num_threads=threads):
        kernel, out = gn.compile("gather_elements", data, indices, 1, pipeline=text), np.zeros(indices.shape, dtype)
        assert kernel.with_out.pipeline.count("how=staged bits=8") == 1
        assert kernel(data, indices, out=out) is out
        assert out.tobytes() == np.take_along_axis(data, indices, 1).tobytes()
        for place in ((0, 0), (1234, 5), (3000, 60)):
            for bad in (61, -62, 256, -257, 2**40, -(2**63)):
                wrong = indices.copy()
                wrong[place] = bad
                with pytest.raises(gn.BoundsError, match=str(bad)):
                    kernel(data, wrong, out=out)
        assert out.tobytes() == np.take_along_axis(data, indices, 1).tobytes()


def test_a_pipeline_whose_positions_are_too_narrow_for_the_axis_is_rejected():
    text = plan_of("gather_elements", "1000x60xf32", "1000x60xi64", 1, is_fresh=False).pipeline
    text = text.replace("hoist-invariants", "check-indices{how=staged bits=8},hoist-invariants")
    wide = problem_of("gather_elements", "1000x257xf32", "1000x60xi64", 1)
    with pytest.raises(gn.ScheduleError, match="the pipeline is for axes of at most 256 positions, got 257"):
        make_plan(wide, Pipeline(text))
    make_plan(problem_of("gather_elements", "1000x256xf32", "1000x60xi64", 1), Pipeline(text))


def test_a_pipeline_for_rows_of_another_size_is_rejected():
    data, indices = np.zeros((100, 8), np.float32), np.zeros(50, np.int64)
    text = make_plan(problem_of("gather", data, indices), Schedule.parse("specialize-inner{bytes=32}")).pipeline
    gn.compile("gather", data, indices, pipeline=text)
    for given in ("16", "+16"):
        with pytest.raises(gn.ScheduleError, match="for rows of 16 bytes, got rows of 32; leave specialize-inner out"):
            gn.compile("gather", data, indices, pipeline=text.replace("bytes=32", f"bytes={given}"))


def test_a_fused_kernel_has_a_key_of_its_own_and_no_other_class():
    fused, separate = (plan_of("gather", "1000xf32", "30000xi64", is_fresh=fresh) for fresh in (True, False))
    assert fused.key.endswith(", check-indices{how=fused loop=indices_o}")
    assert ("check_indices" in separate.key, "check_indices" in fused.key) == (True, False)
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


@pytest.mark.parametrize("schedule", [None, "vectorize-inner{lanes=4}"])
def test_with_out_is_the_kernel_that_calls_with_out_run(schedule, forget):
    forget()
    kernel = gn.compile("gather", DATA, INDICES, schedule=schedule)
    given = kernel.with_out
    assert "fuse" not in given.pipeline and given.given_schedule == kernel.given_schedule
    known = len(RUNTIME.loaded)
    assert kernel(DATA, INDICES, out=np.empty(COUNT, np.float32)).tobytes() == DATA[INDICES].tobytes()
    assert len(RUNTIME.loaded) == known
    assert given(DATA, INDICES).tobytes() == DATA[INDICES].tobytes()
    forget()


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
