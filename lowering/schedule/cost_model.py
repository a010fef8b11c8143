"""Predicting the time of a gather under a schedule, from sizes and the machine model. Plain Python, microseconds.

The time is a sum of terms, each of something that the processor does, at a rate of the machine model:

    lines         lines of data from the cache, or memory, that holds them: prefetched, or as many as a core waits for
    stores        out: cached stores to memory read each line that they write, non-temporal ones do not
    indices       read once, and once more where a nest of its own checks them
    check         the comparisons of that nest
    instructions  resolved indices, lanes, vectors and prefetches, counted as the code generator prints them
    threads       launches, the last tile, and the start of each tile, for which nothing was prefetched

Threads share all of it, but memory moves no more bytes than it can. The model does not know how indices are
distributed, and takes them for uniformly random.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .loop_sizes import NestShape, trips
from .machine_model import LINE_BYTES, MIN_SINGLE_BYTES, STREAM_BYTES, MachineModel
from .prefetch_heuristic import NEAR
from .schedule import Prefetch, Schedule
from .tiling import Tiles

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
        """The time of a call in microseconds."""
        return sum(self)


def predict_us(nest: NestShape, schedule: Schedule, machine: MachineModel) -> float:
    """Return about how many microseconds a gather takes; the machine has the number of threads."""
    return CostModel(nest, machine).predict(schedule).time_us


class Lines(NamedTuple):
    """Nanoseconds of the first line of a row, by how it is prefetched, and of each line `beside` it.

    Where it is not prefetched, so many more lines are `late`. `latency` is that of the part in memory.
    """

    both: float
    far: float
    near: float
    unprefetched: float
    beside: float
    late: float
    latency: float


class CostModel:
    """What the schedules of one nest cost on a machine. Parts of predictions are remembered: many can be asked for."""

    def __init__(self, nest: NestShape, machine: MachineModel):
        self._nest, self._machine = nest, machine
        self._row_loops = row = dict(nest.row)
        axes = sum(name.role == "axis" for name, _ in nest.table)
        self._row_bytes = nest.width_bytes * math.prod(row.values())
        self._places = nest.out_bytes // max(self._row_bytes, 1)
        self._is_shared = machine.threads > 1 and machine.is_worth_sharing(
            nest.out_bytes + nest.all_index_bytes, self._places, nest.table_bytes
        )
        self._index_bytes = nest.all_index_bytes * max(axes, 1)  # of a tuple one for each axis
        self._resolve_uops = fixed.RESOLVE_UOPS * max(axes, 1)
        self._uop_ns = machine.lane_load_ns / fixed.LANE_UOPS
        self._sizes = dict(nest.loops)
        self._is_row, (_, self._run) = nest.is_row, nest.innermost
        self._run_bytes = nest.width_bytes * self._run
        # The loop whose later iterations a prefetch of rows or elements reads.
        self._ahead = next((name for name in reversed(self._sizes) if name not in row), None)
        self._find_lines(max(nest.span_bytes if axes else nest.table_bytes, 1))
        self._fetched: dict[Any, tuple[float, float, float]] = {}
        self._bodies: dict[Any, float] = {}
        self._teams: dict[Any, tuple[int, int, float]] = {}

    def predict(self, schedule: Schedule, changes: Mapping[str, Any] = NO_CHANGES) -> Prediction:
        """Return the time of a schedule, or of one that differs from it in some fields."""
        given, us = changes.get, 1e-3
        lanes, stream = given("lanes", schedule.lanes), given("stream", schedule.stream)
        prefetches, tiles = given("prefetch", schedule.prefetch), given("tiles", schedule.tiles)
        lines, step_uops, index_uops = self._fetch(prefetches, tiles)
        resolved = self._nest.indices if given("hoist", schedule.hoist) is not None else self._places
        uops = index_uops + step_uops / (1 if self._is_row else lanes or 1) + self._resolve_uops * resolved
        uops += self._body_uops(lanes, stream, given("specialize", schedule.specialize))
        stores, stored_bytes = self._streamed if stream else self._cached
        instructions, read, check = self._uop_ns * uops, self._read_ns, self._check_ns
        threads, checking, count = self._team(given("parallel", schedule.parallel), tiles)
        waiting = 0.0
        if threads > 1:
            serial = lines + stores + read + check + instructions
            late = serial / count * (threads - 1) / 2  # of the last tile, for which the others wait
            starts = count * self._machine.memory_ns * self._stored[MEMORY] if prefetches else 0.0
            waiting = self._machine.launch_ns * (1 + (checking > 1)) + (late + starts) / threads
        alone = (lines + stores + read + instructions) / threads + check / checking + waiting
        moved_ns = (stored_bytes + self._read_bytes) / self._machine.memory_bytes_per_ns
        shared = us / threads
        return Prediction(
            lines * shared,
            stores * shared,
            read * shared,
            check / checking * us,
            instructions * shared,
            waiting * us,
            max(moved_ns - alone, 0.0) * us,
        )

    # lines of data, and where arrays lie

    def _find_lines(self, span_bytes: int) -> None:
        """Count the lines that are read, a row or the line of an element at a time, and set what they cost."""
        nest, machine, row_bytes = self._nest, self._machine, self._row_bytes
        grain = math.gcd(row_bytes, STREAM_BYTES)
        self._beside = (row_bytes - grain) / LINE_BYTES if self._row_loops else 0.0  # lines of a row but the first
        windows = max(nest.table_bytes // span_bytes, 1)
        pieces = max(span_bytes / max(row_bytes, LINE_BYTES), 1.0)
        found = pieces * -math.expm1(-self._places / windows / pieces)
        self._first_reads = min(windows * found, self._places)
        self._is_dense = 2 * found > pieces
        touched = min(self._first_reads * (1 + self._beside) * LINE_BYTES, nest.table_bytes)
        self._stored = self._parts(nest.out_bytes + self._index_bytes + touched)
        whole = self._parts(nest.whole_bytes, is_split=windows > 1)
        l1, l2 = (min(size / span_bytes, 1.0) for size in (machine.l1_bytes, machine.l2_bytes))
        far = (1.0 - l2) / ((whole[L3] + whole[MEMORY]) or 1.0)
        self._again = self._line_ns((l1, l2 - l1, whole[L3] * far, whole[MEMORY] * far))
        self._first = self._again if windows == 1 else self._line_ns(whole)
        if windows > 1 and self._is_dense and span_bytes < fixed.MIN_NEXT_ROW_BYTES:
            each = self._first.beside  # windows are read one after the other: the processor prefetches them
            self._first = Lines(each, each, each, each, each, 0.0, 0.0)
        self._set_streams(touched)

    def _set_streams(self, touched_bytes: float) -> None:
        """Set the nanoseconds and the bytes of memory of what is the same for all prefetches: out and the indices."""
        nest, machine, missed = self._nest, self._machine, self._stored[MEMORY]
        out_bytes, runs = nest.out_bytes, nest.out_bytes / max(self._run_bytes, 1)
        is_split = self._run_bytes % STREAM_BYTES != 0 and nest.width_bytes < MIN_SINGLE_BYTES
        split_ns = 2 * runs * machine.line_ns[MEMORY] if is_split else 0.0  # lines that are written in two parts
        self._cached = self._copy_ns(out_bytes, self._stored, 2.0), 2 * missed * out_bytes
        self._streamed = self._copy_ns(out_bytes, IN_MEMORY) + split_ns, out_bytes
        self._read_ns, self._check_ns = self._copy_ns(self._index_bytes, self._stored), 0.0
        if nest.checked:
            self._read_ns += self._copy_ns(self._index_bytes, self._parts(self._index_bytes))
            self._check_ns = trips(nest.checked) * machine.check_ns
        self._read_bytes = (self._index_bytes + touched_bytes) * missed

    def _parts(self, working_set_bytes: float, *, is_split: bool = True) -> Parts:
        """Return the parts of a working set in each cache and in memory from one call to the next.

        `is_split` says whether each thread uses a part of it, which its own caches hold. The last cache is shared, and
        does not evict the oldest line: it holds all of twice the room of a thread, less of more, and nothing of four
        times of it, which by default is all of it.
        """
        machine = self._machine
        if working_set_bytes <= machine.l2_bytes * (machine.threads if is_split and self._is_shared else 1):
            return 0.0, 1.0, 0.0, 0.0
        held = min(max(2.0 - working_set_bytes / (2.0 * machine.l3_room_bytes), 0.0), 1.0)
        return 0.0, 0.0, held, 1.0 - held

    def _copy_ns(self, count_bytes: float, parts: Parts, memory_times: float = 1.0) -> float:
        """Return how long bytes take from the caches and memory that hold them; those in memory so many times."""
        rates = self._machine.copy_bytes_per_ns
        return count_bytes * (parts[L2] / rates[0] + parts[L3] / rates[1] + memory_times * parts[MEMORY] / rates[2])

    def _line_ns(self, parts: Parts) -> "Lines":
        """Return what lines cost of which the caches and memory hold these parts."""
        own, memory_ns, misses = self._machine.line_ns, self._machine.memory_ns, self._machine.l1_misses
        near, last, far = (parts[level] * (own[level] - own[L1]) for level in (L2, L3, MEMORY))
        missed = parts[L3] + parts[MEMORY]
        whole = near + last + far
        # The first cache waits for so many lines at once; the window of instructions, without prefetches, for half.
        of_l1, alone = (
            max(times * far, parts[MEMORY] * memory_ns / lines)
            for times, lines in ((fixed.NEAR_PREFETCHED, misses), (fixed.UNPREFETCHED, misses / 2))
        )
        return Lines(
            whole,
            whole + missed * (own[L2] - own[L1]),
            near + fixed.NEAR_PREFETCHED * last + of_l1,
            near + fixed.UNPREFETCHED * last + alone,
            self._copy_ns(LINE_BYTES, parts),
            min(self._beside, fixed.LATE_LINES) * (fixed.UNPREFETCHED - 1) * missed,
            parts[MEMORY] * memory_ns,
        )

    def _fetch(self, prefetches: tuple[Prefetch, ...], tiles: Tiles) -> tuple[float, float, float]:
        """Return the nanoseconds of the lines, and the instructions of prefetches in each step and with each index."""
        if (known := self._fetched.get((prefetches, tiles))) is not None:
            return known
        localities, ahead, late, step_uops, index_uops = set[int](), 1, 0.0, 0.0, 0.0
        step = 1 if self._is_row else max(self._machine.vector_bytes // self._nest.width_bytes, 1)
        for prefetch in prefetches:
            name = LoopName(prefetch.loop).untiled
            if name != self._ahead:  # the next slice of data, some lines in each step
                step_uops += self._places * fixed.PREFETCH_UOPS * prefetch.lines
                continue
            localities.add(prefetch.locality)
            index_uops += self._places * (self._resolve_uops + fixed.PREFETCH_UOPS * prefetch.lines)
            count = self._sizes[name]
            count = min(count, dict(tiles).get(name, count))
            late = max(late, min(prefetch.distance / count, 1.0))
            ahead = max(ahead, prefetch.distance * step)
        again = self._places - self._first_reads
        lines_ns = again * self._piece_ns(self._again, localities, ahead, late)
        if step_uops:
            first = self._first
            each = first.beside if self._is_dense else first.far
            lines_ns += self._first_reads * (each + self._beside * first.beside)
        else:
            lines_ns += self._first_reads * self._piece_ns(self._first, localities, ahead, late)
        self._fetched[prefetches, tiles] = lines_ns, step_uops, index_uops
        return lines_ns, step_uops, index_uops

    def _piece_ns(self, lines: "Lines", localities: set[int], ahead: int, late: float) -> float:
        """Return what a row or an element costs that is prefetched so far ahead, but for a part that is late."""
        none = lines.unprefetched + (self._beside + lines.late) * lines.beside
        if not localities:
            return none
        first = lines.both if len(localities) > 1 else lines.near if NEAR in localities else lines.far
        first = max(first + self._beside * lines.beside, lines.latency / ahead)  # so many are under way
        return late * none + (1 - late) * min(first, none)

    # instructions and threads

    def _body_uops(self, lanes: int | None, stream: bool, specialize: int | None) -> float:
        """Return the instructions that copy all rows or elements whose indices are resolved."""
        if (known := self._bodies.get((lanes, stream, specialize))) is not None:
            return known
        width, vector_bytes = self._nest.width_bytes, self._machine.vector_bytes
        wide = max((lanes or 1) * width / vector_bytes, 1.0)  # a wider vector is several instructions
        if not self._row_loops:
            whole, rest = divmod(self._run, lanes or 1)
            vector = fixed.LANE_UOPS * (lanes or 1) + fixed.VECTOR_UOPS * wide
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
            uops = self._nest.out_bytes // max(self._run_bytes, 1) * (each + fixed.VECTOR_UOPS / 2 * (loaded + stored))
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
