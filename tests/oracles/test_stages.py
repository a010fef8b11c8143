"""The interpreter at every stage of every pipeline gives the reference's bytes, or rejects what it rejects."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.registry import PIPELINES

from ..selection import examples
from .cases import EXACT

# The stage that looks at an index only in the loops that copy: at none where there is nothing to copy.
RESOLVES_WHERE_IT_COPIES = "lower-to-nest"

# Stages that resolve each index where they use it, and so may have written when they meet a bad one.
BEFORE_THE_CHECK = {
    *("operator", "normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims"),
    RESOLVES_WHERE_IT_COPIES,
}


def problem_of(case) -> Problem:
    spec = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}[case.operator]
    data, indices, out = (ArraySpec.of(array) for array in (case.data, case.indices, case.empty_out()))
    return Problem.checked(spec(**case.attributes()), data, indices, Bounds(case.bounds), out)


def check_every_stage(oracle, case, stages) -> None:
    wanted = oracle.expected(case)
    for stage, module in stages:
        if wanted is None and 0 in case.out_shape and stage.pass_name == RESOLVES_WHERE_IT_COPIES:
            continue
        run = lambda out, module=module: interpret(module, case.data, case.indices, out)  # noqa: E731
        if wanted is None and stage.pass_name in BEFORE_THE_CHECK:
            with pytest.raises(BoundsError):
                run(case.empty_out())
            continue
        assert oracle.agrees(case, wanted, run, BoundsError), f"{stage.name} of {case}:\n{stage.text}"


OPERATORS = pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])


@settings(EXACT, max_examples=examples(12))
@given(data=st.data())
@OPERATORS
def test_every_stage_gives_the_reference_result(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator)
    number = data.draw(st.integers(0, 3))  # of the stages that are read back from their texts
    check_every_stage(oracle, case, oracle.stages_with_modules(make_plan(problem_of(case)), number))


@settings(EXACT, max_examples=examples(7))
@given(data=st.data())
@OPERATORS
def test_every_stage_of_the_static_pipeline_gives_the_reference_result(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator)
    problem = problem_of(case)
    module = operator_module(
        problem.operator, problem.table, problem.indices, bounds=problem.bounds, out=problem.slices
    )
    check_every_stage(oracle, case, oracle.read_some(module, PIPELINES["static"], data.draw(st.integers(0, 3))))


@settings(EXACT, max_examples=examples(3))
@given(data=st.data())
@OPERATORS
def test_every_stage_rejects_what_the_reference_rejects(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, bounds="error", most=24, index_dtype="int16")
    assume(case.indices.size > 0)
    values = case.indices.copy()
    place = data.draw(st.integers(0, values.size - 1))
    size = case.axis_sizes[place % len(case.axis_sizes)]
    values.flat[place] = data.draw(st.sampled_from([size, -size - 1, 2**15 - 1, -(2**15)]))
    case = replace(case, indices=values)
    assert oracle.expected(case) is None
    number = data.draw(st.integers(0, 3))  # of the stages that are read back from their texts
    check_every_stage(oracle, case, oracle.stages_with_modules(make_plan(problem_of(case)), number))
