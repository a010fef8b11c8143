"""The gather in plain NumPy, one element at a time: the first oracle. Slow, and meant to be read."""

import math
from typing import Any

import numpy as np

from .element_types import as_bytes, number_scale
from .errors import BoundsError
from .operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from .semantics import Bounds, Shape


def zero_of(dtype: np.dtype) -> Any:
    """Return what `bounds="zero"` puts for an index outside: all bytes zero; an empty string for object arrays."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)[()]


def resolve(index: int, size: int, bounds: Bounds) -> int | None:
    """Return the position that `index` means on an axis of `size`, or None for a slice of zeros.

    Raises:
        BoundsError: the index is not valid under `bounds`.

    Spec: Gather-8 "Allowed values for indices"; ONNX Gather "indices"; NumPy `take` for clip and wrap.
    """
    if size == 0 and bounds is not Bounds.ZERO:
        raise BoundsError(f"index {index} on an axis of size 0: no index is valid; use bounds='zero' to get zeros")
    if bounds is Bounds.CLIP:
        return min(max(index, 0), size - 1)
    if bounds is Bounds.WRAP:
        return index % size
    if bounds is Bounds.UNCHECKED:
        return index
    if -size <= index < size:
        return index + size if index < 0 else index
    if bounds is Bounds.ZERO:
        return None
    raise BoundsError(f"index {index} is out of range [{-size}, {size - 1}]")


def run(operator: OperatorSpec, data: np.ndarray, indices: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Carry out any operator; see the functions below.

    Raises:
        BoundsError: an index is not valid under `bounds`.
    """
    if isinstance(operator, Gather):
        return gather(data, indices, operator.axis, operator.batch_dims, bounds)
    if isinstance(operator, GatherNd):
        return gather_nd(data, indices, operator.batch_dims, bounds)
    assert isinstance(operator, GatherElements)
    return gather_elements(data, indices, operator.axis, bounds)


def gather(
    data: np.ndarray, indices: np.ndarray, axis: int = 0, batch_dims: int = 0, bounds: Bounds = Bounds.ERROR
) -> np.ndarray:
    """Gather slices of `data` along `axis`.

    Args:
        data: any shape of rank 1 or more, any dtype.
        indices: any shape, any integer dtype.
        axis, batch_dims: as the operators state them, negative or not.
        bounds: what an index outside means.

    Returns:
        A new C-contiguous array of shape `data.shape[:axis] + indices.shape[batch_dims:] + data.shape[axis+1:]`.

    Raises:
        BoundsError: an index is not valid under `bounds`.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    operator = Gather(axis, batch_dims).normalized(data.shape, indices.shape)
    axis, batch_dims = operator.axis, operator.batch_dims
    dtype, data = data.dtype, as_bytes(data)
    out = np.ndarray(operator.result_shape(data.shape, indices.shape), data.dtype)
    size = data.shape[axis]
    for batch in np.ndindex(*indices.shape[:batch_dims]):
        for pick in np.ndindex(*indices.shape[batch_dims:]):
            position = resolve(int(indices[batch + pick]), size, bounds)
            for outer in np.ndindex(*data.shape[batch_dims:axis]):
                value = zero_of(data.dtype) if position is None else data[batch + outer + (position,)]
                out[batch + outer + pick] = value
    return out.view(dtype) if out.dtype != dtype else out


def gather_nd(data: np.ndarray, indices: np.ndarray, batch_dims: int = 0, bounds: Bounds = Bounds.ERROR) -> np.ndarray:
    """Gather slices of `data` by tuples along the last dimension of `indices`.

    Args:
        data: (batch..., indexed..., inner...), any dtype.
        indices: (batch..., any shape, k), any integer dtype; k dimensions of data are indexed.
        batch_dims: leading dimensions that both share.
        bounds: what a component outside means; with ZERO, one outside makes the whole slice zeros.

    Returns:
        A new array of shape `indices.shape[:-1] + data.shape[batch_dims+k:]`.

    Raises:
        BoundsError: a component is not valid under `bounds`.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    operator = GatherNd(batch_dims).normalized(data.shape, indices.shape)
    sizes = [data.shape[dim] for dim in operator.axes(indices.shape)]
    dtype, data = data.dtype, as_bytes(data)
    out = np.ndarray(operator.result_shape(data.shape, indices.shape), data.dtype)
    for place in np.ndindex(*indices.shape[:-1]):
        position = [resolve(int(index), size, bounds) for index, size in zip(indices[place], sizes, strict=True)]
        outside = None in position
        out[place] = zero_of(data.dtype) if outside else data[place[:batch_dims] + tuple(position)]  # type: ignore[arg-type]
    return out.view(dtype) if out.dtype != dtype else out


def gather_elements(data: np.ndarray, indices: np.ndarray, axis: int = 0, bounds: Bounds = Bounds.ERROR) -> np.ndarray:
    """Gather elements of `data`, each by an index of its own along `axis`.

    Args:
        data: any shape of rank 1 or more, any dtype; dimensions after the rank of indices are carried whole.
        indices: not larger than data off the axis, any integer dtype.
        axis: negative or not.
        bounds: what an index outside means.

    Returns:
        A new array of the shape of indices, followed by what data has after their rank.

    Raises:
        BoundsError: an index is not valid under `bounds`.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    operator = GatherElements(axis).normalized(data.shape[: indices.ndim], indices.shape)
    dtype, data = data.dtype, as_bytes(data)
    out = np.ndarray(operator.result_shape(data.shape, indices.shape), data.dtype)
    for place in np.ndindex(*indices.shape):
        position = resolve(int(indices[place]), data.shape[operator.axis], bounds)
        source = (*place[: operator.axis], position, *place[operator.axis + 1 :])
        out[place] = zero_of(data.dtype) if position is None else data[source]
    return out.view(dtype) if out.dtype != dtype else out


def gradient(
    operator: OperatorSpec,
    grad: np.ndarray,
    indices: np.ndarray,
    data_shape: Shape,
    bounds: Bounds = Bounds.ERROR,
    scale: float = 1.0,
) -> np.ndarray:
    """Add each element of `grad` to where the gather read it, in the order of the indices, and scale the sums.

    Args:
        operator: the gather.
        grad: of the shape of what it gives; a dtype that NumPy adds.
        indices: any integer dtype.
        data_shape: the shape of data.
        bounds: what an index outside means; under ZERO it adds nothing.
        scale: what the sums are multiplied by, as a number of the dtype of grad.

    Returns:
        A new array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError: an index is not valid under `bounds`.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    places = np.arange(1, math.prod(data_shape) + 1).reshape(data_shape)
    read = run(operator, places, indices, bounds).reshape(-1)
    sums = np.zeros(math.prod(data_shape), grad.dtype)
    np.add.at(sums, read[read > 0] - 1, grad.reshape(-1)[read > 0])
    factor = np.array(number_scale(scale, grad.dtype)).astype(grad.dtype)
    scaled = sums * factor if scale != 1 else sums
    return scaled.astype(grad.dtype).reshape(data_shape)
