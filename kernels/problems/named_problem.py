"""The problem that a caller names: operator, arrays as specs or texts, attributes, and whether rows are weighted.

`compile`, `tune`, `warm`, the playground and the command line all use `problem_of`.
"""

from dataclasses import replace
from typing import Any

from ...ir.array_spec import ArraySpec
from ...ir.element_types import check_scale, is_movable
from ...ir.errors import InvalidGatherError, did_you_mean, show
from ...ir.operator_spec import Gather, GatherElements, GatherNd, GatherReduce, Gradient, OperatorSpec
from ...ir.problem import Problem
from ...ir.semantics import BoundsMode, flag_argument, integer_argument, parse_bounds
from ..reduction.operands import REDUCTIONS, WEIGHTED_REDUCTIONS, check_kernel, check_weighted, weighted_places
from ..runtime.array_checks import checked_scale, index_spec, spec_of, summation_dtype, table_array

OPERATORS = (
    *("gather", "gather_nd", "gather_elements", "gather_grad", "gather_nd_grad", "gather_elements_grad"),
    *("gather_reduce", "gather_mean", "gather_max"),
    *WEIGHTED_REDUCTIONS,
)
# The arguments of `problem_of`, `compile` and the command line that give rows a factor.
FACTORS = {
    "weights": "of gather_reduce: each index has a weight, as with weights= of gathernest.gather_reduce",
    "quantised": "of gather_reduce and gather_mean: rows of int8 or uint8 have a scale and a bias",
}


def problem_of(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    weights: bool = False,
    quantised: bool = False,
) -> Problem:
    """Return the problem, with a new result, that the arguments of `compile` describe; raises as that does."""
    spec = _operator(operator, axis, batch_dims)
    weights, quantised = flag_argument(weights, "weights"), flag_argument(quantised, "quantised")
    data_spec = spec_of(data if isinstance(data, ArraySpec | str) else table_array(data))
    indices_spec = index_spec(indices)
    gradient = _gradient(operator, scale, data_spec)
    if weights or quantised:
        operator, indices_spec = weighted_places(
            operator, data_spec, indices_spec, weights=weights, quantised=quantised
        )
        spec = WEIGHTED_REDUCTIONS[operator]
    if not is_movable(data_spec.dtype) or data_spec.dtype.itemsize == 0:
        raise InvalidGatherError(
            f"elements of dtype {data_spec.dtype} are not bytes to move and have no kernel of their own; "
            f"call gathernest.{operator}, which gathers their positions"
        )
    mode = parse_bounds(bounds)
    if operator in WEIGHTED_REDUCTIONS:
        mode = check_weighted(operator, data_spec, indices_spec, mode)
    elif spec.adds:
        check_kernel(operator, data_spec.dtype)
    problem = Problem.checked(spec, data_spec, indices_spec, mode, gradient=gradient)
    return replace(problem, is_fresh=True)


def _gradient(operator: str, scale: float, data: ArraySpec) -> Gradient | None:
    """Return the gradient of a kernel, None for a gather; raises InvalidGatherError where there is no such kernel."""
    if not operator.endswith("_grad"):
        if checked_scale(scale) != 1:
            raise InvalidGatherError(f"scale is for gradients, and {operator} is none; multiply its result")
        return None
    if summation_dtype(data.dtype) != data.dtype:
        raise InvalidGatherError(
            f"a gradient of {data.dtype} has no kernel of its own, as it is summed in another dtype; "
            f"call gathernest.{operator}"
        )
    factor = checked_scale(scale)
    check_scale(factor, data.dtype)
    return Gradient(factor)


def _operator(name: str, axis: Any, batch_dims: int) -> OperatorSpec:
    """Return the operator of that name with the attributes that it has; raises InvalidGatherError for others."""
    if not isinstance(name, str) or name not in OPERATORS:
        hint = did_you_mean(name, OPERATORS)
        if isinstance(name, str) and "." in name:
            hint = f"; versions of operators are functions: call gn.ops[{name!r}]"
        raise InvalidGatherError(f"there is no operator {show(name)} to compile; use {', '.join(OPERATORS)}{hint}")
    axis, batch_dims = integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims")
    name = name.removesuffix("_grad")
    if name == "gather":
        return Gather(axis, batch_dims)
    if name in REDUCTIONS or name in WEIGHTED_REDUCTIONS:
        return _reduction(name, axis, batch_dims)
    unused, value = ("axis", axis) if name == "gather_nd" else ("batch_dims", batch_dims)
    if value:
        raise InvalidGatherError(f"{name} has no {unused}, got {value}; leave it out")
    return GatherNd(batch_dims) if name == "gather_nd" else GatherElements(axis)


def _reduction(operator: str, axis: int, batch_dims: int) -> GatherReduce:
    """Return the reduction, which has neither attribute; raises InvalidGatherError where one is given."""
    for name, value in (("axis", axis), ("batch_dims", batch_dims)):
        if value:
            raise InvalidGatherError(f"{operator} has no {name}, got {value}; leave it out")
    return (REDUCTIONS | WEIGHTED_REDUCTIONS)[operator]
