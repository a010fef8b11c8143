"""Predicting the time of a reduction under a schedule, from sizes and the machine model. Plain Python, microseconds.

The terms are those of a gather of the rows, with these differences:

    lines         a row for each index, whole or piece by piece, which is not written anywhere
    stores        the sums of each bag
    instructions  rows that are added to registers, or to sums in memory; what is added to one sum waits for the
                  addition before
    threads       bags are shared

Indices are taken for uniformly random.
"""

import math

from ....ir.loop_name import LoopName
from .. import thresholds as fixed
from ..loop_sizes import NestShape, trips
from ..machine_model import LINE_BYTES, STREAM_BYTES, MachineModel, held
from ..schedule import Schedule
from ..tiling import staged_bits_of_bags
from .gather_cost import IN_MEMORY, MEMORY, Parts, Prediction, copy_ns, indices_read, line_times, parts_of, piece_ns
from .index_cost import index_costs


class ReductionModel:
    """What the schedules of the nest of a reduction cost on a machine."""

    def __init__(self, nest: NestShape, machine: MachineModel):
        self._nest, self._machine = nest, machine
        self._rows = nest.indices
        self._sum_bytes = nest.sum_bytes or nest.width_bytes
        self._elements = trips(nest.row)
        self._sizes = {name: size for name, size in nest.copied if name.role == "indices"}
        self._bags = math.prod(self._sizes.values())
        self._out_bytes = self._bags * self._elements * self._sum_bytes
        self._resolve_uops, self._read_bytes, self._check_ns = index_costs(nest, machine, staged_bits_of_bags(nest))

    def predict(self, schedule: Schedule) -> Prediction:
        """Return the time of a schedule."""
        nest, machine = self._nest, self._machine
        passing = nest.all_index_bytes + (0 if schedule.stream else self._out_bytes)
        reads = self._rows / max(nest.table_bytes / max(nest.row_bytes, LINE_BYTES), 1.0)
        last = held(fixed.LAST_CACHE_ROOMS * machine.l3_room_bytes, passing, nest.table_bytes, reads, False)
        threads, checking, tiles = self._team(schedule)
        fits = passing + nest.table_bytes <= threads * machine.l2_bytes
        stored = parts_of(fits, last.passing)
        table = parts_of(min(machine.l2_bytes / max(nest.table_bytes, 1), 1.0), last.table)
        reads = [(self._read_bytes, stored)]
        if nest.checked:
            fits = nest.all_index_bytes <= threads * machine.l2_bytes
            reads.append((nest.all_index_bytes, parts_of(fits, last.there)))
        lines, line_bytes = self._lines(schedule, table)
        indices, index_bytes = indices_read(machine, *reads)
        read = line_bytes + index_bytes
        if schedule.stream:
            stores, written = copy_ns(machine, self._out_bytes, IN_MEMORY), float(self._out_bytes)
        else:
            stores = copy_ns(machine, self._out_bytes, stored, machine.store_times)
            written = stored[MEMORY] * self._out_bytes
            read += written  # a cached store reads the line first
        instructions = machine.uop_ns * self._uops(schedule)
        each, waiting = 1 / threads, 0.0
        alone = lines + stores + indices + instructions
        if threads > 1:
            waiting = machine.launch_ns * (1 + (checking > 1)) + alone / tiles * (threads - 1) / 2 * each
        bandwidth = max(machine.moving_ns(read, written) - alone * each - waiting, 0.0)
        terms = (lines * each, stores * each, indices * each, self._check_ns / checking, instructions * each)
        return Prediction(*(1e-3 * term for term in (*terms, waiting, bandwidth)))

    def _team(self, schedule: Schedule) -> tuple[int, int, float]:
        """Return how many threads add and check, and the tiles that they share."""
        names, cut = [LoopName(name) for name in schedule.parallel], dict(schedule.tiles)
        adding = [name.untiled for name in names if not name.nest]
        tiles = math.prod(max(self._sizes.get(name, 1) / cut.get(name, 1), 1.0) for name in adding)
        threads = min(self._machine.threads, math.ceil(tiles)) if adding else 1
        return threads, threads if len(adding) < len(names) else 1, tiles

    def _pieces(self, schedule: Schedule) -> int:
        """Return in how many pieces a row is read."""
        name, size = self._nest.innermost
        piece = dict(schedule.tiles).get(name, size)
        return -(-size // piece) if self._nest.is_row and piece else 1

    def _lines(self, schedule: Schedule, table: Parts) -> tuple[float, float]:
        """Return the nanoseconds of the lines of data, and their bytes of memory."""
        nest, pieces = self._nest, self._pieces(schedule)
        piece_bytes = nest.row_bytes // pieces
        beside = (piece_bytes - math.gcd(piece_bytes, STREAM_BYTES)) / LINE_BYTES
        lines = line_times(self._machine, table, max(nest.table_bytes, 1), beside, is_row=True)
        late = {prefetch.locality: min(prefetch.ahead / self._rows, 1.0) for prefetch in schedule.prefetch}
        ahead = max((prefetch.ahead for prefetch in schedule.prefetch), default=1)
        # Memory is read as fast as by a copy, half of whose bytes are read.
        read_ns = 2 * (1 + beside) * copy_ns(self._machine, LINE_BYTES, (0.0, 0.0, 0.0, table[MEMORY]))
        each_ns = max(piece_ns(lines, late, ahead), read_ns)
        count = self._rows * pieces
        return count * each_ns, count * (1 + beside) * LINE_BYTES * table[MEMORY]

    def _uops(self, schedule: Schedule) -> float:
        """Return the instructions that add all rows, or the time that the sums of one element take, in instructions."""
        nest, pieces, in_registers = self._nest, self._pieces(schedule), schedule.specialize is not None
        prefetched = sum(self._resolve_uops + fixed.PREFETCH_UOPS * prefetch.lines for prefetch in schedule.prefetch)
        row = pieces * (self._resolve_uops + prefetched)
        if schedule.lanes is None and not (nest.is_row and nest.has_packed_rows and nest.is_packed):
            adding = self._elements * fixed.ELEMENT_UOPS
        else:  # LLVM makes vectors, where the schedule has none
            lanes = schedule.lanes or max(self._machine.vector_bytes // self._sum_bytes, 1)
            vectors = self._elements / lanes * max(lanes * self._sum_bytes / self._machine.vector_bytes, 1.0)
            each = 1 if in_registers else fixed.ADDED_VECTOR_UOPS + fixed.VECTOR_UOPS / 2
            adding = vectors * (each + (nest.sum_bytes > 0))
        again = pieces * (fixed.SUMMED_AGAIN_UOPS if in_registers else fixed.ADDED_AGAIN_UOPS)
        bag = pieces * fixed.SPECIALIZED_ROW_UOPS + self._elements * self._sum_bytes / self._machine.vector_bytes
        return self._rows * max(row + adding, again) + self._bags * bag
