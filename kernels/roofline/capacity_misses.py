"""Count the cache lines of a gather in the order of its indices, capacity misses included. NumPy alone.

Where the working set between two uses of a line exceeds the core's caches, the line is loaded once more: a capacity
miss. Their number depends on the order of the reads and on the replacement policy. This module computes a lower bound
for every policy, Belady's included: a stretch of reads with D distinct lines costs a cache of C lines D - C loads at
least, and stretches that do not overlap add up.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.loop_name import LoopName
from ...ir.problem import Problem
from ..host.cpu import own_cache_bytes
from ..runtime.array_checks import address
from ..runtime.plan import Plan, make_plan
from .distinct_lines import read_offsets
from .traffic import LINE_BYTES, Traffic, byte_strides

# More reads are not counted: sorting so many takes some seconds.
MOST_LINES = 2**24

# Reads of the shortest stretches, in cache sizes; neighbours are merged where that gives a better bound.
STRETCHES = (2, 3)


@dataclass(frozen=True, slots=True)
class LinesInOrder:
    """The lines that the cores load into their own caches in the order of the indices, at least.

    Attributes:
        lines: lines of data, capacity misses included.
        piece_lines: how many lines follow each other on average; 1 or more.
    """

    lines: float
    piece_lines: float


def lines_in_order(
    problem: Problem,
    indices: np.ndarray,
    traffic: Traffic,
    *,
    table_bytes: int,
    threads: int,
    data: np.ndarray | None = None,
) -> LinesInOrder | None:
    """Return a lower bound of the lines that the cores load in the order of the indices.

    The order is that of the loops of the nest before its schedule: batch, outer, indices, inner. Each thread has a
    contiguous share of it, and a core whose caches hold `own_cache_bytes(table_bytes)` of data and nothing else. The
    bound is the number of distinct lines where there are no capacity misses. It is None for a gradient, where the
    lines were not counted, and for more than `MOST_LINES`.
    """
    if problem.gradient is not None or not traffic.is_counted:
        return None
    cache_lines = own_cache_bytes(table_bytes) // LINE_BYTES
    if not cache_lines:
        return LinesInOrder(traffic.lines, traffic.piece_lines)
    reads = read_lines(make_plan(problem), indices, threads, 0 if data is None else address(data) % LINE_BYTES)
    if reads is None:
        return None
    fetched = sum(least_fetches(share, cache_lines) for share in reads)
    return LinesInOrder(max(traffic.lines, fetched), _adjacent(reads))


def read_lines(plan: Plan, indices: np.ndarray, threads: int, offset_bytes: int = 0) -> list[np.ndarray] | None:
    """Return the lines that each thread reads, by their numbers, in the order of the loops; None of too many.

    Indices outside read nothing; data begins `offset_bytes` into a line.
    """
    dims, piece_bytes = _pieces(plan)
    trips = plan.layout.canonical.loops()
    count = math.prod(trips[dim] for dim in dims)
    if count * (1 + (piece_bytes - 1) // LINE_BYTES) > MOST_LINES:
        return None
    strides = byte_strides(plan.layout.canonical.data, plan.layout.width_bytes)
    offsets, inside = read_offsets(plan.layout.canonical, strides, indices, plan.problem.bounds, dims)
    places, valid = offsets.reshape(-1) + offset_bytes, inside.reshape(-1)
    ends = [count * number // threads for number in range(threads + 1)]
    shares = [places[start:stop][valid[start:stop]] for start, stop in itertools.pairwise(ends)]
    return [_lines_of(share, piece_bytes) for share in shares]


def least_fetches(lines: np.ndarray, cache_lines: int) -> int:
    """Return how many lines a cache with room for `cache_lines`, 1 or more, must load at least.

    That is for any content before and any replacement policy. `lines` are the numbers of those that are read, in their
    order: int64 of shape (reads,).
    """
    if len(lines) <= cache_lines:
        return 0
    lines = _changes(lines)
    uses = _uses(lines)
    return max(_fetched(*uses, stretch * cache_lines, len(lines), cache_lines) for stretch in STRETCHES)


def _changes(lines: np.ndarray) -> np.ndarray:
    """Return the reads of another line than the one before."""
    return lines[np.concatenate([np.ones(min(len(lines), 1), bool), lines[1:] != lines[:-1]])]


def _adjacent(reads: Sequence[np.ndarray]) -> float:
    """Return the mean length of runs of adjacent lines."""
    changes = [_changes(share) for share in reads if len(share)]
    places = sum(1 + int((np.diff(share) != 1).sum()) for share in changes)
    return sum(map(len, changes)) / places if places else 1.0


def _uses(lines: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the times of first reads; and of later reads, the time of the previous read and their own."""
    bits = len(lines).bit_length()
    keys = ((lines - lines.min()) << bits) + np.arange(len(lines))
    keys.sort()
    times, numbers = keys & ((1 << bits) - 1), keys >> bits
    again = numbers[1:] == numbers[:-1]
    return times[np.concatenate([[True], ~again])], times[:-1][again], times[1:][again]


def _fetched(first: np.ndarray, before: np.ndarray, now: np.ndarray, length: int, reads: int, cache_lines: int) -> int:
    """Return the largest sum over stretches of some length, or of that times a power of two, each where it is best."""
    first, before, now = first // length, before // length, now // length
    fetched = np.zeros(-(-reads // length), np.int64)
    while True:
        is_new = before != now
        before, now = before[is_new], now[is_new]
        different = np.bincount(first, minlength=len(fetched)) + np.bincount(now, minlength=len(fetched))
        fetched = np.maximum(fetched, different - cache_lines)
        if len(fetched) == 1:
            return int(fetched[0])
        fetched = np.add.reduceat(fetched, np.arange(0, len(fetched), 2))
        first, before, now = first >> 1, before >> 1, now >> 1


def _pieces(plan: Plan) -> tuple[list[LoopName], int]:
    """Return the loops that lead from piece to piece of data, and the bytes that are read in order at each."""
    data, trips = plan.layout.canonical.data, plan.layout.canonical.loops()
    loops = [dim.loop for dim in data.dims]
    strides = dict(zip(loops, byte_strides(data, plan.layout.width_bytes), strict=True))
    dims, piece_bytes = list(trips), plan.layout.width_bytes
    while dims and dims[-1] not in plan.layout.canonical.indices.dims:
        size, stride = trips[dims[-1]], strides[dims[-1]]
        if size == 0 or (size > 1 and stride and not 0 <= stride - piece_bytes < LINE_BYTES):
            break
        piece_bytes += (size - 1) * stride
        dims.pop()
    return dims, piece_bytes


def _lines_of(places: np.ndarray, piece_bytes: int) -> np.ndarray:
    """Return the lines of pieces at some places, those of one piece in ascending order."""
    first = places // LINE_BYTES
    counts = (places + (piece_bytes - 1)) // LINE_BYTES - first + 1
    if piece_bytes == 1 or not len(places) or counts.max() == 1:
        return first
    before = np.cumsum(counts) - counts
    return np.repeat(first - before, counts) + np.arange(counts.sum())
