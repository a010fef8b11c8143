"""Large results of a model: whose memory they have, and copies and joins by kernels, on all threads."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...ir.element_types import is_movable
from ..gather import gather
from ..host.recycled_memory import RECYCLED, fills_its_block, lease_of

# Smaller arrays are copied by NumPy, whose copy costs less than it takes to compile one.
LEAST_BYTES_FOR_A_KERNEL = 2**22


def memory_of(array: np.ndarray) -> tuple[object, ...]:
    """Return what stands for the memory of an array: itself, and the lease where that is recycled."""
    lease = lease_of(array)
    return (array,) if lease is None else (array, lease)


def owned(array: np.ndarray, taken: Mapping[int, object]) -> np.ndarray:
    """Return an array that nobody else holds: a copy of a view, and of memory that `taken` has by its `id`."""
    is_whole = array.base is None and array.flags.c_contiguous and array.flags.owndata
    is_ours = (is_whole or fills_its_block(array)) and not any(id(memory) in taken for memory in memory_of(array))
    return array if is_ours else copied(array)


def copied(array: np.ndarray) -> np.ndarray:
    """Return a C-contiguous copy; of a large view by a kernel."""
    if not _is_for_a_kernel(array.size, array.dtype):
        return array.copy()
    found = RECYCLED.new(array.shape, array.dtype)
    _copy(array, found)
    return found


def joined(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Return arrays one after the other along an axis; where the result is large, each is copied by a kernel."""
    shape = list(arrays[0].shape)
    shape[axis] = sum(array.shape[axis] for array in arrays)
    if not _is_for_a_kernel(math.prod(shape), arrays[0].dtype):
        return np.concatenate(arrays, axis)
    found, start = RECYCLED.new(tuple(shape), arrays[0].dtype), 0
    for array in arrays:
        end = start + array.shape[axis]
        _copy(array, found[(slice(None),) * axis + (slice(start, end),)])
        start = end
    return found


def _is_for_a_kernel(size: int, dtype: np.dtype) -> bool:
    return size >= 2 and size * dtype.itemsize >= LEAST_BYTES_FOR_A_KERNEL and is_movable(dtype)


def _copy(array: np.ndarray, out: np.ndarray) -> None:
    """Copy to memory that does not overlap it, as a gather of all its slices."""
    if array.size < 2:
        out[...] = array
        return
    axis = next(dim for dim, size in enumerate(array.shape) if size > 1)
    gather(array, np.arange(array.shape[axis]), axis, bounds="unchecked", out=out)
