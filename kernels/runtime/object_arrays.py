"""Gathers of elements that are references (object, StringDType): their positions go through the kernels."""

import math
from collections.abc import Callable

import numpy as np

from ...ir.operator_spec import OperatorSpec
from ...ir.reference import zero_of
from ...ir.semantics import Bounds, Shape
from .array_checks import check_out


def gather_opaque(
    operator: OperatorSpec,
    data: np.ndarray,
    indices: np.ndarray,
    bounds: Bounds,
    out: np.ndarray | None,
    run_operator: Callable[..., np.ndarray],
) -> np.ndarray:
    """Gather the positions of the elements with a kernel, then take the elements themselves with NumPy.

    Positions count from 1, so that the 0 which `bounds="zero"` gives stands for no element: an empty string.
    Dtypes of no bytes at all (`S0`) come here as well.
    """
    shape = operator.normalized(data.shape, indices.shape).result_shape(data.shape, indices.shape)
    if out is not None:
        check_out(out, shape, data.dtype)
    positions = gather_positions(operator, data.shape, indices, bounds, run_operator)
    result = np.ndarray(shape, data.dtype)  # np.empty would make S1 of S0
    if data.size:
        # In one dimension throughout: an element that is an array itself would be spread over a 0-D result.
        result.reshape(-1)[...] = data.reshape(-1)[np.maximum(positions.reshape(-1) - 1, 0)]
    result[positions == 0] = zero_of(data.dtype)
    if out is None:
        return result
    np.copyto(out, result)
    return out


def gather_positions(
    operator: OperatorSpec,
    data_shape: Shape,
    indices: np.ndarray,
    bounds: Bounds,
    run_operator: Callable[..., np.ndarray],
) -> np.ndarray:
    """Return where each element of the result is read in data, counted in C order from 1; 0 stands for nowhere.

    Raises:
        BoundsError: an index is not valid under `bounds`.
    """
    numbers = np.arange(1, math.prod(data_shape) + 1, dtype=np.int64).reshape(data_shape)
    return run_operator(operator, numbers, indices, bounds, None)
