"""Measure the ceilings of this machine: passes over two loops at several sizes. Imports Numba.

Whatever else runs can only make a loop slower, so a rate is the best of all passes. A pass takes every size in turn, so
that a busy second costs one pass of each, not all of one; passes go on until one improves nothing.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import ceiling_kernels as loops
from .ceilings import Ceilings, CopyRate, LineRate, Progress
from .machine import free_memory_bytes
from .threads import launch

LEAST_PASSES, MOST_PASSES = 4, 16
MOST_S = 8.0
"""Seconds, those of compiling included, after which only the first pass goes on."""

TRIED_S = 5e-3
"""Seconds for which one way to do the work is called in a pass, once at least."""

IMPROVES_BY = 1.02
"""What the fastest of a pass must be faster than all before, for any size, to make another pass worth while."""

HOPELESS = 1.5
"""A way to do the work that after two passes takes so many times as long as the best is left out of the next ones."""

PIECES_LINES = (1, 4, 16, 64, 512)
AHEAD_LINES = ((0, 0), (0, 16), (64, 0), (128, 16), (loops.MOST_AHEAD, 16))
"""Prefetch distances (far, near) that are tried, in lines."""

COPIED_BYTES = 64 * 1024**2
"""Bytes that one timing of a copy reads and writes: a smaller copy is repeated, so that its launch costs nothing, and a
larger one is timed window by window, as a short time is more often undisturbed than a long one."""

CACHED_READ_LINES, FAR_READ_LINES = 2**20, 2**18
"""Lines that one timing of the reads takes, for the same reasons: of a table within the caches, and of a larger one."""

LARGEST_TABLE_BYTES = 256 * 1024**2
MOST_BYTES = 2 * 1024**3
LINE_BYTES = loops.LINE_BYTES


class _Rate:
    """One rate while it is measured: ways to do the same work, of which the fastest counts.

    Attributes:
        work: bytes or lines of one call.
    """

    def __init__(self, calls: Sequence[Callable[[], object]], work: int):
        self._best_s = dict.fromkeys(calls, float("inf"))
        self._passes = 0
        self.work = work

    @property
    def best_s(self) -> float:
        """Seconds of the fastest call so far."""
        return min(self._best_s.values())

    @property
    def per_s(self) -> float:
        """Bytes or lines in a second."""
        return self.work / self.best_s

    def improve(self) -> bool:
        """Time every call that has a chance; return whether one was faster than all before."""
        before = self.best_s
        for call, own_s in self._best_s.items():
            if self._passes < 2 or own_s < HOPELESS * before:
                self._best_s[call] = min(own_s, _fastest_s(call))
        self._passes += 1
        return self.best_s * IMPROVES_BY < before


def _fastest_s(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of some calls, after one that is not timed."""
    call()
    times_s: list[float] = []
    while not times_s or sum(times_s) < TRIED_S:
        start = time.perf_counter()
        call()
        times_s.append(time.perf_counter() - start)
    return min(times_s)


