"""The gradients of the gathers: `gather_grad`, `gather_nd_grad` and `gather_elements_grad`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ..ir.semantics import BoundsMode, integer_argument, parse_bounds
from .runtime.array_checks import data_array, index_array
from .runtime.dispatch import run_gradient


def gather_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the gradient of `gather` with respect to data: `scale` times a scatter-add of `grad`.

    `result[p.., indices[p.., i..], q..] += grad[p.., i.., q..]` from zeros, in the order of the indices, then times
    `scale`. The bytes are the same for any number of threads.

    Args:
        grad: the gradient of what the gather gave, of shape `data_shape[:axis] + indices.shape[batch_dims:] +
            data_shape[axis+1:]`; integers (added modulo their width), floats and complex numbers. Floats narrower
            than 32 bits are added and scaled in float32 and rounded once.
        indices: as for `gather`.
        data_shape: the shape of data.
        axis, batch_dims: as for `gather`.
        bounds: as for `gather`. With "zero", an index outside adds nothing; with "clip" and "wrap" it adds where it
            was read.
        scale: a real number; for integers a whole one below 2**53. It is rounded to the dtype of the sums.
        out: where to put the result: of shape `data_shape` and the dtype of grad; its contents are replaced.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad. Where threads split rows it is
        a view of up to 64 bytes more, so that it begins a line of the caches.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes, `grad` or `out` do not fit the shapes, or its elements have no sum.

    Spec: the gradient of OpenVINO Gather-8 and ONNX Gather-13.
    """
    operator = Gather(integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims"))
    return _run(operator, grad, indices, data_shape, bounds, scale, out)


def gather_nd_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the gradient of `gather_nd` with respect to data: `scale` times a scatter-add of `grad`.

    `result[b.., indices[b.., i.., 0], ..., indices[b.., i.., k-1], q..] += grad[b.., i.., q..]` from zeros.

    Args:
        grad: of shape `indices.shape[:-1] + data_shape[batch_dims+k:]`; dtypes as for `gather_grad`.
        indices, batch_dims: as for `gather_nd`.
        data_shape: the shape of data.
        bounds: with "zero", a tuple with any component outside adds nothing.
        scale, out: as for `gather_grad`.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad, a view as that of `gather_grad`.

    Raises:
        BoundsError: a component is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes, `grad` or `out` do not fit the shapes, or its elements have no sum.

    Spec: the gradient of ONNX GatherND-13.
    """
    operator = GatherNd(integer_argument(batch_dims, "batch_dims"))
    return _run(operator, grad, indices, data_shape, bounds, scale, out)


def gather_elements_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    axis: Any = 0,
    *,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the gradient of `gather_elements` with respect to data: `scale` times a scatter-add of `grad`.

    `result[.., indices[.., i, ..], ..] += grad[.., i, ..]` on the axis, from zeros.

    Args:
        grad: of the shape of indices; dtypes as for `gather_grad`.
        indices, axis: as for `gather_elements`.
        data_shape: the shape of data.
        bounds, scale, out: as for `gather_grad`.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes, `grad` or `out` do not fit the shapes, or its elements have no sum.

    Spec: the gradient of ONNX GatherElements-13.
    """
    operator = GatherElements(integer_argument(axis, "axis", allow_array=True))
    return _run(operator, grad, indices, data_shape, bounds, scale, out)


def _run(
    operator: OperatorSpec,
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    bounds: BoundsMode,
    scale: float,
    out: np.ndarray | None,
) -> np.ndarray:
    arrays = data_array(grad, "grad"), index_array(indices)
    return run_gradient(operator, *arrays, data_shape, parse_bounds(bounds), scale, out)
