"""Count the distinct cache lines of data that a gather reads, from the values of its indices. NumPy alone."""

import math
from collections.abc import Sequence

import numpy as np

from ...ir.canonical import CanonicalGather
from ...ir.loop_name import LoopName
from ...ir.positions import NOWHERE, resolve
from ...ir.semantics import Bounds
from ..runtime.plan import Plan
from .traffic import LINE_BYTES, byte_strides, read_pattern

# More pieces are not counted: sorting so many takes some seconds.
MOST_PIECES = 2**25


def count_lines(plan: Plan, indices: np.ndarray, offset_bytes: int = 0) -> tuple[int, float] | None:
    """Return (lines, adjacent lines at each place that an index leads to); None where there are too many to count.

    Of a gradient, the lines that it adds to are counted. Indices outside point to nothing; data begins `offset_bytes`
    into a line.
    """
    pattern = read_pattern(plan.layout.canonical, plan.layout.width_bytes)
    spread = math.prod(size for size, _ in pattern.spread)
    if indices.size * spread > MOST_PIECES:
        return None
    if not pattern.draws:
        return 0, 1.0
    loops = [dim for dim in plan.layout.canonical.loops() if dim in plan.layout.canonical.indices.dims]
    strides = byte_strides(plan.layout.canonical.data, plan.layout.width_bytes)
    offsets, inside = read_offsets(plan.layout.canonical, strides, indices, plan.problem.bounds, loops)
    places = offsets[inside] + (offset_bytes + pattern.lowest_bytes)
    if not places.size:
        return 0, 1.0
    beside = np.zeros(1, np.int64)
    for size, stride in pattern.spread:
        beside = np.add.outer(beside, np.arange(size) * stride).reshape(-1)
    starts = np.add.outer(np.unique(places), beside) if spread > 1 else places
    return _union(np.sort(starts, axis=None), pattern.piece_bytes), _adjacent_lines(places, pattern.piece_bytes)


def read_offsets(
    gather: CanonicalGather, strides: Sequence[int], indices: np.ndarray, bounds: Bounds, loops: Sequence[LoopName]
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far into data each iteration of some loops reads, in the unit of the strides, and whether it reads.

    Args:
        strides: of the dimensions of data, in any unit.
        indices: of the shape that the gather was made for, in any rank.
        loops: of the nest, in its order, all that have indices among them.
    """
    operand = gather.indices
    trips = gather.loops()
    shaped = np.ascontiguousarray(indices).reshape(operand.shape)
    components = iter(np.moveaxis(shaped, operand.place_of("tuple"), 0) if operand.count_of("tuple") else [shaped])
    offsets, inside = np.zeros((), np.int64), np.ones((), bool)
    for dim, size, stride in zip(gather.data.dims, gather.data.shape, strides, strict=True):
        loop = dim.loop
        if loop.role == "axis":
            steps = resolve(next(components), size, bounds)
            steps = steps.reshape([trips[other] if other in operand.dims else 1 for other in loops])
            inside = inside & (steps != NOWHERE)
        elif loop in loops:
            steps = np.arange(trips[loop]).reshape([trips[loop] if other == loop else 1 for other in loops])
        else:
            continue
        offsets = offsets + steps * stride
    shape = [trips[loop] for loop in loops]
    return np.broadcast_to(offsets, shape), np.broadcast_to(inside, shape)


def _lines_of(places: np.ndarray, piece_bytes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last line of each piece."""
    return places // LINE_BYTES, (places + piece_bytes - 1) // LINE_BYTES


def _union(starts: np.ndarray, piece_bytes: int) -> int:
    """Return how many lines the pieces at ascending places lie in."""
    first, last = _lines_of(starts, piece_bytes)
    first[1:] = np.maximum(first[1:], last[:-1] + 1)
    return int((last - first + 1).sum())


def _adjacent_lines(places: np.ndarray, piece_bytes: int) -> float:
    """Return the mean length of runs of adjacent new lines, in the order of the loops."""
    first, last = _lines_of(places, piece_bytes)
    is_near = (first[1:] >= first[:-1]) & (first[1:] <= last[:-1] + 1)
    begun = int((last - first + 1)[np.concatenate([[True], ~is_near])].sum())
    went_on = int((last[1:] - last[:-1])[is_near].sum())
    return (begun + went_on) / (1 + int((~is_near).sum()))
