"""Gathers of elements that are references (object, StringDType): their positions go through the kernels."""

from collections.abc import Callable

import numpy as np

from ..ir.reference import zero_of
from ..ir.semantics import Bounds, gather_shape, normalize_gather
from .arguments import check_out

GatherArrays = Callable[..., np.ndarray]


def gather_opaque(
    data: np.ndarray,
    indices: np.ndarray,
    axis: int,
    batch_dims: int,
    bounds: Bounds,
    out: np.ndarray | None,
    gather_arrays: GatherArrays,
) -> np.ndarray:
    """Gather the positions of the elements with a kernel, then take the elements themselves with NumPy.

    Positions count from 1, so that the 0 which `bounds="zero"` gives stands for no element: an empty string.
    Dtypes of no bytes at all (`S0`) come here as well.
    """
    normal_axis, normal_batch_dims = normalize_gather(data.shape, indices.shape, axis, batch_dims)
    shape = gather_shape(data.shape, indices.shape, normal_axis, normal_batch_dims)
    if out is not None:
        check_out(out, shape, data.dtype)
    numbers = np.arange(1, data.size + 1, dtype=np.int64).reshape(data.shape)
    positions = gather_arrays(numbers, indices, axis, batch_dims, bounds, None)
    result = np.empty(shape, data.dtype)
    if data.size:
        result[...] = data.reshape(-1)[np.maximum(positions - 1, 0)]
    result[positions == 0] = zero_of(data.dtype)
    if out is None:
        return result
    out[...] = result
    return out
