"""The probes of a calibration: what is timed, over memory of their own. Imports Numba.

They are timed on one thread, but for launches and for what memory copies for all threads together.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from ..roofline import probe_kernels as shared_loops
from ..roofline.probe_calls import LoopCall, aligned, copy_ways, random_places, touch
from ..runtime.array_checks import address
from ..runtime.launch import available_threads, current_subteam
from .probe_program import (
    ELEMENTS,
    LONG_ROW_BYTES,
    NEAR_ROWS,
    ROW_STORES,
    ROWS_BYTES,
    SUMMED_ROWS,
    VECTORS_BYTES,
    load_probes,
    probe_names,
)
from .samples import Probe, timed

Numbers = TypeVar("Numbers", bound=tuple[int, ...])

LINE_BYTES = shared_loops.LINE_BYTES
KB, MB = 1024, 1024**2

# Lines that one run of the latency reads, one after the other; a table with fewer is read whole.
CHASED_LINES = 4096
# The prefetch distances that are tried: lines from memory, into L2 and besides 16 ahead into L1; rows of 256 bytes from
# memory into L1, and besides 32 ahead into L2.
FAR_LINES, FAR_ROWS = (32, 64, 128, 256), (4, 8, 16, 32)
BESIDE_NEAR, BESIDE_FAR, ROW_LINES = 16, 128, 4
# What a thread reads and copies in one run: as little as takes much longer than a call, or a launch.
READ_LINES, READ_ELEMENTS, COPIED_BYTES_A_THREAD, LEAST_COPIED_BYTES = 8192, 65536, MB, 256 * KB
# The scalars: as many indices as half of an L2 holds, and staged ones that fit in L1 beside their table.
INDICES, STAGED, SMALL_TABLE = 16384, 2048, 2048
# A last cache that takes what the second one evicts has a table for good only after some sweeps: elements of 8 MB that
# nothing prefetches take 2.4 ns after one of them and 0.8 after several.
WARM_SWEEPS = 6
# Indices that ascend, and the bytes of the table for each: two lines.
ASCENDING, SKIPPED_BYTES = 8192, 128
# Lines that all threads read behind each other, at random places, to read memory as fast as it goes: prefetched two
# pages ahead a Zen 4 reads 17.6 bytes in a ns on one thread and 35 on two, one page ahead 13.4 and 30.
PAGE_LINES, PAGES_AHEAD = 64, 2
# The work of a launch: shares, and how often each reads its lines, from L1. It takes less than waking a thread, so
# it is launched so often before that all are awake.
LEAST_SHARES, SHARES_A_THREAD, SHARE_LINES, SHARE_REPEATS = 64, 8, 128, 4
ASLEEP_AFTER_S, LAUNCHES = 1e-3, 50
LEAST_RUNS = 4
# The rows that are copied from and to 256 KB each, what non-temporal stores write at once, and how often a call repeats
# work of a few microseconds, beside which a call is no longer short.
MOST_ROWS_BYTES, STREAMED_BYTES, REPEATS = 256 * KB, MB, 8


def fill(memory: np.ndarray) -> None:
    """Fill bytes, a multiple of 8, with the words that probes read and write."""
    memory.view(np.int64)[:] = shared_loops.FILL


@dataclass
class Workplace:
    """The memory that the probes use, and the program that they run.

    Attributes:
        memory: a power of two of bytes that begin with a line, each word of which is that of `fill`.
        threads: how many threads share work.
        warmed_bytes: a table of so many bytes is read as a whole before a timing, so that the last cache has what it
            can hold of it.
    """

    memory: np.ndarray
    threads: int
    warmed_bytes: int

    def __post_init__(self) -> None:
        self._rows: dict[int, np.ndarray] = {}
        self._places: dict[int, np.ndarray] = {}
        self._elements: dict[int, np.ndarray] = {}
        self._turns: dict[tuple[int, int], Iterator[Any]] = {}
        self._entry, self._numbers = load_probes().entry, {name: at for at, name in enumerate(probe_names())}
        self._small, self._out = aligned(MB), aligned(MB)
        fill(self._small)
        fill(self._out)
        touch(self._out, self.threads)  # compiles the other loops and starts the threads, before anything is timed

    @classmethod
    def of(cls, size_bytes: int, warmed_bytes: int) -> "Workplace":
        """Return a workplace with so many bytes, which have been touched."""
        memory = aligned(size_bytes + shared_loops.COPY_DISTANCE_BYTES + 2 * LINE_BYTES)
        fill(memory)
        return cls(memory[:size_bytes], available_threads(), warmed_bytes)

    def _call(self, loop: str, *numbers: int, repeats: int = 1) -> Callable[[], int]:
        entry, at = self._entry, self._numbers[loop]
        return lambda: entry(at, *numbers, repeats, 0)

    def latency(self, table_bytes: int) -> Probe:
        """Return a probe of the latency: nanoseconds for a line that is read after the line before it."""
        base, lines = address(self.memory), table_bytes // LINE_BYTES
        if lines <= CHASED_LINES:
            repeats = REPEATS * CHASED_LINES // lines
            return Probe(timed(self._call("latency", base, 0, 0, lines, table_bytes, repeats=repeats), repeats * lines))
        entry, at, place = self._entry, self._numbers["latency"], [0]

        def step() -> None:
            place[0] = entry(at, base, place[0], 0, CHASED_LINES, table_bytes, 1, 0)

        def run() -> float:
            if table_bytes <= self.warmed_bytes:
                self.memory[:table_bytes:LINE_BYTES].max()
            return timed(step, CHASED_LINES, runs=3, warm=0)()

        return Probe(run)

    def instructions(self) -> dict[str, Probe]:
        """Return probes of what one core does in its first two caches: nanoseconds an index, a lane or a row."""
        random = np.random.default_rng(0)
        data, out = address(self._small), address(self._out)
        self._indices = random.integers(0, SMALL_TABLE, INDICES)
        self._staged = random.integers(0, SMALL_TABLE, STAGED, dtype=np.int32)
        wide, staged = address(self._indices), address(self._staged)
        probes = {
            name: Probe(
                timed(self._call(name, data, wide, out, INDICES, SMALL_TABLE, repeats=REPEATS), REPEATS * INDICES)
            )
            for name in ("check", "scalars", "gathered scalars")
        }
        for name in ("lane loads", "wide lane loads"):
            call = self._call(name, data, staged, out, STAGED, SMALL_TABLE, repeats=REPEATS)
            probes[name] = Probe(timed(call, REPEATS * STAGED))
        for size, vector in itertools.product(ROWS_BYTES, VECTORS_BYTES):
            name, rows = f"rows {size} by {vector}", MOST_ROWS_BYTES // size
            places = self._rows.setdefault(size, random.integers(0, rows, rows))
            call = self._call(name, data, address(places), out, rows, rows, repeats=REPEATS)
            probes[name] = Probe(timed(call, REPEATS * rows))
        return probes

    def near_rows(self, table_bytes: int) -> dict[str, Probe]:
        """Return probes of rows of 64 bytes at random places of a table, prefetched into L1: nanoseconds for a row."""
        rows = table_bytes // LINE_BYTES
        self._rows[table_bytes] = random_places(rows).astype(np.int64)
        windows = self._windows(self._rows[table_bytes], rows, READ_LINES, 0)
        names = [f"near {each}" for each in NEAR_ROWS]
        return {name: self._windowed(name, windows, runs=len(windows), warm=len(windows)) for name in names}

    def row_stores(self) -> dict[str, Probe]:
        """Return probes of rows of 256 bytes at random places of half of the memory, which the other half gets.

        They are written there in order. The times are nanoseconds for a row.
        """
        row_bytes, half = ROW_LINES * LINE_BYTES, len(self.memory) // 2
        rows, table = half // row_bytes, address(self.memory)
        places = self._rows[half] = random_places(rows).astype(np.int64)
        window = min(rows, READ_LINES)
        windows = [
            (table, address(places) + 8 * first, table + half + row_bytes * first, window, rows)
            for first in range(0, rows - window + 1, window)
        ]
        return {name: self._windowed(name, windows, runs=LEAST_RUNS, warm=1) for name in ROW_STORES}

    def summed_rows(self, table_bytes: int) -> dict[str, Probe]:
        """Return probes of sums of rows of 256 bytes at random places of a table: nanoseconds for a row."""
        rows = table_bytes // (ROW_LINES * LINE_BYTES)
        self._summed = random_places(rows).astype(np.int64)
        windows = self._windows(self._summed, rows, READ_LINES, 0)
        return {name: self._windowed(name, windows, runs=LEAST_RUNS, warm=1) for name in SUMMED_ROWS}

    def elements(self, table_bytes: int) -> dict[str, Probe]:
        """Return probes of elements at random places of a table, one in each line: nanoseconds for an element.

        Those of memory are written to memory: to the table itself, all of whose words are the same.
        """
        lines, is_far = table_bytes // LINE_BYTES, table_bytes > self.warmed_bytes
        self._elements[table_bytes] = random_places(lines).astype(np.int64) * (LINE_BYTES // 4)
        windows = self._windows(self._elements[table_bytes], lines, READ_ELEMENTS, 4 if is_far else 0)
        sweeps = 1 if is_far else len(windows)
        return {name: self._windowed(name, windows, runs=2 * sweeps, warm=WARM_SWEEPS * sweeps) for name in ELEMENTS}

    def _windows(self, places: np.ndarray, lines: int, most: int, written_bytes: int) -> list[tuple[int, ...]]:
        """Return what the probes of a table read and write in turn, window by window of the places."""
        window, table, out = min(lines, most), address(self.memory), address(self._out)
        return [
            (table, address(places) + 8 * first, table + written_bytes * first if written_bytes else out, window, lines)
            for first in range(0, lines - window + 1, window)
        ]

    def _windowed(self, name: str, windows: list[tuple[int, ...]], runs: int, warm: int) -> Probe:
        entry, at, numbers = self._entry, self._numbers[name], self._in_turn(windows)
        return Probe(timed(lambda: entry(at, *next(numbers), 1, 0), windows[0][3], runs, warm))

    def _in_turn(self, windows: list[Numbers]) -> Iterator[Numbers]:
        """Return windows in turn, the same iterator for all probes of the same ones.

        A probe that began anew would find in the last cache what the probe before it has read.
        """
        return self._turns.setdefault((windows[0][1], len(windows)), itertools.cycle(windows))

    def streams(self) -> dict[str, Probe]:
        """Return probes of non-temporal stores by the vectors they are made in: nanoseconds for a row of 4 KB."""
        target, rows = address(self.memory), STREAMED_BYTES // LONG_ROW_BYTES
        starts = itertools.cycle(range(0, len(self.memory) - STREAMED_BYTES + 1, STREAMED_BYTES))
        entry, data = self._entry, address(self._small)

        def probe(name: str) -> Probe:
            at = self._numbers[name]
            return Probe(timed(lambda: entry(at, data, 0, target + next(starts), rows, 8 * KB, 1, 0), rows))

        return {name: probe(name) for name in ("stream by 32", "stream by 64")}

    def ascending(self) -> dict[str, Probe]:
        """Return probes of elements of memory by indices that ascend and skip lines: nanoseconds for an element."""
        window_bytes = ASCENDING * SKIPPED_BYTES
        elements = np.random.default_rng(1).choice(window_bytes // 4, ASCENDING, replace=False)
        self._ascending = np.sort(elements).astype(np.int64)
        indices, out = address(self._ascending), address(self._out)

        def probe(name: str) -> Probe:
            at, starts = (
                self._numbers[name],
                itertools.cycle(range(0, len(self.memory) - window_bytes + 1, window_bytes)),
            )

            def call() -> None:
                self._entry(at, address(self.memory) + next(starts), indices, out, ASCENDING, 0, 1, 0)

            return Probe(timed(call, ASCENDING, runs=LEAST_RUNS))

        return {f"ascending {name}": probe(name) for name in ("scalars", "gathered scalars")}

    def copies(self, footprint_bytes: int, threads: int) -> dict[str, Probe]:
        """Return probes of a copy in so much memory: nanoseconds of a thread for a byte read or written."""
        grain = threads * shared_loops.BLOCK_BYTES
        half = footprint_bytes // 2 // grain * grain
        # Some memory is up to twice as fast for less than a millisecond, so all of it is copied in one run.
        size = half if footprint_bytes > self.warmed_bytes else min(half, threads * COPIED_BYTES_A_THREAD)
        source = address(self.memory)
        starts = [(source, source + half, first, first + size) for first in range(0, half - size + 1, size)]
        units, windows = 2 * size / threads, itertools.cycle(starts)
        repeats = max(1, LEAST_COPIED_BYTES // size)
        return {
            name: self._swept(replace(call, in_parallel=threads > 1), units, len(starts), footprint_bytes)
            for name, call in copy_ways(windows, [self.memory], threads, repeats).items()
        }

    def lines(self, table_bytes: int, far: int, near: int, piece_lines: int = 1, threads: int = 1) -> Probe:
        """Return a probe of reads of lines at random places: nanoseconds of a thread for a line.

        Args:
            table_bytes: every line of the table is read before any is read again.
            far, near: how many pieces ahead to prefetch.
            piece_lines: adjacent lines that are read at each place.
            threads: that share the reads.
        """
        pieces = table_bytes // (piece_lines * LINE_BYTES)
        window = pieces if threads > 1 else min(pieces, READ_LINES // piece_lines)
        if pieces not in self._places:
            self._places[pieces] = random_places(pieces)
        places = self._places[pieces]
        table, numbers = address(self.memory), address(places)
        starts = [(table, numbers, first, first + window) for first in range(0, pieces - window + 1, window)]
        call = LoopCall(
            shared_loops.READ_LINES,
            self._in_turn(starts),
            (self.memory, places, aligned(threads * LINE_BYTES)),
            shares=threads,
            repeats=max(1, READ_LINES // (piece_lines * window)),
            lines=piece_lines,
            far=far,
            near=near,
            in_parallel=threads > 1,
        )
        return self._swept(call, window * piece_lines / threads, len(starts), table_bytes)

    def _swept(self, call: LoopCall, units: float, windows: int, size_bytes: int) -> Probe:
        """Return a probe of a call that goes through memory window by window, all of it first where it may fit."""
        fits = size_bytes <= self.warmed_bytes
        runs = max(windows, LEAST_RUNS) if fits else LEAST_RUNS
        return Probe(timed(call, units * call.repeats, runs=runs, warm=windows if fits else 1))

    def launches(self) -> dict[str, Probe]:
        """Return probes of the same work by one thread and by all, which spin; and of both after all have slept.

        Beside them one of a call of one share that does nothing.
        """
        shares = max(LEAST_SHARES, SHARES_A_THREAD * self.threads)
        places = self._shared = random_places(SHARE_LINES, shares * SHARE_LINES)
        sums, all_threads = address(self._out), current_subteam()

        def call(repeats: int, subteam: int, shares: int = shares) -> Callable[[], int]:
            window = address(self._small), address(places), 0, shares * SHARE_LINES
            numbers = *window, sums, shares, repeats, 1, 0, 0, shared_loops.ALL_BLOCKS, subteam
            return lambda: shared_loops.run_loop(shared_loops.READ_LINES, *numbers)

        def rested(work: Callable[[], int]) -> Probe:
            def run() -> float:
                time.sleep(ASLEEP_AFTER_S)
                return timed(work, 1, runs=1, warm=0)()

            return Probe(run)

        serial, launch = call(SHARE_REPEATS, 0), call(SHARE_REPEATS, all_threads)
        return {
            "idle": Probe(timed(call(0, 0, shares=1), 1)),
            "serial": Probe(timed(serial, 1)),
            "launch": Probe(timed(launch, 1, warm=LAUNCHES)),
            "rested serial": rested(serial),
            "wake": rested(launch),
        }
