"""The prefetches that a gather may have, from the sizes of a nest and the machine. Plain Python.

Rows and single elements are prefetched at the indices of later iterations. Where nearly all lines of a row of data are
read, as along the last axis, whole rows are prefetched, whatever their indices are.
"""

import math

from ...ir.loop_name import LoopName
from . import thresholds as fixed
from .machine_model import LINE_BYTES, STREAM_BYTES, MachineModel
from .schedule import Schedule
from .shape import Loop, NestShape
from .steps import MAX_LINES, WHOLE_ROW, Prefetch

NEAR, FAR = 3, 2
# Localities: into every cache, and into all but the first, whose outstanding misses are few.


def prefetches_of(nest: NestShape, machine: MachineModel, schedule: Schedule) -> list[tuple[Prefetch, ...]]:
    """Return the prefetches that a gather with these loops and vectors may have: none, and those for its sizes."""
    counted = [loop for loop in nest.loops if loop[0] in nest.looked_up]
    if not counted:
        return [()]
    (name, size), tiled, lanes = counted[-1], dict(schedule.tiles), schedule.lanes
    inside = {loop: loop.inner_tile if loop in tiled else loop for loop, _ in nest.loops}
    if lanes is not None and (slices := next_slices(nest, machine)) is not None:
        return [(), (Prefetch("rows", inside[slices[0]], 1, slices[1], FAR),)]
    if nest.is_row:
        is_around_rows = [loop for loop in nest.loops if loop not in nest.row][-1][0] == name
        size = nest.indices if nest.sums_bags else size  # prefetches go on into the next bag
        is_far = machine.exceeds_last_level_cache(nest.whole_bytes)
        # The second cache may hold since the last call what a call reads of the last cache.
        near_bytes = nest.table_bytes if is_far else nest.read_bytes
        if not is_around_rows or size < machine.near_rows or near_bytes <= machine.l2_room_bytes:
            return [()]  # a loop that is soon over has its rows under way anyway
        near, far = near_and_far_rows(machine, inside[name], size, nest.run_bytes)
        is_short = nest.row_bytes <= LINE_BYTES  # the first cache waits for fewer lines than such rows have
        chosen: tuple[Prefetch, ...] = (far,) if is_short or near.ahead == far.ahead else (near,)
        is_dear = is_short and nest.tuple_size > 1  # a second prefetch reads tuples once more
        if is_far and near.ahead != far.ahead and not is_dear:
            chosen = far, near
        return [(), chosen if schedule.row_bytes is not None else along_the_copy(nest, chosen)]
    if lanes is None:
        return [()]
    return [(), _next_rows(nest, machine, inside, lanes) or elements_ahead(nest, machine, inside[name], size, lanes)]


