"""Calibrate: measure the machine, and keep the model of it for every later choice of a schedule. Imports Numba."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median_low
from typing import Any

from ...lowering.schedule.machine_model import BUILT_IN, MachineModel
from ...lowering.schedule.thresholds import LANE_UOPS
from ..host.cpu import free_memory_bytes, package_version
from ..host.dependencies import require_compiler
from ..host.host_load import OtherLoad
from ..host.machine import built_in_machine
from ..host.machine_files.calibration_file import (
    BUSY_CORES,
    DATE,
    Calibration,
    calibration_path,
    forget_calibration,
    machine_facts,
    write_calibration,
)
from ..host.runtime import RUNTIME
from ..runtime.launch import available_threads
from .derived_model import cache_ends, derived_fields, distance, element_fields, rounded, store_times
from .probe_program import NEAR_ROWS
from .probes import (
    BESIDE_FAR,
    BESIDE_NEAR,
    FAR_LINES,
    FAR_ROWS,
    KB,
    LINE_BYTES,
    MB,
    PAGE_LINES,
    PAGES_AHEAD,
    ROW_LINES,
    Workplace,
)
from .samples import Probe, intervals, is_wide, take_samples

LEAST_TABLE_BYTES, LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 16 * KB, 128 * MB, 512 * MB
# The seconds that latencies are measured, and all else.
LATENCY_S, RATES_S = 2.0, 9.0
# A field whose interval is wider is not measured: it keeps the value of the built-in model. Schedules differ where a
# rate differs by a quarter.
MAX_INTERVAL_RATIO = 1.25
# Lines are prefetched into L2 so many times as far ahead as it has outstanding misses.
FAR_ROWS_A_MISS = 4

# Of what a copy reads and writes it reads a half.
LEAST_ONE_WAY = 0.5

# Is called with the parts done, how many there will be, and words.
Report = Callable[[int, int, str], None]
PARTS = 100
VERSIONS_OF = ("gathernest", "numba", "llvmlite", "numpy")
CACHED, STREAMED = "cached stores", "non-temporal stores"
# These fields are not measured while other processes use the cores and the last cache.
DISTURBED = "l3_bytes", "launch_ns", "wake_ns"


def calibrate(report: Report = lambda done, most, said: None) -> Calibration:
    """Return a calibration of this machine, for the threads that a large gather uses; nothing is stored.

    It takes 12 to 20 seconds, and up to 512 MB of memory. Each field follows from medians, or from the fastest passes
    where other processes use `BUSY_CORES` or more meanwhile. A field whose interval is wide keeps the value of the
    built-in model, and so do `l3_bytes`, `launch_ns` and `wake_ns` beside such processes. The built-in `l3_bytes` is
    what the system reports, which other machines may share, but no more than the model's.

    Args:
        report: called after each pass over all probes.

    Raises:
        DependencyError: Numba is missing.
    """
    require_compiler()
    load = OtherLoad()
    report(0, PARTS, "compiling the probes")
    base, threads = built_in_machine().model, available_threads()
    memory_bytes = _memory_bytes(base)
    workplace = Workplace.of(memory_bytes, warmed_bytes=min(2 * base.l3_bytes, memory_bytes // 2))
    sizes = [size for power in range(10, 40) if LEAST_TABLE_BYTES <= (size := 1 << power) <= memory_bytes]
    reported, first_part = (base.l1_bytes, base.l2_bytes, base.l3_bytes), LATENCY_S / max(LATENCY_S + RATES_S, 1e-9)
    latencies = {f"latency {size}": workplace.latency(size) for size in sizes}
    latency_ns = take_samples(
        latencies, LATENCY_S, lambda done: report(int(PARTS * first_part * done), PARTS, "latencies")
    )
    caches = _caches(latency_ns, sizes, reported)
    probes = _probes_of_caches(workplace, caches) | _probes_of_memory(workplace, sizes[-1])
    take_samples(
        probes, RATES_S, lambda done: report(int(PARTS * (first_part + (1 - first_part) * done)), PARTS, "rates")
    )
    report(PARTS, PARTS, "")
    probes |= latencies
    other_cores = round(load.cores(), 2)

    def derive(times_ns: Mapping[str, float]) -> dict[str, Any]:
        return _fields(times_ns, sizes, base, threads)

    is_busy = other_cores >= BUSY_CORES
    pick = min if is_busy else median_low
    found = derive({name: pick(probe.times_ns) for name, probe in probes.items()})
    uncertain = {
        name: interval
        for name, interval in intervals(probes, derive, pick).items()
        if is_wide(interval, MAX_INTERVAL_RATIO) or (name in DISTURBED and is_busy)
    }
    fields = {name: value for name, value in found.items() if name not in uncertain}
    sizes_told = {"l1_bytes": base.l1_bytes, "l2_bytes": base.l2_bytes}
    sizes_told["l3_bytes"] = max(min(base.l3_bytes, BUILT_IN[base.name].l3_bytes), 2 * base.l2_bytes)
    fields |= {name: sizes_told[name] for name in sizes_told if name in uncertain}
    return Calibration(
        base=base.name,
        fields=rounded(fields),
        machine=machine_facts(),
        threads=threads,
        other_cores=other_cores,
        date=datetime.now(UTC).strftime(DATE),
        versions={name: package_version(name) for name in VERSIONS_OF},
        uncertain={name: rounded({"low": low, "high": high}) for name, (low, high) in uncertain.items()},
    )


def keep(found: Calibration) -> Path:
    """Put a calibration in its file, return that, and plan gathers by it from now on; raises OSError."""
    path = write_calibration(found)
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


def _caches(
    times_ns: Mapping[str, float], sizes: Sequence[int], reported: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Return where the caches end, by the latencies of tables of some sizes."""
    return cache_ends({size: times_ns[f"latency {size}"] for size in sizes}, reported)


