"""Calls of the probe kernels, over memory of their own. Imports Numba.

The stored peak rates and the reference loops are both made of them: the same work in several ways, of which the fastest
counts.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..host.recycled_memory import empty_in_lines
from ..runtime.array_checks import address
from ..runtime.launch import launch
from . import probe_kernels as loops

LINE_BYTES = loops.LINE_BYTES

# Prefetch distances (far, near) that are tried, in lines. From 16 MB, one core of a Zen 4 reads 480 million lines a
# second with far alone and 425 with both; from 256 MB it is 280 and 312.
DISTANCES_LINES = ((0, 0), (0, 16), (64, 0), (loops.MOST_DISTANCE, 0), (128, 16), (loops.MOST_DISTANCE, 16))

# Lines of a piece, so many of which fit in L1 that are prefetched together.
MOST_FISSIONED_LINES = 16

# A way that takes so many times as long as the best is not tried again.
HOPELESS = 1.5

# Seconds for which one way is called when it is tried, once at least.
TRIED_S = 5e-3

# The range of one call, as `run_loop` takes it: source, target, first and last.
Window = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class LoopCall:
    """Runs a loop on the next of some windows each time that it is called.

    Attributes:
        loop: which, as `run_loop` takes it.
        windows: where; they may be shared with other ways to do the same.
        memory: the arrays that the windows lie in, and 64 bytes for each share at the end.
        shares: how many equal parts the work has, one a thread.
        repeats: how often a call does it.
        lines, far, near: lines a piece, and the prefetch distances in pieces.
        blocks_read: of a copy, the different blocks that it reads for `ALL_BLOCKS` that it writes.
        in_parallel: whether several threads share the work, where there are several.
    """

    loop: int
    windows: Iterator[Window]
    memory: tuple[np.ndarray, ...]
    shares: int
    repeats: int = 1
    lines: int = 1
    far: int = 0
    near: int = 0
    blocks_read: int = loops.ALL_BLOCKS
    in_parallel: bool = True

    def __call__(self) -> None:
        numbers = address(self.memory[-1]), self.shares, self.repeats, self.lines, self.far, self.near, self.blocks_read
        launch(loops.run_loop, (self.loop, *next(self.windows), *numbers), self.in_parallel)


class Ways:
    """Ways to do the same work while they are tried; the fastest counts."""

    def __init__(self, ways: Mapping[str, LoopCall], sure_passes: int = 2):
        """Begin without any times; ways that look hopeless are tried as often as `sure_passes` all the same."""
        self.ways = ways
        self._best_s = dict.fromkeys(ways, float("inf"))
        self._sure, self._passes = sure_passes, 0

    @property
    def best(self) -> str:
        """The name of the fastest way so far."""
        return min(self._best_s, key=self._best_s.__getitem__)

    @property
    def best_s(self) -> float:
        """Seconds that it took to do the work once."""
        return self._best_s[self.best]

    def improve(self, tried_s: float = TRIED_S) -> float:
        """Time every way that has a chance; return how many times as fast as before the best is now."""
        before = self.best_s
        for name, way in self.ways.items():
            if self._passes < self._sure or self._best_s[name] < HOPELESS * before:
                self._best_s[name] = min(self._best_s[name], _fastest_s(way, tried_s) / way.repeats)
        self._passes += 1
        return before / self.best_s


def _fastest_s(call: LoopCall, tried_s: float) -> float:
    """Return the seconds of the fastest of some calls, after one that is not timed."""
    call()
    times_s: list[float] = []
    while not times_s or sum(times_s) < tried_s:
        start = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - start)
    return min(times_s)


def copy_ways(
    windows: Iterator[Window],
    memory: Sequence[np.ndarray],
    shares: int,
    repeats: int = 1,
    blocks_read: int = loops.ALL_BLOCKS,
) -> dict[str, LoopCall]:
    """Return the ways to copy: with non-temporal stores, which read no line that they write, and with cached stores.

    The windows are addresses that are multiples of 64 in the arrays of `memory`, and offsets in bytes.
    """
    memory = (*memory, aligned(LINE_BYTES))
    return {
        name: LoopCall(loop, windows, memory, shares, repeats, blocks_read=blocks_read)
        for name, loop in (("non-temporal stores", loops.STREAM_COPY), ("cached stores", loops.CACHED_COPY))
    }


def read_ways(
    windows: Iterator[Window], memory: Sequence[np.ndarray], shares: int, piece_lines: int
) -> dict[str, LoopCall]:
    """Return the ways to read pieces of a table at random places: with several prefetch distances.

    Those of some lines are prefetched in front of the reads of several pieces, too: between reads prefetches may be
    dropped.

    The windows are addresses of a table and of the numbers of its pieces, in `memory`, and positions among these.
    """
    memory = (*memory, aligned(shares * LINE_BYTES))
    distances = sorted({(-(-far // piece_lines), -(-near // piece_lines)) for far, near in DISTANCES_LINES})
    ways = {
        _distance_text(far * piece_lines, near * piece_lines): LoopCall(
            loops.READ_LINES, windows, memory, shares, lines=piece_lines, far=far, near=near
        )
        for far, near in distances
    }
    if 1 < piece_lines <= MOST_FISSIONED_LINES:
        ways |= {
            f"{text}, {loops.FISSIONED} places at a time": replace(way, loop=loops.READ_FISSIONED)
            for text, way in ways.items()
            if way.far and not way.near
        }
    return ways


def _distance_text(far_lines: int, near_lines: int) -> str:
    if not far_lines and not near_lines:
        return "without prefetching"
    if far_lines and near_lines:
        return f"prefetching {far_lines} and {near_lines} lines ahead"
    cache = "second" if far_lines else "first"
    return f"prefetching {far_lines or near_lines} lines ahead into the {cache} cache"


def random_places(pieces: int, least: int = 1) -> np.ndarray:
    """Return the numbers of a table's pieces in a random order, seeded and repeated until there are `least`.

    `MOST_DISTANCE` more follow at the end, as the loops need them: int32 of shape (pieces or more,).
    """
    order = np.random.default_rng(pieces).permutation(np.arange(pieces, dtype=np.int32))
    return np.resize(order, max(pieces, least) + loops.MOST_DISTANCE)


def aligned(size_bytes: int) -> np.ndarray:
    """Return memory that begins with a line: uint8 of shape (size_bytes,)."""
    return empty_in_lines((size_bytes,), np.dtype(np.uint8))


def touch(memory: np.ndarray, shares: int, parts: int = 1) -> None:
    """Fill whole blocks of some memory with `FILL`, each part by the threads that will use it: so it lies near them.

    Nothing is read before: where a page of zeros has been read, Linux makes small pages of a huge one.
    """
    size = len(memory) // parts // loops.BLOCK_BYTES * loops.BLOCK_BYTES
    for first in range(0, parts * size, size or 1):
        window = 0, address(memory), first, first + size
        launch(loops.run_loop, (loops.TOUCH, *window, 0, shares, 1, 1, 0, 0, 0), True)
    memory[parts * size :] = 0