def prefetches_of_bags(
    nest: NestShape, machine: MachineModel, loop: LoopName, piece_bytes: int | None
) -> tuple[Prefetch, ...]:
    """Return the prefetches of the rows of a bag, or of pieces of rows with a given number of bytes.

    The prefetches go on into the next bag; a bag of one row prefetches the rows of other bags. Where a prefetch between
    loads of other rows is slow, rows of several lines from memory are prefetched by a loop of their own.
    """
    if min(nest.read_bytes, nest.table_bytes) <= machine.l2_room_bytes:
        return ()
    count = nest.indices * (nest.run_bytes // (piece_bytes or nest.run_bytes))
    near, far = near_and_far_rows(machine, loop, count, piece_bytes or nest.run_bytes)
    if piece_bytes is not None or not machine.exceeds_last_level_cache(nest.whole_bytes):
        return (near,)
    is_slow = machine.interleaved_times >= fixed.LEAST_PREDICTED_GAIN and nest.run_bytes > LINE_BYTES
    if not is_slow or loop.role != "bag" or not machine.exceeds_last_level_cache(nest.table_bytes):
        return far, near
    far = far.replace(separate=loop)
    return (far,) if nest.run_bytes <= fixed.MOST_FAR_ALONE_BYTES else (far, near)


def next_slices(nest: NestShape, machine: MachineModel) -> Loop | None:
    """Return the loop whose next slice of data is worth prefetching whole, and lines a step.

    Such a slice fits in L2, and nearly all of its lines are read.
    """
    names = [name for name, _ in nest.loops]
    axes = [size for _, size in nest.axes]
    counted = [place for place, name in enumerate(names) if name.role == "indices"]
    if not nest.span_bytes or len(axes) != 1 or len(counted) != 1 or counted[0] in (0, len(names) - 1):
        return None
    name, _ = nest.loops[counted[0] - 1]
    indices = nest.loops[counted[0]][1]
    own = {dim.loop for dim, _ in nest.table}
    row_bytes = nest.span_bytes // axes[0]
    piece_bytes = min(row_bytes if nest.is_row else nest.width_bytes, LINE_BYTES)
    uses = indices * row_bytes / nest.span_bytes * LINE_BYTES / piece_bytes
    if name not in own or uses < 1 or nest.table_bytes <= machine.l2_bytes:
        return None
    if not machine.near_bytes <= nest.span_bytes <= machine.l2_room_bytes or not nest.has_packed_rows:
        return None
    is_short = nest.is_row and row_bytes <= LINE_BYTES
    lines = -(-nest.span_bytes // (LINE_BYTES * indices)) if is_short else -(-axes[0] // indices)
    return name, lines


def is_spread_out(nest: NestShape, machine: MachineModel) -> bool:
    """Return whether the places that one loop over the indices reads exceed its share of the last cache."""
    return nest.span_bytes >= machine.l3_room_bytes


def near_and_far_rows(machine: MachineModel, loop: str, count: int, row_bytes: int) -> tuple[Prefetch, Prefetch]:
    """Return the prefetches of a row, or a piece of one, some rows ahead, into L1 and, farther, into L2.

    `loop` runs `count` times over the indices of rows, or of pieces, of `row_bytes`.
    """
    touched = -(-(LINE_BYTES - math.gcd(row_bytes, STREAM_BYTES) + row_bytes) // LINE_BYTES)
    lines = min(touched, MAX_LINES)
    soon = max(min(machine.near_bytes // row_bytes, machine.near_rows, count), 1)
    later = max(min(machine.far_bytes // row_bytes, machine.far_rows, count), 1)
    return Prefetch("rows", loop, soon, lines, NEAR), Prefetch("rows", loop, later, lines, FAR)


def slices_ahead(loop: str, row_bytes: int, machine: MachineModel) -> Prefetch:
    """Return the prefetch of the slices of grad that a loop over the indices adds."""
    return Prefetch("slices", loop, max(fixed.SLICES_AHEAD * machine.near_bytes // max(row_bytes, 1), 1), locality=FAR)


def elements_ahead(nest: NestShape, machine: MachineModel, loop: str, count: int, lanes: int) -> tuple[Prefetch, ...]:
    """Return the prefetch of elements some steps ahead, each step one vector of so many lanes.

    They are prefetched into L2, or half as far ahead into L1 where that takes no longer. In a column they lie whole
    rows apart, often in few sets of L1: 2048x1024 of 8192 rows of 4 KB take 8.3 ms by way of L2, and 19 (a Zen 5).

    `loop` runs over `count` elements. There is none where it ends too soon: the core itself has the loads of so few
    elements under way.
    """
    most = count // fixed.MOST_SHARE_OF_A_LOOP
    if most < machine.l1_misses:
        return ()
    is_near = machine.near_line_ns[-1] <= machine.line_ns[-1] and nest.innermost[0].role != "inner"
    ahead = min(machine.far_rows // (2 if is_near else 1), most)
    return (Prefetch("rows", loop, max(ahead // lanes, 1), locality=NEAR if is_near else FAR),)


def _next_rows(
    nest: NestShape, machine: MachineModel, inside: dict[LoopName, LoopName], lanes: int
) -> tuple[Prefetch, ...]:
    """Prefetch the next rows of the loop around the innermost one, some lines in each step."""
    is_long = fixed.MIN_NEXT_ROW_BYTES <= nest.span_bytes <= machine.l1_bytes
    if len(nest.loops) < 2 or not is_long or nest.table_bytes <= machine.l2_bytes:
        return ()
    name, rows = nest.loops[-2]
    lines = -(-nest.span_bytes // (LINE_BYTES * max(nest.innermost[1] // lanes, 1)))
    has_own_row = any(dim.loop == name for dim, _ in nest.table)
    if lines > lanes or rows <= fixed.LATER_ROW or not has_own_row or len(nest.axes) != 1:
        return ()
    soon = Prefetch("rows", inside[name], 1, lines, NEAR)
    if not machine.exceeds_last_level_cache(fixed.LATER_ROW_SHARE * (nest.table_bytes + nest.out_bytes)):
        return (soon,)
    return Prefetch("rows", inside[name], fixed.LATER_ROW, lines, FAR), soon


def beside_gathers(nest: NestShape, machine: MachineModel, prefetches: tuple[Prefetch, ...]) -> tuple[Prefetch, ...]:
    """Return the prefetches where gather instructions load lanes: of next rows only those into the first cache.

    These are as many rows ahead as a copy moves in the latency of memory. The row farther ahead in the second cache
    costs more instructions than it saves.
    """
    near = [prefetch for prefetch in prefetches if prefetch.locality == NEAR]
    if not near or len(nest.loops) < 2 or LoopName(near[0].loop).untiled != nest.loops[-2][0]:
        return prefetches
    moved_bytes = nest.span_bytes + nest.innermost[1] * (nest.width_bytes + nest.index_bytes)
    distance = min(-(-2 * machine.near_bytes // moved_bytes), fixed.LATER_ROW)
    return (near[0].replace(ahead=distance),)


def along_the_copy(nest: NestShape, prefetches: tuple[Prefetch, ...]) -> tuple[Prefetch, ...]:
    """Return prefetches that are made along with the copy, where they are of long rows without code of their own."""
    if not nest.has_plain_rows or not nest.has_packed_rows or nest.run_bytes < fixed.LONG_ROW_BYTES:
        return prefetches
    counted = nest.loops[-2][0] if len(nest.loops) > 1 else None
    if counted not in nest.looked_up or any(LoopName(each.loop).untiled != counted for each in prefetches):
        return prefetches
    return tuple(each.replace(lines=WHOLE_ROW) for each in prefetches)
