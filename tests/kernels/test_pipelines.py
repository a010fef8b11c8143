"""Kernels by a whole pipeline: what they give, what their key holds, and which pipelines are rejected."""

import re

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


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("canonical", "the pipeline does not reach loops, and leaves gather.gather: lower-to-nest is missing"),
        ("nest", "does not reach loops, and leaves gather.loop, gather.yield: lower-nest-to-loops is missing"),
        ("", "does not reach loops, and leaves gather.gather: erase-element-type is missing"),
        (
            "erase-element-type,bufferize-gather,lower-to-nest,fold-bounds,lower-nest-to-loops",
            r"leaves arguments memref<40x3x4xi32>, .*: collapse-dims is missing",
        ),
        ("defalt", r"there is no pass 'defalt'; did you mean 'default'\?"),
        (("nest",), r"a pipeline must be text, such as 'normalize-gather,.*', got \('nest',\)"),
    ],
)
def test_a_pipeline_that_gives_no_kernel_is_rejected(pipeline, message):
    data = DATA.reshape(40, 3, 4) if "arguments" in message else DATA
    with pytest.raises(gn.ScheduleError, match=message):
        gn.compile("gather", data, INDICES, pipeline=pipeline)


def test_a_schedule_beside_a_pipeline_is_rejected():
    with pytest.raises(gn.ScheduleError, match="give schedule or pipeline, not both"):
        gn.compile("gather", DATA, INDICES, schedule="", pipeline="default")


@pytest.mark.thorough
def test_an_explanation_names_the_pipeline_and_predicts_nothing():
    found = gn.compile("gather", DATA, INDICES, pipeline="static").explain(rounds=1)
    assert (found.schedule, found.predicted_us, found.ablations) == ("static", None, ())


NOT_ERASED = (
    "normalize-gather,bufferize-gather,collapse-dims,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,"
    "lower-nest-to-loops,fold-constants,canonicalize,cse"
)


@pytest.mark.parametrize(
    ("operator", "data", "indices", "message"),
    [
        ("gather", "ui8", "i64", "argument #0 has ui8; run erase-element-type right after normalize-gather"),
        ("gather", "i1", "i64", "argument #0 has i1; run erase-element-type"),
        ("gather", "complex<f32>", "i64", "argument #0 has complex<f32>; run erase-element-type"),
        ("gather", "f32", "ui32", "argument #1 has ui32; run erase-element-type"),
        ("gather_grad", "ui8", "i64", "lower-to-nest: elements are ui8; run erase-element-type first"),
    ],
)
def test_element_types_that_are_not_erased_and_have_no_loads_are_rejected(operator, data, indices, message):
    with pytest.raises(gn.ScheduleError, match=re.escape(message)):
        gn.compile(operator, f"6x4x{data}", f"4x{indices}", pipeline=NOT_ERASED)


@pytest.mark.parametrize("dtype", ["i1", "i8", "f2", "f4", "f8"])
def test_element_types_that_have_loads_need_not_be_erased(dtype):
    data, pipeline = DATA.astype(dtype), NOT_ERASED
    assert gn.compile("gather", data, INDICES, pipeline=pipeline)(data, INDICES).tobytes() == data[INDICES].tobytes()
