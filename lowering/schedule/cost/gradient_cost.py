"""Predicting the time of a gradient under a schedule, from sizes and the machine model. Plain Python, microseconds.

The terms are those of a gather, with these differences:

    lines         lines of out that rows are added to: read, and written back
    stores        zeros, or sums that were added up in registers
    indices       read by each owner, or for each part of the rows; and grad, from end to end or by rows
    instructions  vectors or elements that are added, indices resolved, listed, compared and sorted, and branches that
                  are mispredicted
    threads       launches, and what one thread does alone or last; the additions to one position, each of which waits
                  for the one before, take longer where positions are few

Indices are taken for uniformly random.
"""

import math
from typing import NamedTuple

from ....ir.loop_name import LoopName
from .. import thresholds as fixed
from ..loop_sizes import NestShape
from ..machine_model import LINE_BYTES, STREAM_BYTES, MachineModel, held
from ..schedule import Schedule
from ..tiling import CountedCheck, StagedCheck, choose_check
from .gather_cost import IN_MEMORY, MEMORY, Parts, Prediction, copy_ns, indices_read, line_times, parts_of, piece_ns
from .index_cost import index_costs, resolve_uops


class Sharing(NamedTuple):
    """How the additions are shared.

    Attributes:
        threads, tasks: that add, and what is shared among them.
        passes: how often all indices are read.
        owners: of parts of the table; 1 where each task adds to all of it.
        row_share: the part of a row that a task adds.
        own_bytes: of the part of the table that a task adds to.
    """

    threads: int
    tasks: int
    passes: int
    owners: int
    row_share: float
    own_bytes: float


