"""Kernels by a whole pipeline: what they give, what their key holds, and which pipelines are rejected."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.registry import PIPELINES, Pipeline

RNG = np.random.default_rng(3)
DATA = RNG.random((40, 12)).astype(np.float32)
INDICES = RNG.integers(-40, 40, 30)
TILED = (
    "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=7},"
    "parallelize-loops{loops=indices_o},lower-nest-to-loops,canonicalize,cse"
)


@pytest.mark.draw(1)
@pytest.mark.draw(2)
@pytest.mark.parametrize("pipeline", ["default", "static", TILED, TILED.replace(",", ", ")])
def test_a_kernel_by_a_pipeline_gathers_arrays_of_any_sizes(pipeline):
    kernel = gn.compile("gather", DATA, INDICES, pipeline=pipeline)
    for data, indices in ((DATA, INDICES), (DATA[:20], INDICES % 20), (DATA[:, :5], INDICES[:9]), (DATA[::2], [3, -1])):
        assert kernel(data, indices).tobytes() == data[indices].tobytes()


def test_a_gradient_by_a_pipeline_adds():
    kernel = gn.compile("gather_grad", DATA, INDICES, pipeline="default")
    wanted = gn.gather_grad(DATA[INDICES], INDICES, DATA.shape)
    assert kernel(DATA[INDICES], INDICES).tobytes() == wanted.tobytes()


def test_the_pipeline_is_what_a_kernel_shows_and_runs():
    kernel = gn.compile("gather", DATA, INDICES, pipeline=TILED)
    assert kernel.pipeline == TILED.replace("canonical,", PIPELINES["canonical"] + ",", 1)
    assert [name for name in kernel.stages if name.startswith("tile")] == ["tile-loops"]
    assert "hoist-invariants" not in kernel.stages
    assert str(kernel.schedule) == ""


def test_the_pipeline_of_a_kernel_gives_the_same_code_again():
    kernel = gn.compile("gather", DATA, INDICES)
    again = gn.compile("gather", DATA, INDICES, pipeline=kernel.pipeline)
    assert again.pipeline == kernel.pipeline
    assert _code(again) == _code(kernel)


def _code(kernel: gn.Kernel) -> str:
    return "\n".join(line for line in kernel.source.splitlines() if not line.startswith("#"))


def test_code_for_constant_sizes_is_not_run_on_others():
    problems = [problem_of("gather", f"{rows}x12xf32", "30xi64") for rows in (40, 41)]
    plans = [make_plan(problem, Pipeline("static")) for problem in problems]
    assert plans[0].key != plans[1].key


@pytest.mark.thorough
def test_an_explanation_names_the_pipeline_and_predicts_nothing():
    found = gn.compile("gather", DATA, INDICES, pipeline="static").explain(rounds=1)
    assert (found.schedule, found.predicted_us, found.ablations) == ("static", None, ())


NOT_ERASED = (
    "normalize-gather,bufferize-gather,collapse-dims,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,"
    "lower-nest-to-loops,fold-constants,canonicalize,cse"
)


@pytest.mark.parametrize("dtype", ["i1", "i8", "f2", "f4", "f8"])
def test_element_types_that_have_loads_need_not_be_erased(dtype):
    data, pipeline = DATA.astype(dtype), NOT_ERASED
    assert gn.compile("gather", data, INDICES, pipeline=pipeline)(data, INDICES).tobytes() == data[INDICES].tobytes()
