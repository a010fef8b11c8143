"""`take` and `take_along_axis`: gathers by the names, defaults and rules of NumPy and JAX."""

import re
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import BoundsError, GathernestError, InvalidGatherError, did_you_mean, show
from ..ir.positions import first_where
from ..ir.problem import check_addresses
from ..ir.semantics import BoundsMode, integer_argument, normalize_axis
from .argument_names import reject_others, shown_without_elsewhere
from .fill import Fill
from .gather import gather, gather_elements
from .runtime.array_checks import data_array, index_array, table_array

Mode = Literal["raise", "wrap", "clip", "fill"]
NegativeIndices = Literal["wrap", "outside"]

_BOUNDS: dict[str, BoundsMode] = {"raise": "error", "wrap": "wrap", "clip": "clip"}
_MODES = (*_BOUNDS, "fill")
# The mode here for each `bounds` of `gather`.
_MODES_OF_BOUNDS = {"error": "raise", "zero": "fill", "unchecked": "raise", "drop": "fill"}
# Words in messages about arguments of `gather`, and the words for the arguments of these functions.
_OWN_WORDS = {
    r"bounds='zero', 'clip' or 'wrap'": "mode='clip', 'wrap' or 'fill'",
    r"bounds='zero' to get zeros": "mode='fill' to get a value",
    r"bounds='error'": "mode='raise'",
    r"bounds='(clip|wrap)'": r"mode='\1'",
}


def _name_own_arguments(error: GathernestError, name: str) -> None:
    """Change the words of an error of `gather` to these functions' own: `mode=`, and `name` in the place of data."""
    text = re.sub(r"(?<!\.)\bdata\b", name, str(error))
    for pattern, words in _OWN_WORDS.items():
        text = re.sub(pattern, words, text)
    error.args = (text,)


@shown_without_elsewhere
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: Any = None,
    out: np.ndarray | None = None,
    mode: Mode = "raise",
    *,
    fill_value: Any = None,
    negative_indices: NegativeIndices | None = None,
    **others: Any,
) -> np.ndarray:
    """Take elements or slices of an array along an axis, as `numpy.take` and `jax.numpy.take` do.

    Args:
        a: an array of any dtype; as data of `gather`.
        indices: any shape, any integer dtype. Booleans are rejected, which NumPy takes for 0 and 1.
        axis: in [-rank(a), rank(a)-1]; None takes from `a` as one dimension in C order.
        out: where to put the result: its shape and a's dtype; see `gather`.
        mode: the rule for an index outside [-s, s-1] on an axis of size s. "raise" is an error; "clip" is the nearest
            of [0, s-1], and negatives are 0; "wrap" is modulo s; "fill" gives `fill_value`, as JAX does by default.
        fill_value: for mode "fill": a scalar that a's dtype holds. None stands for JAX's default: NaN (NaT) where the
            dtype has one, else the smallest signed or the largest unsigned integer, or True.
        negative_indices: "wrap" counts them from the end under every mode but "wrap", as `jax.numpy.take_along_axis`
            does for "clip", too; "outside" makes them indices out of range, as in TensorFlow and torch. None leaves it
            to the mode, as above.

    Returns:
        `out`, or a new C-contiguous array of shape `a.shape[:axis] + indices.shape + a.shape[axis+1:]`, of rank 0 where
        NumPy gives a scalar.

    Raises:
        BoundsError: an index is not valid under "raise"; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: an argument does not fit the others.

    Spec: NumPy `take`; JAX `jax.numpy.take` for "fill".
    """
    try:
        bounds = _bounds(take, mode, fill_value, others)
        array = table_array(a)
        if axis is None:
            array, axis = _flat(array), 0
        axis = integer_argument(axis, "axis")
        if array.ndim == 0 and axis in (0, -1):
            array = array.reshape(1)
        if negative_indices is None:
            return gather(array, indices, axis, bounds=bounds, out=out)
        size = array.shape[normalize_axis(axis, array.ndim)]
        return gather(array, _positions(indices, size, mode, negative_indices), axis, bounds=bounds, out=out)
    except GathernestError as error:
        _name_own_arguments(error, "a")
        raise


