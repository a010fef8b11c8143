"""The arrays of a call, checked before anything runs."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import IndexTypeError, InvalidGatherError


def index_array(indices: ArrayLike) -> np.ndarray:
    """Return indices as an ndarray of a native integer dtype, which a kernel can read in place.

    Copies indices of foreign byte order, and those whose elements do not lie at multiples of their size.

    Raises:
        IndexTypeError: they are of another kind. An empty list counts as integers.
    """
    array = np.asarray(indices)
    if array.dtype.kind not in "iu":
        if array.size == 0 and not isinstance(indices, np.ndarray):
            return array.astype(np.int64)
        raise IndexTypeError(
            f"indices must be integers, got dtype {array.dtype}; convert them, for instance with "
            "indices.astype('int64')"
        )
    size_bytes = array.dtype.itemsize
    is_even = all(stride % size_bytes == 0 for stride, size in zip(array.strides, array.shape, strict=True) if size > 1)
    return array if array.dtype.isnative and is_even else array.astype(array.dtype.newbyteorder("="), order="C")


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Check that `out` can take the result.

    Raises:
        InvalidGatherError: it is no ndarray, of another shape or dtype, read-only, or has elements in the same place.
    """
    if not isinstance(out, np.ndarray):
        raise InvalidGatherError(f"out must be an ndarray, got {type(out).__name__}")
    if out.shape != shape:
        raise InvalidGatherError(f"out must have shape {shape}, got {out.shape}")
    if out.dtype != dtype:
        raise InvalidGatherError(f"out must have dtype {dtype} as data has, got {out.dtype}")
    if not out.flags.writeable:
        raise InvalidGatherError("out must be writeable, got a read-only array; pass a copy")
    if out.size and any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.strides, strict=True)):
        raise InvalidGatherError("out must have a place for every element, got a broadcast array; pass a copy")
