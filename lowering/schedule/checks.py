"""Choosing where and how the indices of a result are checked, from the sizes of a nest. Plain Python."""

import math
from typing import NamedTuple

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import LINE_BYTES, MachineModel
from .schedule import Schedule
from .shape import NestShape, scheduled_loops
from .steps import CompactIndices, GroupIndices, HoistIndices, InterchangeLoops, VectorizeLists


class FusedCheck(NamedTuple):
    """How a fused check is made: in which loop, and whether that prefetches all indices of its next iteration."""

    loop: str
    prefetches_all: bool

    def __str__(self) -> str:
        return f"check-indices{{how=fused loop={self.loop}{' lines=0' if self.prefetches_all else ''}}}"


class StagedCheck(NamedTuple):
    """How the check stages what it resolves: the bits of a position."""

    bits: int

    def __str__(self) -> str:
        return f"check-indices{{how=staged bits={self.bits}}}"


class CountedCheck(NamedTuple):
    """How owners that list single elements check: by counting these, for a result in a buffer where out must stay."""

    keeps_out: bool

    def __str__(self) -> str:
        return f"check-indices{{how=counted}}{',stage-result' if self.keeps_out else ''}"


Check = FusedCheck | StagedCheck | CountedCheck


def choose_check(nest: NestShape, schedule: Schedule, machine: MachineModel, *, is_fresh: bool) -> Check | None:
    """Return how the indices of a result are checked; None for a nest of its own that does nothing else.

    A new result is checked while it is made, and a given one before. What adds up resolves an index more than once, and
    so may have staged positions in either. A gradient whose loops have another order adds parts of rows: columns of
    indices are checked slower than all of them, gather_elements along the first axis 0.92 times as fast (Zen 4).
    Owners that list single elements count them: that costs each one comparison of a vector, and a check reads all
    indices from memory once more.
    """
    if nest.is_gradient:
        bits = staged_bits_of_gradient(nest, schedule, machine)
    elif nest.sums_bags:
        bits = staged_bits_of_bags(nest)
    else:
        bits = None if is_fresh or schedule.lanes is None or schedule.has(HoistIndices) else staged_bits(nest, machine)
    if bits is not None:
        return StagedCheck(bits)
    can_count = schedule.has(VectorizeLists) and nest.checked and _lists_once(nest)
    if can_count and (is_fresh or _can_stage_result(nest, machine)):
        return CountedCheck(keeps_out=not is_fresh)
    if not is_fresh or (nest.is_gradient and schedule.order):
        return None
    if (listed := schedule.get(CompactIndices)) is not None:
        return _check_of_lists(nest, LoopName(listed.loop), machine)
    return fused_check(nest, schedule, machine)


def fused_check(nest: NestShape, schedule: Schedule, machine: MachineModel) -> FusedCheck | None:
    """Return how the indices of a new result are checked while it is made; None where that does not pay.

    It is the innermost parallel loop or one inside it, if no loop at or around it repeats indices: each is then checked
    once, while it is on its way to the caches, and threads start once. Inside it, the innermost is taken that has
    enough indices for vectors. Short rows of indices are checked faster by one loop over all, before the copy, unless
    their size is part of the code: then it is one loop over those of a tile, as it is over those of bags.

    The indices of the next iteration are prefetched along with the copy where L1 holds those of both.
    """
    rows = [size for name, size in nest.loops if name in nest.looked_up]
    is_short = len(rows) > len(nest.checked) and rows[-1] < fixed.MIN_FUSED_CHECKS
    if is_short and not nest.sums_bags and (nest.is_row or schedule.row_bytes is None):
        return None
    parallel = _shared(schedule)
    if not nest.checked or not parallel:
        return None
    loops = scheduled_loops(nest, schedule)
    is_looked_up = [loop.name.dimension in nest.looked_up for loop in loops]
    has_vectors = schedule.lanes is not None and not nest.is_row
    least = fixed.MIN_RUN_CHECKED if has_vectors and nest.innermost[0].role == "indices" else fixed.MIN_CHECKED
    found, count = None, 0
    for place, loop in enumerate(loops):
        if not is_looked_up[place]:
            break
        checked = math.prod(inner.trips for at, inner in enumerate(loops) if at > place and is_looked_up[at])
        if loop.name == parallel[-1] or (found is not None and checked >= least and not nest.sums_bags):
            found, count = loop.name, checked
    if found is None:
        return None
    fits = not schedule.has(HoistIndices) and nest.index_bytes * count <= machine.l1_bytes // 2
    return FusedCheck(found, has_vectors and fits)


