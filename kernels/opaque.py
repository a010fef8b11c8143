"""Gathers of elements that are references (object, StringDType): their positions go through the kernels."""

from collections.abc import Callable

import numpy as np

from ..ir.operator_spec import OperatorSpec
from ..ir.reference import zero_of
from ..ir.semantics import Bounds
from .arguments import check_out


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
    numbers = np.arange(1, data.size + 1, dtype=np.int64).reshape(data.shape)
    positions = run_operator(operator, numbers, indices, bounds, None)
    result = np.ndarray(shape, data.dtype)  # np.empty would make S1 of S0
    if data.size:
        # In one dimension throughout: an element that is an array itself would be spread over a 0-D result.
        result.reshape(-1)[...] = data.reshape(-1)[np.maximum(positions.reshape(-1) - 1, 0)]
    result[positions == 0] = zero_of(data.dtype)
    if out is None:
        return result
    np.copyto(out, result)
    return out
