"""Calibrate: measure this machine, and keep the model of it for every later choice of a schedule.

A core or a memory that strangers share is slow for a while, and another process can only make a run slower. So a probe
takes the fastest of some short runs in each pass over all probes, passes are spread over seconds, and the time of a
probe is the median of its passes; beside busy processes it is the fastest pass.

A size that is measured near the one that the system reports is taken to be that one: thresholds follow from it, and
they should not change with the noise. An interval says how far to believe a field: the fields are derived again and
again from passes that are drawn at random from the measured ones (a bootstrap).
"""

import itertools
import json
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median_low
from typing import Any, TypeVar

import numpy as np

from ...lowering.schedule.machine_model import BUILT_IN, LINE_BYTES, MachineModel
from ...lowering.schedule.thresholds import LANE_UOPS, PREFETCH_UOPS, VECTOR_UOPS
from ..host.cpu import OtherLoad, free_memory_bytes, package_version
from ..host.dependencies import require_compiler
from ..host.files import publish
from ..host.machine import (
    BUSY_CORES,
    Calibration,
    built_in_machine,
    calibration_path,
    forget_calibration,
    machine_facts,
)
from ..host.runtime import RUNTIME
from ..host.timing import fastest_s
from ..runtime.array_checks import address
from ..runtime.launch import available_threads, current_subteam
from .probes import (
    BLOCK_BYTES,
    CACHED,
    COPY_DISTANCE_BYTES,
    ELEMENTS,
    FILL,
    LOOPS,
    MAX_DISTANCE,
    READS,
    STREAMED,
    SUMMED_ROWS,
    Probe,
    Window,
    aligned,
    load_probe,
    random_places,
)

KB, MB = 1024, 1024**2
MIN_TABLE_BYTES, MIN_MEMORY_BYTES, MAX_MEMORY_BYTES = 16 * KB, 128 * MB, 512 * MB
# The seconds that latencies are measured, and all else; and the fewest passes over all probes, however long one takes.
LATENCY_S, RATES_S, MIN_PASSES = 2.0, 9.0, 5
# A field whose interval is wider is not measured: it keeps the value of the built-in model. Schedules differ where a
# rate differs by a quarter.
MAX_INTERVAL_RATIO = 1.25
# These fields are not measured while other processes use the cores and the last cache.
DISTURBED = "l3_bytes", "launch_ns", "wake_ns"
# The fields are derived from drawn passes this number of times; the interval of a field leaves out this number of its
# lowest and of its highest values, and holds about 80 % of them.
DRAWS, OUTSIDE = 40, 4
PARTS = 100
VERSIONS_OF = ("gathernest", "numba", "llvmlite", "numpy")

# Lines that one run of the latency reads, one after the other; a table with fewer is read whole.
CHASED_LINES = 4096
# The other prefetch beside a prefetch that is tried: lines ahead into L1, and lines ahead into L2.
BESIDE_NEAR, BESIDE_FAR = 16, 128
# The work of a thread in one run takes much longer than a call or a launch.
READ_LINES, READ_ELEMENTS, COPIED_BYTES_A_THREAD, MIN_COPIED_BYTES = 32768, 65536, MB, 512 * KB
# The scalars: indices that fill half of an L2, and elements of a table that fits in L1.
INDICES, SMALL_TABLE = 16384, 2048
# A last cache that takes the lines that the second one evicts has a table for good only after some sweeps: elements of
# 8 MB that nothing prefetches take 2.4 ns after one of them and 0.8 after several.
WARM_SWEEPS = 6
# Indices that ascend, and the bytes of the table for each: two lines.
ASCENDING, SKIPPED_BYTES = 8192, 128
# Lines that all threads read behind each other, at random places, to read memory as fast as it goes: prefetched two
# pages ahead a Zen 4 reads 17.6 bytes in a ns on one thread and 35 on two, one page ahead 13.4 and 30.
PAGE_LINES, PAGES_AHEAD = 64, 2
# The work of a launch: shares, and the times that each reads its lines, from L1. It takes less than waking a thread, so
# it is launched so often before that all are awake.
MIN_SHARES, SHARES_A_THREAD, SHARE_LINES, SHARE_REPEATS = 64, 8, 128, 4
ASLEEP_AFTER_S, LAUNCHES = 1e-3, 50
MIN_RUNS = 4
# The times that a call repeats work of a few microseconds, so that the call itself is short beside it.
REPEATS = 8

