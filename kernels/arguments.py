"""The arrays of a call, checked before anything runs."""

import sys
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import BoundsError, IndexTypeError, InvalidGatherError
from ..ir.semantics import Shape


def is_dask_array(array: Any) -> bool:
    """Return whether an array is one of dask's, without importing dask."""
    dask_array = sys.modules.get("dask.array")
    return dask_array is not None and isinstance(array, getattr(dask_array, "Array", ()))


def data_array(data: ArrayLike) -> np.ndarray:
    """Return data as an ndarray; a dask array stays one."""
    return data if type(data) is np.ndarray or is_dask_array(data) else np.asarray(data)  # type: ignore[return-value]


def index_array(indices: ArrayLike) -> np.ndarray:
    """Return indices as an ndarray of a native integer dtype, which a kernel can read in place.

    Copies indices of foreign byte order, and those whose elements do not lie at multiples of their size. A dask array
    stays one; its blocks come here when they are computed.

    Raises:
        IndexTypeError: they are of another kind. An empty list counts as integers.
    """
    array = data_array(indices)
    if array.dtype.kind not in "iu":
        if array.size == 0 and not isinstance(indices, np.ndarray):
            return array.astype(np.int64)
        raise IndexTypeError(
            f"indices must be integers, got dtype {array.dtype}; convert them, for instance with "
            "indices.astype('int64')"
        )
    if not isinstance(array, np.ndarray):
        return array
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
    if out.nbytes and any(stride == 0 and size > 1 for size, stride in zip(out.shape, out.strides, strict=True)):
        raise InvalidGatherError("out must have a place for every element, got a broadcast array; pass a copy")


def refuse_negative(indices: np.ndarray, version: str, origin: Shape = ()) -> None:
    """Check that no index is negative.

    Args:
        version: the operator version that says so.
        origin: where these indices start in the whole that the message counts in.

    Raises:
        BoundsError: one is.

    Spec: Gather-7, input 2: "values for indices are in the range [0, data[axis] - 1]".
    """
    if indices.dtype.kind == "u" or indices.size == 0 or indices.min() >= 0:
        return
    place = tuple(int(number) for number in np.argwhere(indices < 0)[0])
    shown = place_in_whole(place, origin)
    raise BoundsError(
        f"index {int(indices[place])} at position {shown} of indices is negative, and {version} allows none; "
        "use openvino.Gather-8, where negative indices count from the end"
    )


def place_in_whole(place: Shape, origin: Shape) -> Shape:
    """Return the place in an array of a place in its block that starts at `origin`; () is where the array starts."""
    return tuple(map(sum, zip(place, origin, strict=True))) if origin else place