def _fields(times_ns: Mapping[str, float], sizes: Sequence[int], base: MachineModel, threads: int) -> dict[str, Any]:
    """Return all measured fields of the model."""
    caches = _caches(times_ns, sizes, (base.l1_bytes, base.l2_bytes, base.l3_bytes))
    fields = {
        **_sizes_and_rates(times_ns, caches, base, threads),
        "memory_ns": times_ns[f"latency {sizes[-1]}"],
        **derived_fields(times_ns, base, threads),
    }
    return fields | element_fields(times_ns, fields["line_ns"][2:], fields["lane_load_ns"] / LANE_UOPS)


def _sizes_and_rates(
    times_ns: Mapping[str, float], caches: tuple[int, int, int], base: MachineModel, threads: int
) -> dict[str, Any]:
    """Return the fields of caches, copies, random lines and prefetches."""
    far, near, rows = (
        {each: times_ns[f"{name} {each}"] for each in tried}
        for name, tried in (("far", FAR_LINES), ("near", NEAR_ROWS), ("rows", FAR_ROWS))
    )
    ahead, far_ahead, row_bytes = distance(near, base.near_rows), distance(far, base.far_rows), ROW_LINES * LINE_BYTES
    copies_ns = [min(times_ns[f"{name} {way}"] for way in (CACHED, STREAMED)) for name in ("L2", "L3", "memory")]
    memory = threads / min(times_ns[f"all threads {way}"] for way in (CACHED, STREAMED))
    alone, line_ns = threads * LINE_BYTES / times_ns["all threads read"], min(far.values())
    return {
        "l1_bytes": caches[0],
        "l2_bytes": caches[1],
        "l3_bytes": max(caches[2], 2 * caches[1]),
        "l1_misses": base.l1_misses if ahead == base.near_rows else ahead,
        "l2_misses": base.l2_misses if far_ahead == base.far_rows else far_ahead // FAR_ROWS_A_MISS,
        "near_bytes": distance(rows, base.near_bytes // row_bytes) * row_bytes,
        "copy_bytes_per_ns": tuple(1 / each for each in copies_ns),
        "store_times": store_times(
            times_ns[f"rows, {CACHED}"], times_ns[f"rows, {STREAMED}"], row_bytes * copies_ns[-1]
        ),
        "interleaved_times": max(times_ns["summed rows, interleaved"] / times_ns["summed rows, fissioned"], 1.0),
        "memory_bytes_per_ns": memory,
        "one_way_share": min(max(alone / memory, LEAST_ONE_WAY), 1.0),
        "strayed_lines": max(times_ns["ascending scalars"] - times_ns["ascending gathered scalars"], 0.0) / line_ns,
        "line_ns": (
            times_ns["lines L1"],
            times_ns["lines L2"],
            min(times_ns["lines L3 far"], times_ns["lines L3 near"]),
            line_ns,
        ),
    }


def _memory_bytes(base: MachineModel) -> int:
    """Return a power of two of bytes, far more than the caches where there is so much memory."""
    most = min(MOST_MEMORY_BYTES, free_memory_bytes() // 4)
    wanted = max(LEAST_MEMORY_BYTES, min(8 * base.l3_bytes, most))
    return 1 << wanted.bit_length() - 1


def _probes_of_caches(workplace: Workplace, caches: tuple[int, int, int]) -> dict[str, Probe]:
    """Return the probes of instructions, launches and caches."""
    (l1, l2, l3), lines = caches, workplace.lines
    probes = workplace.instructions() | workplace.launches() | workplace.near_rows(l3 // 4)
    for name, size in (("L2", l2 // 2), ("L3", l3 // 2)):
        probes |= {f"{name} {way}": probe for way, probe in workplace.copies(size, 1).items()}
    probes |= {f"lines {name}": lines(size // 2, 0, 0) for name, size in (("L1", l1), ("L2", l2))}
    probes["lines L3 far"] = lines(l3 // 4, BESIDE_FAR, 0)
    probes["lines L3 near"] = lines(l3 // 4, 0, BESIDE_NEAR)
    return probes | {f"L3 {way}": probe for way, probe in workplace.elements(l3 // 4).items()}


def _probes_of_memory(workplace: Workplace, size: int) -> dict[str, Probe]:
    """Return the probes of so many bytes, far more than the caches."""
    lines = workplace.lines
    probes = workplace.streams() | workplace.ascending() | workplace.row_stores() | workplace.summed_rows(size)
    for name, threads in (("memory", 1), ("all threads", workplace.threads)):
        probes |= {f"{name} {way}": probe for way, probe in workplace.copies(size, threads).items()}
    probes["all threads read"] = lines(size, PAGES_AHEAD, 0, PAGE_LINES, workplace.threads)
    probes |= {f"far {each}": lines(size, each, BESIDE_NEAR) for each in FAR_LINES}
    probes |= {f"memory {way}": probe for way, probe in workplace.elements(size).items()}
    return probes | {f"rows {each}": lines(size, BESIDE_FAR // ROW_LINES, each, ROW_LINES) for each in FAR_ROWS}