class GradientModel:
    """What the schedules of the nest of a gradient cost on a machine."""

    def __init__(self, nest: NestShape, machine: MachineModel):
        self._nest, self._machine = nest, machine
        self._sizes = dict(nest.loops)
        self._row_bytes = nest.row_bytes
        self._places = nest.out_bytes // max(self._row_bytes, 1)
        self._positions = max(nest.table_bytes // max(self._row_bytes, 1), 1)
        self._index_bytes = nest.all_index_bytes * nest.tuple_size
        self._resolve_uops, self._uop_ns = resolve_uops(nest), machine.uop_ns
        grain = math.gcd(self._row_bytes, STREAM_BYTES)
        self._row_lines = 1 + (self._row_bytes - grain) / LINE_BYTES
        self._reads = self._places / max(nest.table_bytes / max(self._row_bytes, LINE_BYTES), 1.0)
        passing = self._index_bytes + nest.out_bytes
        last_bytes = fixed.LAST_CACHE_ROOMS * machine.l3_room_bytes
        self._last = held(last_bytes, passing, nest.table_bytes, self._reads, False)
        self._fits_l2 = passing + nest.table_bytes <= machine.l2_bytes
        self._passing = parts_of(self._fits_l2, self._last.passing)

    def predict(self, schedule: Schedule) -> Prediction:
        """Return the time of a schedule: of the check, of the sort, of the zeros and of the additions."""
        machine = self._machine
        sharing = self._sharing(schedule)
        beside = {name.nest for name in map(LoopName, schedule.parallel) if name.nest}
        checking, clearing = (machine.threads if nest in beside else 1 for nest in ("check", "clear"))
        table = parts_of(min(machine.l2_bytes / sharing.own_bytes, 1.0), self._last.table)
        lines_ns, line_bytes = self._lines(schedule, sharing, table)
        grad_ns, grad_bytes = self._grad(schedule, sharing)
        check = choose_check(self._nest, schedule, machine, is_fresh=False, is_gradient=True)
        counts = isinstance(check, CountedCheck)
        zeros_ns, fetched_bytes, zero_bytes = self._zeros(schedule, table, copied=counts)
        indices = index_costs(self._nest, machine, check.bits if isinstance(check, StagedCheck) else None)
        indices_ns = sharing.passes * indices_read(machine, (indices.read_bytes, self._passing))[0]
        uops_ns = self._uop_ns * self._uops(schedule, sharing, indices.resolve_uops)
        check_ns = 0.0 if counts else indices.check_ns / checking
        launches = (sharing.threads > 1) + (len(beside) if machine.threads > 1 else 0)
        waiting_ns = launches * machine.launch_ns + (self._sort_ns(schedule) if schedule.grouped else 0.0)
        adding_ns, read, written = lines_ns + grad_ns + indices_ns + uops_ns, line_bytes + grad_bytes, line_bytes
        bandwidth_ns = 0.0
        if schedule.fuse_owned or schedule.grouped:
            clearing, adding_ns = sharing.threads, adding_ns + zeros_ns
            read, written = read + fetched_bytes, written + zero_bytes
        else:
            bandwidth_ns = max(machine.moving_ns(fetched_bytes, zero_bytes) - zeros_ns / clearing, 0.0)
        each = 1 / sharing.threads
        late_ns = adding_ns * (-(-sharing.tasks // sharing.threads) / sharing.tasks - each)
        late_ns = max(late_ns, self._chain_ns(schedule) - adding_ns * each)
        bandwidth_ns += max(machine.moving_ns(read, written) - adding_ns * each - late_ns, 0.0)
        terms = (lines_ns * each, zeros_ns / clearing, (indices_ns + grad_ns) * each, check_ns, uops_ns * each)
        return Prediction(*(1e-3 * term for term in (*terms, waiting_ns + late_ns, bandwidth_ns)))

    def _sharing(self, schedule: Schedule) -> Sharing:
        """Return how the additions of a schedule are shared."""
        names = [LoopName(name) for name in schedule.parallel]
        adding = [name for name in names if not name.nest]
        tiles = dict(schedule.tiles)
        owners = schedule.owners[1] if schedule.owners else 1
        tasks, passes, row_share = owners, owners, 1.0
        for name in adding:
            whole = name.untiled
            if whole == "owners":
                continue
            size = self._sizes.get(whole) or next((size for dim, size in self._nest.table if dim == whole), 1)
            count = -(-size // tiles.get(whole, 1)) if name != whole else size
            tasks *= max(count, 1)
            if whole in dict(self._nest.row):
                passes, row_share = passes * count, row_share / count
        threads = min(self._machine.threads, tasks) if adding else 1
        own_bytes = max(self._nest.table_bytes * row_share / owners, 1)
        return Sharing(threads, max(tasks, 1), 1 if schedule.grouped else passes, owners, row_share, own_bytes)

    # memory

    def _lines(self, schedule: Schedule, sharing: Sharing, table: Parts) -> tuple[float, float]:
        """Return the nanoseconds of lines of out that are added to, and their bytes of memory."""
        nest, machine = self._nest, self._machine
        if schedule.grouped:
            return 0.0, 0.0
        beside = max(self._row_lines * sharing.row_share - 1, 0.0)
        lines = line_times(machine, table, sharing.own_bytes, beside, is_row=nest.is_row)
        rows = schedule.prefetches("rows")
        late = {3: 0.0} if schedule.prefetches("tile") else {prefetch.locality: 0.0 for prefetch in rows}
        ahead = max((prefetch.ahead for prefetch in rows), default=1)
        count = self._places / sharing.row_share
        each_ns = piece_ns(lines, late, max(ahead, 8))
        written_ns = table[MEMORY] * (1 + beside) * LINE_BYTES / machine.copy_bytes_per_ns[-1]
        line_bytes = table[MEMORY] * self._places * self._row_lines * LINE_BYTES
        return count * (each_ns + written_ns), line_bytes

    def _grad(self, schedule: Schedule, sharing: Sharing) -> tuple[float, float]:
        """Return the nanoseconds of grad, read from end to end or a row at a time, and its bytes of memory.

        Where a thread reads some rows, or a part of each, the processor fetches lines between them, too.
        """
        nest, machine = self._nest, self._machine
        out_bytes = max(nest.out_bytes, 1)  # there may be no slice
        moved_bytes = self._passing[MEMORY] * (self._index_bytes + nest.out_bytes)
        beside_ns = copy_ns(machine, nest.out_bytes, self._passing)  # stores that take as long
        alone = 2.0 - min(nest.table_bytes / out_bytes, 1.0) if schedule.grouped and schedule.stream else 2.0
        whole_ns, slices = alone * beside_ns, schedule.prefetches("slices")
        if not slices:  # half of the misses of L2 are under way
            latency_ns = self._passing[MEMORY] * machine.memory_ns * nest.out_bytes / LINE_BYTES
            whole_ns = max(whole_ns, 2 * latency_ns / machine.l2_misses)
        if schedule.grouped:
            lines = line_times(machine, self._passing, out_bytes, self._row_lines - 1, is_row=True)
            late, ahead = ({slices[0].locality: 0.0}, slices[0].ahead) if slices else ({}, 1)
            row_ns = piece_ns(lines, late, ahead) + (alone - 1) * self._row_lines * lines.following
            return self._places * row_ns, moved_bytes
        if not nest.is_row or sharing.passes == 1:
            return whole_ns, moved_bytes
        own_lines = self._row_lines * sharing.row_share
        fetched = min((own_lines + fixed.FETCHED_BEHIND) / (self._row_lines * sharing.owners), 1.0)
        if sharing.owners == 1:  # from the last cache parts of rows come as fast as their lines are fewer
            fetched = sharing.row_share + (fetched - sharing.row_share) * self._passing[MEMORY]
        waiting_ns = 0.0 if slices else self._passing[MEMORY] * machine.memory_ns * self._places / sharing.owners
        return sharing.passes * (fetched * whole_ns + (1 - fetched) * waiting_ns), moved_bytes

    def _zeros(self, schedule: Schedule, table: Parts, *, copied: bool) -> tuple[float, float, float]:
        """Return the nanoseconds of what clears and scales the table, and its bytes of memory: read, and written.

        Where a buffer is added to, it is copied to the table, too.
        """
        machine, size = self._machine, self._nest.table_bytes
        where = parts_of(self._fits_l2, self._last.table)
        cached_ns, moved_bytes = copy_ns(machine, size, where, machine.store_times), where[MEMORY] * size
        if schedule.fuse_owned:  # cleared and scaled where it is added to
            own_ns = copy_ns(machine, size, table) * (1 + self._nest.scales + copied)
            return cached_ns + own_ns, moved_bytes, moved_bytes
        scaled = self._nest.scales
        if schedule.stream:
            written_ns = copy_ns(machine, size, IN_MEMORY) + scaled * cached_ns
            return written_ns, scaled * moved_bytes, size + scaled * moved_bytes
        return (1 + scaled) * cached_ns, (1 + scaled) * moved_bytes, (1 + scaled) * moved_bytes

    def _sort_ns(self, schedule: Schedule) -> float:
        """Return the nanoseconds of a counting sort of the indices, whose counts one thread sums."""
        machine, ends_bytes, place_bytes = self._machine, 8 * self._positions, 8 * self._places
        ends, places = (machine.random_line_ns(size) for size in (ends_bytes, place_bytes))
        parts = schedule.sort_parts or 1
        threads = min(parts, machine.threads)
        own_ns = 2 * ends + places + (2 * self._resolve_uops + fixed.SORT_UOPS) * self._uop_ns
        summed_ns = parts * self._positions * fixed.SUMMED_COUNT_UOPS * self._uop_ns
        launches = 2 if threads > 1 else 0
        return self._places * own_ns / threads + summed_ns + launches * machine.launch_ns

    # instructions

    def _uops(self, schedule: Schedule, sharing: Sharing, resolve: float) -> float:
        """Return the instructions of the additions, of all tasks; `resolve` are those that make a position."""
        if schedule.owners:
            part = 1 / sharing.owners
            if schedule.compact:
                resolve += fixed.LISTING_UOPS / (schedule.list_lanes or 1)
            else:
                resolve += 2 * part * (1 - part) * fixed.MISPREDICTED_UOPS
        found = sharing.passes * self._places * resolve
        if schedule.grouped:  # sums are stored, and the end of a group of unknown size is mispredicted
            vectors = self._row_bytes / self._machine.vector_bytes
            found += self._positions * (fixed.SPECIALIZED_ROW_UOPS + vectors)
            found += min(self._positions, self._places) * fixed.MISPREDICTED_UOPS
        return found + self._places / sharing.row_share * self._body_uops(schedule, sharing)

    def _body_uops(self, schedule: Schedule, sharing: Sharing) -> float:
        """Return the instructions that add a row, or the part of it that a task adds."""
        nest, machine = self._nest, self._machine
        part_bytes = self._row_bytes * sharing.row_share
        if not nest.is_row:  # with each element, an index and an element of the next tile are prefetched
            return fixed.ELEMENT_UOPS + (2 * (fixed.PREFETCH_UOPS + 1) if schedule.prefetches("tile") else 0)
        step_bytes = schedule.lanes * nest.width_bytes if schedule.lanes else machine.vector_bytes  # LLVM makes vectors
        wide = max(step_bytes / machine.vector_bytes, 1.0)
        whole = schedule.specialize is not None
        each = fixed.ADDED_VECTOR_UOPS * wide + (0 if whole else fixed.VECTOR_UOPS / 2)
        row = fixed.SPECIALIZED_ROW_UOPS if whole else fixed.ROW_UOPS
        prefetched = fixed.PREFETCH_UOPS * self._row_lines if schedule.prefetch else 0
        return row + part_bytes / step_bytes * each + prefetched

    def _chain_ns(self, schedule: Schedule) -> float:
        """Return how long the additions to one position take: in memory, or in registers."""
        uops = fixed.SUMMED_AGAIN_UOPS if schedule.grouped else fixed.ADDED_AGAIN_UOPS
        return self._places / self._positions * uops * self._uop_ns
