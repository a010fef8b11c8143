"""The roofline of a gather: the time of a copy of its bytes and of reads of its lines, by a machine model or measured.

The speed of memory changes from hour to hour on a shared machine, so a kernel is compared with reference loops that are
timed in the same rounds: a copy of its bytes, and reads of its lines at random places. Each loop can run in
several ways; a short trial selects the fastest. By the numbers of a machine model the same bound takes no time to know.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from ...lowering.schedule.machine_model import LINE_BYTES, MachineModel
from ..host.cpu import free_memory_bytes
from ..host.machine import machine_model
from ..host.timing import Timings, find_fastest
from ..runtime.array_checks import address
from ..runtime.launch import available_threads
from .probes import (
    ALL_BLOCKS,
    BLOCK_BYTES,
    CACHED,
    COPY_DISTANCE_BYTES,
    FISSIONED,
    FISSIONED_READS,
    MAX_DISTANCE,
    READS,
    STREAMED,
    Probe,
    aligned,
    random_places,
    touch,
)
from .traffic import Traffic

COPY, LINES = "copy", "random lines"

# The memory of the loops is at most this, and at most an eighth of the free memory. Of larger work a part is timed.
MAX_BYTES = 2 * 1024**3
# Work of at most this many bytes is also tried on one thread, which may be faster where threads are slow to wake.
MAX_SERIAL_BYTES = 8 * 1024**2
# Shorter work of one thread is repeated within a call, so that the cost of a Python call is not counted.
SERIAL_CALL_NS = 100_000
# Longer pieces are read as several: that is as fast, and threads can share them.
MAX_PIECE_LINES = 512
# Distances of prefetches into L2 and into L1, in lines, which are rounded up to whole pieces. From 16 MB, one core of a
# Zen 4 reads 480 million lines a second with the first alone and 425 with both; from 256 MB it is 280 and 312.
READ_WAYS = {
    "without prefetching": (0, 0),
    "prefetching 16 lines ahead into the first cache": (0, 16),
    "prefetching 64 lines ahead into the second cache": (64, 0),
    "prefetching 128 and 16 lines ahead": (128, 16),
    f"prefetching {MAX_DISTANCE} lines ahead into the second cache": (MAX_DISTANCE, 0),
    f"prefetching {MAX_DISTANCE} and 16 lines ahead": (MAX_DISTANCE, 16),
}
# Lines of a piece from which L1 does not hold the prefetches of `FISSIONED` pieces.
MAX_FISSIONED_LINES = 16


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time of some traffic: the longer of a copy and of random reads.

    Attributes:
        traffic: the fewest bytes of the gather.
        copy_us: the time of a copy of the bytes; where it was measured, a median.
        lines_us: the time of reading the lines at random places.
        threads: the number of threads that the measured loops may use.
        ways: the fastest way of each measured loop, "copy" and "random lines"; empty of a bound by a model.
        rounds_us: microseconds of each round, by the same names.
    """

    traffic: Traffic
    copy_us: float
    lines_us: float
    threads: int = 0
    ways: Mapping[str, str] = field(default_factory=dict)
    rounds_us: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def time_us(self) -> float:
        """The larger of the two times."""
        return max(self.copy_us, self.lines_us)

    @property
    def bound_by(self) -> Literal["copy", "random lines"]:
        """Which of the two is the larger."""
        return "copy" if self.copy_us >= self.lines_us else "random lines"

    @property
    def copy_bytes_per_s(self) -> float:
        """The rate of the copy."""
        return 1e6 * self.traffic.total_bytes / self.copy_us if self.copy_us else 0.0

    @property
    def lines_per_s(self) -> float:
        """The rate of the reads."""
        return 1e6 * self.traffic.lines / self.lines_us if self.lines_us else 0.0

    def fraction(self, measured_us: float) -> float:
        """Return the bound divided by a measured time: 1 is as fast as the machine allows."""
        return self.time_us / measured_us

    def to_json(self) -> dict[str, Any]:
        """Return the bound as JSON can hold it."""
        names = ["time_us", "bound_by", "copy_us", "lines_us", "copy_bytes_per_s", "lines_per_s"]
        traffic = asdict(self.traffic)
        streams = {**dict(traffic.pop("streams")), "all": self.traffic.total_bytes}
        found = {**{name: getattr(self, name) for name in names}, "bytes": streams, **traffic}
        if self.ways:
            rounds_us = {name: [round(time_us, 3) for time_us in times] for name, times in self.rounds_us.items()}
            found |= {"threads": self.threads, "ways": dict(self.ways), "rounds_us": rounds_us}
        return found


