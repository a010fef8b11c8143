"""What bytes and lines cost, by the caches and memory that hold them. Plain Python, nanoseconds of one thread."""

from typing import NamedTuple

from . import thresholds as fixed
from .machine_model import LINE_BYTES, MachineModel
from .prefetch_heuristic import NEAR

L1, L2, L3, MEMORY = range(4)
# The parts of a working set in L1, L2, L3 and memory.
Parts = tuple[float, float, float, float]
IN_MEMORY: Parts = (0.0, 0.0, 0.0, 1.0)


class Lines(NamedTuple):
    """Nanoseconds of the lines of a row, by how they are prefetched, and of one line that follows another.

    Attributes:
        both, far, near: prefetched into both caches, into the second and into the first.
        unprefetched: not prefetched.
        next_slice: prefetched with the lines of a slice.
        following: a line behind another one.
        latency: that of memory, of a row's part there.
    """

    both: float
    far: float
    near: float
    unprefetched: float
    next_slice: float
    following: float
    latency: float


def parts_of(l2: float, last: float) -> Parts:
    """Return the parts of lines in each level, from the parts that L2 holds, and L2 or the last cache."""
    last = max(l2, last)
    return 0.0, float(l2), last - l2, 1.0 - last


def copy_ns(machine: MachineModel, count_bytes: float, parts: Parts, memory_times: float = 1.0) -> float:
    """Return how long bytes take from the caches and memory that hold them; those in memory so many times."""
    rates = machine.copy_bytes_per_ns
    return count_bytes * (parts[L2] / rates[0] + parts[L3] / rates[1] + memory_times * parts[MEMORY] / rates[2])


def line_times(machine: MachineModel, parts: Parts, span_bytes: float, beside: float, *, is_row: bool) -> Lines:
    """Return what a row, or an element, costs at random places of which the caches and memory hold these parts.

    Args:
        machine: the machine.
        parts: L1 counts as L2.
        span_bytes: where the places are.
        beside: lines of a row but the first.
        is_row: whether it is a row.
    """
    own, memory_ns, misses = machine.line_ns, machine.memory_ns, machine.l1_misses
    l2 = max(parts[L2] - min(machine.l1_bytes / span_bytes, 1.0), 0.0)
    parts = 0.0, l2, parts[L3], parts[MEMORY]
    near, last, far = (parts[level] * (own[level] - own[L1]) for level in (L2, L3, MEMORY))
    following = copy_ns(machine, LINE_BYTES, parts)
    beside_ns, late = beside * following, min(beside, fixed.LATE_LINES)
    latency, into_l2 = parts[MEMORY] * memory_ns, (parts[L3] + parts[MEMORY]) * (own[L2] - own[L1])
    is_far_row = is_row and span_bytes > machine.l2_room_bytes
    under_way = misses * (fixed.ROWS_UNDER_WAY if is_far_row else fixed.UNDER_WAY)
    both, alone_ns = near + last + far, latency / under_way
    # Each cache waits for so many lines at once; the window of instructions, without prefetches, for some of L1's.
    of_l2 = (1 + late) * latency / machine.l2_misses
    late_ns = (fixed.UNPREFETCHED - 1) * parts[L3] * LINE_BYTES / machine.copy_bytes_per_ns[1]
    late_ns += max(alone_ns - parts[MEMORY] * LINE_BYTES / machine.copy_bytes_per_ns[2], 0.0)
    near_ns = near + fixed.NEAR_PREFETCHED * (last + far) + beside_ns
    near_ns = max(near_ns, fixed.NEAR_PREFETCHED * (1 + late) * latency / misses)
    unprefetched = near + fixed.UNPREFETCHED * last + max(fixed.UNPREFETCHED * far, alone_ns)
    return Lines(
        max(both + beside_ns, of_l2),
        max(both + beside_ns, of_l2) + into_l2,
        near_ns,
        unprefetched + beside_ns + late * late_ns,
        both + into_l2 + beside_ns,
        following,
        latency,
    )


def piece_ns(lines: Lines, late: dict[int, float], ahead: int) -> float:
    """Return what a row or an element costs that is prefetched.

    Args:
        lines: its times.
        late: the part that each prefetch is too late for, by its locality.
        ahead: how many rows or elements are under way.
    """
    if not late:
        return lines.unprefetched
    under_way = lines.latency / ahead
    first, found = min(late.values()), lines.near if NEAR in late else lines.far
    found = min(max(found, under_way), lines.unprefetched)
    if len(late) > 1:
        later = max(late.values()) - first  # the near prefetch alone comes in time
        both = min(max(lines.both, under_way), lines.unprefetched)
        return first * lines.unprefetched + later * found + (1 - first - later) * both
    return first * lines.unprefetched + (1 - first) * found
