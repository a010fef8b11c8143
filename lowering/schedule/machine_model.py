"""The machine model, from which schedules are chosen, and the built-in models. Plain Python.

Times and rates are those of one thread. Derived thresholds are properties here; the others are in `thresholds`.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from .thresholds import CHECKED_LAUNCHES, LANE_UOPS, TILE_SIZES, UNROLLED_VECTORS

# What the code generator counts on, of every machine: the step of a prefetch; the alignment that NumPy gives large
# arrays, to whose multiples non-temporal stores go; the least element that can be stored so by itself (x86: movnti);
# the elements that gather instructions load; the bytes of a vector that has instructions which set one lane.
LINE_BYTES, STREAM_BYTES, MIN_SINGLE_BYTES = 64, 16, 4
GATHERED_BYTES = (4, 8)
# The vectors that there are.
VECTORS_BYTES = (STREAM_BYTES, 32, 64)
PART_BYTES = 16
# For how many calls a line may stay in a cache, and the steps in which that is found, each half of the one before.
LEAST_CALLS, MOST_CALLS, HALVINGS = 2.0**-6, 2.0**6, 9


@dataclass(frozen=True, slots=True)
class MachineModel:
    """A machine.

    Attributes:
        name: what `gathernest doctor` calls it.
        l1_bytes, l2_bytes: the caches that a core has for itself.
        l3_bytes: the last cache, which cores share.
        l1_share, l2_share, l3_share: the part of each cache that a thread can count on for one array.
        l1_misses, l2_misses: lines that a core can wait for at once: for its first cache, and for its second.
        near_bytes: how many bytes of rows to prefetch ahead into the first cache: what a copy moves in the latency.
        memory_ns: the latency of memory.
        copy_bytes_per_ns: bytes that a copy reads and writes: in L2, in L3 and in memory.
        memory_bytes_per_ns: what memory reads and writes for all threads together, as much of one as of the other.
        one_way_share: the part of that which it reads alone, or writes alone.
        line_ns: a line at a random place, prefetched far ahead into L2: in L1, L2, L3 and memory.
        near_line_ns: the same, prefetched into L1 alone: in L3 and memory.
        alone_line_ns: an element at a random place that nothing prefetches: in L3 and memory.
        store_times: how many times as long as non-temporal stores cached ones take that go to memory.
        streamed_times: how many times as long elements of memory take that are prefetched into L1 or L2, where the
            result is written by non-temporal stores.
        interleaved_times: how many times as long rows of a few lines of memory take whose prefetches stand between the
            loads of others, as where they have a loop of their own in front of these.
        byte_ns: a byte that a gather reads or writes, instructions included.
        lane_load_ns: one lane of a vector by a load of its own.
        lane_gather_ns: so much more, as an element takes whose lane a gather instruction loads, index included.
        strayed_lines: lines of memory that the processor fetches in vain for each line that loads of lanes read, by
            indices that ascend and skip lines.
        check_ns: one index checked in a nest of its own, without its memory traffic.
        vector_bytes: the vectors that rows and lanes are copied in.
        wide_vector_bytes: the vectors that long rows are stored in, and the widest non-temporal store.
        launch_ns: a launch on threads that spin.
        wake_ns: the work, by one thread, from which sharing is worth a launch on threads that may sleep.
        threads: how many share the work.
    """

    name: str
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    l1_misses: int
    l2_misses: int
    near_bytes: int
    memory_ns: float
    copy_bytes_per_ns: tuple[float, float, float]
    memory_bytes_per_ns: float
    line_ns: tuple[float, float, float, float]
    near_line_ns: tuple[float, float]
    alone_line_ns: tuple[float, float]
    byte_ns: float
    lane_load_ns: float
    lane_gather_ns: float
    strayed_lines: float
    check_ns: float
    wide_vector_bytes: int
    vector_bytes: int = 32
    l1_share: float = 0.5
    l2_share: float = 0.5
    l3_share: float = 0.25
    one_way_share: float = 1.0
    store_times: float = 2.0
    streamed_times: float = 1.0
    interleaved_times: float = 1.0
    launch_ns: float = 1_000.0
    wake_ns: float = 10_000.0
    threads: int = 1

    # the caches

    def exceeds_last_level_cache(self, working_set_bytes: float) -> bool:
        """Return whether so many bytes exceed the last cache."""
        return working_set_bytes > self.l3_bytes

    @property
    def l2_room_bytes(self) -> int:
        """The part of L2 that a thread can use for reads; the other part is for writes."""
        return int(self.l2_bytes * self.l2_share)

    @property
    def l3_room_bytes(self) -> int:
        """The part of the last cache that a thread can use."""
        return int(self.l3_bytes * self.l3_share)

    # times

    def random_line_ns(self, table_bytes: float) -> float:
        """Return what a line at a random place of a table costs that nothing prefetches."""
        sizes = self.l1_bytes, self.l2_bytes, self.l3_bytes
        return (*self.line_ns[:2], *self.alone_line_ns)[sum(table_bytes > size for size in sizes)]

    def moving_ns(self, read_bytes: float, written_bytes: float) -> float:
        """Return how long memory takes at least to read and to write so many bytes, for all threads together."""
        counted_bytes = max(read_bytes + written_bytes, max(read_bytes, written_bytes) / self.one_way_share)
        return counted_bytes / self.memory_bytes_per_ns

    def serial_ns(self, work_bytes: float, rows: float, table_bytes: float) -> float:
        """Return about how long one thread takes to move so many bytes, and to read so many rows of a table."""
        return work_bytes * self.byte_ns + rows * self.random_line_ns(table_bytes)

    def is_worth_sharing(self, work_bytes: float, rows: float, table_bytes: float) -> bool:
        """Return whether one thread takes longer than waking the others; takes what `serial_ns` takes."""
        return self.serial_ns(work_bytes, rows, table_bytes) >= self.wake_ns

    # what follows from them

    @property
    def min_shared_bytes(self) -> int:
        """What threads share at least: one thread writes less in the time of a launch."""
        return _power_of_two(self.launch_ns / self.byte_ns)

    @property
    def min_shared_checks(self) -> int:
        """How many indices threads check at least, in a few times a launch."""
        return _power_of_two(CHECKED_LAUNCHES * self.launch_ns / self.check_ns)

    @property
    def uop_ns(self) -> float:
        """One of the instructions that the cost models count."""
        return self.lane_load_ns / LANE_UOPS

    @property
    def tile_bytes(self) -> int:
        """The bytes that a thread writes in a tile: a small part of L2."""
        return self.l2_bytes // 16

    @property
    def large_tile_bytes(self) -> int:
        """The same of a large result: at the start of a tile nothing was prefetched."""
        return self.l2_bytes // 4

    @property
    def staged_indices(self) -> int:
        """How many staged indices, of 4 bytes, fit in L1."""
        return tile_size(int(self.l1_bytes * self.l1_share) // 4)

    @property
    def near_rows(self) -> int:
        """How many rows ahead to prefetch into the first cache, at most: the lines that it can wait for."""
        return _power_of_two(self.l1_misses)

    @property
    def far_rows(self) -> int:
        """How many rows ahead to prefetch into the second cache, at most: four times the lines that it can wait for."""
        return 4 * _power_of_two(self.l2_misses)

    @property
    def far_bytes(self) -> int:
        """How many bytes of rows ahead to prefetch into the second cache."""
        return 4 * self.near_bytes

    @property
    def unrolled_row_bytes(self) -> int:
        """The longest rows that are copied without a loop."""
        return UNROLLED_VECTORS * self.vector_bytes


class Held(NamedTuple):
    """The parts of lines that a cache still holds when they are read again.

    Attributes:
        passing: of arrays that are read or written once in a call.
        table: of the table.
    """

    passing: float
    table: float


def held(cache_bytes: float, passing_bytes: float, table_bytes: float, reads: float, is_window: bool) -> Held:
    """Return what a cache that evicts lines at random holds from one read of a line to the next one.

    A line that stays for T calls on average is still there after t of them with the probability exp(-t / T). T is the
    one with which the lines that are there fill the cache.

    Args:
        cache_bytes: its size.
        passing_bytes: of the arrays that are read or written once in a call.
        table_bytes: of the table.
        reads: how often a line of the table is read in a call, on average.
        is_window: whether the reads of a line are soon after one another, and not spread over the call.
    """
    if passing_bytes + table_bytes <= cache_bytes:
        return Held(1.0, 1.0)
    read = -math.expm1(-reads)  # the part of the table that a call reads
    least, most = LEAST_CALLS, MOST_CALLS
    calls = passing = table = 1.0
    for _ in range(HALVINGS):
        calls = math.sqrt(least * most)
        passing = math.exp(-1 / calls)
        if is_window:  # the last call that read a line was the k-th before with the probability read (1 - read)^(k-1)
            table = read * passing / (1 - (1 - read) * passing)
            there = read * calls * (1 - table)
        else:
            table = there = reads * calls / (1 + reads * calls)
        fits = passing_bytes * calls * (1 - passing) + table_bytes * there <= cache_bytes
        least, most = (calls, most) if fits else (least, calls)
    return Held(passing, table)


def tile_size(wanted: int) -> int:
    """Return the largest of the few tile sizes there are up to `wanted`, or 1."""
    return next((size for size in TILE_SIZES if size <= wanted), 1)


def _power_of_two(number: float) -> int:
    """Return the largest power of two up to a number, 1 at least: so that kernels are few."""
    return 1 << max(int(number).bit_length() - 1, 0)


# docs/experiments/machines.md says where the numbers come from.
_NAMES = ("zen5", "zen4", "zen3", "xeon-avx512", "avx2")
_FIELDS: dict[str, tuple[Any, ...]] = {
    "l1_bytes": (48 << 10, 32 << 10, 32 << 10, 48 << 10, 32 << 10),
    "l2_bytes": (1 << 20, 1 << 20, 512 << 10, 2 << 20, 256 << 10),
    "l3_bytes": (32 << 20, 32 << 20, 32 << 20, 60 << 20, 8 << 20),
    "l1_misses": (24, 24, 24, 16, 10),
    "l2_misses": (64, 64, 64, 48, 16),
    "near_bytes": (4096, 4096, 2048, 2048, 1024),
    "memory_ns": (105.0, 110.0, 160.0, 150.0, 90.0),
    "copy_bytes_per_ns": (
        (135.0, 90.0, 52.0),
        (110.0, 85.0, 48.0),
        (100.0, 75.0, 26.0),
        (92.0, 27.0, 22.0),
        (70.0, 45.0, 18.0),
    ),
    "memory_bytes_per_ns": (50.0, 56.0, 32.0, 28.5, 30.0),
    "one_way_share": (0.9, 0.5, 0.57, 0.9, 1.0),
    "line_ns": (
        (0.47, 0.54, 1.4, 3.15),
        (0.3, 0.7, 1.5, 4.0),
        (0.3, 0.7, 1.6, 9.5),
        (0.44, 0.64, 3.0, 9.1),
        (0.3, 1.0, 2.5, 7.0),
    ),
    "near_line_ns": ((1.15, 3.0), (2.15, 7.35), (2.5, 10.1), (3.1, 11.7), (3.7, 14.1)),
    "alone_line_ns": ((1.4, 6.0), (2.7, 9.5), (3.0, 9.5), (3.8, 11.5), (4.7, 18.3)),
    "store_times": (1.25, 2.0, 2.0, 2.0, 2.0),
    "streamed_times": (1.5, 1.0, 1.0, 1.0, 1.0),
    "interleaved_times": (1.0, 1.4, 1.0, 1.0, 1.0),
    "byte_ns": (0.02, 0.035, 0.04, 0.025, 0.05),
    "lane_load_ns": (0.095, 0.15, 0.15, 0.12, 0.25),
    "lane_gather_ns": (0.13, 0.20, 0.35, 0.07, 0.35),
    "strayed_lines": (0.6, 2.0, 0.0, 0.0, 0.0),
    "check_ns": (0.073, 0.15, 0.18, 0.15, 0.15),
    "wide_vector_bytes": (64, 64, 32, 64, 32),
    "vector_bytes": (32, 32, 32, 64, 32),
}
BUILT_IN = {
    name: MachineModel(name, **{field: values[place] for field, values in _FIELDS.items()})
    for place, name in enumerate(_NAMES)
}
