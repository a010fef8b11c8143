"""Choosing the schedule of a gather from the sizes of its nest and the machine, with reasons. Plain Python.

There are two kinds of innermost loops. Where the index does not depend on its induction variable, it copies a *row*.
Where it does, each element has its own index, and several of them are loaded into the *lanes* of a vector.
"""

from dataclasses import dataclass, field

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import GATHERED_BYTES, LINE_BYTES, STREAM_BYTES, MachineModel, tile_size
from .prefetch_heuristic import along_the_copy, beside_gathers, choose_prefetches, is_spread_out, next_slices
from .schedule import Choice, Schedule, Tiles
from .shape import Loop, NestShape, trips
from .steps import GatherLanes, HoistIndices, Prefetch, SpecializeInner, StreamStores, VectorizeInner
from .thresholds import TILE_SIZES
from .tiling import checked_rows, tile_checks, tile_innermost


def choose_schedule(nest: NestShape, machine: MachineModel) -> Choice:
    """Pick a schedule; tile sizes are few, so that kernels are."""
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
        self.around = [loop for loop in self.loops if loop not in self.row]

    def choice(self) -> Choice:
        nest = self.nest
        if nest.out_bytes < fixed.MIN_VECTOR_WORK_BYTES:
            return Choice(Schedule(), (f"{nest.out_bytes} B are copied without a schedule: no pass pays",))
        lanes = self._lanes()
        tiles, order, parallel, hoist = self._loops(lanes)
        check_tiles, check_parallel = tile_checks(nest.checked, self.machine) if parallel else ((), ())
        specialize = self._specialize(lanes)
        inside = {name: name.inner_tile if name in dict(tiles) else name for name, _ in self.loops}
        repeats = self._repeating() is not None
        prefetches, why = choose_prefetches(nest, self.machine, inside, lanes, repeats=repeats)
        self.reasons += [why] if prefetches else []
        if specialize is None and lanes is not None:
            prefetches, lanes = self._swept(prefetches, lanes)
        gather = lanes is not None and self._gathers(hoist, prefetches)
        prefetches = beside_gathers(nest, self.machine, prefetches) if gather and hoist is None else prefetches
        loops = Schedule().with_loops(tiles=(*tiles, *check_tiles), order=order, parallel=(*parallel, *check_parallel))
        schedule = loops.put(
            None if specialize is None else SpecializeInner(specialize),
            None if hoist is None else HoistIndices(hoist),
            None if lanes is None else VectorizeInner(lanes),
            GatherLanes() if gather else None,
            *prefetches,
            StreamStores() if lanes is not None and self._streams(lanes) else None,
        )
        return Choice(schedule, tuple(self.reasons))

    def _because(self, reason: str) -> None:
        self.reasons.append(reason)

    # the innermost loop

    def _specialize(self, lanes: int | None) -> int | None:
        if lanes is not None and self._has_few_elements():
            self._because(f"{self.innermost[1]} elements are copied without a loop: their number is part of the code")
            return self.run_bytes
        overlaps = lanes is not None and self._overlaps(lanes)
        if not self.nest.has_plain_rows or (self.run_bytes > self.machine.unrolled_row_bytes and not overlaps):
            return None
        how = "end with an overlapping vector" if overlaps else "are copied without a loop"
        self._because(f"rows of {self.run_bytes} B {how}: their size is part of the code")
        return self.run_bytes

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

    def _overlaps(self, lanes: int) -> bool:
        """Return whether rows end with an overlapping vector."""
        nest = self.nest
        is_odd = self.innermost[1] % lanes != 0
        return is_odd and nest.has_plain_rows and nest.has_packed_rows and self.run_bytes <= fixed.LONG_ROW_BYTES

    def _lanes(self) -> int | None:
        nest, width = self.nest, self.nest.width_bytes
        if not nest.is_packed:
            self._because("out is strided: elements are stored one by one")
            return None
        if self.is_row and not nest.has_packed_rows:
            wanted = self._most_lanes()
            return wanted if 2 <= wanted <= self.innermost[1] else None
        if self.is_row:
            wanted = (self._streamed_bytes() if self._exceeds_caches() else self.machine.vector_bytes) // width
            while wanted > 1 and wanted * width > self.run_bytes:
                wanted //= 2
        elif (wanted := self._lanes_fit()) < 2:
            return None
        if wanted < 2:
            return None
        what = "a row is copied" if self.is_row else "elements with an index each are stored"
        self._because(f"{what} {wanted * width} B at a time")
        return wanted

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
        if next_slices(self.nest, self.machine) is None:
            return 1
        return min(self._streamed_bytes() // self.nest.width_bytes, wanted) if self._exceeds_caches() else wanted

    def _swept(self, prefetches: tuple[Prefetch, ...], lanes: int) -> tuple[tuple[Prefetch, ...], int]:
        """Return prefetches and lanes of rows that are prefetched along with the copy, where they are long."""
        swept = along_the_copy(self.nest, prefetches)
        if swept == prefetches:
            return prefetches, lanes
        fewer = min(lanes, self.machine.vector_bytes // self.nest.width_bytes)
        self._because(f"long rows are prefetched while others are copied, {fewer * self.nest.width_bytes} B a step")
        return swept, fewer

    def _gathers(self, hoist: str | None, prefetches: tuple[Prefetch, ...]) -> bool:
        """Return whether gather instructions load the lanes of elements with an index each."""
        nest, machine = self.nest, self.machine
        has_one_axis = sum(name.role == "axis" for name, _ in nest.table) == 1
        if self.is_row or not has_one_axis or nest.width_bytes not in GATHERED_BYTES or self._has_few_elements():
            return False
        if prefetches:
            is_ahead = self.innermost[0] in [LoopName(prefetch.loop).untiled for prefetch in prefetches]
            is_long = 2 * nest.span_bytes >= machine.l1_bytes  # a slice in use, and the next one
            is_far = machine.exceeds_last_level_cache(fixed.LATER_ROW_SHARE * nest.whole_bytes)
            misses = not is_ahead and (is_long or is_far)
        else:
            is_prefetched = nest.span_bytes > machine.l2_bytes and machine.alone_line_ns[0] > machine.line_ns[2]
            misses = machine.l2_room_bytes < nest.span_bytes and not is_prefetched
        most = fixed.MOST_GATHER_RATIO if misses and hoist is None else 1.0
        if machine.lane_gather_ns > most * machine.lane_load_ns:
            return False
        why = "more of their lines are under way at once" if misses else "they take less time than a load for each lane"
        self._because(f"lanes are loaded by gather instructions: {why}")
        return True

    def _streamed_bytes(self) -> int:
        """Return the size of the vectors of a streamed row: they fill it, or the last one overlaps."""
        least = max(STREAM_BYTES, 2 * self.nest.width_bytes)
        filling = min(self.run_bytes & -self.run_bytes, self.machine.wide_vector_bytes)
        if filling >= least:
            return filling
        return least

    # the loops around it

    def _loops(self, lanes: int | None) -> tuple[Tiles, tuple[str, ...], tuple[str, ...], str | None]:
        """Return tiles, order, parallel loops, and the loop before which indices are resolved."""
        nest, machine = self.nest, self.machine
        if nest.out_bytes < machine.min_shared_bytes:
            self._because("serial: a launch takes longer than the work")
            return (), (), (), None
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
        return tiles, (), parallel, None

    def _repeating(self) -> Loop | None:
        """Return the innermost loop that repeats the indices of one loop inside it, where that pays."""
        around = self.around
        is_few = self.innermost[1] <= fixed.KNOWN_LANES or self._has_few_elements()
        if not self.is_row and (is_few or self._lanes_fit() < 2):
            return None
        if len(around) < 2 or around[-1][0] not in self.nest.looked_up or around[-2][0] in self.nest.looked_up:
            return None
        return around[-2] if around[-2][1] >= TILE_SIZES[-1] else None

    def _staged(self, repeating: Loop) -> tuple[Tiles, tuple[str, ...], tuple[str, ...], str]:
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
        return tiles, order, parallel, name.inner_tile

    # the caches

    def _exceeds_caches(self) -> bool:
        """Return whether out exceeds the last cache, together with the reads, or with all of data where it is large."""
        is_large = self.nest.out_bytes >= self.machine.l3_bytes // fixed.LARGE_SHARE
        return self.machine.exceeds_last_level_cache(self.nest.whole_bytes if is_large else self.nest.moved_bytes)

    def _streams(self, lanes: int) -> bool:
        if not self._exceeds_caches():
            return False
        is_known = self._has_few_elements() and not self._repeats()
        least = least_streamed_bytes(self.nest, lanes, overlaps=self._overlaps(lanes), is_known=is_known)
        if self.run_bytes < least:
            self._because(f"cached stores of runs of {self.run_bytes} B: non-temporal ones pay from {least} B on")
            return False
        mb = [size >> 20 for size in (self.nest.out_bytes, self.nest.table_bytes, self.nest.all_index_bytes)]
        self._because(
            f"{mb[0]} MB of out, {mb[1]} MB of data and {mb[2]} MB of indices exceed the last cache of "
            f"{self.machine.l3_bytes >> 20} MB: non-temporal stores"
        )
        return True


def least_streamed_bytes(nest: NestShape, lanes: int, *, overlaps: bool, is_known: bool) -> int:
    """Return the shortest contiguous runs for which non-temporal stores of so many lanes pay.

    `overlaps` says whether a run ends with a vector over the one before, and `is_known` whether its size is part of the
    code: then a run of whole vectors has no elements to peel.
    """
    name, size = nest.innermost
    if size % lanes == 0:
        is_peeled = name.role == "indices" and (not is_known or lanes * nest.width_bytes < STREAM_BYTES)
        return fixed.MIN_PEELED_BYTES if is_peeled else STREAM_BYTES
    return fixed.MIN_STREAMED_ROW_BYTES if overlaps else fixed.MIN_PEELED_BYTES
