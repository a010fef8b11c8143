"""The suite for the tools: its cases by name and family, their problems and descriptions."""

import math
from collections.abc import Sequence

import numpy as np

from ...asv_bench.benchmarks.cases import APART, BY_NAME, FAMILIES, RUN, SUITE, Call, Case, Inputs, Shape
from ...ir.array_spec import ArraySpec
from ...ir.element_types import element_type_name
from ...ir.errors import InvalidGatherError
from ...ir.problem import Problem
from ...kernels.problems.named_problem import problem_of
from ...lowering.schedule.machine_model import LINE_BYTES
from ..console.terminal import UsageError, select

__all__ = ["APART", "BY_NAME", "FAMILIES", "RUN", "SUITE", "Call", "Case", "Inputs", "Shape", "chosen", "describe"]
__all__ += ["larger_than", "own_case", "problem_of_case"]


def problem_of_case(case: Case) -> Problem:
    """Return the problem of a case, by its shapes alone."""
    data, indices = ArraySpec(case.data, np.dtype(case.dtype)), ArraySpec(case.indices, np.dtype(case.index_dtype))
    return problem_of(case.operator, data, indices, axis=case.axis, batch_dims=case.batch_dims)


def own_case(operator: str, data: str, indices: str, axis: int, batch_dims: int) -> Case:
    """Return the case of a gather that a command line names, with uniformly random indices.

    Raises:
        GathernestError: it is no gather, or one that no case can be.
    """
    specs = ArraySpec.parse(data), ArraySpec.parse(indices)
    problem = problem_of(operator, *specs, axis=axis, batch_dims=batch_dims)
    kinds = list(dict.fromkeys(case.operator for case in SUITE))
    if operator not in kinds:
        raise InvalidGatherError(f"bench compares {', '.join(kinds)}, got {operator!r}")
    dtype, is_plain = problem.table.dtype, all(spec == ArraySpec(spec.shape, spec.dtype) for spec in specs)
    if dtype.kind not in "iufc" or not dtype.isbuiltin or not is_plain or 0 in specs[0].shape + specs[1].shape:
        raise InvalidGatherError(
            f"bench makes contiguous arrays with elements, of NumPy's integers, floats and complex numbers; got --data "
            f"{data} --indices {indices}"
        )
    found = {"axis": 0, "batch_dims": 0} | problem.operator.attributes()
    names = dtype.name, problem.indices.dtype.name
    case = Case("own", "own", problem.table.shape, problem.indices.shape, operator, *names, **found)  # type: ignore
    ranks = len(case.data), len(case.indices)
    if (case.is_gradient and (case.axis or ranks[1] != 1)) or (case.is_reduction and ranks != (2, 2)):
        raise InvalidGatherError(
            "bench compares gradients along axis 0 by indices of one dimension, and bags of data and indices of two; "
            f"got --data {data} --indices {indices} --axis {axis}"
        )
    return case


def larger_than(case: Case, cache_bytes: int) -> bool:
    """Return whether one call touches more memory than a cache holds, whole lines counted."""
    lines = case.rows * math.ceil(case.row_bytes / LINE_BYTES) * LINE_BYTES
    return case.index_bytes + case.gathered_bytes + min(case.table_bytes, lines) > cache_bytes


def describe(case: Case) -> str:
    """Return the shapes and attributes of a case as one line."""
    parts = ["maxima"] if case.operator == "gather_max" else []
    parts += [f"{_type(case.data, case.dtype)} by {_type(case.indices, case.index_dtype)}"]
    parts += [f"axis {case.axis}"] if case.axis else []
    parts += [f"batch_dims {case.batch_dims}"] if case.batch_dims else []
    parts += [case.distribution] if case.distribution != "uniform" else []
    return ", ".join(parts)


def _type(shape: Shape, dtype: str) -> str:
    return "x".join([*map(str, shape), element_type_name(np.dtype(dtype))])


def chosen(patterns: Sequence[str], families: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases that a command line selects by patterns of names and by families, in the order of the suite.

    Empty ones select all. Raises UsageError where a name or family does not exist, or no case is left.
    """
    missing = "no case is called {pattern}; `gathernest bench --list` prints them, and * stands for anything"
    names = select(BY_NAME, patterns, missing)
    kinds = select(FAMILIES, families, f"there is no family {{pattern}}; the families are {', '.join(FAMILIES)}")
    left = tuple(case for case in SUITE if case.name in names and case.family in kinds)
    if not left:
        raise UsageError(
            f"no case is left: none of --case {','.join(patterns)} is of --family {','.join(families)}; leave one out"
        )
    return left
