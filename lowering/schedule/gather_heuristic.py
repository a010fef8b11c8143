"""Choosing the schedule of a gather: the least predicted time among a few candidates, with reasons. Plain Python.

There are two kinds of innermost loops. Where the index does not depend on its induction variable, it copies a *row*.
Where it does, each element has its own index, and several of them are loaded into the *lanes* of a vector.

The sizes of the nest and the machine give loops, tiles and vectors. The prediction chooses among kinds of stores, then
prefetches, then kinds of loads. Where the last cache does not hold all arrays, ties go to more prefetches: where memory
is the limit these take no predicted time, and gain up to a third. Elsewhere they must gain clearly.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import GATHERED_BYTES, LINE_BYTES, STREAM_BYTES, MachineModel, tile_size
from .prefetch_heuristic import beside_gathers, is_spread_out, next_slices, prefetches_of
from .schedule import Choice, Names, Schedule, Tiles
from .shape import Loop, NestShape, trips
from .steps import WHOLE_ROW, GatherLanes, HoistIndices, SpecializeInner, Step, StreamStores, VectorizeInner
from .thresholds import TILE_SIZES
from .tiling import checked_rows, tile_checks, tile_innermost

if TYPE_CHECKING:
    from .predict import Model


def choose_gather(nest: NestShape, machine: MachineModel) -> Choice:
    """Return the candidate of the least predicted time; tile sizes are few, so that kernels are."""
    return _Choosing(nest, machine).choice()


@dataclass
class _Choosing:
    nest: NestShape
    machine: MachineModel
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        nest = self.nest
        self.loops, self.row, self.innermost = nest.loops, nest.row, nest.innermost
        self.is_row, self.run_bytes = nest.is_row, nest.run_bytes
        self.has_packed_rows = nest.is_row and nest.has_packed_rows and nest.is_packed
        self.around = [loop for loop in self.loops if loop not in self.row]

    def choice(self) -> Choice:
        nest = self.nest
        if nest.out_bytes < fixed.MIN_VECTOR_WORK_BYTES:
            return Choice(Schedule(), (f"{nest.out_bytes} B are copied without a schedule: no pass pays",))
        lanes = self._lanes()
        found = self._with_vectors(self._loops(), lanes)
        if found.tiles or lanes is not None:  # a first call of less does not wait for the cost model
            from .predict import Model

            model = Model(nest, self.machine)
            stores = [self._with_prefetches(each) for each in self._stores(found)]
            found, why = model.choose([(each[-1], _tell_stores(each[-1])) for each in stores])
            prefetches = next(each for each in stores if each[-1] is found)
            if self.machine.exceeds_last_level_cache(nest.whole_bytes):
                prefetches.reverse()
            options = [(each, _tell_prefetches(each)) for each in prefetches]
            found, also = model.choose(options, fixed.LEAST_PREDICTED_GAIN)
            self.reasons += (*why, *also)
            found = self._loads(found, model)
        if found.row_bytes is not None:
            what = f"{self.innermost[1]} elements" if self._has_few_elements() else f"rows of {found.row_bytes} B"
            how = "end with an overlapping vector" if self._overlaps(found.lanes) else "are copied without a loop"
            self._because(f"{what} {how}: their size is part of the code")
        return Choice(found, tuple(self.reasons))

    def _because(self, reason: str) -> None:
        self.reasons.append(reason)

    # what the prediction chooses

    def _stores(self, cached: Schedule) -> list[Schedule]:
        """Return a schedule with non-temporal stores, where these may pay, and the one with cached stores."""
        nest = self.nest
        lanes = self._row_lanes(self._streamed_bytes()) if self.has_packed_rows else cached.lanes
        if lanes is None or 2 * nest.out_bytes <= self.machine.l3_room_bytes:
            return [cached]
        name, is_odd = self.innermost[0], self.innermost[1] % lanes != 0
        is_known = self._has_few_elements() and not self._repeats()  # a run of whole vectors has no elements to peel
        least = fixed.MIN_STREAMED_ROW_BYTES if is_odd and self._overlaps(lanes) else fixed.MIN_PEELED_BYTES
        if not is_odd and (name.role != "indices" or (is_known and lanes * nest.width_bytes >= STREAM_BYTES)):
            least = STREAM_BYTES
        if self.run_bytes < least:
            self._because(f"cached stores of runs of {self.run_bytes} B: non-temporal ones pay from {least} B on")
            return [cached]
        return [self._with_vectors(cached, lanes).put(StreamStores()), cached]

    def _with_prefetches(self, schedule: Schedule) -> list[Schedule]:
        """Return a schedule with each choice of prefetches; those of long rows are made along with a narrower copy."""
        found, lanes = [], schedule.lanes
        for prefetches in prefetches_of(self.nest, self.machine, schedule):
            steps: list[Step] = list(prefetches)
            if lanes and any(each.lines == WHOLE_ROW for each in prefetches):
                steps.append(VectorizeInner(min(lanes, self.machine.vector_bytes // self.nest.width_bytes)))
            found.append(schedule.put(*steps) if steps else schedule)
        return found

    def _loads(self, loaded: Schedule, model: "Model") -> Schedule:
        """Return the schedule with the lanes loaded as the least regret asks for.

        The regret of a way is how many times as long as the other it takes, for random or for ascending indices,
        whichever is more: nothing is known of the indices but their number.
        """
        nest = self.nest
        is_loaded = loaded.lanes is not None and not self.is_row and loaded.row_bytes is None
        if not (is_loaded and len(nest.axes) == 1 and nest.width_bytes in GATHERED_BYTES):
            return loaded
        gathered = loaded.put(GatherLanes())
        if not loaded.has(HoistIndices):
            gathered = gathered.with_prefetches(beside_gathers(nest, self.machine, loaded.prefetches()))
        at_random, ascending = (
            model.time_us(gathered, ascending=order) / model.time_us(loaded, ascending=order) for order in (False, True)
        )
        # Regrets that differ by less than a thousandth are equal: such a difference is one of rounding.
        if max(1 / at_random, 1 / ascending, 1.0) <= max(at_random, ascending, 1.0) * 1.001:
            return loaded
        orders = f"{at_random:.2f} times as long for random indices, {ascending:.2f} times for ascending ones"
        self._because(f"lanes are loaded by gather instructions: predicted to take {orders}")
        return gathered

    # the innermost loop

    def _with_vectors(self, schedule: Schedule, lanes: int | None) -> Schedule:
        """Return a schedule with vectors, and with the size of a row as a part of the code where that pays."""
        is_known = self._has_few_elements() if lanes is not None else False
        is_short = self.nest.has_plain_rows and self.run_bytes <= self.machine.unrolled_row_bytes
        return schedule.without(SpecializeInner, VectorizeInner).put(
            SpecializeInner(self.run_bytes) if is_known or is_short or self._overlaps(lanes) else None,
            None if lanes is None else VectorizeInner(lanes),
        )

    def _has_few_elements(self) -> bool:
        """Return whether few elements with an index each lie side by side, and others behind them.

        Where loops around them repeat the indices, they are fewer, and those of short slices.
        """
        name, size = self.innermost
        is_run = name == "indices" and len(self.loops) > 1 and self.nest.is_packed
        is_near = self.nest.span_bytes < fixed.MIN_NEXT_ROW_BYTES
        most = fixed.MOST_KNOWN_ELEMENTS if is_near and not self._repeats() else 2 * fixed.KNOWN_LANES - 1
        return is_run and 2 < size <= most and (is_near or not self._repeats())

    def _repeats(self) -> bool:
        """Return whether a loop repeats indices."""
        return any(loop not in self.nest.looked_up for loop, _ in self.loops)

    def _overlaps(self, lanes: int | None) -> bool:
        """Return whether rows end with an overlapping vector."""
        is_odd = lanes is not None and self.innermost[1] % lanes != 0
        is_short = self.run_bytes <= fixed.LONG_ROW_BYTES
        return is_odd and is_short and self.nest.has_plain_rows and self.nest.has_packed_rows

    def _lanes(self) -> int | None:
        nest = self.nest
        if not nest.is_packed:
            self._because("out is strided: elements are stored one by one")
            return None
        if self.is_row and not nest.has_packed_rows:
            wanted = self._most_lanes()
            return wanted if 2 <= wanted <= self.innermost[1] else None
        if self.is_row:
            return self._row_lanes(self.machine.vector_bytes)
        wanted = self._lanes_fit()
        return wanted if wanted >= 2 else None

    def _row_lanes(self, vector_bytes: int) -> int | None:
        """Return the most lanes of vectors of so many bytes that a row fills; None where that is one."""
        wanted = vector_bytes // self.nest.width_bytes
        while wanted > 1 and wanted * self.nest.width_bytes > self.run_bytes:
            wanted //= 2
        return wanted if wanted >= 2 else None

    def _most_lanes(self) -> int:
        """Return the most lanes for elements that are loaded one by one."""
        lanes_bytes = min(self.machine.vector_bytes, fixed.MOST_LANE_BYTES)
        return min(lanes_bytes // self.nest.width_bytes, fixed.MOST_LANES)

    def _lanes_fit(self) -> int:
        """Return the lanes that pay for elements with an index each; 1 where vectors do not pay."""
        wanted = self._most_lanes()
        if self._has_few_elements():
            known = max(STREAM_BYTES // self.nest.width_bytes, fixed.KNOWN_LANES)
            wanted = min(wanted, known, 2 * fixed.KNOWN_LANES, 1 << self.innermost[1].bit_length() - 1)
        size = self.innermost[1]
        if fixed.KNOWN_LANES <= size < wanted and size & (size - 1) == 0:
            wanted = size  # one whole vector
        if size < wanted or not self.nest.is_packed:
            return 1
        if self.innermost[0].role != "inner" or is_spread_out(self.nest, self.machine):
            return wanted
        return 1 if next_slices(self.nest, self.machine) is None else wanted

    def _streamed_bytes(self) -> int:
        """Return the size of the vectors of a streamed row: they fill it, or the last one overlaps."""
        least = max(STREAM_BYTES, 2 * self.nest.width_bytes)
        filling = min(self.run_bytes & -self.run_bytes, self.machine.wide_vector_bytes)
        if filling >= least:
            return filling
        return least

    # the loops around it

    def _loops(self) -> Schedule:
        """Return tiles, order and parallel loops, and the loop before which indices are resolved."""
        nest, machine = self.nest, self.machine
        if nest.out_bytes < machine.min_shared_bytes:
            self._because("serial: a launch takes longer than the work")
            return Schedule()
        repeating = self._repeating()
        if repeating is not None and (not self.is_row or self.run_bytes <= LINE_BYTES):
            return self._staged(repeating)
        unit_bytes = nest.width_bytes * trips(self.row)
        is_large = nest.out_bytes >= fixed.LARGE_TILES * machine.large_tile_bytes
        wanted = machine.large_tile_bytes if is_large else machine.tile_bytes
        tiles, parallel = tile_innermost(self.around, unit_bytes, machine.min_shared_bytes, wanted)
        if parallel:
            self._because(f"{' and '.join(parallel)} parallel, in tiles of about {wanted >> 10} KB")
        if nest.checked and self._has_few_elements() and not self._repeats():
            tiles = (*tiles, *((LoopName(name).inner_tile, checked_rows(nest)) for name, _ in tiles))
        return self._with_checks(tiles, (), parallel)

    def _with_checks(self, tiles: Tiles, order: Names, parallel: Names) -> Schedule:
        """Return the schedule with loops, and with the tiles and the threads of the check of the indices."""
        check_tiles, check_parallel = tile_checks(self.nest.checked, self.machine) if parallel else ((), ())
        tiles, parallel = (*tiles, *check_tiles), (*parallel, *check_parallel)
        return Schedule().with_loops(tiles=tiles, order=order, parallel=parallel)

    def _repeating(self) -> Loop | None:
        """Return the innermost loop that repeats the indices of one loop inside it, where that pays."""
        around = self.around
        is_few = self.innermost[1] <= fixed.KNOWN_LANES or self._has_few_elements()
        if not self.is_row and (is_few or self._lanes_fit() < 2):
            return None
        if len(around) < 2 or around[-1][0] not in self.nest.looked_up or around[-2][0] in self.nest.looked_up:
            return None
        return around[-2] if around[-2][1] >= TILE_SIZES[-1] else None

    def _staged(self, repeating: Loop) -> Schedule:
        """Tile the repeating loop and the indices in it, and stage each tile of indices for its rows."""
        around, machine, most = self.around, self.machine, self.machine.staged_indices
        name, size = repeating
        counted, count = around[-1]
        tile_bytes = self.nest.width_bytes * trips(self.row) * min(count, most)
        share = max(size * trips(around[:-2]) // (fixed.TILES_A_THREAD * machine.threads), 1)
        rows = tile_size(max(min(machine.tile_bytes // tile_bytes, share), TILE_SIZES[-1]))
        self._because(f"indices are staged for {rows} iterations of {name}, which repeats them")
        tiles = ((name, rows), (counted, most))
        before = [loop for loop, _ in around[:-2]]
        tiled = (name.outer_tile, counted.outer_tile, name.inner_tile, counted.inner_tile)
        order = (*before, *tiled, *(loop for loop, _ in self.row))
        parallel = (*before, name.outer_tile, *([counted.outer_tile] if count > most else []))
        self._because(f"{' and '.join(parallel)} parallel")
        return self._with_checks(tiles, order, parallel).put(HoistIndices(name.inner_tile))


def _tell_prefetches(schedule: Schedule) -> str:
    distances = " and ".join(str(prefetch.ahead) for prefetch in schedule.prefetches())
    return f"prefetches {distances} steps ahead" if distances else "no prefetch"


def _tell_stores(schedule: Schedule) -> str:
    how, lanes = "non-temporal" if schedule.has(StreamStores) else "cached", schedule.lanes or 1
    return f"{how} stores of {lanes} element{'s' if lanes > 1 else ''}"
