"""The positions that indices mean, computed with NumPy: for all code that is not a kernel. Plain Python."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .errors import BoundsError
from .problem import Problem
from .semantics import NO_NEGATIVE_INDICES, Bounds, IndexArithmetic, Shape, resolve_index

# The position of an index that means none.
NOWHERE = -1
# Indices are examined in blocks of this number, so that temporary arrays take some MB at most.
BLOCK = 1 << 16


def resolve(indices: np.ndarray, size: int, bounds: Bounds) -> np.ndarray:
    """Return (shape of indices) int64: the position in [0, size) that each index means, `NOWHERE` where it means none.

    Args:
        indices: any native integer dtype.
        size: of the axis.
        bounds: the rule for an index outside; an index that breaks the promise of `unchecked` means no position.

    Spec: `ir.semantics.resolve_index`.
    """
    if size == 0:
        return np.full(indices.shape, NOWHERE)
    indices = np.array(indices, order="C")  # a copy, as another thread may write to them; never a scalar
    if bounds is not Bounds.WRAP and indices.size and indices.min() >= 0 and indices.max() < size:
        return indices.astype(np.int64, copy=False)  # a quarter of the time
    if indices.dtype.kind == "u":
        wide, arithmetic = indices.astype(np.uint64, copy=False), _UNSIGNED
    else:
        wide, arithmetic = indices.astype(np.int64, copy=False), _SIGNED
    positions, is_valid = resolve_index(wide, size, bounds, arithmetic)
    positions = positions.astype(np.int64, copy=False)
    return positions if is_valid is True else np.where(is_valid, positions, NOWHERE)


def _select(condition: Any, left: Any, right: Any) -> Any:
    return right if condition is False else np.where(condition, left, right)


def _remainder(indices: np.ndarray, size: int) -> np.ndarray:
    return indices % indices.dtype.type(size)


# NumPy compares and computes exactly where the result fits in 64 bits.
_SIGNED = IndexArithmetic(select=_select, remainder=_remainder)
_UNSIGNED = IndexArithmetic(lambda indices, limit: indices < limit if limit else False, _select, _remainder)


def first_where(
    indices: np.ndarray, is_looked_for: Callable[[np.ndarray], np.ndarray], length: int = 1
) -> tuple[Shape, int] | None:
    """Return the first place, in C order, of the indices that are looked for, and their number; None where none are.

    `is_looked_for` is handed vectors of whole tuples of `length`. The indices, of any strides, are copied only
    where their rank is above 32.
    """
    is_copied = indices.ndim > 32  # NumPy's limit for `flat`
    flat = indices.reshape(-1) if indices.flags.c_contiguous or is_copied else indices.flat
    step = length * max(BLOCK // length, 1)
    first, count = -1, 0
    for start in range(0, indices.size, step):
        (found,) = is_looked_for(flat[start : start + step]).nonzero()
        first = start + int(found[0]) if first < 0 and len(found) else first
        count += len(found)
    return (tuple(map(int, np.unravel_index(first, indices.shape))), count) if count else None


def first_outside(indices: np.ndarray, sizes: Sequence[int]) -> tuple[Shape, int] | None:
    """Return the first place of an index outside [-size, size-1], and the number of such indices; None where none are.

    Where there are several sizes, the components of tuples lie along the last dimension of indices.
    """

    def outside(block: np.ndarray) -> np.ndarray:
        components = block.reshape(-1, len(sizes)).T
        found = np.zeros(components.shape, bool)
        for row, part, size in zip(found, components, sizes, strict=True):
            extremes = (int(part.min()), int(part.max()))  # valid indices are an interval
            if not all(resolve_index(index, size, Bounds.ERROR)[1] for index in extremes):
                row[:] = resolve(part, size, Bounds.ERROR) == NOWHERE
        return found.T.reshape(-1)

    return first_where(indices, outside, len(sizes))


def reject_negative(indices: np.ndarray, version: str, origin: Shape = ()) -> None:
    """Check that no index is negative, as an operator version requires; raises BoundsError.

    The message counts from `origin`, where these indices start in the whole.

    Spec: Gather-7, input 2: "values for indices are in the range [0, data[axis] - 1]".
    """
    if indices.dtype.kind == "u" or indices.size == 0 or indices.min() >= 0:
        return
    if (found := first_where(indices, lambda block: block < 0)) is None:
        return
    place, _ = found
    raise BoundsError(
        f"index {int(indices[place])} at position {place_in_whole(place, origin)} of indices is negative, and "
        f"{version} allows none; use openvino.Gather-8, where negative indices count from the end"
    )


def place_in_whole(place: Shape, origin: Shape) -> Shape:
    """Convert a place in a block that starts at `origin` to a place in the whole array; () is the array's start."""
    return tuple(map(sum, zip(place, origin, strict=True))) if origin else place


def bounds_error(problem: Problem, indices: np.ndarray, origin: Shape = ()) -> BoundsError:
    """Return the error that names the first index outside; a block of indices starts at `origin` in the whole."""
    axes, sizes = problem.axes, problem.axis_sizes
    if 0 in sizes:
        return BoundsError(_empty_axis_message(problem))
    if (found := first_outside(indices, sizes)) is None:
        return BoundsError("an index was out of range, but none is now; do not write to indices during a gather")
    place, count = found
    which = place[-1] if len(axes) > 1 else 0
    size, axis = sizes[which], axes[which]
    block = " of its block" if indices.shape != problem.indices.shape else ""
    others = f" ({count} of {indices.size} indices{block} are out of range)" if count > 1 else ""
    least = 0 if problem.version in NO_NEGATIVE_INDICES else -size
    remedy = "" if problem.version else "; use bounds='zero', 'clip' or 'wrap' to allow it"
    shown = place_in_whole(place, origin)
    return BoundsError(
        f"index {int(indices[place])} at position {shown} of indices is out of range [{least}, {size - 1}] "
        f"for axis {axis} of size {size}{others}{remedy}"
    )


def _empty_axis_message(problem: Problem) -> str:
    count, axis = math.prod(problem.indices.shape), problem.axes[problem.axis_sizes.index(0)]
    mode = "" if problem.version else f" with bounds='{problem.bounds}'"
    remedy = "pass no indices" if problem.version else "pass no indices, or bounds='zero' to get zeros"
    return f"axis {axis} of data has size 0, so none of the {count} indices is valid{mode}; {remedy}"
