"""Checks of a call's arrays, before anything runs."""

import functools
import importlib
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import MAX_DIMS, ArraySpec
from ...ir.element_types import NARROW_INTEGERS
from ...ir.errors import IndexTypeError, InvalidGatherError, show

# The fastest functions to read arguments of types that were seen before; an ndarray is returned unchanged.
READERS: dict[type, Callable[[Any], np.ndarray]] = {np.ndarray: np.asarray}


# Functions of `interop`, which imports this floor, for arrays that are no ndarrays: they are loaded at need.
_INTEROP = {
    "array": "arrays.as_array",
    "out": "arrays.as_out",
    "gather": "chunks.gather",
    "gradient": "chunks.gradient",
    "reduce": "chunks.reduce",
}


@functools.cache
def interop(name: str) -> Callable[..., Any]:
    """Return a function of the package's `interop`, by its name in `_INTEROP`."""
    module, function = _INTEROP[name].split(".")
    return getattr(importlib.import_module(f"{__name__.partition('.kernels.')[0]}.interop.{module}"), function)


def in_memory(*arrays: Any) -> bool:
    """Return whether arrays that the door let in are ndarrays; others are dask's, or lie in files."""
    return all(type(array) is np.ndarray for array in arrays)


def is_lazy(array: Any) -> bool:
    """Return whether an array is computed later, as dask's are."""
    return hasattr(type(array), "__dask_graph__")


def table_array(data: ArrayLike, name: str = "data") -> np.ndarray:
    """Return data as `data_array` does, but leave an array of h5py or zarr as it is; rejects an empty one."""
    return data if type(data) is np.ndarray else data_array(data, name, keeps_stored=True)


def data_array(data: ArrayLike, name: str = "data", *, keeps_stored: bool = False) -> np.ndarray:
    """Return data as an ndarray; subclasses become plain ndarrays, and a dask array stays as it is.

    Arrays of other libraries are read in place where they share their memory; see `interop.arrays`.

    Raises:
        InvalidGatherError: it is a masked array, whose mask would be lost, lists of different lengths, or no array that
            the CPU can read.
    """
    if type(data) is np.ndarray:
        return data
    reader = READERS.get(type(data))
    if reader is not None:
        try:
            return reader(data)
        except Exception:  # of whatever library it is: the code below finds another way, or raises the error
            pass
    reject_masked(data, name)
    if isinstance(data, np.ndarray | list | tuple | int | float):
        try:
            return np.asarray(data)
        except MemoryError:
            raise
        except Exception as error:  # of whatever library an element is
            raise InvalidGatherError(f"{name} does not make an array: {error}") from None
    array, reader = interop("array")(data, name, keeps_stored)
    if reader is not None:
        READERS[type(data)] = reader
    return np.asarray(array) if isinstance(array, np.ndarray) else array


def reject_masked(data: Any, name: str) -> None:
    """Reject a masked array, and lists with a masked element: NumPy reads the values below the masks."""
    masked: Any = sys.modules.get("numpy.ma")
    if not hasattr(masked, "masked"):  # there is none where it is not imported, or another thread does so now
        return
    if isinstance(data, masked.MaskedArray):
        raise InvalidGatherError(
            f"{name} is a masked array, and its mask would be lost; pass its .filled(value), or gather its .data and "
            "its .mask each"
        )
    kinds, rows = {masked.MaskedArray, type(masked.masked)}, [data]
    for _ in range(MAX_DIMS):
        if not (rows := [row for row in rows if isinstance(row, list | tuple)]):
            break
        if any(not kinds.isdisjoint(map(type, row)) for row in rows):
            raise InvalidGatherError(f"{name} has a masked element, whose value is not known; pass one without a mask")
        rows = [item for row in rows if row and isinstance(row[0], list | tuple) for item in row]


def out_array(out: Any, *, keeps_stored: bool = False) -> np.ndarray:
    """Return an ndarray on the memory of `out`, which may be an array of another library; a stored array stays.

    A subclass becomes a plain ndarray: its own attributes and functions may say anything.

    Raises:
        InvalidGatherError: it has no memory that can be shared, or may not be written to.
    """
    return np.asarray(out) if isinstance(out, np.ndarray) else interop("out")(out, keeps_stored)


def index_array(indices: ArrayLike, name: str = "indices") -> np.ndarray:
    """Return indices as an ndarray of a native integer dtype, which a kernel can read in place.

    Indices of foreign byte order, and indices whose elements do not lie at multiples of their size, are copied. A dask
    array stays as it is; its blocks come here when they are computed.

    Raises:
        IndexTypeError: they are of another kind. An empty list counts as integers.
        InvalidGatherError: they are masked, or lists of different lengths.
    """
    array = data_array(indices, name)
    dtype = array.dtype
    if dtype.kind in "iu" and dtype.isnative and type(array) is np.ndarray and array.flags.c_contiguous:
        return array
    if dtype.kind not in "iu":
        if array.size == 0 and not isinstance(indices, np.ndarray):
            return array.astype(np.int64)
        raise IndexTypeError(f"{name} must be integers, got {_not_integers(array, indices, name)}")
    if not isinstance(array, np.ndarray):
        return array
    is_even = lies_evenly(array.shape, array.strides, dtype.itemsize)
    return array if dtype.isnative and is_even else array.astype(dtype.newbyteorder("="), order="C")


def spec_of(array: Any) -> ArraySpec:
    """Return the spec of an array; an array of dask or in a file is not read, and counts as contiguous."""
    if not hasattr(array, "chunks"):
        return ArraySpec.of(array)
    return ArraySpec(tuple(array.shape), np.dtype(array.dtype))


