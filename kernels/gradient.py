"""The gradients of the gathers: `gather_grad`, `gather_nd_grad` and `gather_elements_grad`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.array_spec import integers
from ..ir.operator_spec import Gather, GatherElements, GatherNd, Gradient, Node, OperatorSpec
from ..ir.semantics import Bounds, BoundsMode, integer_argument, parse_bounds
from .argument_names import reject_others, shown_without_elsewhere
from .host.knobs import knobs
from .runtime.array_checks import checked_scale, in_memory, index_array, interop, out_array, table_array
from .runtime.call_cache import CALLS, Keys, one_object
from .runtime.dispatch import Request, run

if TYPE_CHECKING:
    from ..lowering.registry import Pipeline
    from ..lowering.schedule.schedule import Schedule


@shown_without_elsewhere
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
    **others: Any,
) -> np.ndarray:
    """Return the gradient of `gather` with respect to data: `scale` times a scatter-add of `grad`.

    `result[p.., indices[p.., i..], q..] += grad[p.., i.., q..]` from zeros, in the order of the indices, then times
    `scale`. The bytes are the same for any number of threads. When grad or indices are a dask array, so is the result:
    its chunks decide the order of the sums, not the workers that compute it.

    Args:
        grad: the gradient of the gather's result, of shape `data_shape[:axis] + indices.shape[batch_dims:] +
            data_shape[axis+1:]`; integers (added modulo their width), floats and complex numbers. Floats narrower
            than 32 bits are added and scaled in float32 and rounded once.
        indices: as for `gather`.
        data_shape: the shape of data.
        axis, batch_dims: as for `gather`.
        bounds: as for `gather`. With "zero", an index outside adds nothing; with "clip" and "wrap" it adds where it
            was read.
        scale: a finite real number; for integers a whole number below 2**53. It is rounded to the dtype of the sums: a
            number too small for it becomes 0, and a number too large is rejected, as infinity and NaN are.
        out: where to put the result: of shape `data_shape` and the dtype of grad; its contents are replaced. For dask
            arrays it may be an `h5py.Dataset` or a `zarr.Array`, which is written by blocks.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad. Where threads split rows it is
        a view of up to 64 bytes more, so that it begins a line of the caches.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes, `grad` or `out` do not fit the shapes, or its elements have no sum.

    Spec: the gradient of OpenVINO Gather-8 and ONNX Gather-13.
    """
    reject_others(gather_grad, others)
    operator = Gather(integer_argument(axis, "axis", allow_array=True), integer_argument(batch_dims, "batch_dims"))
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


@shown_without_elsewhere
def gather_nd_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    out: np.ndarray | None = None,
    **others: Any,
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
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad, a view as from `gather_grad`.

    Raises:
        BoundsError: a component is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes, `grad` or `out` do not fit the shapes, or its elements have no sum.

    Spec: the gradient of ONNX GatherND-13.
    """
    reject_others(gather_nd_grad, others)
    operator = GatherNd(integer_argument(batch_dims, "batch_dims"))
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


@shown_without_elsewhere
def gather_elements_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    axis: Any = 0,
    *,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    out: np.ndarray | None = None,
    **others: Any,
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
    reject_others(gather_elements_grad, others)
    operator = GatherElements(integer_argument(axis, "axis", allow_array=True))
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


def keys_of_gradient(
    operator: OperatorSpec, bounds: Bounds, shape: tuple[int, ...], factor: float = 1.0, *rest: object
) -> Keys:
    """Return the keys of a gradient's calls in the call cache; `rest` is its version, its node and its schedule."""
    key = (operator, bounds, shape, repr(factor), *(rest or (None, None, None)), knobs.num_threads)  # 0.0 is not -0.0
    return one_object(key), None, None


def run_gradient(
    operator: OperatorSpec,
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    bounds: Bounds,
    scale: float = 1.0,
    out: np.ndarray | None = None,
    *,
    version: str | None = None,
    node: Node | None = None,
    schedule: "Schedule | Pipeline | None" = None,
) -> np.ndarray:
    """Run the gradient of an operator; see the functions above."""
    grad, indices = table_array(grad, "grad"), index_array(indices)
    factor, shape = checked_scale(scale), integers(data_shape, "sizes")
    if not in_memory(grad, indices):
        return interop("gradient")(operator, grad, indices, shape, bounds, Gradient(factor), out, version=version)
    if not (out is None or in_memory(out)):
        rest = {"version": version, "node": node, "schedule": schedule}
        run_gradient(operator, grad, indices, data_shape, bounds, scale, out_array(out), **rest)
        return out
    keys = keys_of_gradient(operator, bounds, shape, factor, version, node, schedule)
    found = CALLS.find(grad, indices, out, *keys)
    if found is not None:
        return found
    request = Request(operator, bounds, Gradient(factor), shape, version, node, schedule)
    return run(request, grad, indices, out, CALLS, keys)
