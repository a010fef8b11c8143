"""The reference loops of the roofline bound: a copy of as many bytes, and reads of as many lines at random places.

The speed of memory changes from hour to hour on a shared machine, so a kernel is compared with loops that are timed in
the same rounds. Each loop can run in several ways; a short trial selects the fastest. Imports Numba.
"""

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...ir.problem import Problem
from ..host.cpu import free_memory_bytes, last_level_cache_bytes
from ..host.machine import machine_model
from ..host.timing import Timings
from ..runtime.array_checks import address
from ..runtime.launch import available_threads
from . import probe_kernels as loops
from .capacity_misses import LinesInOrder, lines_in_order
from .lower_bound import COPY, IN_ORDER, LINES, LowerBound, MeasuredBound, fewest_bytes
from .probe_calls import LoopCall, Ways, aligned, copy_ways, random_places, read_ways, touch
from .traffic import LINE_BYTES, Traffic

# Of the memory that the loops use, as is an eighth of the free memory. Of larger work a part is timed.
MOST_BYTES = 2 * 1024**3

# Work of at most so many bytes is also tried on one thread, which may be faster where threads are slow to wake.
MOST_SERIAL_BYTES = 8 * 1024**2

# Shorter work of one thread is repeated within a call, so that the cost of a Python call is not counted.
SERIAL_CALL_NS = 100_000

# Longer pieces are read as several: that is as fast, and threads can share them.
LONGEST_PIECE_LINES = 512

TRIAL_PASSES = 2
BLOCK_BYTES = loops.BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class TimedLoop:
    """One of the loops, in the way that was fastest in the trial.

    Attributes:
        way: its name.
        call: does the work.
        times: the work of a call divided by that of the gather; below 1 where memory was short.
    """

    way: str
    call: LoopCall
    times: float


@dataclass(frozen=True, slots=True)
class ReferenceLoops:
    """The two loops that are timed in turn with a gather, and a third where it has capacity misses.

    Attributes:
        traffic: the fewest bytes of the gather.
        threads: how many the loops use at most.
        timed: by name: "copy", "random lines", and "lines in order" where there are capacity misses.
        in_order: the lines that the cores load in the order of the indices; None where they were not counted.
    """

    traffic: Traffic
    threads: int
    timed: Mapping[str, TimedLoop]
    in_order: LinesInOrder | None = None

    @property
    def calls(self) -> dict[str, LoopCall]:
        """The calls to time in turn with the gather, by name."""
        return {name: loop.call for name, loop in self.timed.items()}

    def measured(self, timings: Timings) -> MeasuredBound:
        """Return the roofline bound from timings of `calls`, which may hold others too."""
        rounds_us = {
            name: [1e6 * seconds / loop.times for seconds in timings.rounds_s[name]]
            for name, loop in self.timed.items()
        }
        copy_us, lines_us = (statistics.median(rounds_us[name]) for name in (COPY, LINES))
        lower_bound = LowerBound(
            self.traffic,
            copy_us,
            lines_us,
            copy_bytes_per_s=1e6 * self.traffic.total_bytes / copy_us,
            lines_per_s=1e6 * self.traffic.lines / lines_us,
        )
        ways = {name: loop.way for name, loop in self.timed.items()}
        ordered = None if self.in_order is None else self.in_order.lines
        return MeasuredBound(lower_bound, self.threads, ways, rounds_us, ordered)


def reference_loops(
    problem: Problem, indices: np.ndarray, *, data: np.ndarray, table_bytes: int, sets: int = 1
) -> ReferenceLoops:
    """Return the reference loops of a gather from `data`, or of a gradient that writes it; see `loops_of_traffic`."""
    traffic, threads = fewest_bytes(problem, indices, data), available_threads()
    in_order = lines_in_order(problem, indices, traffic, table_bytes=table_bytes, threads=threads, data=data)
    return loops_of_traffic(traffic, table_bytes, sets, in_order)


def loops_of_traffic(
    traffic: Traffic, table_bytes: int, sets: int = 1, in_order: LinesInOrder | None = None
) -> ReferenceLoops:
    """Return the reference loops of some traffic, each ready to run in its fastest way.

    They have memory of their own. Each call copies or reads another part of it, and writes to the same target, as the
    gather writes to the same `out`. They use as many threads as a gather does. The trial takes less than a second.

    Args:
        traffic: the fewest bytes of the gather.
        table_bytes: the size of the array that it reads, or of a gradient writes.
        sets: how many sets of indices the gather uses in turn; the loops use as many parts in turn.
        in_order: the lines that the cores load in the order of the indices, where they were counted.
    """
    threads = available_threads()
    ways = loop_ways(traffic, table_bytes, threads, sets, in_order)
    return ReferenceLoops(traffic, threads, {name: _fastest(offered) for name, offered in ways.items()}, in_order)


