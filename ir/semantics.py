"""The rules of a gather as plain functions of shapes: attributes in, normalised attributes and shapes out.

The verifier, the passes, the run time and the interpreter all use these rules.
Shapes are tuples of ints; `DYNAMIC` stands for a size that is not known, and matches every size.
"""

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from .array_spec import MAX_DIMS
from .errors import InvalidGatherError, did_you_mean, show
from .numbers import MAX_INT64, MIN_INT64

DYNAMIC = -(2**63)  # MLIR's own marker
# The largest axis whose positions fit in 32 bits.
LARGEST_NARROW_AXIS = 2**31 - 1
# Operator versions whose documents allow no negative index.
NO_NEGATIVE_INDICES = {"openvino.Gather-1", "openvino.Gather-7"}
Shape = tuple[int, ...]


class Bounds(StrEnum):
    """The rules for an index outside the indexed axis, for an axis of size s.

    ERROR      valid in [-s, s-1], negatives wrap once; anything else raises BoundsError. ONNX, OpenVINO Gather-7.
    ZERO       valid as for ERROR; anything else gives a slice of zeros. OpenVINO Gather-8.
    CLIP       every index is valid: clamp(i, 0, s-1), negatives do not wrap. NumPy `mode="clip"`, StableHLO.
    WRAP       every index is valid: i mod s, floored. NumPy `mode="wrap"`.
    UNCHECKED  the caller promises 0 <= i < s; anything else is undefined.
    """

    ERROR = "error"
    ZERO = "zero"
    CLIP = "clip"
    WRAP = "wrap"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class IndexArithmetic:
    """The arithmetic that `resolve_index` needs: of numbers, of arrays, or of the terms of a prover.

    Attributes:
        less: whether one index is less than another.
        select: the second value where the first is true, else the third.
        remainder: the floored remainder of an index by a size.
    """

    less: Callable[[Any, Any], Any] = operator.lt
    select: Callable[[Any, Any, Any], Any] = lambda condition, left, right: left if condition else right
    remainder: Callable[[Any, Any], Any] = operator.mod


NUMBERS = IndexArithmetic()


def resolve_index(index: Any, size: Any, bounds: Bounds, arithmetic: IndexArithmetic = NUMBERS) -> tuple[Any, Any]:
    """Return the position that an index means on an axis, and whether it is valid: the definition of the modes.

    Args:
        index: exact; an unsigned index is never less than 0.
        size: of the axis, at least 1: on an empty axis no index is valid.
        bounds: the rule for an index outside.
        arithmetic: how indices are compared and selected; Python's arithmetic if omitted.

    Returns:
        The position, in [0, size) where it is valid, and of no meaning where it is not.

    Spec: Gather-8 "Allowed values for indices"; ONNX Gather "indices"; NumPy `take` for clip and wrap.
    """
    less, select = arithmetic.less, arithmetic.select
    if bounds is Bounds.WRAP:
        return arithmetic.remainder(index, size), True
    is_negative = less(index, 0)
    if bounds is Bounds.CLIP:
        raised = select(is_negative, 0, index)
        return select(less(raised, size), raised, size - 1), True
    if bounds is Bounds.UNCHECKED:
        return index, select(is_negative, False, less(index, size))
    position = select(is_negative, index + size, index)
    return position, select(less(position, 0), False, less(position, size))


# The argument `bounds` of public functions has this type.
BoundsMode = Bounds | Literal["error", "zero", "clip", "wrap", "unchecked"]
_MODES = {mode.value: mode for mode in Bounds}


def parse_bounds(bounds: BoundsMode) -> Bounds:
    """Return the bounds mode of that name; raises InvalidGatherError, which suggests the closest one."""
    try:
        return _MODES[bounds]
    except (KeyError, TypeError, ValueError):  # NumPy cannot hash a timedelta without a unit, by a ValueError
        names = [mode.value for mode in Bounds]
        hint = did_you_mean(show(bounds), names)
        if isinstance(bounds, str) and bounds.lower() == "fill":
            hint = "; a gather takes gathernest.Fill(value), too"
        raise InvalidGatherError(
            f"bounds {show(bounds)} is not a bounds mode; use one of {', '.join(names)}{hint}"
        ) from None


def integer_argument(value: Any, name: str, *, allow_array: bool = False, least: int = MIN_INT64) -> int:
    """Return `value` as an int; raises InvalidGatherError, which names the argument, where it is no int >= `least`.

    With `allow_array` it may be a 0-D array or an array of one element, as OpenVINO's third input.
    """
    if type(value) is int and least <= value <= MAX_INT64:
        return value
    wanted = "an int, a 0-D array or an array of one element" if allow_array else "an int"
    candidate: Any = value
    number = None
    with suppress(Exception):  # of whatever library it is
        if allow_array and isinstance(value, list | tuple) and len(value) == 1:
            candidate = value[0]
        elif allow_array and getattr(candidate, "ndim", 0) == 1 and getattr(candidate, "size", 0) == 1:
            candidate = candidate.reshape(())[()]
        is_bool = isinstance(candidate, bool) or getattr(getattr(candidate, "dtype", None), "kind", "") == "b"
        number = None if is_bool else operator.index(candidate)
    if number is not None:
        if least <= number <= MAX_INT64:
            return number
        wanted += ", of at most 64 bits"
    if least != MIN_INT64:
        wanted = f"a whole number from {least}"
    raise InvalidGatherError(f"{name} must be {wanted}, got {_describe(value)}")


