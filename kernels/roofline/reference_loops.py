"""The limit of a gather, timed in turn with it: a copy of as many bytes, and reads of as many lines at random places.

What memory can do changes from hour to hour on a shared machine, so a kernel is held against loops that are timed in
the same rounds, and medians are taken of all alike. Each loop is offered in several ways, of which the fastest in a
short trial takes part. Imports Numba.
"""

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ...lowering.schedule.traffic import LINE_BYTES, Traffic
from ..host.cpu import free_memory_bytes, last_level_cache_bytes
from ..host.timing import Timings
from ..runtime.array_checks import address
from ..runtime.launch import SERIAL_BELOW_NS, available_threads, serial_ns
from ..runtime.plan import Problem
from . import probe_kernels as loops
from .capacity_misses import LinesInOrder, lines_in_order
from .lower_bound import Floor, HasProblem, fewest_bytes
from .measured_bound import AGAIN, COPY, LINES, MeasuredLimit
from .probe_calls import LoopCall, Trial, aligned, copy_ways, random_places, read_ways, touch

MOST_BYTES = 2 * 1024**3
"""Of the memory that the loops work on, beside an eighth of what is free. Of larger work a part is timed."""

MOST_SERIAL_BYTES = 8 * 1024**2
"""Work of so many bytes is offered on one thread too: where threads are slow to wake, one may have done it before."""

SERIAL_CALL_NS = 100_000
"""Work that one thread does sooner is repeated in one call, so that what a call costs from Python is not counted."""

LONGEST_PIECE_LINES = 512
"""Longer pieces are read as several: no faster, and threads can share them."""

TRIAL_PASSES = 2
BLOCK_BYTES = loops.BLOCK_BYTES


@dataclass(frozen=True, slots=True)
class Contender:
    """One of the loops, in the way that was fastest in the trial.

    Attributes:
        way: how.
        call: does the work.
        times: how many times a call does what the gather must; below 1 where memory was short.
    """

    way: str
    call: LoopCall
    times: float


@dataclass(frozen=True, slots=True)
class Limits:
    """The two loops that a gather is timed beside, and sometimes a third.

    Attributes:
        traffic: the fewest bytes of the gather.
        threads: how many the loops use at most.
        contenders: by name, "copy" and "random lines", and "lines again" where lines must come again.
        in_order: what the cores must fetch in the order of the indices; None where that is not known.
    """

    traffic: Traffic
    threads: int
    contenders: Mapping[str, Contender]
    in_order: LinesInOrder | None = None

    @property
    def calls(self) -> dict[str, LoopCall]:
        """What is to be timed in turn with the gather, by name."""
        return {name: contender.call for name, contender in self.contenders.items()}

    def measured(self, timings: Timings) -> MeasuredLimit:
        """Return the limit from timings of `calls`, which may hold others too."""
        rounds_us = {
            name: [1e6 * seconds / contender.times for seconds in timings.rounds_s[name]]
            for name, contender in self.contenders.items()
        }
        copy_us, lines_us = (statistics.median(rounds_us[name]) for name in (COPY, LINES))
        floor = Floor(
            self.traffic,
            copy_us,
            lines_us,
            copy_bytes_per_s=1e6 * self.traffic.total_bytes / copy_us,
            lines_per_s=1e6 * self.traffic.lines / lines_us,
        )
        ways = {name: contender.way for name, contender in self.contenders.items()}
        ordered = None if self.in_order is None else self.in_order.lines
        return MeasuredLimit(floor, self.threads, ways, rounds_us, ordered)


def limits_beside(
    gather: Problem | HasProblem, indices: np.ndarray, *, data: np.ndarray, table_bytes: int, sets: int = 1
) -> Limits:
    """Return the loops that a gather of some arrays is timed beside.

    Args:
        gather: a kernel, a plan, or a problem.
        indices: say which lines are touched, and in what order.
        data: what is read, or of a gradient written.
        table_bytes, sets: as `limits_of` takes them.
    """
    traffic, threads = fewest_bytes(gather, indices, data=data), available_threads()
    in_order = lines_in_order(gather, indices, traffic, table_bytes=table_bytes, threads=threads, data=data)
    return limits_of(traffic, table_bytes, sets, in_order)


def limits_of(traffic: Traffic, table_bytes: int, sets: int = 1, in_order: LinesInOrder | None = None) -> Limits:
    """Return the loops that take as long as a gather must, made ready and each in its fastest way.

    They work on memory of their own: places of it, of which each call copies or reads another one, and a target that is
    the same in every call, as `out` is. They use as many threads as a gather does, and less than a second.

    Args:
        traffic: the fewest bytes of the gather.
        table_bytes: the size of what it reads, or of a gradient writes.
        sets: how many sets of indices the gather uses in turn; the loops use as many places in turn.
        in_order: what the cores must fetch in the order of the indices, where that is known.
    """
    threads = available_threads()
    ways = limit_ways(traffic, table_bytes, threads, sets, in_order)
    return Limits(traffic, threads, {name: _fastest(offered) for name, offered in ways.items()}, in_order)