def model_bound(traffic: Traffic, model: MachineModel) -> Bound:
    """Return the bound of some traffic by the rates of a machine model, on all of its threads.

    Bytes are copied within L2, within the last cache or in memory, by the size of the traffic. Lines come from where a
    table of that number of lines lies; the next lines of a piece come at the rate of a copy.
    """
    total_bytes, table_bytes = traffic.total_bytes, traffic.lines * LINE_BYTES
    sizes = model.threads * model.l2_bytes, model.l3_bytes
    rates = [model.threads * rate for rate in model.copy_bytes_per_ns]
    rates[-1] = min(rates[-1], model.memory_bytes_per_ns)
    copy_ns = total_bytes / rates[sum(total_bytes > size for size in sizes)]
    place = sum(table_bytes > size for size in (model.l1_bytes, model.l2_bytes, model.l3_bytes))
    line_ns, pieces = model.line_ns[place], traffic.lines / traffic.piece_lines
    next_ns = min(line_ns, LINE_BYTES / model.copy_bytes_per_ns[max(place - 1, 0)])
    lines_ns = (pieces * line_ns + (traffic.lines - pieces) * next_ns) / model.threads
    return Bound(traffic, copy_ns / 1e3, lines_ns / 1e3)


@dataclass(frozen=True, slots=True)
class TimedLoop:
    """One of the loops, in the way that was fastest in the trial.

    Attributes:
        way: its name.
        call: does the work.
        times: the work of a call divided by the gather's work; below 1 where memory was short.
    """

    way: str
    call: Probe
    times: float


@dataclass(frozen=True, slots=True)
class ReferenceLoops:
    """The two loops that are timed in turn with a gather.

    Attributes:
        traffic: the fewest bytes of the gather.
        threads: the largest number of threads that the loops use.
        timed: by name: "copy" and "random lines".
    """

    traffic: Traffic
    threads: int
    timed: Mapping[str, TimedLoop]

    @property
    def calls(self) -> dict[str, Probe]:
        """The calls to time in turn with the gather, by name."""
        return {name: loop.call for name, loop in self.timed.items()}

    def measured(self, timings: Timings) -> Bound:
        """Return the roofline bound from timings of `calls`, which may hold others too."""
        rounds_us = {
            name: [1e6 * seconds / loop.times for seconds in timings.rounds_s[name]]
            for name, loop in self.timed.items()
        }
        copy_us, lines_us = (statistics.median(rounds_us[name]) for name in (COPY, LINES))
        ways = {name: loop.way for name, loop in self.timed.items()}
        return Bound(self.traffic, copy_us, lines_us, self.threads, ways, rounds_us)


def reference_loops(traffic: Traffic, table_bytes: int, sets: int = 1) -> ReferenceLoops:
    """Return the reference loops of some traffic, each ready to run in its fastest way.

    They have memory of their own. Each call copies or reads another part of it, and writes to the same target, as the
    gather writes to the same `out`. They use the threads of a gather. The trial takes less than a second.

    Args:
        traffic: the fewest bytes of the gather.
        table_bytes: the size of the array that it reads, or of a gradient writes.
        sets: the number of sets of indices that the gather uses in turn; the loops use that number of parts in turn.
    """
    threads = available_threads()
    ways = loop_ways(traffic, table_bytes, threads, sets)
    return ReferenceLoops(traffic, threads, {name: _fastest(offered) for name, offered in ways.items()})


