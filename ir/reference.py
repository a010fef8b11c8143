"""The gather in plain NumPy, one element at a time: the first oracle. Slow, and meant to be read."""

from typing import Any

import numpy as np

from .errors import BoundsError
from .semantics import Bounds, gather_shape, normalize_gather


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
    axis, batch_dims = normalize_gather(data.shape, indices.shape, axis, batch_dims)
    out = np.empty(gather_shape(data.shape, indices.shape, axis, batch_dims), data.dtype)
    size = data.shape[axis]
    for batch in np.ndindex(*indices.shape[:batch_dims]):
        for pick in np.ndindex(*indices.shape[batch_dims:]):
            position = resolve(int(indices[batch + pick]), size, bounds)
            for outer in np.ndindex(*data.shape[batch_dims:axis]):
                value = zero_of(data.dtype) if position is None else data[batch + outer + (position,)]
                out[batch + outer + pick] = value
    return out
