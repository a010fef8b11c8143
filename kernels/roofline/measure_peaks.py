"""Measure the peak rates of this machine: passes over two loops at several sizes. Imports Numba.

Other processes can only make a loop slower, so a rate is the best of all passes. A pass takes every size in turn, so
that a busy second costs one pass of each, not all of one; passes go on until one improves nothing.
"""

import itertools
import time
from typing import Any

import numpy as np

from ..host.cpu import free_memory_bytes
from ..runtime.array_checks import address
from . import probe_kernels as loops
from .ceilings import Ceilings, CopyRate, LineRate, ReportSteps
from .probe_calls import TRIED_S, Ways, aligned, copy_ways, random_places, read_ways, touch

LEAST_PASSES, MOST_PASSES = 4, 16
# Seconds, those of compiling included, after which only the first pass goes on.
MOST_S = 8.0

# The speed-up of the best rate in a pass, for any size, that makes another pass worth while.
IMPROVES_BY = 1.02

PIECES_LINES = (1, 4, 16, 64, 512)

# Bytes that one timing of a copy reads and writes: a smaller copy is repeated, so that its launch costs nothing, and
# a larger one is timed window by window, as a short time is more often undisturbed than a long one.
COPIED_BYTES = 64 * 1024**2

# Lines that one timing of the reads takes, for the same reasons: of a table within the caches, and of a larger one.
CACHED_READ_LINES, FAR_READ_LINES = 2**20, 2**18

LARGEST_TABLE_BYTES = 256 * 1024**2
MOST_BYTES = 2 * 1024**3
LINE_BYTES = loops.LINE_BYTES


def measure_ceilings(facts: dict[str, Any], progress: ReportSteps | None = None) -> Ceilings:
    """Return the ceilings.

    Args:
        facts: what `machine_facts` gives: the number of threads and the sizes of the caches are used here.
        progress: is called after every pass with (passes done, passes in all).
    """
    start = time.perf_counter()
    threads, most = facts["threads"], min(MOST_BYTES, free_memory_bytes() // 8)
    footprints, tables = _footprints(facts, most), _tables(facts, most)
    memory = aligned(max(footprints[-1], tables[-1]) + loops.COPY_DISTANCE_BYTES + 2 * LINE_BYTES)
    touch(memory, threads, parts=2)
    copies = {footprint: _copies(memory, footprint, threads) for footprint in footprints}
    reads = {
        (piece, table): _reads(memory, table, piece, threads, facts["last_level_cache_bytes"])
        for piece in PIECES_LINES
        for table in tables
    }
    trials = [trial for trial, _ in (*copies.values(), *reads.values())]
    for number in range(MOST_PASSES):
        gains = [trial.improve(TRIED_S) for trial in trials if number == 0 or time.perf_counter() - start < MOST_S]
        done = len(gains) < len(trials) or (number + 1 >= LEAST_PASSES and max(gains) <= IMPROVES_BY)
        if progress is not None:
            progress(MOST_PASSES if done else number + 1, MOST_PASSES)
        if done:
            break
    return Ceilings(
        facts,
        tuple(CopyRate(footprint, work / trial.best_s) for footprint, (trial, work) in copies.items()),
        tuple(LineRate(table, piece, work / trial.best_s) for (piece, table), (trial, work) in reads.items()),
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


def _copies(memory: np.ndarray, footprint: int, threads: int) -> tuple[Ways, int]:
    """Return the copies between the halves of some memory, cached and non-temporal, and the bytes of one."""
    half, repeats = footprint // 2, max(1, COPIED_BYTES // footprint)
    size = min(half, COPIED_BYTES // 2) // (threads * loops.BLOCK_BYTES) * threads * loops.BLOCK_BYTES
    source, target = address(memory), address(memory) + half
    windows = itertools.cycle([(source, target, first, first + size) for first in range(0, half - size + 1, size)])
    return Ways(copy_ways(windows, [memory], threads, repeats)), 2 * size


def _reads(memory: np.ndarray, table_bytes: int, piece_lines: int, threads: int, cache_bytes: int) -> tuple[Ways, int]:
    """Return the reads of the pieces of a table in a random order, a window of them a call, and its lines."""
    pieces = table_bytes // (piece_lines * LINE_BYTES)
    lines = CACHED_READ_LINES if table_bytes < cache_bytes else FAR_READ_LINES
    window = max(1, lines // piece_lines // threads) * threads
    count = -(-pieces // window) * window
    places = random_places(pieces, count)
    table, numbers = address(memory), address(places)
    windows = itertools.cycle([(table, numbers, first, first + window) for first in range(0, count, window)])
    return Ways(read_ways(windows, [memory, places], threads, piece_lines)), window * piece_lines
