"""Predicting the time of a nest under a schedule, from its sizes and the machine model. Plain Python, microseconds.

One model serves gathers, gradients and bags. The time is the sum of the terms of `Terms`. Each access of the nest
contributes to the term of its pattern:

    random rows, elements   lines         from where they lie: prefetched, or as many as a core waits for at once
    added to                lines         the same, and written back
    once through, written   stores        cached stores read each line that they write, non-temporal stores do not
    once through, read      indices       indices, grad and staged positions, beyond what reading them from L2 takes

The other terms are `check`, the comparisons of indices; `instructions`, counted as the code generator prints them;
`threads`, launches, the work of the last tile or of one thread alone; and `waiting`, what all threads together wait for
memory. Indices are taken for uniformly random and new in each call. Caches evict lines at random.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .checks import CountedCheck, StagedCheck, choose_check, staged_bits, staged_bits_of_bags
from .machine_model import LINE_BYTES, MIN_SINGLE_BYTES, STREAM_BYTES, MachineModel, held
from .prefetch_heuristic import NEAR
from .schedule import Schedule
from .shape import NestShape, ScheduledLoop, scheduled_loops, trips
from .steps import (
    BoundInner,
    CompactIndices,
    FuseIntoOwners,
    GatherLanes,
    GroupIndices,
    HoistIndices,
    InterchangeLoops,
    OwnerComputes,
    ParallelizeLoops,
    ParallelizeSort,
    Prefetch,
    SpecializeInner,
    Step,
    StreamStores,
    TileLoops,
    VectorizeLists,
)

# No call takes less: a nanosecond.
MIN_TIME_US = 1e-3
# The steps that decide which loops there are, and how threads share them.
LOOP_STEPS = frozenset[type[Step]]({TileLoops, InterchangeLoops, ParallelizeLoops, OwnerComputes, GroupIndices})
L1, L2, L3, MEMORY = range(4)
# The parts of a working set in L1, L2, L3 and memory.
Parts = tuple[float, float, float, float]
IN_MEMORY: Parts = (0.0, 0.0, 0.0, 1.0)


class Terms(NamedTuple):
    """The terms of a predicted time, in microseconds."""

    lines: float
    stores: float
    indices: float
    check: float
    instructions: float
    threads: float
    waiting: float

    @property
    def time_us(self) -> float:
        """The time of a call in microseconds, never 0: of a machine in a file the terms may cancel each other."""
        return max(sum(self), MIN_TIME_US)

    def __str__(self) -> str:
        texts = (f"{name} {_number(value)}" for name, value in zip(self._fields, self, strict=True) if value)
        return f"{_number(self.time_us)} µs: {', '.join(texts)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


class Comparison(NamedTuple):
    """The schedule that was taken, the best of the others, and the predicted times of both in microseconds."""

    found: Schedule
    found_us: float
    other: Schedule
    other_us: float

    def __str__(self) -> str:
        own, instead = (
            ",".join(str(step) for step in one if step not in two) or "without"
            for one, two in ((self.found, self.other), (self.other, self.found))
        )
        return f"{own}: {_time(self.found_us)} predicted; {instead}: {_time(self.other_us)}"


def _time(time_us: float) -> str:
    return f"{time_us / 1000:.2f} ms" if time_us >= 1000 else f"{time_us:.3g} µs"


class Team(NamedTuple):
    """How the work of a nest is shared.

    Attributes:
        threads, tasks: the threads that copy or add, and the tiles or parts that they share.
        beside: the nests beside that one which all threads share.
        passes: how often all indices are read.
        owners: parts of the table, each of which one task adds to; 1 where each task adds to all of it.
        row_share: the part of a row that a task adds.
    """

    threads: int
    tasks: int
    beside: frozenset[str]
    passes: int
    owners: int
    row_share: float


class Lines(NamedTuple):
    """Nanoseconds of the lines of a row, by how they are prefetched, and of one line that follows another.

    Attributes:
        both, far, near: prefetched into both caches, into the second and into the first.
        unprefetched: not prefetched.
        next_slice: prefetched with the lines of a slice.
        following: a line behind another one.
        latency: of memory, for the part of a row there.
    """

    both: float
    far: float
    near: float
    unprefetched: float
    next_slice: float
    following: float
    latency: float


class Traffic(NamedTuple):
    """Where arrays lie, and what passes once in a call costs.

    Attributes:
        first, again: lines of data, read for the first time in a window and read again.
        passing, table: the parts of what passes once in a call, and of the table.
        kept: the part of the table that the last cache holds.
        stores_ns, indices_ns: nanoseconds of one thread for the result and for the indices.
        line_bytes: bytes of memory in each line of data that is read.
        read_bytes, written_bytes: other bytes of memory.
    """

    first: Lines
    again: Lines
    passing: Parts
    table: Parts
    kept: float
    stores_ns: float
    indices_ns: float
    line_bytes: float
    read_bytes: float
    written_bytes: float


class Work(NamedTuple):
    """What one thread would do by itself, in nanoseconds, and the bytes that memory moves.

    Attributes:
        lines_ns, stores_ns, indices_ns, check_ns, uops: the terms; instructions are counted.
        read_bytes, written_bytes: of memory.
        clears: whether the stores clear the table in a nest of their own.
        cleared_bytes: what that nest reads from memory and writes.
        alone_ns: what no other thread shares.
    """

    lines_ns: float
    stores_ns: float
    indices_ns: float
    check_ns: float
    uops: float
    read_bytes: float
    written_bytes: float
    clears: bool = False
    cleared_bytes: tuple[float, float] = (0.0, 0.0)
    alone_ns: float = 0.0


class Model:
    """What the schedules of one nest cost on a machine; parts of predictions are remembered."""

    def __init__(self, nest: NestShape, machine: MachineModel):
        self._nest, self._machine = nest, machine
        self._adds, self._sums = nest.is_gradient, nest.sums_bags
        self._row = dict(nest.row)
        self._row_bytes, self._uop_ns = nest.row_bytes, machine.uop_ns
        self._places = nest.out_bytes // max(self._row_bytes, 1)
        self._is_shared = machine.threads > 1 and (
            self._adds
            or self._sums
            or machine.is_worth_sharing(nest.out_bytes + nest.all_index_bytes, self._places, nest.table_bytes)
        )
        self._index_bytes = nest.all_index_bytes * nest.tuple_size
        resolve_uops = fixed.VECTOR_UOPS * nest.tuple_size + fixed.LANE_UOPS * (nest.tuple_size - 1)  # are combined
        bits = None if self._adds else (staged_bits_of_bags(nest) if self._sums else staged_bits(nest, machine))
        self._staged, self._resolve_uops = bits, 1 if bits else resolve_uops
        self._out_bytes = nest.table_bytes if self._adds else nest.written_bytes
        self._run = nest.innermost[1]
        # The loop whose later iterations a prefetch of rows or elements reads.
        self._ahead = next((name for name, _ in reversed(nest.loops) if name not in self._row), None)
        span = nest.span_bytes if nest.axes and not self._adds else nest.table_bytes
        self._count_lines(max(span, 1))
        self._traffics: dict[tuple[bool, int, float, float], Traffic] = {}
        self._times: dict[tuple[int, bool], tuple[Schedule, float]] = {}
        self._staged_check_ns = self._check_ns(bits)
        # The steps of loops that were predicted last, the loops, and how threads share them.
        self._loop_steps: list[Step] | None = None
        self._shared: tuple[dict[str, ScheduledLoop], Team]

    def time_us(self, schedule: Schedule, *, ascending: bool = False) -> float:
        """Return the predicted time of a schedule in microseconds, which is remembered."""
        key = id(schedule), ascending
        if key not in self._times:
            self._times[key] = schedule, self.predict(schedule, ascending=ascending).time_us
        return self._times[key][1]

    def choose(self, options: Sequence[Schedule], gain: float = 1.0) -> "tuple[Schedule, tuple[Comparison, ...]]":
        """Return the first option whose predicted time is at most `gain` times the least one, and why."""
        if len(options) == 1:
            return options[0], ()
        times_us = [round(self.time_us(schedule), 3) for schedule in options]
        most_us = gain * min(times_us)
        place = next(place for place, time_us in enumerate(times_us) if time_us <= most_us)
        other_us, other = min((us, at) for at, us in enumerate(times_us) if at != place)
        return options[place], (Comparison(options[place], times_us[place], options[other], other_us),)

    def predict(self, schedule: Schedule, *, ascending: bool = False) -> Terms:
        """Return the terms of a schedule.

        Indices are uniformly random, or else ascending: then a line that is read again is still in L1.
        """
        machine = self._machine
        loops, team = self._share(schedule)
        work = self._sum(schedule, team) if self._adds else self._copy(schedule, loops, team, ascending)
        threads, each, beside = team.threads, 1 / team.threads, team.beside
        lines, indices, instructions = work.lines_ns, work.indices_ns, self._uop_ns * work.uops
        check_ns = work.check_ns / (machine.threads if "check" in beside else 1)
        stores, adding, bandwidth = work.stores_ns, lines + work.indices_ns + instructions, 0.0
        if work.clears:  # a nest of its own, before the additions
            stores /= machine.threads if "clear" in beside else 1
            bandwidth = max(machine.moving_ns(*work.cleared_bytes) - stores, 0.0)
        else:
            adding += stores
            stores *= each
        late, launches = 0.0, 0
        if threads > 1:
            serial = adding if self._adds or self._sums else adding + work.check_ns
            parts = math.ceil(team.tasks / threads) / team.tasks - each  # owners and parts of rows are equal
            late = serial * (parts if self._adds else (threads - 1) / (2 * team.tasks * threads))
        if threads > 1 or self._adds:
            launches = (threads > 1) + len(beside)
        launch_ns = launches * machine.launch_ns
        busy = adding * each + late + (0.0 if self._adds else check_ns + launch_ns)
        bandwidth += max(machine.moving_ns(work.read_bytes, work.written_bytes) - busy, 0.0)
        return Terms(
            1e-3 * (lines * each),
            1e-3 * stores,
            1e-3 * (indices * each),
            1e-3 * check_ns,
            1e-3 * (instructions * each),
            1e-3 * (work.alone_ns + (launch_ns + late)),
            1e-3 * bandwidth,
        )

    def _copy(self, schedule: Schedule, loops: Mapping[str, ScheduledLoop], team: Team, ascending: bool) -> Work:
        """Return the work of a gather, or of bags."""
        beside, pieces = self._beside, 1
        if self._sums:
            rows = (loop for loop in loops.values() if loop.name.is_outer_tile and loop.name.untiled in self._row)
            pieces = math.prod(loop.trips for loop in rows)
            beside /= pieces
        stream, lanes = schedule.has(StreamStores), schedule.lanes
        traffic = self._traffic(stream, team.threads, self._span_bytes, beside)
        lines_ns, line_bytes, uops = self._data(schedule, loops, traffic, beside, pieces, ascending)
        if self._sums:
            uops = self._bag_uops(schedule, uops, pieces)
        else:
            is_known = schedule.has(SpecializeInner) or schedule.has(BoundInner)
            uops += self._resolve_uops * (self._nest.indices if schedule.has(HoistIndices) else self._places)
            uops += self._copy_uops(lanes, stream, is_known)
            if lanes is not None and schedule.has(GatherLanes):
                uops += self._gathered_uops(lanes)
        return Work(
            lines_ns,
            traffic.stores_ns,
            traffic.indices_ns,
            self._staged_check_ns,
            uops,
            line_bytes + traffic.read_bytes,
            traffic.written_bytes,
        )

    def _sum(self, schedule: Schedule, team: Team) -> Work:
        """Return the work of a gradient: of the check, of the sort, of the zeros and of the additions."""
        nest, machine, grouped = self._nest, self._machine, schedule.has(GroupIndices)
        own_bytes = max(nest.table_bytes * team.row_share / team.owners, 1)
        beside = max((1 + self._beside) * team.row_share - 1, 0.0)
        traffic = self._traffic(False, team.threads, own_bytes, beside)
        check = choose_check(nest, schedule, machine, is_fresh=False)
        counts, bits = isinstance(check, CountedCheck), check.bits if isinstance(check, StagedCheck) else None
        passes = 1 if grouped else team.passes
        index_bytes = bits * nest.indices // 8 if bits else self._index_bytes
        grad_ns, grad_bytes = self._grad(schedule, team, traffic)
        indices_ns = passes * indices_read(machine, (index_bytes, traffic.passing))[0] + grad_ns
        lines_ns, line_bytes = (0.0, 0.0) if grouped else self._added_lines(schedule, team, traffic)
        zeros_ns, fetched, cleared = self._zeros(schedule, traffic, copied=counts)
        clears = not (schedule.has(FuseIntoOwners) or grouped)
        return Work(
            *(lines_ns, zeros_ns, indices_ns, 0.0 if counts else self._check_ns(bits)),
            uops=self._sum_uops(schedule, team, passes, 1 if bits else self._resolve_uops),
            read_bytes=line_bytes + grad_bytes + (0 if clears else fetched),
            written_bytes=line_bytes + (0 if clears else cleared),
            clears=clears,
            cleared_bytes=(fetched, cleared),
            alone_ns=self._sort_ns(schedule) if grouped else 0.0,
        )

    # how the work is shared

    def _share(self, schedule: Schedule) -> tuple[dict[str, ScheduledLoop], Team]:
        """Return the loops under a schedule by name, and how threads share them."""
        steps = [step for step in schedule if type(step) in LOOP_STEPS]
        if steps != self._loop_steps:
            loops: dict[str, ScheduledLoop] = {each.name: each for each in scheduled_loops(self._nest, schedule)}
            self._loop_steps, self._shared = steps, (loops, self._team(loops, schedule.parallel))
        return self._shared

    def _team(self, loops: Mapping[str, ScheduledLoop], parallel: tuple[str, ...]) -> Team:
        """Return how the parallel loops are shared."""
        shared = [loop for loop in loops.values() if loop.is_parallel]
        parts = math.prod(loop.trips for loop in shared if self._adds and loop.name.untiled in self._row)
        owners = loops["owners"].trips if "owners" in loops else 1
        tasks = max(math.prod(loop.trips for loop in shared), 1)
        threads = min(self._machine.threads, tasks) if shared and self._is_shared else 1
        beside = frozenset(name for each in parallel if (name := LoopName(each).nest))
        return Team(threads, tasks, beside, owners * parts, owners, 1 / max(parts, 1))

    # memory

    def _count_lines(self, span_bytes: int) -> None:
        """Count the lines that are read, a row or the line of an element at a time."""
        nest, row_bytes = self._nest, self._row_bytes
        grain = math.gcd(row_bytes, STREAM_BYTES)
        self._beside = (row_bytes - grain) / LINE_BYTES if self._row else 0.0  # lines of a row but the first
        self._span_bytes, self._windows = span_bytes, max(nest.table_bytes // span_bytes, 1)
        self._positions = max(nest.table_bytes // max(row_bytes, 1), 1)
        pieces = max(span_bytes / max(row_bytes, LINE_BYTES), 1.0)
        self._reads = self._places / self._windows / pieces  # of a piece in a call
        found = -pieces * math.expm1(-self._reads)
        self._is_dense = 2 * found > pieces
        self._distinct = min(self._windows * found, self._places)  # pieces
        self._first_reads = self._places if self._windows == 1 else self._distinct
        self._strayed_lines = self._machine.strayed_lines * self._distinct * (1 - found / pieces)

    def _traffic(self, stream: bool, threads: int, own_bytes: float, beside: float) -> Traffic:
        """Return the bytes that pass once in a call, and the times of lines, which have all prefetches in common."""
        key = stream, threads, own_bytes, beside
        if key in self._traffics:
            return self._traffics[key]
        nest, machine = self._nest, self._machine
        passing = self._index_bytes + (nest.out_bytes if self._adds else 0 if stream else self._out_bytes)
        last = held(
            fixed.LAST_CACHE_ROOMS * machine.l3_room_bytes, passing, nest.table_bytes, self._reads, self._windows > 1
        )
        caches_bytes = (1 if self._adds else threads) * machine.l2_bytes
        fits = passing + nest.table_bytes <= caches_bytes
        stored = parts_of(fits, last.passing)
        # Threads share windows, and read all of one.
        table = parts_of(fits if self._windows > 1 else min(machine.l2_bytes / own_bytes, 1.0), last.table)
        kind = {"is_row": nest.is_row, "tuple_size": nest.tuple_size}
        first = again = line_times(machine, table, own_bytes, beside, **kind)
        if self._windows > 1:
            parts = parts_of(min(machine.l2_bytes / own_bytes, 1.0), 1.0)  # the last cache holds it for a window
            again = line_times(machine, parts, own_bytes, beside, **kind)
            if self._is_dense and own_bytes < fixed.MIN_NEXT_ROW_BYTES:
                in_order_ns = (1 + beside) * first.following  # windows are read one after the other
                first = Lines(in_order_ns, in_order_ns, in_order_ns, in_order_ns, in_order_ns, first.following, 0.0)
        copied_bytes = self._staged * nest.indices // 8 if self._staged else self._index_bytes
        reads = [(copied_bytes, stored)]
        if nest.checked:  # then the copy reads them once more
            reads.append((self._index_bytes, stored))
        indices_ns, read = indices_read(machine, *reads)
        stores_ns, written = self._stores(stream, stored)
        read += 0.0 if stream else written  # a cached store reads the line first
        line_bytes = (1 + beside) * LINE_BYTES * table[MEMORY]
        self._traffics[key] = Traffic(
            first, again, stored, table, last.table, stores_ns, indices_ns, line_bytes, read, written
        )
        return self._traffics[key]

    def _stores(self, stream: bool, stored: Parts) -> tuple[float, float]:
        """Return the nanoseconds of the result, and its bytes of memory."""
        nest, machine, size = self._nest, self._machine, self._out_bytes
        if not stream:
            return copy_ns(machine, size, stored, machine.store_times), stored[MEMORY] * size
        run_bytes = nest.run_bytes
        is_split = run_bytes % STREAM_BYTES != 0 and nest.width_bytes < MIN_SINGLE_BYTES
        # Each run ends in a line that is written in two parts.
        split_ns = 2 * size / max(run_bytes, 1) * machine.line_ns[MEMORY] if is_split else 0.0
        return copy_ns(machine, size, IN_MEMORY) + split_ns, float(size)

    def _data(
        self,
        schedule: Schedule,
        loops: Mapping[str, ScheduledLoop],
        traffic: Traffic,
        beside: float,
        pieces: int,
        ascending: bool,
    ) -> tuple[float, float, float]:
        """Return the cost of the lines of data that a gather or bags read: time, bytes of memory, and instructions.

        Rows are read in pieces; each has a number of lines beside its first.
        """
        nest, machine, prefetches = self._nest, self._machine, schedule.prefetches()
        late: dict[int, float] = {}
        ahead, step_uops, index_uops = 1, 0.0, 0.0
        step = 1 if nest.is_row else max(machine.vector_bytes // nest.width_bytes, 1)
        for each in prefetches:
            if not self._sums and LoopName(each.loop).untiled != self._ahead:
                # The next slice of data is prefetched, some lines in each step.
                step_uops += self._places * fixed.PREFETCH_UOPS * each.lines
                continue
            lines = each.lines or self._row_bytes // LINE_BYTES
            index_uops += pieces * self._places * (self._resolve_uops + fixed.PREFETCH_UOPS * lines)
            count = self._places if self._sums else loops[each.loop].trips
            late[each.locality] = min(each.ahead / max(count, 1), 1.0)
            ahead = max(ahead, each.ahead * step)
        first, first_reads, line_bytes = (
            traffic.first,
            self._first_reads,
            self._first_reads * pieces * traffic.line_bytes,
        )
        if step_uops:
            each_ns = (1 + beside) * first.following if self._is_dense else first.next_slice
        else:
            each_ns = piece_ns(first, late, ahead)
        if self._sums:  # memory is read as fast as by a copy, half of whose bytes are read
            each_ns = max(each_ns, 2 * traffic.line_bytes / machine.copy_bytes_per_ns[-1])
        first_ns, again = first_reads * pieces * each_ns, self._places - first_reads
        far, is_gathered = traffic.table[MEMORY], schedule.has(GatherLanes) and schedule.lanes is not None
        if index_uops and not nest.is_row and schedule.has(StreamStores):  # prefetched elements
            first_ns *= 1 + (machine.streamed_times - 1) * far
        times = 1 - (1 - fixed.GATHERED) * (1 - far) if is_gathered and not prefetches else 1.0
        uops = index_uops + step_uops / (1 if nest.is_row else schedule.lanes or 1)
        if not ascending:
            again_ns = again * piece_ns(traffic.again, late, ahead) if again else 0.0
            return times * (first_ns + again_ns), line_bytes, uops
        once = self._distinct / max(first_reads, 1)
        first_ns, line_bytes = first_ns * once, line_bytes * once
        if not (is_gathered or nest.is_row):
            strayed = self._strayed_lines * far
            first_ns, line_bytes = first_ns + strayed * machine.line_ns[MEMORY], line_bytes + strayed * LINE_BYTES
        return times * first_ns, line_bytes, uops

    def _added_lines(self, schedule: Schedule, team: Team, traffic: Traffic) -> tuple[float, float]:
        """Return the nanoseconds of the lines that are added to, and their bytes of memory."""
        rows = schedule.prefetches("rows")
        late = {NEAR: 0.0} if schedule.prefetches("tile") else {each.locality: 0.0 for each in rows}
        each_ns = piece_ns(traffic.first, late, max([8, *(each.ahead for each in rows)]))
        each_ns += traffic.line_bytes / self._machine.copy_bytes_per_ns[-1]  # it is written back
        line_bytes = self._places * traffic.table[MEMORY] * (1 + self._beside) * LINE_BYTES
        return self._places / team.row_share * each_ns, line_bytes

    def _grad(self, schedule: Schedule, team: Team, traffic: Traffic) -> tuple[float, float]:
        """Return the nanoseconds of grad, read from end to end or a row at a time, and its bytes of memory.

        Where a thread reads some rows, or a part of each, the processor fetches lines between them, too.
        """
        nest, machine, passing = self._nest, self._machine, traffic.passing
        out_bytes, row_lines = max(nest.out_bytes, 1), 1 + self._beside
        moved_bytes = passing[MEMORY] * (self._index_bytes + nest.out_bytes)
        beside_ns = copy_ns(machine, nest.out_bytes, passing)  # stores that take as long
        is_grouped = schedule.has(GroupIndices)
        alone = 2.0 - min(nest.table_bytes / out_bytes, 1.0) if is_grouped and schedule.has(StreamStores) else 2.0
        whole_ns, slices = alone * beside_ns, schedule.prefetches("slices")
        if not slices:  # half of the misses of L2 are under way
            latency_ns = passing[MEMORY] * machine.memory_ns * nest.out_bytes / LINE_BYTES
            whole_ns = max(whole_ns, 2 * latency_ns / machine.l2_misses)
        if is_grouped:
            lines = line_times(machine, passing, out_bytes, self._beside, is_row=True)
            late, ahead = ({slices[0].locality: 0.0}, slices[0].ahead) if slices else ({}, 1)
            row_ns = piece_ns(lines, late, ahead) + (alone - 1) * row_lines * lines.following
            return self._places * row_ns, moved_bytes
        if not nest.is_row or team.passes == 1:
            return whole_ns, moved_bytes
        fetched = min((row_lines * team.row_share + fixed.FETCHED_BEHIND) / (row_lines * team.owners), 1.0)
        if team.owners == 1:  # from the last cache parts of rows come as fast as their lines are fewer
            fetched = team.row_share + (fetched - team.row_share) * passing[MEMORY]
        waiting_ns = 0.0 if slices else passing[MEMORY] * machine.memory_ns * self._places / team.owners
        return team.passes * (fetched * whole_ns + (1 - fetched) * waiting_ns), moved_bytes

    def _zeros(self, schedule: Schedule, traffic: Traffic, *, copied: bool) -> tuple[float, float, float]:
        """Return the nanoseconds of what clears and scales the table, and its bytes of memory: read, and written.

        Where a buffer is added to, it is copied to the table, too.
        """
        nest, machine, size = self._nest, self._machine, self._nest.table_bytes
        where, table = parts_of(0.0, traffic.kept), traffic.table
        cached_ns, moved_bytes = copy_ns(machine, size, where, machine.store_times), where[MEMORY] * size
        if schedule.has(FuseIntoOwners):  # cleared and scaled where it is added to
            return cached_ns + copy_ns(machine, size, table) * (1 + nest.scales + copied), moved_bytes, moved_bytes
        if not schedule.has(StreamStores):
            return (1 + nest.scales) * cached_ns, (1 + nest.scales) * moved_bytes, (1 + nest.scales) * moved_bytes
        scaled_ns, scaled_bytes = nest.scales * cached_ns, nest.scales * moved_bytes
        return copy_ns(machine, size, IN_MEMORY) + scaled_ns, scaled_bytes, size + scaled_bytes

    def _check_ns(self, bits: int | None) -> float:
        """Return the nanoseconds of a check by itself, which may stage positions of 8 or 16 bits."""
        checked = self._nest.checked
        return trips(checked) * self._machine.check_ns * (1 if bits is None else 2) if checked else 0.0

    def _sort_ns(self, schedule: Schedule) -> float:
        """Return the nanoseconds of a counting sort of the indices."""
        machine = self._machine
        ends, places = (machine.random_line_ns(8 * count) for count in (self._positions, self._places))
        sharing = schedule.get(ParallelizeSort)
        parts = 1 if sharing is None else sharing.parts
        threads = min(parts, machine.threads)
        own_ns = 2 * ends + places + 2 * self._resolve_uops * self._uop_ns
        return self._places * own_ns / threads + (2 * machine.launch_ns if threads > 1 else 0.0)

    # instructions

    def _gathered_uops(self, lanes: int) -> float:
        """Return how many more instructions gathered lanes are worth than loaded ones, whose indices count, too."""
        dearer = self._machine.lane_gather_ns / self._machine.lane_load_ns - 1
        return self._places * dearer * (self._resolve_uops + fixed.LANE_UOPS + fixed.VECTOR_UOPS / lanes)

    def _copy_uops(self, lanes: int | None, stream: bool, is_known: bool) -> float:
        """Return the instructions that copy all rows or elements whose indices are resolved."""
        width, vector_bytes = self._nest.width_bytes, self._machine.vector_bytes
        wide = max((lanes or 1) * width / vector_bytes, 1.0)  # a wider vector is several instructions
        if not self._row:
            whole, rest = divmod(self._run, lanes or 1)
            # The halves of a vector that is wider than the machine's are put together, lane by lane.
            vector = (fixed.LANE_UOPS + (wide > 1)) * (lanes or 1) + fixed.VECTOR_UOPS * wide
            uops = fixed.VECTOR_UOPS * self._places
            if lanes is not None:
                uops = (whole * vector + rest * fixed.VECTOR_UOPS) * self._places / max(self._run, 1)
        else:
            run_bytes = width * self._run
            each = fixed.ROW_UOPS
            alone_bytes = vector_bytes if is_known else width
            loaded, rest = divmod(run_bytes, alone_bytes if lanes is None else lanes * width)
            loaded *= wide
            if rest:
                loaded += 1 if is_known else rest // width
            stored = -(-run_bytes // STREAM_BYTES) if stream else loaded
            moves = 1 if is_known else fixed.VECTOR_UOPS / 2  # without a loop each is one instruction
            uops = self._out_bytes // max(run_bytes, 1) * (each + moves * (loaded + stored))
        return uops

    def _sum_uops(self, schedule: Schedule, team: Team, passes: int, resolve: float) -> float:
        """Return the instructions of the additions of a gradient, of all tasks; `resolve` of them make a position."""
        nest, vector_bytes = self._nest, self._machine.vector_bytes
        if schedule.has(OwnerComputes):
            part, listed = 1 / team.owners, schedule.get(VectorizeLists)
            listing = fixed.VECTOR_UOPS / (1 if listed is None else listed.lanes)
            resolve += listing if schedule.has(CompactIndices) else 2 * part * (1 - part) * fixed.MISPREDICTED_UOPS
        found = passes * self._places * resolve
        if schedule.has(GroupIndices):  # sums are stored, and the end of a group of unknown size is mispredicted
            found += self._positions * (fixed.ROW_UOPS + self._row_bytes / vector_bytes)
            found += min(self._positions, self._places) * fixed.MISPREDICTED_UOPS
        if not nest.is_row:  # with each element, an index and an element of the next tile are prefetched
            tile = bool(schedule.prefetches("tile"))
            return found + self._places * (fixed.VECTOR_UOPS + (2 * (fixed.PREFETCH_UOPS + 1) if tile else 0))
        step_bytes = schedule.lanes * nest.width_bytes if schedule.lanes else vector_bytes  # LLVM makes vectors
        wide, whole = max(step_bytes / vector_bytes, 1.0), schedule.has(SpecializeInner)
        each = fixed.VECTOR_UOPS * wide + (0 if whole else fixed.VECTOR_UOPS / 2)
        row = fixed.ROW_UOPS
        row += fixed.PREFETCH_UOPS * (1 + self._beside) if schedule.has(Prefetch) else 0
        return found + self._places / team.row_share * (row + self._row_bytes * team.row_share / step_bytes * each)

    def _bag_uops(self, schedule: Schedule, prefetch_uops: float, pieces: int) -> float:
        """Return the instructions that add all rows, or the time that the sums of one element take, in instructions."""
        nest, in_registers, elements = self._nest, schedule.has(SpecializeInner), trips(self._nest.row)
        sum_bytes, vector_bytes = nest.sum_bytes or nest.width_bytes, self._machine.vector_bytes
        row = pieces * self._resolve_uops + prefetch_uops / max(self._places, 1)
        if schedule.lanes is None and not (nest.is_row and nest.has_packed_rows and nest.is_packed):
            adding = elements * fixed.VECTOR_UOPS
        else:  # LLVM makes vectors, where the schedule has none
            lanes = schedule.lanes or max(vector_bytes // sum_bytes, 1)
            vectors = elements / lanes * max(lanes * sum_bytes / vector_bytes, 1.0)
            each = 1 if in_registers else fixed.VECTOR_UOPS + fixed.VECTOR_UOPS / 2
            adding = vectors * (each + (nest.sum_bytes > 0))
        bag = pieces * fixed.ROW_UOPS + elements * sum_bytes / vector_bytes
        return self._places * (row + adding) + self._out_bytes // max(elements * sum_bytes, 1) * bag


def predict(schedule: Schedule, nest: NestShape, machine: MachineModel) -> Terms:
    """Return the terms of the time of a call; the machine has the number of threads."""
    return Model(nest, machine).predict(schedule)


def parts_of(l2: float, last: float) -> Parts:
    """Return the parts of lines in each level, from the parts that L2 holds, and L2 or the last cache."""
    last = max(l2, last)
    return 0.0, float(l2), last - l2, 1.0 - last


def copy_ns(machine: MachineModel, count_bytes: float, parts: Parts, memory_times: float = 1.0) -> float:
    """Return how long bytes take from the caches and memory that hold them; bytes in memory count several times."""
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


def line_times(
    machine: MachineModel, parts: Parts, span_bytes: float, beside: float, *, is_row: bool, tuple_size: int = 1
) -> Lines:
    """Return the cost of a row, or an element, at random places of which the caches and memory hold these parts.

    Args:
        machine: the machine.
        parts: L1 counts as L2.
        span_bytes: where the places are.
        beside: lines of a row but the first.
        is_row: whether it is a row.
        tuple_size: indices of each place: a core has fewer places under way where each takes more instructions.
    """
    own, near, alone = machine.line_ns, machine.near_line_ns, machine.alone_line_ns
    l1_ns, l2_ns, last, memory = own[L1], own[L2], parts[L3], parts[MEMORY]
    l2 = max(parts[L2] - min(machine.l1_bytes / span_bytes, 1.0), 0.0)
    following = copy_ns(machine, LINE_BYTES, (0.0, l2, last, memory))
    beside_ns, l2_line_ns, into_l2 = beside * following, l2 * (l2_ns - l1_ns), (last + memory) * (l2_ns - l1_ns)
    later = tuple_size * (fixed.ROWS_ALONE if is_row else 1.0)
    far_ns = last * (own[L3] - l1_ns) + memory * (own[MEMORY] - l1_ns)
    near_ns = last * (near[0] - l1_ns) + memory * (near[1] - l1_ns)
    alone_memory_ns = memory * (later * alone[1] - l1_ns)
    alone_ns = last * (later * alone[0] - l1_ns) + alone_memory_ns
    # Without prefetches, the window of instructions waits for some of L1's lines.
    waits = max((alone[0] - l1_ns) / max(own[L3] - l1_ns, 1e-9) - 1, 0.0)
    late_ns = waits * last * LINE_BYTES / machine.copy_bytes_per_ns[1]
    late_ns += max(alone_memory_ns - memory * LINE_BYTES / machine.copy_bytes_per_ns[2], 0.0)
    both_ns = l2_line_ns + far_ns + beside_ns
    return Lines(
        both_ns,
        both_ns + into_l2,
        l2_line_ns + near_ns + beside_ns,
        l2_line_ns + alone_ns + beside_ns + min(beside, 1.0) * late_ns,
        l2_line_ns + far_ns + into_l2 + beside_ns,
        following,
        memory * machine.memory_ns,
    )


def piece_ns(lines: Lines, late: dict[int, float], ahead: int) -> float:
    """Return the cost of a row or an element that is prefetched.

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