def flag_argument(value: Any, name: str) -> bool:
    """Return `value` as a bool; raises InvalidGatherError, which names the argument, where it is none."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InvalidGatherError(f"{name} must be True or False, got {_describe(value)}")


def _describe(value: Any) -> str:
    with suppress(Exception):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return show(value)


def normalize_axis(axis: int, rank: int) -> int:
    """Return `axis` in [0, rank).

    Raises:
        InvalidGatherError: data has rank 0, or axis is outside [-rank, rank-1].

    Spec: Gather-7/8 input 3; ONNX Gather attribute `axis`.
    """
    if rank == 0:
        raise InvalidGatherError("data has rank 0 and no axis to gather from; give data at least one dimension")
    if not -rank <= axis < rank:
        raise InvalidGatherError(f"axis {axis} is out of range [{-rank}, {rank - 1}] for data of rank {rank}")
    return axis + rank if axis < 0 else axis


def normalize_batch_dims(batch_dims: int, data_rank: int, indices_rank: int, axis: int) -> int:
    """Return `batch_dims` in [0, min(data_rank, indices_rank)], for a normalised `axis`.

    A negative value counts from the rank of *indices*.

    Raises:
        InvalidGatherError: batch_dims is outside its range, or larger than axis.

    Spec: Gather-7/8 attribute `batch_dims`; its printed lower bound -min(data.rank, indices.rank) contradicts its own
    rule `batch_dims = indices.rank + batch_dims`, so the bound here is -indices_rank.
    """
    upper = min(data_rank, indices_rank)
    if not -indices_rank <= batch_dims <= upper:
        raise InvalidGatherError(
            f"batch_dims {batch_dims} is out of range [{-indices_rank}, {upper}] "
            f"for data of rank {data_rank} and indices of rank {indices_rank}"
        )
    normal = batch_dims + indices_rank if batch_dims < 0 else batch_dims
    if normal > axis:
        given = f"{batch_dims} (that is {normal})" if batch_dims < 0 else f"{batch_dims}"
        raise InvalidGatherError(
            f"batch_dims {given} must not be larger than axis {axis}; lower batch_dims or gather from a later axis"
        )
    return normal


def check_batch_sizes(data_shape: Shape, indices_shape: Shape, batch_dims: int) -> None:
    """Check that the leading `batch_dims` sizes of data and indices agree; raises InvalidGatherError."""
    for dim in range(batch_dims):
        data_size, indices_size = data_shape[dim], indices_shape[dim]
        if DYNAMIC not in (data_size, indices_size) and data_size != indices_size:
            raise InvalidGatherError(
                f"the first {batch_dims} sizes of data and indices must be equal for batch_dims {batch_dims}, "
                f"got data {show_shape(data_shape)} and indices {show_shape(indices_shape)}: "
                f"they differ in dimension {dim}"
            )


def check_gather_reduce(data_shape: Shape, indices_shape: Shape) -> None:
    """Check the ranks of a gather_reduce: data has rows, and indices a last dimension, the bags.

    Raises:
        InvalidGatherError: a rank is 0, or the ranks are too many for an array of a place and its row.
    """
    if len(data_shape) + len(indices_shape) > MAX_DIMS:
        raise InvalidGatherError(
            f"gather_reduce needs data and indices of at most {MAX_DIMS} dimensions together, got ranks "
            f"{len(data_shape)} and {len(indices_shape)}; reshape one of them"
        )
    if not data_shape or not indices_shape:
        raise InvalidGatherError(
            "gather_reduce needs data of rank 1 or more and indices of rank 1 or more, whose last dimension is a bag, "
            f"got ranks {len(data_shape)} and {len(indices_shape)}"
        )


def reaches_past(largest_index: int, axis_size: int | None) -> bool:
    """Return whether an index type whose largest value is given can be past the end of an axis.

    An axis of unknown size (None) can be short. When it cannot, no value of a signed type is below the start either.
    """
    return axis_size is None or largest_index >= axis_size


def shapes_agree(left: Sequence[int], right: Sequence[int]) -> bool:
    """Return whether two shapes can be equal; a dynamic size agrees with every size."""
    if left == right:
        return True
    return len(left) == len(right) and all(a == b or DYNAMIC in (a, b) for a, b in zip(left, right, strict=True))


def show_shape(shape: Shape) -> str:
    """Return a shape as text, with ? for a size that only a run knows."""
    sizes = ", ".join("?" if size == DYNAMIC else str(size) for size in shape)
    return f"({sizes}{',' * (len(shape) == 1)})"