def loop_ways(
    traffic: Traffic, table_bytes: int, threads: int, sets: int = 1, in_order: LinesInOrder | None = None
) -> dict[str, dict[str, TimedLoop]]:
    """Return every way to run "copy" and "random lines", and "lines in order" where there are capacity misses.

    Capacity misses may hit in the last-level cache, even of a larger table: "lines in order" reads a table of the size
    of that cache at most. The arguments are those of `loops_of_traffic`.
    """
    most = max(BLOCK_BYTES, min(MOST_BYTES, free_memory_bytes() // 8))
    read_bytes = max(table_bytes, traffic.lines * LINE_BYTES)
    written_bytes = max(dict(traffic.streams).get("output", 0.0), traffic.total_bytes / 2)
    copied_bytes = traffic.total_bytes - written_bytes
    source_bytes = max(table_bytes + sets * dict(traffic.streams).get("indices", 0.0), copied_bytes)
    memory = _touched(max(read_bytes, source_bytes), most, threads)
    table = memory[: _whole(read_bytes, BLOCK_BYTES)]
    lines = min(len(table) // LINE_BYTES, math.ceil(traffic.lines))
    ways = {
        COPY: _copies(written_bytes, copied_bytes, memory[: _whole(source_bytes, BLOCK_BYTES)], threads, sets, most),
        LINES: _reads(traffic.lines, lines, traffic.piece_lines, table, threads, sets),
    }
    if in_order is not None and in_order.lines > traffic.lines:
        near = table[: _whole(last_level_cache_bytes(), BLOCK_BYTES)]
        ordered = math.ceil(in_order.lines)
        ways[IN_ORDER] = _reads(in_order.lines, ordered, in_order.piece_lines, near, threads, sets)
    return ways


def _touched(wanted_bytes: float, most_bytes: int, threads: int) -> np.ndarray:
    """Return memory of whole blocks, one at least, with room behind it for the prefetches of the copy."""
    size = _whole(min(wanted_bytes, most_bytes), BLOCK_BYTES)
    memory = aligned(size + loops.COPY_DISTANCE_BYTES + LINE_BYTES)
    touch(memory, threads)
    return memory[:size]


def _copies(
    written_bytes: float, read_bytes: float, source: np.ndarray, threads: int, sets: int, most: int
) -> dict[str, TimedLoop]:
    """Return the ways to copy: to read some bytes and write as many, or more."""
    blocks_read = math.floor(loops.ALL_BLOCKS * read_bytes / written_bytes) if written_bytes else 0
    longest = len(source) * loops.ALL_BLOCKS // max(blocks_read, 1)
    size = _whole(min(written_bytes, most, longest), BLOCK_BYTES)
    read = ((size // BLOCK_BYTES - 1) * blocks_read // loops.ALL_BLOCKS + 1) * BLOCK_BYTES
    target = _touched(size, size, threads)
    places = [
        (address(source) + first, address(target), 0, size) for first in _starts(len(source), read, sets, LINE_BYTES)
    ]
    work_ns = machine_model().serial_ns(size + read, 0, len(source))
    ways = copy_ways(itertools.cycle(places), (source, target), threads, blocks_read=blocks_read)
    share = size / written_bytes if written_bytes else 1.0
    return _offered(ways, threads, share, size + read, work_ns)


def _reads(
    wanted_lines: float, lines: int, piece_lines: float, table: np.ndarray, threads: int, sets: int
) -> dict[str, TimedLoop]:
    """Return the ways to read lines, each once before any is read twice, in pieces of adjacent lines.

    So many `lines` of the table are read in place of the `wanted_lines` that the gather reads.
    """
    adjacent = max(1, min(round(piece_lines), LONGEST_PIECE_LINES, lines, len(table) // LINE_BYTES))
    pieces = len(table) // (adjacent * LINE_BYTES)
    count = math.ceil(lines / adjacent)
    count = min(pieces, count) if lines * LINE_BYTES <= len(table) else count
    numbers = random_places(pieces, count)
    starts = _starts(max(pieces, count), count, sets)
    places = [(address(table), address(numbers), first, first + count) for first in starts]
    read_lines, read_bytes = count * adjacent, count * adjacent * LINE_BYTES
    ways = read_ways(itertools.cycle(places), (table, numbers), threads, adjacent)
    share = read_lines / wanted_lines if wanted_lines else 1.0
    return _offered(ways, threads, share, read_bytes, machine_model().serial_ns(read_bytes, count, len(table)))


def _offered(
    ways: Mapping[str, LoopCall], threads: int, share: float, work_bytes: int, work_ns: float
) -> dict[str, TimedLoop]:
    """Return the ways on all threads, and on one where that may be as fast."""
    offered: dict[str, TimedLoop] = {}
    if threads > 1:
        offered = {name: TimedLoop(name, call, share) for name, call in ways.items()}
    if threads == 1 or work_bytes <= MOST_SERIAL_BYTES:
        repeats = 1 if work_ns >= machine_model().wake_ns else math.ceil(SERIAL_CALL_NS / max(work_ns, 1))
        for name, call in ways.items():
            way = f"{name}, on one thread" if threads > 1 else name
            serial = replace(call, shares=1, repeats=repeats, in_parallel=False)
            offered[way] = TimedLoop(way, serial, repeats * share)
    return offered


def _fastest(ways: Mapping[str, TimedLoop]) -> TimedLoop:
    trial = Ways({name: loop.call for name, loop in ways.items()}, sure_passes=1)
    for _ in range(TRIAL_PASSES):
        trial.improve()
    return ways[trial.best]


def _starts(size: int, window: int, sets: int, grain: int = 1) -> list[int]:
    """Return the starts of windows at even distances, the last at the end; multiples of a grain."""
    steps = max(sets - 1, 1)
    return [(size - window) * number // steps // grain * grain for number in range(sets)]


def _whole(size: float, grain: int) -> int:
    """Return a size rounded up to a multiple of a grain, one at least."""
    return max(1, math.ceil(size / grain)) * grain