def limit_ways(
    traffic: Traffic, table_bytes: int, threads: int, sets: int = 1, in_order: LinesInOrder | None = None
) -> dict[str, dict[str, Contender]]:
    """Return every way to do the work of "copy", of "random lines", and where lines must come again of "lines again".

    What comes again may come from the last cache, even where that does not hold the table: it is read from a table that
    this cache holds, if that is smaller.

    Args:
        traffic, table_bytes, sets, in_order: as `limits_of` takes them.
        threads: how many share the work.
    """
    most = max(BLOCK_BYTES, min(MOST_BYTES, free_memory_bytes() // 8))
    read_bytes = max(table_bytes, traffic.lines * LINE_BYTES)
    copied_bytes = max(table_bytes + sets * dict(traffic.streams).get("indices", 0.0), traffic.total_bytes / 2)
    memory = _touched(max(read_bytes, copied_bytes), most, threads)
    table = memory[: _whole(read_bytes, BLOCK_BYTES)]
    lines = min(len(table) // LINE_BYTES, math.ceil(traffic.lines))
    ways = {
        COPY: _copies(traffic, memory[: _whole(copied_bytes, BLOCK_BYTES)], threads, sets, most),
        LINES: _reads(traffic.lines, lines, traffic.piece_lines, table, threads, sets),
    }
    if in_order is not None and in_order.lines > traffic.lines:
        near = table[: _whole(last_level_cache_bytes(), BLOCK_BYTES)]
        ordered = math.ceil(in_order.lines)
        ways[AGAIN] = _reads(in_order.lines, ordered, in_order.piece_lines, near, threads, sets)
    return ways


def _touched(wanted_bytes: float, most_bytes: int, threads: int) -> np.ndarray:
    """Return memory of whole blocks, one at least, with room behind it for what the copy prefetches."""
    size = _whole(min(wanted_bytes, most_bytes), BLOCK_BYTES)
    memory = aligned(size + loops.COPY_AHEAD_BYTES + LINE_BYTES)
    touch(memory, threads)
    return memory[:size]


def _copies(traffic: Traffic, source: np.ndarray, threads: int, sets: int, most: int) -> dict[str, Contender]:
    """Return the ways to copy half of the bytes, which reads that half and writes the other."""
    size = _whole(min(traffic.total_bytes / 2, most, len(source)), BLOCK_BYTES)
    target = _touched(size, size, threads)
    places = [
        (address(source) + first, address(target), 0, size) for first in _starts(len(source), size, sets, LINE_BYTES)
    ]
    work_ns = serial_ns(2 * size, 0, len(source))
    ways = copy_ways(itertools.cycle(places), (source, target), threads)
    share = 2 * size / traffic.total_bytes if traffic.total_bytes else 1.0
    return _offered(ways, threads, share, 2 * size, work_ns)


def _reads(
    wanted_lines: float, lines: int, piece_lines: float, table: np.ndarray, threads: int, sets: int
) -> dict[str, Contender]:
    """Return the ways to read lines, each once before one is read again, in pieces of as many as lie at each place.

    Args:
        wanted_lines: how many the gather reads.
        lines: how many are to be read in their place.
        piece_lines: how many of them are adjacent.
        table: where.
        threads, sets: as `limit_ways` takes them.
    """
    adjacent = max(1, min(round(piece_lines), LONGEST_PIECE_LINES, lines, len(table) // LINE_BYTES))
    pieces = len(table) // (adjacent * LINE_BYTES)
    count = math.ceil(lines / adjacent)
    count = min(pieces, count) if lines * LINE_BYTES <= len(table) else count
    numbers = random_places(pieces, count)
    starts = _starts(max(pieces, count), count, sets)
    places = [(address(table), address(numbers), first, first + count) for first in starts]
    read_lines = count * adjacent
    work_ns = serial_ns(read_lines * LINE_BYTES, count, len(table))
    ways = read_ways(itertools.cycle(places), (table, numbers), threads, adjacent)
    share = read_lines / wanted_lines if wanted_lines else 1.0
    return _offered(ways, threads, share, read_lines * LINE_BYTES, work_ns)


def _offered(
    ways: Mapping[str, LoopCall], threads: int, share: float, work_bytes: int, work_ns: float
) -> dict[str, Contender]:
    """Return the ways on all threads, and on one where that may be as fast."""
    offered: dict[str, Contender] = {}
    if threads > 1:
        offered = {name: Contender(name, call, share) for name, call in ways.items()}
    if threads == 1 or work_bytes <= MOST_SERIAL_BYTES:
        repeats = 1 if work_ns >= SERIAL_BELOW_NS else math.ceil(SERIAL_CALL_NS / max(work_ns, 1))
        for name, call in ways.items():
            way = f"{name}, on one thread" if threads > 1 else name
            serial = replace(call, shares=1, repeats=repeats, in_parallel=False)
            offered[way] = Contender(way, serial, repeats * share)
    return offered


def _fastest(ways: Mapping[str, Contender]) -> Contender:
    trial = Trial({name: contender.call for name, contender in ways.items()}, sure_passes=1)
    for _ in range(TRIAL_PASSES):
        trial.improve()
    return ways[trial.best]


def _starts(size: int, window: int, sets: int, grain: int = 1) -> list[int]:
    """Return where windows begin that lie evenly over something, the last at its end; multiples of a grain."""
    steps = max(sets - 1, 1)
    return [(size - window) * number // steps // grain * grain for number in range(sets)]


def _whole(size: float, grain: int) -> int:
    """Return a size rounded up to a multiple of a grain, one at least."""
    return max(1, math.ceil(size / grain)) * grain