def index_spec(indices: Any) -> ArraySpec:
    """Return the spec of indices as a kernel reads them; raises IndexTypeError when they are no integers."""
    if not isinstance(indices, ArraySpec | str):
        return spec_of(index_array(indices))
    spec = ArraySpec.of(indices)
    dtype = index_array(np.empty(0, spec.dtype)).dtype
    is_even = lies_evenly(spec.shape, spec.strides, dtype.itemsize)
    return spec if spec.dtype == dtype and is_even else ArraySpec(spec.shape, dtype)


def lies_evenly(shape: Sequence[int], strides: Sequence[int], width_bytes: int) -> bool:
    """Return whether the elements of an array lie at multiples of a width, so that a kernel can reach them in place."""
    return all(stride % width_bytes == 0 for stride, size in zip(strides, shape, strict=True) if size > 1)


def _not_integers(array: np.ndarray, given: ArrayLike, name: str = "indices") -> str:
    """Return a description of an argument that is not of integers, and a remedy."""
    if array.dtype.kind == "b":
        return "dtype bool; for a mask, pass numpy.flatnonzero(mask)"
    if array.dtype.kind == "f":
        return f"dtype {array.dtype}; convert them, for instance with numpy.asarray({name}).astype('int64')"
    if array.dtype.kind == "O" and array.size and all(isinstance(value, int) for value in array.flat):
        if min(array.flat) >= -(2**63) and max(array.flat) < 2**63:
            return f"dtype object; convert them, for instance with numpy.asarray({name}).astype('int64')"
        return "integers that no one dtype holds; an index dtype has at most 64 bits, signed or unsigned"
    if array.dtype.kind == "O" and array.ndim == 0:
        return f"{type(given).__name__}; pass an array or a list of integers"
    return f"dtype {array.dtype}; pass an array or a list of integers"


def memory_owner(array: Any) -> Any:
    """Return the object whose memory an array is a view of; None where an ndarray owns it."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array


def may_overlap_itself(array: np.ndarray) -> bool:
    """Return whether two elements of an array may overlap; True where a simple test cannot exclude it."""
    if array.flags.c_contiguous:
        return False
    reach = array.itemsize
    for stride, size in sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True)):
        if size > 1 and stride < reach:
            return array.size > 0
        reach += stride * max(size - 1, 0)
    return False


def overlaps_itself(array: np.ndarray) -> bool:
    """Return whether two elements of an array overlap: by a simple test, or else by the address of each."""
    if not may_overlap_itself(array):
        return False
    reach = array.itemsize + sum(
        abs(stride) * (size - 1) for size, stride in zip(array.shape, array.strides, strict=True)
    )
    if array.nbytes > reach:  # there is less memory than elements
        return True
    offsets = np.zeros((), np.int64)
    for size, stride in zip(array.shape, array.strides, strict=True):
        offsets = np.add.outer(offsets, stride * np.arange(size))
    return bool((np.diff(np.sort(offsets, axis=None)) < array.itemsize).any())


def check_out(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Check that `out` can take the result.

    Raises:
        InvalidGatherError: it has another shape or dtype, is read-only, or two of its elements overlap.
    """
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise InvalidGatherError(f"out must be an ndarray, got {type(out).__name__}")
    if out.shape != shape:
        raise InvalidGatherError(f"out must have shape {shape}, got {out.shape}")
    if out.dtype != dtype:
        raise InvalidGatherError(f"out must have dtype {dtype} as data has, got {out.dtype}")
    if not out.flags.writeable:
        raise InvalidGatherError("out must be writeable, got a read-only array; pass a copy")
    if overlaps_itself(out):
        raise InvalidGatherError(
            f"out must have a place for every element, got strides {out.strides}, by which some overlap; pass a copy"
        )


def address(array: np.ndarray) -> int:
    """Return the address of an array's first element."""
    return array.__array_interface__["data"][0]


def summation_dtype(dtype: np.dtype) -> np.dtype | None:
    """Return the dtype in which elements are added, or None where only NumPy adds them (longdouble, object, m8).

    Raises InvalidGatherError where they have no sum.
    """
    if dtype.kind in "iufc" and dtype.itemsize <= (16 if dtype.kind == "c" else 8):
        return np.dtype(np.float32) if dtype.kind == "f" and dtype.itemsize < 4 else dtype.newbyteorder("=")
    if dtype.type.__module__ == "ml_dtypes":
        name = dtype.type.__name__
        return np.dtype(np.int8 if name in NARROW_INTEGERS else np.complex64 if "complex" in name else np.float32)
    if dtype.kind in "fcmO":
        return None
    raise InvalidGatherError(
        f"grad must have elements that can be added, got dtype {dtype}; a gradient is of floats, complex numbers or "
        "integers"
    )


def checked_scale(scale: Any, name: str = "scale") -> float:
    """Return a scale as a float; raises InvalidGatherError where it is not a finite real number."""
    reject_masked(scale, name)
    try:
        dtype = np.asarray(scale).dtype
        is_other = dtype.kind in "cSUTmMW" or (dtype.kind == "V" and dtype.type.__module__ != "ml_dtypes")
        value = float("" if is_other else scale)
    except OverflowError:
        value = math.inf
    except MemoryError:
        raise
    except Exception:  # of whatever library it is
        raise InvalidGatherError(f"{name} must be a real number, got {show(scale)}") from None
    if not math.isfinite(value):
        raise InvalidGatherError(f"{name} must be a finite number, got {show(scale)}")
    return value
