"""From times to the fields of a machine model, with intervals. Plain Python.

A size that is measured near the one that the system reports is taken to be that one: thresholds follow from it, and
they should not change with the noise. An interval says how far to believe a field: the fields are derived again and
again from passes that are drawn at random from the measured ones (a bootstrap).
"""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from statistics import median_low
from typing import Any

from ...lowering.schedule.machine_model import LINE_BYTES, MachineModel
from ...lowering.schedule.thresholds import LANE_UOPS, PREFETCH_UOPS, VECTOR_UOPS
from .probes import CACHED, STREAMED

# The prefetch distances into L2 that are tried, in lines of memory, and the bytes of the rows of timers.
FAR_LINES, ROW_BYTES = (64, 128, 256), 256
# Parts of a reported size: a measured end of a cache within them is the reported one.
NEAR_REPORTED = (0.7, 1.5)
# The least part of a copy's rate at which memory is read alone: of its bytes a copy reads a half.
MIN_ONE_WAY = 0.5
MIN_LAUNCH_NS = 100.0
# How often the fields are derived from drawn passes, and how many of the lowest and of the highest values of a field
# are outside its interval.
DRAWS, OUTSIDE = 40, 4

Times = Mapping[str, float]
# The least and the greatest value of a field; of each element where it is a tuple.
Interval = tuple[Any, Any]


def fit_fields(times_ns: Times, base: MachineModel, threads: int) -> dict[str, Any]:
    """Return all measured fields of the model; `base` is the built-in one.

    Args:
        times_ns: by the names of the timers of `Workplace`.
        base: the built-in model.
        threads: how many shared the work.
    """
    latency_ns = {int(name.split()[1]): took for name, took in times_ns.items() if name.startswith("latency ")}
    l1_bytes, l2_bytes, l3_bytes = cache_ends(latency_ns, (base.l1_bytes, base.l2_bytes, base.l3_bytes))
    copies_ns = [min(times_ns[f"{level} {way}"] for way in (CACHED, STREAMED)) for level in ("L2", "L3", "memory")]
    memory = threads / min(times_ns[f"all threads {way}"] for way in (CACHED, STREAMED))
    alone, line_ns = (
        threads * LINE_BYTES / times_ns["all threads read"],
        min(times_ns[f"far {each}"] for each in FAR_LINES),
    )
    l3_line_ns = min(times_ns["lines L3 far"], times_ns["lines L3 near"])
    fields = {
        "l1_bytes": l1_bytes,
        "l2_bytes": l2_bytes,
        "l3_bytes": max(l3_bytes, 2 * l2_bytes),
        "copy_bytes_per_ns": tuple(1 / each for each in copies_ns),
        "store_times": store_times(
            times_ns[f"rows, {CACHED}"], times_ns[f"rows, {STREAMED}"], ROW_BYTES * copies_ns[-1]
        ),
        "interleaved_times": max(times_ns["summed rows, interleaved"] / times_ns["summed rows, fissioned"], 1.0),
        "memory_bytes_per_ns": memory,
        "one_way_share": min(max(alone / memory, MIN_ONE_WAY), 1.0),
        "strayed_lines": max(times_ns["ascending scalars"] - times_ns["ascending gathered scalars"], 0.0) / line_ns,
        "line_ns": (times_ns["lines L1"], times_ns["lines L2"], l3_line_ns, line_ns),
        "memory_ns": latency_ns[max(latency_ns)],
        **derived_fields(times_ns, threads),
    }
    return fields | element_fields(times_ns, (l3_line_ns, line_ns), fields["lane_load_ns"] / LANE_UOPS)


def intervals(
    passes_ns: Mapping[str, Sequence[float]],
    derive: Callable[[Times], Mapping[str, Any]],
    pick: Callable[[Sequence[float]], float] = median_low,
) -> dict[str, Interval]:
    """Return the interval of each field that is derived from times: about 80 % of its values.

    Args:
        passes_ns: the times of all passes, by name.
        derive: returns the fields for one time of each name.
        pick: returns the time of a name from passes; of a median the lower one, since memory may have two speeds.
    """
    draw = random.Random(0).choices
    drawn = [derive({name: pick(draw(ns, k=len(ns))) for name, ns in passes_ns.items()}) for _ in range(DRAWS)]
    return {name: _interval([fields[name] for fields in drawn]) for name in drawn[0]}