@shown_without_elsewhere
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: Any = -1,
    mode: Mode = "raise",
    fill_value: Any = None,
    *,
    out: np.ndarray | None = None,
    negative_indices: NegativeIndices | None = None,
    **others: Any,
) -> np.ndarray:
    """Take elements of an array, each by an index of its own along an axis, as `numpy.take_along_axis` does.

    Args:
        arr: an array of any dtype; as data of `gather_elements`.
        indices: of arr's rank, any integer dtype. Off the axis, its sizes and arr's broadcast against each other.
        axis: in [-rank(arr), rank(arr)-1]; None takes from `arr` as one dimension, by indices of one dimension.
        mode, fill_value, out, negative_indices: as for `take`.

    Returns:
        `out`, or a new C-contiguous array of the broadcast shape, with the size of indices on the axis.

    Raises:
        BoundsError: an index is not valid under "raise"; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: shapes that do not broadcast, or an argument that does not fit the others.

    Spec: NumPy `take_along_axis`; JAX `jax.numpy.take_along_axis` for "fill".
    """
    try:
        bounds = _bounds(take_along_axis, mode, fill_value, others)
        array, index_values = table_array(arr), index_array(indices)
        if axis is None:
            if index_values.ndim != 1:
                raise InvalidGatherError(
                    f"indices must have one dimension where axis is None, got shape {index_values.shape}; give an axis"
                )
            array, axis = _flat(array), 0
        axis = normalize_axis(integer_argument(axis, "axis"), array.ndim)
        array, index_values = _broadcast(array, index_values, axis)
        if negative_indices is not None:
            index_values = _positions(index_values, array.shape[axis], mode, negative_indices)
        return gather_elements(array, index_values, axis, bounds=bounds, out=out)
    except GathernestError as error:
        _name_own_arguments(error, "arr")
        raise


def _bounds(function: Callable[..., object], mode: Any, fill_value: Any, others: dict[str, Any]) -> BoundsMode | Fill:
    """Return the bounds mode of a mode; raises InvalidGatherError for an unknown mode or argument."""
    reject_others(function, others)
    if isinstance(mode, str) and mode == "fill":
        return Fill(fill_value)
    if fill_value is not None:
        raise InvalidGatherError(f"fill_value is for mode 'fill', got mode {show(mode)}; pass mode='fill'")
    bounds = _BOUNDS.get(mode) if isinstance(mode, str) else None
    if bounds is None:
        here = _MODES_OF_BOUNDS.get(mode) if isinstance(mode, str) else None
        meant = f"; did you mean '{here}'?" if here else did_you_mean(mode, _MODES)
        raise InvalidGatherError(
            f"mode {show(mode)} is not a mode of {function.__name__}; use one of {', '.join(_MODES)}{meant}"
        )
    return bounds


def _flat(array: np.ndarray) -> np.ndarray:
    """Return an array as one dimension in C order; a stored array with more dimensions is read."""
    return array if array.ndim == 1 else data_array(array).reshape(-1)


def _broadcast(array: np.ndarray, indices: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both arrays with their sizes off the axis broadcast against each other, as views."""
    if array.ndim != indices.ndim:
        raise InvalidGatherError(
            f"indices must have the rank of arr, which is {array.ndim}, got {indices.ndim}; add dimensions of size 1"
        )
    if array.shape[:axis] == indices.shape[:axis] and array.shape[axis + 1 :] == indices.shape[axis + 1 :]:
        return array, indices
    sizes = list(zip(array.shape, indices.shape, strict=True))
    for dim, (left, right) in enumerate(sizes):
        if dim != axis and left != right and 1 not in (left, right):
            raise InvalidGatherError(
                f"the shapes of arr {array.shape} and indices {indices.shape} must be equal, or 1, off axis {axis}; "
                f"they differ in dimension {dim}"
            )
    shape = [right if left == 1 else left for left, right in sizes]
    for name, given in (("arr", array), ("indices", indices)):
        shape[axis] = given.shape[axis]
        check_addresses(f"{name}, broadcast,", tuple(shape), given.dtype)
    shape[axis] = array.shape[axis]
    array = np.broadcast_to(data_array(array), shape)
    shape[axis] = indices.shape[axis]
    return array, np.broadcast_to(indices, shape)


def _positions(indices: ArrayLike, size: int, mode: str, negative_indices: str) -> np.ndarray:
    """Return indices whose negative values, under the gather's own rules, mean what `negative_indices` says."""
    if not isinstance(negative_indices, str) or negative_indices not in ("wrap", "outside"):
        raise InvalidGatherError(
            f"negative_indices must be 'wrap' (from the end), 'outside' (out of range) or None (as the mode has it), "
            f"got {show(negative_indices)}"
        )
    array = index_array(indices)
    if array.dtype.kind == "u" or mode == "wrap" or (negative_indices == "wrap") == (mode != "clip"):
        return array
    if negative_indices == "wrap":
        wide = array.astype(np.int64)
        return np.where(wide < 0, wide + size, wide)
    if mode == "raise":
        _reject_negative(array)
        return array
    if size > np.iinfo(array.dtype).max + 1:  # else each is past the end when it is read as unsigned
        array = array.astype(np.int64)
    return array.view(f"u{array.dtype.itemsize}")


def _reject_negative(indices: np.ndarray) -> None:
    found = first_where(indices, lambda block: block < 0)
    if found is not None:
        place, count = found
        raise BoundsError(
            f"index {int(indices[place])} at position {place} of indices is negative, and negative_indices='outside' "
            f"makes it one out of range; in all, {count} of {indices.size} indices are negative"
        )
