"""Predicting the time of a gather under a schedule, from sizes and the machine model. Plain Python, microseconds.

The time is a sum of terms, each of something that the processor does, at a rate of the machine model:

    lines         lines of data from the cache, or memory, that holds them: prefetched, or as many as a core waits for
    stores        out: cached stores to memory read each line that they write, non-temporal ones do not
    indices       read once, and once more where a nest of its own checks them: or the positions that it stages; what
                  that takes beyond the time from L2
    check         the comparisons of that nest
    instructions  resolved indices, lanes, vectors and prefetches, counted as the code generator prints them
    threads       launches, the last tile, and the start of each tile, for which nothing was prefetched

Threads share all of it, but memory moves no more bytes than it can. The model does not know how indices are
distributed, and takes them for uniformly random and new in each call. Caches evict lines at random.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ....ir.loop_name import LoopName
from .. import thresholds as fixed
from ..loop_sizes import NestShape
from ..machine_model import LINE_BYTES, MIN_SINGLE_BYTES, STREAM_BYTES, MachineModel, held
from ..prefetch_heuristic import NEAR
from ..schedule import Prefetch, Schedule
from ..tiling import Tiles, staged_bits
from .index_cost import index_costs

# No call takes less: a nanosecond.
MIN_TIME_US = 1e-3
NO_CHANGES: Mapping[str, Any] = {}
L1, L2, L3, MEMORY = range(4)
# The parts of a working set in L1, L2, L3 and memory.
Parts = tuple[float, float, float, float]
IN_MEMORY: Parts = (0.0, 0.0, 0.0, 1.0)


class Prediction(NamedTuple):
    """The terms of the time of a gather, in microseconds; `bandwidth` is how long threads wait for memory."""

    lines: float
    stores: float
    indices: float
    check: float
    instructions: float
    threads: float
    bandwidth: float

    @property
    def time_us(self) -> float:
        """The time of a call in microseconds, never 0: of a machine in a file the terms may cancel each other."""
        return max(sum(self), MIN_TIME_US)


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


class Traffic(NamedTuple):
    """What the caches hold and what passes them, where results are stored in one way.

    Attributes:
        first, again: lines of data, read for the first time in a window and read again.
        stores_ns, indices_ns: nanoseconds of one thread for the result and for the indices.
        line_bytes, read_bytes, written_bytes: of memory: lines of data, what else is read, and what is written.
        missed, far: the parts of out and of the indices, and of lines of data, that lie in memory.
        number: counts the traffics of a model.
    """

    first: Lines
    again: Lines
    stores_ns: float
    indices_ns: float
    line_bytes: float
    read_bytes: float
    written_bytes: float
    missed: float
    far: float
    number: int


class Fetched(NamedTuple):
    """Nanoseconds of lines, first read and read again; instructions of prefetches in each step and with each index."""

    first_ns: float
    again_ns: float
    step_uops: float
    index_uops: float


class GatherModel:
    """What the schedules of one nest cost on a machine. Parts of predictions are remembered: many can be asked for."""

    def __init__(self, nest: NestShape, machine: MachineModel):
        self._nest, self._machine = nest, machine
        self._row_loops = row = dict(nest.row)
        self._row_bytes = nest.row_bytes
        self._out_bytes = out_bytes = nest.out_bytes
        self._places = out_bytes // max(self._row_bytes, 1)
        self._is_shared = machine.threads > 1 and machine.is_worth_sharing(
            out_bytes + nest.all_index_bytes, self._places, nest.table_bytes
        )
        self._index_bytes, self._uop_ns = nest.all_index_bytes * nest.tuple_size, machine.uop_ns
        self._resolve_uops, self._copied_bytes, self._check_ns = index_costs(nest, machine, staged_bits(nest, machine))
        self._sizes = dict(nest.loops)
        self._is_row, (_, self._run) = nest.is_row, nest.innermost
        self._run_bytes = nest.width_bytes * self._run
        # The loop whose later iterations a prefetch of rows or elements reads.
        self._ahead = next((name for name in reversed(self._sizes) if name not in row), None)
        self._last_bytes = fixed.LAST_CACHE_ROOMS * machine.l3_room_bytes
        has_axis = any(name.role == "axis" for name, _ in nest.table)
        self._count_lines(max(nest.span_bytes if has_axis else nest.table_bytes, 1))
        self._traffics: dict[tuple[bool, int], Traffic] = {}
        self._fetched: dict[Any, Fetched] = {}
        self._bodies: dict[Any, float] = {}
        self._teams: dict[Any, tuple[int, int, float]] = {}

    def predict(
        self, schedule: Schedule, changes: Mapping[str, Any] = NO_CHANGES, *, ascending: bool = False
    ) -> Prediction:
        """Return the time of a schedule, or of one that differs from it in some fields.

        Indices are uniformly random, or else ascending: then a line that is read again is still in L1.
        """
        given, us = changes.get, 1e-3
        lanes, stream = given("lanes", schedule.lanes), given("stream", schedule.stream)
        prefetches, tiles = given("prefetch", schedule.prefetch), given("tiles", schedule.tiles)
        is_gathered = lanes is not None and given("gather", schedule.gather)
        threads, checking, count = self._team(given("parallel", schedule.parallel), tiles)
        traffic = self._traffic(stream, threads)
        lines, again, step_uops, index_uops = self._fetch(prefetches, tiles, traffic)
        if stream and index_uops and not self._is_row:  # prefetched elements
            lines *= 1 + (self._machine.streamed_times - 1) * traffic.far
        line_bytes = traffic.line_bytes
        if not ascending:
            lines += again
        else:
            once = self._distinct / max(self._first_reads, 1)
            lines, line_bytes = lines * once, line_bytes * once
            if not (is_gathered or self._is_row):
                strayed = self._strayed_lines * traffic.far
                lines, line_bytes = lines + strayed * self._machine.line_ns[MEMORY], line_bytes + strayed * LINE_BYTES
        is_staged = given("hoist", schedule.hoist) is not None
        uops = index_uops + step_uops / (1 if self._is_row else lanes or 1)
        uops += self._resolve_uops * (self._nest.indices if is_staged else self._places)
        uops += self._body_uops(lanes, stream, given("specialize", schedule.specialize))
        if lanes is not None and is_gathered:
            lines *= 1.0 if prefetches else 1 - (1 - fixed.GATHERED) * (1 - traffic.far)
            uops += self._gathered_uops(lanes)
        stores, read, check = traffic.stores_ns, traffic.indices_ns, self._check_ns
        instructions = self._uop_ns * uops
        waiting = 0.0
        if threads > 1:
            serial = lines + stores + read + check + instructions
            late = serial / count * (threads - 1) / 2  # of the last tile, for which the others wait
            starts = count * self._machine.memory_ns * traffic.missed if prefetches else 0.0
            waiting = self._machine.launch_ns * (1 + (checking > 1)) + (late + starts) / threads
        alone = (lines + stores + read + instructions) / threads + check / checking + waiting
        shared = us / threads
        return Prediction(
            lines * shared,
            stores * shared,
            read * shared,
            check / checking * us,
            instructions * shared,
            waiting * us,
            max(self._machine.moving_ns(line_bytes + traffic.read_bytes, traffic.written_bytes) - alone, 0.0) * us,
        )

    # lines of data, and where arrays lie

    def _count_lines(self, span_bytes: int) -> None:
        """Count the lines that are read, a row or the line of an element at a time."""
        nest, row_bytes = self._nest, self._row_bytes
        grain = math.gcd(row_bytes, STREAM_BYTES)
        self._beside = (row_bytes - grain) / LINE_BYTES if self._row_loops else 0.0  # lines of a row but the first
        self._span_bytes, self._windows = span_bytes, max(nest.table_bytes // span_bytes, 1)
        pieces = max(span_bytes / max(row_bytes, LINE_BYTES), 1.0)
        self._reads = self._places / self._windows / pieces  # of a piece in a call
        found = -pieces * math.expm1(-self._reads)
        self._is_dense = 2 * found > pieces
        self._first_reads = self._places if self._windows == 1 else min(self._windows * found, self._places)
        self._distinct = min(self._windows * found, self._places)  # pieces
        self._strayed_lines = self._machine.strayed_lines * self._distinct * (1 - found / pieces)

    def _traffic(self, stream: bool, threads: int) -> Traffic:
        """Return the times and bytes of what all prefetches have in common: of out, the indices, and each line."""
        if (known := self._traffics.get((stream, threads))) is not None:
            return known
        nest, machine = self._nest, self._machine
        passing = self._index_bytes + (0 if stream else self._out_bytes)
        last = held(self._last_bytes, passing, nest.table_bytes, self._reads, self._windows > 1)
        own_bytes = threads * machine.l2_bytes
        l2, fits = min(machine.l2_bytes / self._span_bytes, 1.0), passing + nest.table_bytes <= own_bytes
        stored = parts_of(fits, last.passing)
        table = parts_of(fits if self._windows > 1 else l2, last.table)  # threads share windows, and read all of one
        first = again = self._lines(table)
        if self._windows > 1:
            soon = math.exp(-1 / (2 * self._windows * last.calls))  # in half of a window's time
            again = self._lines(parts_of(l2, soon))
            if self._is_dense and self._span_bytes < fixed.MIN_NEXT_ROW_BYTES:
                in_order_ns = (1 + self._beside) * first.following  # windows are read one after the other
                first = Lines(in_order_ns, in_order_ns, in_order_ns, in_order_ns, in_order_ns, first.following, 0.0)
        missed = stored[MEMORY]
        line_bytes = self._first_reads * (1 + self._beside) * LINE_BYTES * table[MEMORY]
        reads = [(self._index_bytes, stored)]
        if nest.checked:  # then the copy reads the first of them soon, and the last after nearly a call
            reads.append((self._copied_bytes, parts_of(self._copied_bytes <= own_bytes, last.there)))
        indices_ns, read = indices_read(machine, *reads)
        if stream:
            is_split = self._run_bytes % STREAM_BYTES != 0 and nest.width_bytes < MIN_SINGLE_BYTES
            runs = self._out_bytes / max(self._run_bytes, 1)
            split_ns = 2 * runs * machine.line_ns[MEMORY] if is_split else 0.0  # lines that are written in two parts
            stores_ns, written = copy_ns(machine, self._out_bytes, IN_MEMORY) + split_ns, float(self._out_bytes)
        else:
            stores_ns = copy_ns(machine, self._out_bytes, stored, machine.store_times)
            written = missed * self._out_bytes
            read += written  # a cached store reads the line first
        moved = line_bytes, read, written
        found = Traffic(first, again, stores_ns, indices_ns, *moved, missed, table[MEMORY], len(self._traffics))
        self._traffics[stream, threads] = found
        return found

    def _lines(self, parts: Parts) -> Lines:
        return line_times(self._machine, parts, self._span_bytes, self._beside, is_row=self._is_row)

    def _fetch(self, prefetches: tuple[Prefetch, ...], tiles: Tiles, traffic: Traffic) -> Fetched:
        """Return what lines and their prefetches cost."""
        if (known := self._fetched.get((prefetches, tiles, traffic.number))) is not None:
            return known
        late, ahead, step_uops, index_uops = dict[int, float](), 1, 0.0, 0.0
        step = 1 if self._is_row else max(self._machine.vector_bytes // self._nest.width_bytes, 1)
        for prefetch in prefetches:
            name = LoopName(prefetch.loop).untiled
            if name != self._ahead:  # the next slice of data, some lines in each step
                step_uops += self._places * fixed.PREFETCH_UOPS * prefetch.lines
                continue
            lines = prefetch.lines or self._row_bytes // LINE_BYTES
            index_uops += self._places * (self._resolve_uops + fixed.PREFETCH_UOPS * lines)
            count = self._sizes[name]
            count = min(count, dict(tiles).get(name, count))
            late[prefetch.locality] = min(prefetch.ahead / count, 1.0)
            ahead = max(ahead, prefetch.ahead * step)
        first, again = traffic.first, self._places - self._first_reads
        again_ns = again * piece_ns(traffic.again, late, ahead)
        if step_uops:
            each_ns = (1 + self._beside) * first.following if self._is_dense else first.next_slice
        else:
            each_ns = piece_ns(first, late, ahead)
        found = Fetched(self._first_reads * each_ns, again_ns, step_uops, index_uops)
        self._fetched[prefetches, tiles, traffic.number] = found
        return found

    # instructions and threads

    def _gathered_uops(self, lanes: int) -> float:
        """Return how many more instructions gathered lanes are worth than loaded ones, whose indices count, too."""
        dearer = self._machine.lane_gather_ns / self._machine.lane_load_ns - 1
        return self._places * dearer * (self._resolve_uops + fixed.LANE_UOPS + fixed.VECTOR_UOPS / lanes)

    def _body_uops(self, lanes: int | None, stream: bool, specialize: int | None) -> float:
        """Return the instructions that copy all rows or elements whose indices are resolved."""
        if (known := self._bodies.get((lanes, stream, specialize))) is not None:
            return known
        width, vector_bytes = self._nest.width_bytes, self._machine.vector_bytes
        wide = max((lanes or 1) * width / vector_bytes, 1.0)  # a wider vector is several instructions
        if not self._row_loops:
            whole, rest = divmod(self._run, lanes or 1)
            # The halves of a vector that is wider than the machine's are put together, lane by lane.
            vector = (fixed.LANE_UOPS + (wide > 1)) * (lanes or 1) + fixed.VECTOR_UOPS * wide
            uops = fixed.ELEMENT_UOPS * self._places
            if lanes is not None:
                uops = (whole * vector + rest * fixed.ELEMENT_UOPS) * self._places / self._run
        else:
            each = fixed.ROW_UOPS if specialize is None else fixed.SPECIALIZED_ROW_UOPS
            alone_bytes = width if specialize is None else vector_bytes
            loaded, rest = divmod(self._run_bytes, alone_bytes if lanes is None else lanes * width)
            loaded *= wide
            if rest:
                loaded += 1 if specialize is not None else rest // width
            stored = -(-self._run_bytes // STREAM_BYTES) if stream else loaded
            moves = (
                fixed.VECTOR_UOPS / 2 if specialize is None else 1
            )  # without a loop a load or a store is one instruction
            uops = self._out_bytes // max(self._run_bytes, 1) * (each + moves * (loaded + stored))
        self._bodies[lanes, stream, specialize] = uops
        return uops

    def _team(self, parallel: tuple[str, ...], tiles: Tiles) -> tuple[int, int, float]:
        """Return how many threads copy and check, and the tiles that they share."""
        if (known := self._teams.get((parallel, tiles))) is not None:
            return known
        names = [LoopName(name) for name in parallel]
        copying = [name.untiled for name in names if not name.nest]
        cut = dict(tiles)
        count = math.prod(max(self._sizes.get(name, 1) / cut.get(name, 1), 1.0) for name in copying)
        threads = min(self._machine.threads, math.ceil(count)) if copying and self._is_shared else 1
        self._teams[parallel, tiles] = found = threads, threads if len(copying) < len(names) else 1, count
        return found


def parts_of(l2: float, last: float) -> Parts:
    """Return the parts of lines in each level, from the parts that L2 holds, and L2 or the last cache."""
    last = max(l2, last)
    return 0.0, float(l2), last - l2, 1.0 - last


def copy_ns(machine: MachineModel, count_bytes: float, parts: Parts, memory_times: float = 1.0) -> float:
    """Return how long bytes take from the caches and memory that hold them; those in memory so many times."""
    rates = machine.copy_bytes_per_ns
    return count_bytes * (parts[L2] / rates[0] + parts[L3] / rates[1] + memory_times * parts[MEMORY] / rates[2])


def indices_read(machine: MachineModel, *reads: tuple[float, Parts]) -> tuple[float, float]:
    """Return how long reads of indices take, each of bytes and where they lie, and what memory reads of them.

    It counts what they take beyond the time from L2, since instructions and checks are measured with indices in L2.
    """
    time_ns = sum(
        copy_ns(machine, count_bytes, parts) - count_bytes / machine.copy_bytes_per_ns[0]
        for count_bytes, parts in reads
    )
    return max(time_ns, 0.0), sum(count_bytes * parts[MEMORY] for count_bytes, parts in reads)


def line_times(machine: MachineModel, parts: Parts, span_bytes: float, beside: float, *, is_row: bool) -> Lines:
    """Return what a row, or an element, costs at random places of which the caches and memory hold these parts.

    Args:
        machine: the machine.
        parts: L1 counts as L2.
        span_bytes: where the places are.
        beside: lines of a row but the first.
        is_row: whether it is a row.
    """
    own, latency = machine.line_ns, parts[MEMORY] * machine.memory_ns
    l2 = max(parts[L2] - min(machine.l1_bytes / span_bytes, 1.0), 0.0)
    parts = 0.0, l2, parts[L3], parts[MEMORY]
    l2_ns, following = l2 * (own[L2] - own[L1]), copy_ns(machine, LINE_BYTES, parts)
    beside_ns, late = beside * following, min(beside, fixed.LATE_LINES)

    def of_both(last_ns: float, memory_ns: float) -> tuple[float, float]:
        return parts[L3] * (last_ns - own[L1]), parts[MEMORY] * (memory_ns - own[L1])

    into_l2 = (parts[L3] + parts[MEMORY]) * (own[L2] - own[L1])
    far_ns, near, alone = sum(of_both(*own[L3:])), of_both(*machine.near_line_ns), of_both(*machine.alone_line_ns)
    # Each cache waits for so many lines at once; the window of instructions, without prefetches, for some of L1's.
    both_ns = max(l2_ns + far_ns + beside_ns, (1 + late) * latency / machine.l2_misses)
    alone_ns = alone[1] * (fixed.ROWS_ALONE if is_row and span_bytes > machine.l2_room_bytes else 1.0)
    waits = max((machine.alone_line_ns[0] - own[L1]) / max(own[L3] - own[L1], 1e-9) - 1, 0.0)
    late_ns = waits * parts[L3] * LINE_BYTES / machine.copy_bytes_per_ns[1]
    late_ns += max(alone_ns - parts[MEMORY] * LINE_BYTES / machine.copy_bytes_per_ns[2], 0.0)
    return Lines(
        both_ns,
        both_ns + into_l2,
        max(l2_ns + sum(near) + beside_ns, (1 + late) * near[1]),
        l2_ns + alone[0] + alone_ns + beside_ns + late * late_ns,
        l2_ns + far_ns + into_l2 + beside_ns,
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
    late_ns = min(under_way, lines.unprefetched)
    found = max(found, late_ns)
    if len(late) > 1:
        later = max(late.values()) - first  # the near prefetch alone comes in time
        both = max(lines.both, late_ns)
        return first * lines.unprefetched + later * found + (1 - first - later) * both
    return first * lines.unprefetched + (1 - first) * found
