"""What kernels of narrow floats and of slices with weights need: sums rounded, and indices with weights beside them."""

from typing import Any

import numpy as np

from ...ir.errors import InvalidGatherError


def rounded(sums: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return sums in a dtype that is theirs or narrower, rounded to the nearest even."""
    if (sums.dtype, dtype) != (np.float32, np.float16) or not sums.flags.c_contiguous:
        return sums.astype(dtype, copy=False)
    from ...lowering.native.c_function import rounding
    from ..runtime.disk_cache import native_code

    run = rounding(native_code)
    if run is None:
        return sums.astype(dtype)
    halves = np.empty(sums.shape, dtype)
    run(sums.ctypes.data, halves.ctypes.data, sums.size)
    return halves


def deliver(
    result: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, out: Any, written: np.ndarray | None
) -> np.ndarray:
    """Return a result in its shape and dtype; in `out`, whose memory is `written`, if there is one."""
    if result is not written:
        result = rounded(result.reshape(shape), dtype)
        if written is not None:
            written[...] = result
    return result if out is None else out


def with_weights(positions: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return (..., 2): each position and the bits of its weight, as a gather_weighted reads them; 3 with biases.

    Args:
        positions: (...) in [0, size], where `size` adds nothing.
        weights: (...) float32 or float64; with biases (2, ...).
        size: of the first axis of data.

    Raises:
        InvalidGatherError: positions do not fit beside weights of 32 bits.
    """
    dtype = np.dtype(f"i{weights.itemsize}")
    if size > np.iinfo(dtype).max:
        raise InvalidGatherError(
            f"weights of float32 are for data of at most {np.iinfo(dtype).max} rows, got {size}; "
            "convert data to float64"
        )
    columns = [positions, *weights.view(dtype)] if weights.ndim > positions.ndim else [positions, weights.view(dtype)]
    places = np.empty((*positions.shape, len(columns)), dtype)
    for number, column in enumerate(columns):
        places[..., number] = column
    return places
