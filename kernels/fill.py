"""Gathers whose indices out of range give a value of the caller's: `bounds=Fill(value)`.

The gather runs under `bounds="zero"`. Then NumPy finds the indices out of range, and puts the value in their places. So
it is exact for every dtype, and costs one more pass over the indices.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.errors import InvalidGatherError, show
from ..ir.operator_spec import Gather, GatherNd, OperatorSpec
from ..ir.semantics import Shape
from .runtime.array_checks import reject_masked

_INEXACT = {"f": np.float64, "c": np.complex128}


@dataclass(frozen=True, slots=True)
class Fill:
    """The bounds mode that gives `value` where an index is outside [-s, s-1] on an axis of size s.

    Pass it as `bounds` of `gather`, `gather_nd` and `gather_elements`: `bounds=gn.Fill(-1)`.

    Attributes:
        value: a scalar that data's dtype holds; floats are rounded to it. None stands for JAX's default: NaN (NaT)
            where the dtype has one, else the smallest signed or the largest unsigned integer, or True.
    """

    value: Any = None

    def element(self, dtype: np.dtype) -> np.ndarray:
        """Return the value as a 0-D array of a dtype; raises InvalidGatherError where the dtype does not hold it."""
        if self.value is None:
            return _default(dtype)
        if dtype.kind == "O":
            element = np.empty((), object)
            element[()] = self.value
            return element
        reject_masked(self.value, "the fill value")
        try:
            given: Any = np.asarray(self.value)
        except MemoryError:
            raise
        except Exception:  # lists of different lengths, or whatever another library raises of an array without values
            raise InvalidGatherError(f"a fill value must be a scalar, got {show(self.value)}") from None
        if given.ndim:
            raise InvalidGatherError(f"a fill value must be a scalar, got an array of shape {given.shape}")
        if given.dtype != dtype and given.dtype.kind == "W":  # complex, of ml_dtypes: NumPy knows no real part of it
            given = given.astype(np.complex64)
        element, is_same = given, False
        with np.errstate(all="ignore"), suppress(TypeError, ValueError, OverflowError):
            if _is_of_kind(given.dtype, dtype):
                element = (given.real if given.dtype.kind == "c" and dtype.kind not in "cW" else given).astype(dtype)
                is_same = _holds(element, given)
        if not is_same:
            raise InvalidGatherError(
                f"data of dtype {dtype} cannot hold the fill value {show(self.value)}; give a value of that dtype, or "
                "convert data"
            )
        return element


def _is_inexact(dtype: np.dtype) -> bool:
    """Return whether a dtype holds rounded numbers; floats of ml_dtypes have the kind V or f."""
    if dtype.kind in _INEXACT:
        return True
    return dtype.type.__module__ == "ml_dtypes" and "float" in dtype.type.__name__


def _is_of_kind(given: np.dtype, dtype: np.dtype) -> bool:
    """Return whether values of a dtype may become another: texts to texts, times to times, numbers to numbers."""
    if given.kind in "mM":
        return given.kind == dtype.kind
    return (given.kind in "USOT") == (dtype.kind in "USOT")


def _holds(element: np.ndarray, given: Any) -> bool:
    """Return whether a converted value equals the given one, up to rounding."""
    if given.dtype.kind == "c" and element.dtype.kind not in "cW":
        return not given.imag.any() and _holds(element, given.real)
    if _is_inexact(element.dtype):
        wide, wanted = (part.astype(_INEXACT.get(element.dtype.kind, np.float64)) for part in (element, given))
        return bool(np.isnan(wide) == np.isnan(wanted) and np.isinf(wide) == np.isinf(wanted))
    if {element.dtype.kind, given.dtype.kind} <= set("biu"):  # what wraps around would wrap back
        return int(element) == int(given)
    back = element.astype(given.dtype)
    return bool(back == given) or bool(back != back and given != given)


def _default(dtype: np.dtype) -> np.ndarray:
    """Return JAX's fill value of a dtype."""
    if _is_inexact(dtype):
        element = np.array(np.nan).astype(dtype)
        if np.isnan(element.astype(_INEXACT.get(dtype.kind, np.float64))):
            return element
    if dtype.kind == "b":
        return np.array(True)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array(limits.min if dtype.kind == "i" else limits.max, dtype)
    if dtype.kind in "mM":
        return np.array("NaT", dtype)
    raise InvalidGatherError(f"data of dtype {dtype} has no value that is filled in by default; give fill_value")


def places_outside(operator: OperatorSpec, shape: Shape, indices: np.ndarray) -> np.ndarray:
    """Return a mask of indices, or tuples, that are outside: (shape of indices, without the components of tuples) bool.

    Args:
        operator: its attributes normalised.
        shape: of data.
        indices: of a native integer dtype.
    """
    if not isinstance(operator, GatherNd):
        return _is_outside(indices, shape[operator.axes(indices.shape)[0]])
    places = np.zeros(indices.shape[:-1], bool)
    for component, axis in enumerate(operator.axes(indices.shape)):
        places |= _is_outside(indices[..., component], shape[axis])
    return places


def put(operator: OperatorSpec, result: np.ndarray, places: np.ndarray, element: np.ndarray) -> np.ndarray:
    """Put an element into the slices of a gather's result that belong to these places, and return the result."""
    slices = result
    if isinstance(operator, Gather):
        outer = range(operator.batch_dims, operator.axis)
        slices = np.moveaxis(result, outer, range(result.ndim - len(outer), result.ndim))
    if places.any():
        slices[places] = element
    return result


def _is_outside(indices: np.ndarray, size: int) -> np.ndarray:
    return np.asarray((indices >= size) | (indices < -size))
