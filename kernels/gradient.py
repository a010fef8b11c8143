"""The gradients of the gathers: `gather_grad`, `gather_nd_grad` and `gather_elements_grad`."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from ..ir.array_spec import ArraySpec, contiguous_strides, integers
from ..ir.element_types import number_width
from ..ir.errors import InvalidGatherError
from ..ir.operator_spec import Gather, GatherElements, GatherNd, Gradient, Node, OperatorSpec
from ..ir.semantics import Bounds, BoundsMode, Shape, integer_argument, parse_bounds
from ..lowering.schedule.schedule import Schedule
from .host.knobs import knobs
from .runtime.array_checks import check_out, data_array, index_array, lies_evenly, may_be_shared, may_overlap_itself
from .runtime.call_cache import CALLS, NO_KEYS, CallTable, Keys, one_object
from .runtime.object_arrays import gather_opaque
from .runtime.plan import Problem, check_addresses
from .runtime.prepare import remembered

WHOLE_SCALES_BELOW = 2**53
_NARROW_INTEGERS = {np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "uint2", "int4", "uint4")}


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
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


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
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


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
    return run_gradient(operator, grad, indices, data_shape, parse_bounds(bounds), scale, out)


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
    schedule: Schedule | None = None,
    calls: CallTable | None = None,
) -> np.ndarray:
    """Run the gradient of an operator; see the functions above, and `run_operator` for `calls`."""
    grad, indices = data_array(grad, "grad"), index_array(indices)
    if type(grad) is not np.ndarray or type(indices) is not np.ndarray:
        raise InvalidGatherError("a gradient is of arrays in memory, got a dask array; compute grad and indices first")
    shape, scale = integers(data_shape, "sizes"), checked_scale(scale)
    if calls is None:
        calls, keys = CALLS, _keys(operator, shape, bounds, scale, version, node, schedule)
    else:
        keys = NO_KEYS
    found = calls.find(grad, indices, out, *keys)
    if found is not None:
        return found
    shape = ArraySpec(shape, grad.dtype).shape
    check_addresses(f"data_shape {shape}", shape, grad.dtype)
    normal = operator.normalized(shape, indices.shape)
    _check_grad(grad, normal.result_shape(shape, indices.shape), shape, indices)
    gradient = Gradient(scale)
    check_whole(gradient.scale, grad.dtype)
    if out is not None:
        check_out(out, shape, grad.dtype)
    if (summed := summation_dtype(grad.dtype)) is None:
        specs = ArraySpec(shape, grad.dtype), ArraySpec.of(indices)
        sums = _sum_places(Problem.checked(normal, *specs, bounds, version=version), grad, indices, gradient.scale)
        return _delivered(sums, grad.dtype, out)
    rest: dict[str, Any] = {"version": version, "node": node, "schedule": schedule}
    if summed != grad.dtype or not _is_even(grad):
        grad, wanted = grad.astype(summed, order="C"), grad.dtype
        sums = run_gradient(normal, grad, indices, shape, bounds, scale, **rest)
        return _delivered(sums, wanted, out)
    shared = (np.may_share_memory(out, array) for array in (grad, indices)) if out is not None else ()
    if out is not None and (not _is_even(out) or may_overlap_itself(out) or any(shared)):
        sums = run_gradient(normal, grad, indices, shape, bounds, scale, **rest)
        return _delivered(sums, grad.dtype, out)
    strides = contiguous_strides(shape, grad.itemsize) if out is None else out.strides
    is_shared = bounds is Bounds.ERROR and may_be_shared(indices)
    signature = (
        *("gradient", grad.shape, grad.strides, grad.dtype, indices.shape, indices.strides, indices.dtype),
        *(shape, strides, normal, bounds, version, node, repr(gradient)),  # 0.0 is not -0.0
        is_shared,
        knobs.num_threads,  # a gradient is cut up for so many
    )

    def problem() -> Problem:
        specs = ArraySpec(shape, grad.dtype, strides), ArraySpec.of(indices)
        checked = Problem.checked(normal, *specs, bounds, ArraySpec.of(grad), version, gradient, node)
        return replace(checked, has_shared_indices=is_shared)

    prepared = remembered(signature, problem, schedule)
    is_repeated = prepared.was_run or calls is not CALLS
    result = prepared.result(shape, grad.dtype) if out is None else out
    target = prepared.target(grad, result)
    prepared.run(grad, indices, target)
    if target is not result:
        result[...] = target
    if is_repeated:
        calls.remember(prepared, grad, indices, out, keys)
    return result


def _keys(
    operator: OperatorSpec,
    data_shape: Shape,
    bounds: Bounds,
    scale: float,
    version: str | None,
    node: Node | None,
    schedule: Schedule | None,
) -> Keys:
    """Return the object by which calls of a gradient are found; it is cut up for a number of threads."""
    said = (operator, data_shape, bounds, repr(scale), version, node, schedule, knobs.num_threads)  # 0.0 is not -0.0
    return one_object(said), None, None


def summation_dtype(dtype: np.dtype) -> np.dtype | None:
    """Return the dtype in which elements are added, or None where only NumPy adds them (longdouble, object, m8).

    Raises:
        InvalidGatherError: elements of that dtype have no sum.
    """
    if dtype.kind in "iufc" and dtype.itemsize <= (16 if dtype.kind == "c" else 8):
        return np.dtype(np.float32) if dtype.kind == "f" and dtype.itemsize < 4 else dtype.newbyteorder("=")
    if dtype in _NARROW_INTEGERS:
        return np.dtype(np.int8)
    if dtype.type.__module__ == "ml_dtypes":
        return np.dtype(np.float32)
    if dtype.kind in "fcmO":
        return None
    raise InvalidGatherError(
        f"grad must have elements that can be added, got dtype {dtype}; a gradient is of floats, complex numbers or "
        "integers"
    )


def _check_grad(grad: np.ndarray, wanted: tuple[int, ...], data_shape: tuple[int, ...], indices: np.ndarray) -> None:
    if grad.shape != wanted:
        raise InvalidGatherError(
            f"grad must have shape {wanted}, as the gather of data {data_shape} by indices {indices.shape} gives, "
            f"got {grad.shape}"
        )


def checked_scale(scale: Any, name: str = "scale") -> float:
    """Return a scale as a float.

    Raises:
        InvalidGatherError: it is not a finite real number.
    """
    try:
        value = float("" if isinstance(scale, str) else scale)
    except (TypeError, ValueError):
        raise InvalidGatherError(f"{name} must be a real number, got {scale!r}") from None
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise InvalidGatherError(f"{name} must be a finite number, got {scale!r}")
    return value


def check_whole(scale: float, dtype: np.dtype) -> None:
    """Check that a scale of integers is whole, and that a float says it exactly; raises InvalidGatherError."""
    if dtype.kind not in "iu" and dtype not in _NARROW_INTEGERS:
        return
    if not scale.is_integer() or abs(scale) >= WHOLE_SCALES_BELOW:
        raise InvalidGatherError(
            f"scale must be a whole number below 2**53 for a gradient of {dtype}, got {scale!r}; convert grad to a "
            "float dtype, or multiply the result"
        )


def _is_even(array: np.ndarray) -> bool:
    """Return whether elements lie at multiples of the numbers that they consist of."""
    return lies_evenly(array.shape, array.strides, number_width(array.dtype))


def _delivered(sums: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    if out is None:
        return sums.astype(dtype, copy=False)
    out[...] = sums.astype(dtype, copy=False)
    return out


def _sum_places(problem: Problem, grad: np.ndarray, indices: np.ndarray, scale: float) -> np.ndarray:
    """Add with NumPy, at the places that a gather reads; they count from 1, and 0 stands for none."""
    shape = problem.data.shape
    places = np.arange(1, math.prod(shape) + 1).reshape(shape)
    read = gather_opaque(problem, places, indices, None).reshape(-1)
    sums = np.zeros(math.prod(shape), grad.dtype)
    np.add.at(sums, read[read > 0] - 1, grad.reshape(-1)[read > 0])
    factor = int(scale) if scale.is_integer() and scale != 0 else scale
    return (sums * factor if scale != 1 else sums).reshape(shape)