def _interval(values: list[Any]) -> Interval:
    if isinstance(values[0], tuple):
        elements = [_interval(list(each)) for each in zip(*values, strict=True)]
        return tuple(low for low, _ in elements), tuple(high for _, high in elements)
    ranked = sorted(values)
    return ranked[OUTSIDE], ranked[-1 - OUTSIDE]


def is_wide(interval: Interval, ratio: float) -> bool:
    """Return whether the greatest value is more than `ratio` times the least, in any element of a tuple."""
    low, high = interval
    if isinstance(low, tuple):
        return any(is_wide(each, ratio) for each in zip(low, high, strict=True))
    return high > ratio * low


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


def store_times(cached_ns: float, streamed_ns: float, copied_ns: float) -> float:
    """Return how many times as long as non-temporal stores cached ones take, beside reads at random places.

    A copy from end to end does not show it: processors fetch the lines ahead that it writes.

    Args:
        cached_ns: a row from a random place of memory to the next in memory, with cached stores.
        streamed_ns: a row from a random place of memory to the next in memory, with non-temporal stores.
        copied_ns: a copy in memory of as many bytes, half of which are read.
    """
    return 1 + max(cached_ns - streamed_ns, 0.0) / copied_ns


def element_fields(times_ns: Mapping[str, float], line_ns: Sequence[float], uop_ns: float) -> dict[str, Any]:
    """Return the fields of elements at random places of the last cache and memory, prefetched in ways or not at all.

    Args:
        times_ns: of the timers of elements, behind "L3 " and "memory ".
        line_ns: of those places, prefetched into L2.
        uop_ns: an instruction, of which a prefetch and its index are some.
    """
    near, alone = [], []
    for level, far_ns in zip(("L3", "memory"), line_ns, strict=True):
        took = {way: times_ns[f"{level} elements {way}"] for way in ("alone", "near", "far")}
        prefetch_ns = (VECTOR_UOPS + PREFETCH_UOPS) * uop_ns
        near.append(max(far_ns + took["near"] - took["far"], uop_ns))
        alone.append(max(far_ns + took["alone"] - took["far"] + prefetch_ns, uop_ns))
    later_ns = times_ns["memory elements near, streamed"] - times_ns["memory elements near"]
    return {
        "near_line_ns": tuple(near),
        "alone_line_ns": tuple(alone),
        "streamed_times": 1 + max(later_ns, 0.0) / near[1],
    }


def derived_fields(times_ns: Times, threads: int) -> dict[str, Any]:
    """Return the fields of instructions and launches."""
    # A scalar has the instructions of a resolved index, of a lane and of its part of a vector.
    lane_ns = times_ns["scalars"] * LANE_UOPS / (VECTOR_UOPS + LANE_UOPS + VECTOR_UOPS / 8)
    fields: dict[str, Any] = {
        "byte_ns": times_ns["scalars"] / 12,  # 8 of the index, 4 of the element
        "lane_load_ns": lane_ns,
        "lane_gather_ns": lane_ns * times_ns["gathered scalars"] / times_ns["scalars"],
        "check_ns": times_ns["check"],
    }
    if threads > 1:
        serial_ns, shared_ns = (times_ns[name] - times_ns["idle"] for name in ("serial", "launch"))
        launch_ns = max(shared_ns - serial_ns / threads, MIN_LAUNCH_NS)
        waking_ns = max(times_ns["wake"] - times_ns["rested serial"], 0.0)
        fields |= {"launch_ns": launch_ns, "wake_ns": shared_from_ns(launch_ns, waking_ns, threads)}
    return fields


def shared_from_ns(launch_ns: float, waking_ns: float, threads: int) -> float:
    """Return the time of work, by one thread, from which sharing has the smaller regret.

    Nothing is known of whether threads sleep. Where they do, work of S takes (S + waking) / S times as long shared as
    by one thread. Where they spin, it takes S / (S / threads + launch) times as long by one thread. Both are equal for
    what is returned.

    Args:
        launch_ns: a launch on threads that spin.
        waking_ns: what a launch on threads that sleep costs the caller, who does all the work before they are awake.
        threads: 2 or more.
    """
    spared = 1 - 1 / threads
    both_ns = launch_ns + waking_ns / threads
    return (both_ns + math.sqrt(both_ns**2 + 4 * spared * launch_ns * waking_ns)) / (2 * spared)


def rounded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with times and rates of three digits."""
    return {name: _rounded(value) for name, value in fields.items()}


def _rounded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_rounded, value))
    return float(f"{value:.3g}") if isinstance(value, float) else value