def measure_ceilings(facts: dict[str, Any], progress: Progress | None = None) -> Ceilings:
    """Return the ceilings.

    Args:
        facts: what `machine_facts` gives: the number of threads and the sizes of the caches are used here.
        progress: is called after every pass with (passes done, passes in all).
    """
    start = time.perf_counter()
    threads, most = facts["threads"], min(MOST_BYTES, free_memory_bytes() // 8)
    footprints, tables = _footprints(facts, most), _tables(facts, most)
    memory = _aligned(max(footprints[-1], tables[-1]) + loops.COPY_AHEAD_BYTES + 2 * LINE_BYTES)
    _touch(memory, threads)
    copies = {footprint: _copies(memory, footprint, threads) for footprint in footprints}
    reads = {
        (piece, table): _reads(memory, table, piece, threads, facts["last_level_cache_bytes"])
        for piece in PIECES_LINES
        for table in tables
    }
    rates = [*copies.values(), *reads.values()]
    for number in range(MOST_PASSES):
        improved = [rate.improve() for rate in rates if number == 0 or time.perf_counter() - start < MOST_S]
        done = len(improved) < len(rates) or (number + 1 >= LEAST_PASSES and not any(improved))
        if progress is not None:
            progress(MOST_PASSES if done else number + 1, MOST_PASSES)
        if done:
            break
    return Ceilings(
        facts,
        tuple(CopyRate(footprint, rate.per_s) for footprint, rate in copies.items()),
        tuple(LineRate(table, piece, rate.per_s) for (piece, table), rate in reads.items()),
    )


def _footprints(facts: dict[str, Any], most: int) -> list[int]:
    """Return the footprints of the copies: half of each cache, and far more than the last; multiples of a block."""
    threads, last = facts["threads"], facts["last_level_cache_bytes"]
    near = [size * threads // 2 for level, size in facts["caches_bytes"].items() if level != "L3"]
    wanted = sorted({*(size for size in near if size < last // 2), last // 2, last, 2 * last, 8 * last})
    block = 2 * threads * loops.BLOCK_BYTES
    return sorted({max(min(size, most) // block, 1) * block for size in wanted})


def _tables(facts: dict[str, Any], most: int) -> list[int]:
    """Return the sizes of the tables: half of each cache, and up to several times the last; multiples of a piece."""
    last = facts["last_level_cache_bytes"]
    near = [size // 2 for level, size in facts["caches_bytes"].items() if level != "L3"]
    far = [last // 4, last // 2, last, 2 * last, 4 * last, LARGEST_TABLE_BYTES]
    piece = PIECES_LINES[-1] * LINE_BYTES
    return sorted({max(min(size, most) // piece, 1) * piece for size in (*near, *far)})


def _aligned(size_bytes: int) -> np.ndarray:
    """Return memory that begins with a line."""
    memory = np.empty(size_bytes + LINE_BYTES, np.uint8)
    return memory[-_address(memory) % LINE_BYTES :][:size_bytes]


def _address(memory: np.ndarray) -> int:
    return memory.__array_interface__["data"][0]


def _touch(memory: np.ndarray, threads: int) -> None:
    """Write every page, each half by the threads that copy to and from it, so that it lies near to them.

    Nothing is read before: where a page of zeros has been read, Linux makes small pages of a huge one.
    """
    share = len(memory) // 2 // threads // loops.BLOCK_BYTES * loops.BLOCK_BYTES
    for first in (0, threads * share):
        launch(loops.run_loop, (loops.TOUCH, 0, _address(memory), 0, first, share, threads, 1, 1, 0, 0), len(memory))
    memory[2 * threads * share :] = 0


def _copies(memory: np.ndarray, footprint: int, threads: int) -> _Rate:
    """Return the copies between the halves of some memory, through the caches and past them, a window of it a call."""
    half, repeats = footprint // 2, max(1, COPIED_BYTES // footprint)
    length = min(half, COPIED_BYTES // 2) // threads // loops.BLOCK_BYTES * loops.BLOCK_BYTES
    starts = _cycle(range(0, half - threads * length + 1, threads * length))

    def copier(loop: int) -> Callable[[], object]:
        def copy() -> None:
            addresses = _address(memory), _address(memory) + half, 0
            launch(loops.run_loop, (loop, *addresses, next(starts), length, threads, repeats, 1, 0, 0), len(memory))

        return copy

    calls = [copier(loop) for loop in (loops.STREAM_COPY, loops.CACHED_COPY)]
    return _Rate(calls, 2 * threads * length * repeats)


def _reads(memory: np.ndarray, table_bytes: int, piece_lines: int, threads: int, cache_bytes: int) -> _Rate:
    """Return the reads of the pieces of a table in a random order, a window of them a call."""
    pieces = table_bytes // (piece_lines * LINE_BYTES)
    lines = CACHED_READ_LINES if table_bytes < cache_bytes else FAR_READ_LINES
    share = max(1, lines // piece_lines // threads)
    window = share * threads
    order = np.random.default_rng(pieces).permutation(pieces).astype(np.int32)
    positions = np.resize(order, -(-pieces // window) * window + loops.MOST_AHEAD)
    sums = _aligned(threads * LINE_BYTES)
    starts = _cycle(range(0, len(positions) - loops.MOST_AHEAD, window))

    def reader(far: int, near: int) -> Callable[[], object]:
        def read() -> None:
            addresses = _address(memory), _address(positions), _address(sums)
            numbers = next(starts), share, threads, 1, piece_lines, far, near
            launch(loops.run_loop, (loops.READ_LINES, *addresses, *numbers), len(memory))

        return read

    aheads = {(-(-far // piece_lines), -(-near // piece_lines)) for far, near in AHEAD_LINES}
    return _Rate([reader(*ahead) for ahead in sorted(aheads)], window * piece_lines)


def _cycle(values: Sequence[int]) -> Iterator[int]:
    while True:
        yield from values