def loop_ways(traffic: Traffic, table_bytes: int, threads: int, sets: int = 1) -> dict[str, dict[str, TimedLoop]]:
    """Return every way to run "copy" and "random lines"; `reference_loops` has the same arguments."""
    most = max(BLOCK_BYTES, min(MAX_BYTES, free_memory_bytes() // 8))
    read_bytes = max(table_bytes, traffic.lines * LINE_BYTES)
    written_bytes = max(dict(traffic.streams).get("output", 0.0), traffic.total_bytes / 2)
    copied_bytes = traffic.total_bytes - written_bytes
    source_bytes = max(table_bytes + sets * dict(traffic.streams).get("indices", 0.0), copied_bytes)
    memory = _touched(max(read_bytes, source_bytes), most, threads)
    table = memory[: _whole(read_bytes, BLOCK_BYTES)]
    return {
        COPY: _copies(written_bytes, copied_bytes, memory[: _whole(source_bytes, BLOCK_BYTES)], threads, sets, most),
        LINES: _reads(traffic, table, threads, sets),
    }


def _touched(wanted_bytes: float, most_bytes: int, threads: int) -> np.ndarray:
    """Return memory of whole blocks, one at least, with room behind it for the prefetches of the copy."""
    size = _whole(min(wanted_bytes, most_bytes), BLOCK_BYTES)
    memory = aligned(size + COPY_DISTANCE_BYTES + LINE_BYTES)
    touch(memory, threads)
    return memory[:size]


def _copies(
    written_bytes: float, read_bytes: float, source: np.ndarray, threads: int, sets: int, most: int
) -> dict[str, TimedLoop]:
    """Return the ways to copy: to read some bytes and write that number or more."""
    blocks_read = math.floor(ALL_BLOCKS * read_bytes / written_bytes) if written_bytes else 0
    longest = len(source) * ALL_BLOCKS // max(blocks_read, 1)
    size = _whole(min(written_bytes, most, longest), BLOCK_BYTES)
    read = ((size // BLOCK_BYTES - 1) * blocks_read // ALL_BLOCKS + 1) * BLOCK_BYTES
    target = _touched(size, size, threads)
    starts = _starts(len(source), read, sets, LINE_BYTES)
    windows = [(address(source) + first, 0, address(target), 0, size) for first in starts]
    work_ns = machine_model().serial_ns(size + read, 0, len(source))
    turns, arrays = itertools.cycle(windows), (source, target)
    ways = {name: Probe(name, turns, arrays, blocks_read, shares=threads) for name in (STREAMED, CACHED)}
    share = size / written_bytes if written_bytes else 1.0
    return _offered(ways, threads, share, size + read, work_ns)


def _reads(traffic: Traffic, table: np.ndarray, threads: int, sets: int) -> dict[str, TimedLoop]:
    """Return the ways to read the lines of a gather, in pieces of adjacent lines; fewer where the table has fewer."""
    lines = min(len(table) // LINE_BYTES, math.ceil(traffic.lines))
    adjacent = max(1, min(round(traffic.piece_lines), MAX_PIECE_LINES, lines))
    pieces = len(table) // (adjacent * LINE_BYTES)
    count = min(pieces, math.ceil(lines / adjacent))
    numbers = random_places(pieces)
    starts = _starts(pieces, count, sets)
    windows = [(address(table), address(numbers), 0, first, first + count) for first in starts]
    read_lines, read_bytes = count * adjacent, count * adjacent * LINE_BYTES
    turns, ways = itertools.cycle(windows), dict[str, Probe]()
    for name, distances in READ_WAYS.items():
        far, near = (-(-ahead // adjacent) for ahead in distances)
        ways[name] = Probe(READS, turns, (table, numbers), 0, adjacent, far, near, threads)
        if far and not near and 1 < adjacent <= MAX_FISSIONED_LINES:  # between reads prefetches may be dropped
            ways[f"{name}, {FISSIONED} places at a time"] = replace(ways[name], loop=FISSIONED_READS)
    share = read_lines / traffic.lines if traffic.lines else 1.0
    return _offered(ways, threads, share, read_bytes, machine_model().serial_ns(read_bytes, count, len(table)))


def _offered(
    ways: Mapping[str, Probe], threads: int, share: float, work_bytes: int, work_ns: float
) -> dict[str, TimedLoop]:
    """Return the ways on all threads, and on one where that may be as fast."""
    offered: dict[str, TimedLoop] = {}
    if threads > 1:
        offered = {name: TimedLoop(name, call, share) for name, call in ways.items()}
    if threads == 1 or work_bytes <= MAX_SERIAL_BYTES:
        repeats = 1 if work_ns >= machine_model().wake_ns else math.ceil(SERIAL_CALL_NS / max(work_ns, 1))
        for name, call in ways.items():
            way = f"{name}, on one thread" if threads > 1 else name
            serial = replace(call, shares=1, repeats=repeats)
            offered[way] = TimedLoop(way, serial, repeats * share)
    return offered


def _fastest(ways: Mapping[str, TimedLoop]) -> TimedLoop:
    repeats = {name: loop.call.repeats for name, loop in ways.items()}
    return ways[find_fastest({name: loop.call for name, loop in ways.items()}, repeats)]


def _starts(size: int, window: int, sets: int, grain: int = 1) -> list[int]:
    """Return the starts of windows at even distances, the last at the end; multiples of a grain."""
    steps = max(sets - 1, 1)
    return [(size - window) * number // steps // grain * grain for number in range(sets)]


def _whole(size: float, grain: int) -> int:
    """Return a size rounded up to a multiple of a grain, one at least."""
    return max(1, math.ceil(size / grain)) * grain