def _check_of_lists(nest: NestShape, listed: LoopName, machine: MachineModel) -> FusedCheck | None:
    """Return the loop over tiles of indices in which each owner checks all of them; None where threads share a check.

    A check of its own reads from memory what owners read once more. Where that takes longer than that each of them
    compares all indices, and not its share, they check.
    """
    compared_ns = nest.indices * machine.check_ns * (1 - 1 / machine.threads)
    exceeds = machine.exceeds_last_level_cache(2 * nest.all_index_bytes)  # those behind them take the other half
    is_slower = exceeds and machine.moving_ns(nest.all_index_bytes, 0.0) > compared_ns
    return FusedCheck(listed.untiled.outer_tile, False) if nest.checked and is_slower else None


def _lists_once(nest: NestShape) -> bool:
    """Return whether each index is listed by one owner, once: no loop repeats the indices, none has several numbers."""
    return nest.tuple_size == 1 and all(name in nest.looked_up for name, size in nest.loops if size != 1)


def _can_stage_result(nest: NestShape, machine: MachineModel) -> bool:
    """Return whether a gradient that owners add to a buffer, and copy, takes less than a check of its own.

    The check reads from memory what owners read once more; the copy reads the buffer and writes out.
    """
    is_one_run = sum(size != 1 for _, size in nest.table) == 1
    is_small = nest.table_bytes <= fixed.MOST_STAGED_RESULT_BYTES
    return is_one_run and is_small and machine.exceeds_last_level_cache(2 * nest.all_index_bytes)


def staged_bits(nest: NestShape, machine: MachineModel) -> int | None:
    """Return the fewest bits that hold a position, if staging pays a gather by the sizes of its nest.

    It pays for elements with an index each, where no core has room for the indices: the copy reads an eighth of their
    bytes, or a quarter, and resolves none.
    """
    if nest.all_index_bytes <= machine.l2_bytes or nest.is_row or nest.index_bytes != fixed.STAGED_INDEX_BYTES:
        return None
    return _fewest_bits(nest, fixed.STAGED_BITS)


def staged_bits_of_bags(nest: NestShape) -> int | None:
    """Return the bits of a position that the check of bags stages: they resolve it for its row and its prefetch."""
    return _fewest_bits(nest, fixed.STAGED_BITS) if nest.indices >= fixed.MIN_STAGED_BAG_INDICES else None


def staged_bits_of_gradient(nest: NestShape, schedule: Schedule, machine: MachineModel) -> int | None:
    """Return the bits of a position that the check of a gradient stages: of short rows, added in their order."""
    is_short = nest.row_bytes <= LINE_BYTES and nest.all_index_bytes > machine.l2_bytes
    has_others = schedule.has(CompactIndices) or schedule.has(GroupIndices) or schedule.has(InterchangeLoops)
    if not is_short or has_others or nest.index_bytes != fixed.STAGED_INDEX_BYTES:
        return None
    if any(name != "owners" for name in _shared(schedule)):  # they share rows
        return None
    return _fewest_bits(nest, (*fixed.STAGED_BITS, 32))


def _shared(schedule: Schedule) -> list[str]:
    """Return the parallel loops of the nest that copies or adds."""
    return [name for name in schedule.parallel if not LoopName(name).nest]


def _fewest_bits(nest: NestShape, allowed: tuple[int, ...]) -> int | None:
    """Return the fewest bits that hold a position, where one loop checks all indices; fewer than an index has."""
    is_run = sum(size != 1 for _, size in nest.checked) == 1 and nest.has_packed_indices
    return fewest_bits(nest.axes[0][1], nest.index_bytes, allowed) if is_run and len(nest.axes) == 1 else None


def fewest_bits(positions: int, index_bytes: int, allowed: tuple[int, ...]) -> int | None:
    """Return the fewest bits, of those allowed, that hold so many positions; None where an index has no more."""
    return next((bits for bits in allowed if positions <= 1 << bits and bits < 8 * index_bytes), None)
