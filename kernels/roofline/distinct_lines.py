"""Count the lines of 64 bytes that a gather reads of data, from the values of its indices. NumPy alone."""

import math
from collections.abc import Sequence

import numpy as np

from ...ir.semantics import Bounds
from ...lowering.schedule.traffic import LINE_BYTES, ReadPattern, read_pattern
from ..runtime.plan import Plan

MOST_PIECES = 2**25
"""More pieces are not counted: sorting so many takes some seconds."""


def count_lines(plan: Plan, indices: np.ndarray, offset_bytes: int = 0) -> tuple[int, float] | None:
    """Return (lines, adjacent lines at each place that an index leads to); None where there are too many to count.

    Args:
        plan: the gather; of a gradient, the lines that it adds to are counted.
        indices: of the shape that the plan was made for; those outside point to nothing.
        offset_bytes: where data begins in a line.
    """
    pattern = read_pattern(plan.canonical, plan.width_bytes)
    spread = math.prod(size for size, _ in pattern.spread)
    if indices.size * spread > MOST_PIECES:
        return None
    if not pattern.draws:
        return 0, 1.0
    places = _places(plan, pattern, indices) + (offset_bytes + pattern.lowest_bytes)
    if not places.size:
        return 0, 1.0
    beside = np.zeros(1, np.int64)
    for size, stride in pattern.spread:
        beside = np.add.outer(beside, np.arange(size) * stride).reshape(-1)
    ordered = np.sort(places)
    if spread > 1:
        different = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
        ordered = np.sort(np.add.outer(different, beside), axis=None)
    return _union(ordered, pattern.piece_bytes), _adjacent_lines(places, pattern.piece_bytes)


def index_offsets(
    plan: Plan, axes: Sequence[tuple[int, int]], indices: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return how far each index leads along its axes, whether it is valid, and the dimensions of both arrays.

    Args:
        plan: the gather.
        axes: (size, byte stride) of the dimensions of data that are indexed.
        indices: of the shape that the plan was made for.
    """
    operand = plan.canonical.indices
    shaped = np.ascontiguousarray(indices).reshape(operand.shape)
    tuple_at = operand.place_of("tuple") if operand.count_of("tuple") else None
    components = [shaped] if tuple_at is None else list(np.moveaxis(shaped, tuple_at, 0))
    offsets = np.zeros((), np.int64)
    inside = np.ones((), bool)
    for values, (size, stride) in zip(components, axes, strict=True):
        position, valid = _resolved(values, size, plan.problem.bounds)
        offsets, inside = offsets + position * stride, inside & valid
    dims = [dim for dim in operand.dims if dim.partition("_")[0] != "tuple"]
    return offsets, np.broadcast_to(inside, offsets.shape), dims


def _places(plan: Plan, pattern: ReadPattern, indices: np.ndarray) -> np.ndarray:
    """Return the byte offsets of the first element that each valid index leads to, in the order of the loops."""
    offsets, inside, dims = index_offsets(plan, pattern.axes, indices)
    for name, size, stride in pattern.own:
        along = [1] * len(dims)
        along[dims.index(name)] = size
        offsets = offsets + (np.arange(size) * stride).reshape(along)
    return offsets[inside]


def _resolved(values: np.ndarray, size: int, bounds: Bounds) -> tuple[np.ndarray, np.ndarray | bool]:
    """Return the positions on an axis that indices mean, and which of them there are."""
    if size == 0:
        return np.zeros(values.shape, np.int64), np.zeros(values.shape, bool)
    is_large = values.dtype == np.uint64
    if bounds is Bounds.WRAP:
        wrapped = values % np.uint64(size) if is_large else values.astype(np.int64) % size
        return wrapped.astype(np.int64), True
    numbers = (np.minimum(values, np.uint64(2**63 - 1)) if is_large else values).astype(np.int64)
    if bounds is Bounds.CLIP:
        return np.clip(numbers, 0, size - 1), True
    positions = np.where(numbers < 0, numbers + size, numbers)
    return positions, (positions >= 0) & (positions < size)


def _lines_of(places: np.ndarray, piece_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last line of each piece."""
    return places // LINE_BYTES, (places + piece_bytes - 1) // LINE_BYTES


def _union(starts: np.ndarray, piece_bytes: int) -> int:
    """Return how many lines the pieces at ascending places lie in."""
    first, last = _lines_of(starts, piece_bytes)
    first[1:] = np.maximum(first[1:], last[:-1] + 1)
    return int((last - first + 1).sum())


def _adjacent_lines(places: np.ndarray, piece_bytes: int) -> float:
    """Return how many new lines are read, in the order of the loops, until one follows that is not the next."""
    first, last = _lines_of(places, piece_bytes)
    is_near = (first[1:] >= first[:-1]) & (first[1:] <= last[:-1] + 1)
    begun = int((last - first + 1)[np.concatenate([[True], ~is_near])].sum())
    went_on = int((last[1:] - last[:-1])[is_near].sum())
    return (begun + went_on) / (1 + int((~is_near).sum()))