# The prefetch distances into L2 that are tried, in lines of memory, and the bytes of the rows of timers.
FAR_LINES, ROW_BYTES = (64, 128, 256), 256
# Parts of a reported size: a measured end of a cache within them is the reported one.
NEAR_REPORTED = (0.7, 1.5)
# The least part of a copy's rate at which memory is read alone: of its bytes a copy reads a half.
MIN_ONE_WAY = 0.5
MIN_LAUNCH_NS = 100.0

# A timer does something once, after its data is in the caches, and returns nanoseconds for a unit of its work.
Timer = Callable[[], float]
Name = TypeVar("Name")
# Is called with the parts done, the number of all parts, and words.
Report = Callable[[int, int, str], None]


def calibrate(report: Report = lambda done, most, text: None) -> Calibration:
    """Return a calibration of this machine, for the threads that a large gather uses; nothing is stored.

    It takes 12 to 20 seconds, and up to 512 MB of memory. Each field follows from medians, or from the fastest passes
    where other processes use `BUSY_CORES` or more meanwhile. A field whose interval is wide keeps the value of the
    built-in model, and so do `l3_bytes`, `launch_ns` and `wake_ns` beside such processes. The built-in `l3_bytes` is
    the reported size, which other machines may share, but no more than the model's.

    Args:
        report: called after each pass over all probes.

    Raises:
        DependencyError: Numba is missing.
    """

    def show(text: str, start: float, share: float) -> Callable[[float], None]:
        return lambda done: report(int(PARTS * (start + share * done)), PARTS, text)

    require_compiler()
    load = OtherLoad()
    report(0, PARTS, "compiling the probes")
    base, threads = built_in_machine().model, available_threads()
    memory_bytes = _memory_bytes(base)
    workplace = Workplace(memory_bytes, threads, warmed_bytes=min(2 * base.l3_bytes, memory_bytes // 2))
    sizes = [size for power in range(10, 40) if MIN_TABLE_BYTES <= (size := 1 << power) <= memory_bytes]
    first_part = LATENCY_S / max(LATENCY_S + RATES_S, 1e-9)
    latencies = {size: workplace.latency(size) for size in sizes}
    latencies_ns = take_passes(latencies, LATENCY_S, show("latencies", 0, first_part))
    reported = base.l1_bytes, base.l2_bytes, base.l3_bytes
    caches = cache_ends({size: median_low(times) for size, times in latencies_ns.items()}, reported)
    rates = workplace.timers(caches, sizes[-1])
    rates_ns = take_passes(rates, RATES_S, show("rates", first_part, 1 - first_part))
    report(PARTS, PARTS, "")
    other_cores = round(load.cores(), 2)
    passes_ns = {f"latency {size}": times for size, times in latencies_ns.items()} | rates_ns
    return _calibration(passes_ns, base, threads, other_cores)


def _calibration(
    passes_ns: Mapping[str, Sequence[float]], base: MachineModel, threads: int, other_cores: float
) -> Calibration:
    """Return the calibration that follows from the times of all passes, by the names of the timers."""
    is_busy = other_cores >= BUSY_CORES
    pick = min if is_busy else median_low  # the lower median, since memory may have two speeds
    kept = fit_fields({name: pick(times) for name, times in passes_ns.items()}, base, threads)
    draw = random.Random(0).choices
    drawn = [
        fit_fields({name: pick(draw(times, k=len(times))) for name, times in passes_ns.items()}, base, threads)
        for _ in range(DRAWS)
    ]
    uncertain = dict[str, Any]()
    last_bytes = max(min(base.l3_bytes, BUILT_IN[base.name].l3_bytes), 2 * base.l2_bytes)
    reported = {"l1_bytes": base.l1_bytes, "l2_bytes": base.l2_bytes, "l3_bytes": last_bytes}
    for name in list(kept):
        low, high = interval([fields[name] for fields in drawn])
        if is_wide(low, high) or (is_busy and name in DISTURBED):
            uncertain[name] = {"low": rounded(low), "high": rounded(high)}
            del kept[name]
            kept |= {name: reported[name]} if name in reported else {}
    return Calibration(
        base=base.name,
        fields={name: rounded(value) for name, value in kept.items()},
        machine=machine_facts(),
        threads=threads,
        other_cores=other_cores,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        versions={name: package_version(name) for name in VERSIONS_OF},
        uncertain=uncertain,
    )


def keep(found: Calibration) -> Path:
    """Put a calibration in its file, return that, and plan gathers by it from now on; raises OSError."""
    path = calibration_path()
    publish(path, json.dumps(found.to_json(), indent=1) + "\n")
    forget_calibration()
    RUNTIME.forget()
    return path


def forget() -> Path | None:
    """Remove this machine's calibration, and return its file; None where there was none. Raises OSError."""
    path = calibration_path()
    is_there = path.exists()
    path.unlink(missing_ok=True)
    forget_calibration()
    RUNTIME.forget()
    return path if is_there else None


def _memory_bytes(base: MachineModel) -> int:
    """Return a power of two of bytes, far more than the caches where there is enough memory."""
    most = min(MAX_MEMORY_BYTES, free_memory_bytes() // 4)
    wanted = max(MIN_MEMORY_BYTES, min(8 * base.l3_bytes, most))
    return 1 << wanted.bit_length() - 1


def timed(call: Callable[[], object], units: float, runs: int = 5, warm: int = 1) -> Timer:
    """Return a timer of a call that does `units` units of work: the fastest of some runs, after some that warm up."""
    return lambda: 1e9 * fastest_s(call, runs=runs, warm=warm) / units


def take_passes(
    timers: Mapping[Name, Timer], seconds: float, on_pass: Callable[[float], None] = lambda _: None
) -> dict[Name, list[float]]:
    """Run all timers pass by pass for `seconds`, and `MIN_PASSES` at least, and return the times of each.

    `on_pass` is called after each pass with the part that is done, 0 to 1.
    """
    times_ns: dict[Name, list[float]] = {name: [] for name in timers}
    start, passes = time.perf_counter(), 0
    while passes < MIN_PASSES or time.perf_counter() - start < seconds:
        for name, timer in timers.items():
            times_ns[name].append(timer())
        passes += 1
        on_pass(min((time.perf_counter() - start) / max(seconds, 1e-9), passes / MIN_PASSES, 1.0))
    return times_ns


class Workplace:
    """The memory that the probes use, and the timers of a calibration over it.

    Work is of one thread, except launches and the copies and reads of memory by all threads together.

    Args:
        size_bytes: of memory, a power of two, every word of which is `FILL`.
        threads: the number of threads that share work.
        warmed_bytes: a table up to this size is read as a whole before a timing, so that the last cache holds as
            much of the table as it can.
    """

    def __init__(self, size_bytes: int, threads: int, warmed_bytes: int):
        self.threads, self.warmed_bytes = threads, warmed_bytes
        self._small, self._out = aligned(MB), aligned(MB)
        self.memory = aligned(size_bytes + COPY_DISTANCE_BYTES + 2 * LINE_BYTES)
        for array in (self.memory, self._small, self._out):
            array.view(np.int64)[:] = FILL
        self.memory = self.memory[:size_bytes]
        for loop in LOOPS:  # compiled, and the threads started, before anything is timed
            load_probe(loop)
        current_subteam()

    def timers(self, caches: tuple[int, int, int], size: int) -> dict[str, Timer]:
        """Return all timers except the latencies.

        Args:
            caches: the bytes of L1, L2 and the last cache.
            size: of memory that is used, far more than the caches.
        """
        (l1, l2, l3), lines = caches, self.lines
        return {
            **self.instructions(),
            **self.launches(),
            **self.copies("L2", l2 // 2, 1),
            **self.copies("L3", l3 // 2, 1),
            **lines(l1 // 2, {"lines L1": (0, 0)}),
            **lines(l2 // 2, {"lines L2": (0, 0)}),
            **lines(l3 // 4, {"lines L3 far": (BESIDE_FAR, 0), "lines L3 near": (0, BESIDE_NEAR)}),
            **self.elements("L3", l3 // 4),
            **self.rows(size),
            **self.copies("memory", size, 1),
            **self.copies("all threads", size, self.threads),
            **lines(size, {"all threads read": (PAGES_AHEAD, 0)}, PAGE_LINES, self.threads),
            **lines(size, {f"far {each}": (each, BESIDE_NEAR) for each in FAR_LINES}),
            **self.elements("memory", size),
        }

    def latency(self, table_bytes: int) -> Timer:
        """Return the timer of the latency: nanoseconds for a line that is read after the line before it."""
        entry, base, place = load_probe("latency"), address(self.memory), 0
        lines = table_bytes // LINE_BYTES
        count, is_small = min(lines, CHASED_LINES), lines <= CHASED_LINES
        repeats = REPEATS * CHASED_LINES // lines if is_small else 1

        def step() -> None:
            nonlocal place
            found = entry(base, place, 0, 0, count, table_bytes, 0, 0, 0, 1, repeats, 0)
            place = 0 if is_small else found

        if is_small or table_bytes > self.warmed_bytes:
            return timed(step, repeats * count, *(() if is_small else (3, 0)))

        def run() -> float:
            self.memory[:table_bytes:LINE_BYTES].max()
            return timed(step, count, runs=3, warm=0)()

        return run

    def instructions(self) -> dict[str, Timer]:
        """Return timers of the work of one core in its first two caches, and of indices that ascend: ns an index.

        Indices that ascend and skip lines read elements of memory.
        """
        near = np.random.default_rng(0).integers(0, SMALL_TABLE, INDICES)
        window_bytes = ASCENDING * SKIPPED_BYTES
        skipping = np.random.default_rng(1).choice(window_bytes // 4, ASCENDING, replace=False).astype(np.int64)
        skipping.sort()
        first, out = address(self.memory), address(self._out)
        small = [(address(self._small), address(near), out, 0, INDICES)]
        starts = range(first, first + len(self.memory) - window_bytes + 1, window_bytes)
        tables = [(start, address(skipping), out, 0, ASCENDING) for start in starts]
        found: dict[str, Timer] = {}
        for name in ("check", "scalars", "gathered scalars"):
            probe = Probe(name, itertools.cycle(small), (near,), SMALL_TABLE, repeats=REPEATS)
            found[name] = _timer(probe, INDICES)
            if name != "check":
                probe = Probe(name, itertools.cycle(tables), (skipping,), 0)
                found[f"ascending {name}"] = _timer(probe, ASCENDING, MIN_RUNS)
        return found

    def rows(self, table_bytes: int) -> dict[str, Timer]:
        """Return timers of sums of rows of 256 bytes at random places of a table: nanoseconds for a row."""
        rows = table_bytes // ROW_BYTES
        places = random_places(rows).astype(np.int64)
        windows = self._windows(places, READ_LINES, address(self._out))
        turns = itertools.cycle(windows)  # a probe that began anew would find its lines in the last cache
        return {name: _timer(Probe(name, turns, (places,), rows), windows[0][4], MIN_RUNS) for name in SUMMED_ROWS}

    def elements(self, level: str, table_bytes: int) -> dict[str, Timer]:
        """Return timers of elements at random places of a table, one in each line: nanoseconds for an element.

        Copies of memory are written to the table itself, all of whose words are the same.
        """
        lines, is_far = table_bytes // LINE_BYTES, table_bytes > self.warmed_bytes
        places = random_places(lines).astype(np.int64) * (LINE_BYTES // 4)
        out = (address(self.memory), 4) if is_far else (address(self._out), 0)
        windows = self._windows(places, READ_ELEMENTS, *out)
        sweeps, turns = 1 if is_far else len(windows), itertools.cycle(windows)
        runs = windows[0][4], 2 * sweeps, WARM_SWEEPS * sweeps
        return {f"{level} {name}": _timer(Probe(name, turns, (places,), lines), *runs) for name in ELEMENTS}

    def copies(self, level: str, footprint_bytes: int, threads: int) -> dict[str, Timer]:
        """Return timers of a copy within a footprint: nanoseconds of a thread for a byte read or written."""
        grain = threads * BLOCK_BYTES
        half = footprint_bytes // 2 // grain * grain
        # Some memory is up to twice as fast for less than a millisecond, so all of it is copied in one run.
        size = half if footprint_bytes > self.warmed_bytes else min(half, threads * COPIED_BYTES_A_THREAD)
        source = address(self.memory)
        windows = [(source, 0, source + half, first, first + size) for first in range(0, half - size + 1, size)]
        copy = Probe(CACHED, itertools.cycle(windows), (self.memory,), shares=threads)
        copy = replace(copy, repeats=max(1, MIN_COPIED_BYTES // size))
        units, runs = 2 * size / threads, self._sweeps(len(windows), footprint_bytes)
        return {f"{level} {name}": _timer(replace(copy, loop=name), units, *runs) for name in (STREAMED, CACHED)}

    def lines(
        self, table_bytes: int, tried: Mapping[str, tuple[int, int]], piece_lines: int = 1, threads: int = 1
    ) -> dict[str, Timer]:
        """Return timers of reads of lines at random places: nanoseconds of a thread for a line.

        Args:
            table_bytes: every line of the table is read before any is read again.
            tried: by name, the distances of prefetches into L2 and into L1, in pieces.
            piece_lines: adjacent lines that are read at each place.
            threads: that share the reads.
        """
        pieces = table_bytes // (piece_lines * LINE_BYTES)
        window = pieces if threads > 1 else min(pieces, READ_LINES // piece_lines)
        places = random_places(pieces)
        windows = self._windows(places, window, address(self._out))
        repeats = max(1, READ_LINES // (piece_lines * window))
        way = Probe(READS, itertools.cycle(windows), (places,), 0, piece_lines, shares=threads, repeats=repeats)
        units, runs = window * piece_lines / threads, self._sweeps(len(windows), table_bytes)
        return {name: _timer(replace(way, far=far, near=near), units, *runs) for name, (far, near) in tried.items()}

    def launches(self) -> dict[str, Timer]:
        """Return timers of the same work by one thread and by all, which spin; and of both after all have slept.

        Beside them one of a call of one share that does nothing.
        """
        shares = max(MIN_SHARES, SHARES_A_THREAD * self.threads)
        places = random_places(SHARE_LINES, shares * SHARE_LINES)
        window = address(self._small), address(places), 0, 0, shares * SHARE_LINES
        serial = Probe(READS, itertools.repeat(window), (places,), 0, shares=shares, repeats=SHARE_REPEATS)
        serial = replace(serial, in_parallel=False)
        launch = replace(serial, in_parallel=True).prepared()

        def rested(work: Callable[[], int]) -> Timer:
            def run() -> float:
                time.sleep(ASLEEP_AFTER_S)
                return timed(work, 1, runs=1, warm=0)()

            return run

        return {
            "idle": timed(replace(serial, shares=1, repeats=0).prepared(), 1),
            "serial": timed(serial.prepared(), 1),
            "launch": timed(launch, 1, warm=LAUNCHES),
            "rested serial": rested(serial.prepared()),
            "wake": rested(launch),
        }

    def _windows(self, places: np.ndarray, most: int, out: int, written_bytes: int = 0) -> list[Window]:
        """Return the windows that the probes of a table read and write in turn.

        `out` is the address that they write to, at `written_bytes` for each place before the window.
        """
        count, table, indices = len(places) - MAX_DISTANCE, address(self.memory), address(places)
        size = min(count, most)
        starts = range(0, count - size + 1, size)
        return [(table, indices + places.itemsize * first, out + written_bytes * first, 0, size) for first in starts]

    def _sweeps(self, windows: int, size_bytes: int) -> tuple[int, int]:
        """Return the numbers of timed and of untimed runs: all windows where they may fit the caches."""
        return (max(windows, MIN_RUNS), windows) if size_bytes <= self.warmed_bytes else (MIN_RUNS, 1)


def _timer(probe: Probe, units: float, runs: int = 5, warm: int = 1) -> Timer:
    """Return a timer of a probe that does `units` units of work in each repeat."""
    return timed(probe.prepared(), units * probe.repeats, runs, warm)


# from times to fields


def fit_fields(times_ns: Mapping[str, float], base: MachineModel, threads: int) -> dict[str, Any]:
    """Return all measured fields of the model.

    Args:
        times_ns: by the names of the timers of `Workplace`.
        base: the built-in model.
        threads: the number of threads that shared the work.
    """
    took = times_ns
    latency_ns = {int(name.split()[1]): ns for name, ns in took.items() if name.startswith("latency ")}
    l1_bytes, l2_bytes, l3_bytes = cache_ends(latency_ns, (base.l1_bytes, base.l2_bytes, base.l3_bytes))
    copies_ns = [min(took[f"{level} {way}"] for way in (CACHED, STREAMED)) for level in ("L2", "L3", "memory")]
    memory = threads / min(took[f"all threads {way}"] for way in (CACHED, STREAMED))
    alone = threads * LINE_BYTES / took["all threads read"]
    line_ns = {
        "L3": min(took["lines L3 far"], took["lines L3 near"]),
        "memory": min(took[f"far {each}"] for each in FAR_LINES),
    }
    # A scalar has the instructions of a resolved index, of a lane and of its part of a vector.
    lane_ns = took["scalars"] * LANE_UOPS / (VECTOR_UOPS + LANE_UOPS + VECTOR_UOPS / 8)
    uop_ns = lane_ns / LANE_UOPS
    prefetch_ns = (VECTOR_UOPS + PREFETCH_UOPS) * uop_ns
    beyond_ns = {  # elements without the prefetch into L2, beside elements with it
        way: [ns + took[f"{level} elements {way}"] - took[f"{level} elements far"] for level, ns in line_ns.items()]
        for way in ("near", "alone")
    }
    near_ns = tuple(max(ns, uop_ns) for ns in beyond_ns["near"])
    later_ns = took["memory elements near, streamed"] - took["memory elements near"]
    fields = {
        "l1_bytes": l1_bytes,
        "l2_bytes": l2_bytes,
        "l3_bytes": max(l3_bytes, 2 * l2_bytes),
        "copy_bytes_per_ns": tuple(1 / each for each in copies_ns),
        "interleaved_times": max(took["summed rows, interleaved"] / took["summed rows, fissioned"], 1.0),
        "memory_bytes_per_ns": memory,
        "one_way_share": min(max(alone / memory, MIN_ONE_WAY), 1.0),
        "strayed_lines": max(took["ascending scalars"] - took["ascending gathered scalars"], 0.0) / line_ns["memory"],
        "line_ns": (took["lines L1"], took["lines L2"], *line_ns.values()),
        "near_line_ns": near_ns,
        "alone_line_ns": tuple(max(ns + prefetch_ns, uop_ns) for ns in beyond_ns["alone"]),
        "streamed_times": 1 + max(later_ns, 0.0) / near_ns[1],
        "memory_ns": latency_ns[max(latency_ns)],
        "byte_ns": took["scalars"] / 12,  # 8 of the index, 4 of the element
        "lane_load_ns": lane_ns,
        "lane_gather_ns": lane_ns * took["gathered scalars"] / took["scalars"],
        "check_ns": took["check"],
    }
    if threads > 1:
        serial_ns, shared_ns = (took[name] - took["idle"] for name in ("serial", "launch"))
        launch_ns = max(shared_ns - serial_ns / threads, MIN_LAUNCH_NS)
        waking_ns = max(took["wake"] - took["rested serial"], 0.0)
        fields |= {"launch_ns": launch_ns, "wake_ns": shared_from_ns(launch_ns, waking_ns, threads)}
    return fields


def interval(values: Sequence[Any]) -> tuple[Any, Any]:
    """Return a low and a high value of a field that was derived `DRAWS` times; lists of them where it is a tuple."""
    ranked = np.sort(values, axis=0)
    return ranked[OUTSIDE].tolist(), ranked[-1 - OUTSIDE].tolist()


def is_wide(low: Any, high: Any) -> bool:
    """Return whether an interval is too wide for its field to count as measured, in any element of a list."""
    return bool(np.any(np.asarray(high) > MAX_INTERVAL_RATIO * np.asarray(low)))


def rounded(value: Any) -> Any:
    """Return a field with times and rates of three digits."""
    if isinstance(value, list | tuple):
        return type(value)(map(rounded, value))
    return float(f"{value:.3g}") if isinstance(value, float) else value


def cache_ends(latency_ns: Mapping[int, float], reported: Sequence[int]) -> tuple[int, int, int]:
    """Return where the caches end: between two of them a random read takes the geometric mean of both latencies.

    Args:
        latency_ns: by the size of the table, a power of two; the last is far beyond the caches.
        reported: the sizes of L1, L2 and L3 as the system tells them.
    """
    sizes = sorted(latency_ns)
    # well inside each cache, and far behind the last
    inside = [reported[0] // 2, reported[1] // 2, 4 * reported[1]]
    plateaus = [latency_ns[max((size for size in sizes if size <= at), default=sizes[0])] for at in inside]
    plateaus.append(latency_ns[sizes[-1]])
    ends: list[int] = []
    for (here, beyond), size_bytes in zip(itertools.pairwise(plateaus), reported, strict=True):
        end = _crossing([(size, latency_ns[size]) for size in sizes], math.sqrt(here * beyond))
        least, most = (part * size_bytes for part in NEAR_REPORTED)
        ends.append(size_bytes if least <= end <= most else _rounded_size(min(end, size_bytes)))
    return ends[0], ends[1], ends[2]


def _crossing(points: Sequence[tuple[float, float]], level: float) -> float:
    """Return the size from which all values are above a level, between points by their logarithms."""
    place = next((at for at in reversed(range(len(points))) if points[at][1] <= level), 0)
    if place == len(points) - 1:
        return points[-1][0]
    (size, low), (next_size, high) = points[place], points[place + 1]
    return size * (next_size / size) ** (math.log(max(level / low, 1)) / math.log(high / low))


def _rounded_size(size: float) -> int:
    """Return a size rounded down to 4, 5, 6 or 7 quarters of a power of two."""
    quarter = 2 ** (int(size).bit_length() - 3)
    return int(size) // quarter * quarter


def shared_from_ns(launch_ns: float, waking_ns: float, threads: int) -> float:
    """Return the time of work, by one thread, from which sharing has the smaller regret.

    Nothing is known of whether threads sleep. Where they do, work of S takes (S + waking) / S times as long shared as
    by one thread. Where they spin, it takes S / (S / threads + launch) times as long by one thread. Both are equal at
    the returned time.

    Args:
        launch_ns: a launch on threads that spin.
        waking_ns: the cost to the caller of a launch on threads that sleep; it does all the work before they wake.
        threads: 2 or more.
    """
    spared = 1 - 1 / threads
    both_ns = launch_ns + waking_ns / threads
    return (both_ns + math.sqrt(both_ns**2 + 4 * spared * launch_ns * waking_ns)) / (2 * spared)
