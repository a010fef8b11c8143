"""Sums made one by one in plain Python, which gradients are held against, and the numbers that are summed."""

from dataclasses import replace

import ml_dtypes
import numpy as np

BOUNDS = ("error", "zero", "clip", "wrap", "unchecked")
ADDED = tuple(map(np.dtype, ("f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")))
NARROW = tuple(map(np.dtype, (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)))


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Return numbers whose sums in another order are other sums, some of them signed zeros and infinities."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    elif dtype.kind in "iumO" or dtype in NARROW:
        values = rng.integers(-2, 2, shape) if dtype in NARROW else rng.integers(-(2**62), 2**62, shape)
    else:
        values = np.where(rng.random(shape) < 0.05, -0.0, values)
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(np.int8) if dtype in NARROW else values).astype(dtype)


def sums_one_by_one(oracle, case, grad: np.ndarray, scale: float) -> np.ndarray | None:
    """Return what the gradient must be, or None where an index is rejected."""
    shape = case.data.shape
    places = np.arange(case.data.size, dtype=np.int64).reshape(shape) + 1
    read = oracle.expected(replace(case, data=places))
    if read is None:
        return None
    kind = grad.dtype if grad.dtype.kind in "iufcmO" and grad.dtype.itemsize != 2 else np.dtype(np.float32)
    kind = np.dtype(np.int8) if grad.dtype in NARROW else grad.dtype if grad.dtype.kind in "iu" else kind
    sums = np.zeros(case.data.size, kind)
    with np.errstate(all="ignore"):
        for place, value in zip(read.reshape(-1), grad.astype(kind).reshape(-1), strict=True):
            if place:
                sums[place - 1] = sums[place - 1] + value
        parts = sums.view(sums.real.dtype)
        factor = int(scale) if kind.kind in "iumO" else parts.dtype.type(scale)
        factor = np.array(factor).astype(kind) if kind.kind in "iu" else factor
        scaled = sums if scale == 1 else (parts * factor).astype(parts.dtype).view(kind)
        return scaled.astype(grad.dtype).reshape(shape)


def agree(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether two arrays agree in every byte; where both are no number, whichever."""
    if got.dtype.kind in "OT" or got.dtype.type in (np.longdouble, np.clongdouble):
        return got.dtype == wanted.dtype and got.shape == wanted.shape and bool(np.all((got == wanted) | (got != got)))
    plain = [np.where(array == array, array, np.zeros((), array.dtype)) for array in (got, wanted)]
    same_holes = np.array_equal(got == got, wanted == wanted)
    return got.dtype == wanted.dtype and same_holes and plain[0].tobytes() == plain[1].tobytes()
