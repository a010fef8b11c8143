"""The shape of a nest: its sizes, and its loops under a schedule, without an IR. Plain Python.

`NestShape` has the sizes that a schedule is chosen from. `scheduled_loops` gives the loops that a schedule makes of the
nest, with their trips. Steps change these loops as their passes change the nest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...ir.loop_name import LoopName
from .schedule import Schedule
from .steps import GroupIndices, OwnerComputes

Loop = tuple[LoopName, int]
Loops = Sequence[Loop]


@dataclass(frozen=True)
class NestShape:
    """The sizes of a nest.

    Attributes:
        copied: (name, iterations) of the loops that copy, outermost first.
        checked: those over which the indices are checked in a nest of their own; none when there is no such nest.
        width_bytes: bytes an element.
        table: (name, size) of the dimensions of data.
        is_gradient: whether slices are added to positions of data, so that out is the table.
        scales: whether it is a gradient whose sums are scaled.
        looked_up: the loops that the indices depend on.
        index_bytes: bytes an index.
        sum_bytes: bytes a sum, where elements become other numbers before they are added; 0 elsewhere.
        is_packed: whether out, or of a gradient grad, is contiguous.
        has_packed_rows: whether the elements of a row of data lie side by side.
        has_packed_indices: whether indices are contiguous.

        These follow from them:

        loops: the loops of `copied` that run more than once, or never.
        row: the loops among `loops` that copy the slice of one index.
        innermost: the last of `loops`.
        axes: the dimensions of data that indices select from.
        tuple_size: indices for each slice: one for each axis that they select from.
        indices: the number of indices, a tuple counting as one.
        out_bytes, table_bytes: bytes that are written, and of data.
        span_bytes: bytes of data that one loop over the indices can reach.
        row_bytes: bytes of the slice of one index.
        is_row: whether the innermost loop copies the slice of one index.
        sums_bags: whether a loop over bags adds up rows.
    """

    copied: tuple[Loop, ...]
    checked: tuple[Loop, ...]
    width_bytes: int
    table: tuple[Loop, ...] = ()
    is_gradient: bool = False
    scales: bool = False
    looked_up: frozenset[str] = frozenset()
    index_bytes: int = 8
    sum_bytes: int = 0
    is_packed: bool = True
    has_packed_rows: bool = True
    has_packed_indices: bool = True

    loops: tuple[Loop, ...] = field(init=False, compare=False, repr=False)
    row: tuple[Loop, ...] = field(init=False, compare=False, repr=False)
    innermost: Loop = field(init=False, compare=False, repr=False)
    axes: tuple[Loop, ...] = field(init=False, compare=False, repr=False)
    tuple_size: int = field(init=False, compare=False, repr=False)
    indices: int = field(init=False, compare=False, repr=False)
    out_bytes: int = field(init=False, compare=False, repr=False)
    table_bytes: int = field(init=False, compare=False, repr=False)
    span_bytes: int = field(init=False, compare=False, repr=False)
    row_bytes: int = field(init=False, compare=False, repr=False)
    is_row: bool = field(init=False, compare=False, repr=False)
    sums_bags: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        copied, checked, table = (
            tuple([(LoopName(loop), size) for loop, size in given]) for given in (self.copied, self.checked, self.table)
        )
        loops = tuple([loop for loop in copied if loop[1] != 1])
        row = tuple([loop for loop in loops if loop[0] not in self.looked_up and loop[0].role in ("inner", "unit")])
        axes = tuple([loop for loop in table if loop[0].role == "axis"])
        innermost = loops[-1] if loops else (LoopName(), 1)
        self.__dict__.update(
            copied=copied,
            checked=checked,
            table=table,
            loops=loops,
            row=row,
            innermost=innermost,
            axes=axes,
            tuple_size=max(len(axes), 1),
            indices=trips([loop for loop in copied if loop[0] in self.looked_up]),
            out_bytes=self.width_bytes * trips(copied),
            table_bytes=self.width_bytes * trips(table),
            span_bytes=self.width_bytes * trips(table[table.index(axes[0]) if axes else len(table) :]),
            row_bytes=self.width_bytes * trips(row),
            is_row=innermost in row,
            sums_bags=any(name.role == "bag" for name, _ in copied),
        )

    @property
    def all_index_bytes(self) -> int:
        """Bytes of the indices."""
        return self.index_bytes * self.indices

    @property
    def has_plain_rows(self) -> bool:
        """Whether a slice is the one inner dimension of data, and the innermost loop copies it."""
        if not self.is_row or self.innermost[0] != "inner":
            return False
        return [name for name, _ in self.table if name.role == "inner"] == ["inner"]

    @property
    def has_whole_rows(self) -> bool:
        """Whether rows are plain, and contiguous in data and in out, so that vectors copy them."""
        return self.has_packed_rows and self.is_packed and self.has_plain_rows

    @property
    def repeats(self) -> bool:
        """Whether a loop repeats indices."""
        return any(loop not in self.looked_up for loop, _ in self.loops)

    @property
    def has_rows_of_one_axis(self) -> bool:
        """Whether one loop over the indices copies rows of one loop, each at a position of the one axis."""
        is_nest_of_rows = [name for name, _ in self.loops] == ["indices", "inner"]
        return is_nest_of_rows and len(self.axes) == 1 and all(name.loop == name for name, _ in self.table)

    @property
    def run_bytes(self) -> int:
        """Bytes of out that the innermost loop writes."""
        return self.width_bytes * self.innermost[1]

    @property
    def read_bytes(self) -> int:
        """Bytes of data that are read at most: a row for each index, and no more than there are."""
        return min(self.out_bytes, self.table_bytes)

    @property
    def written_bytes(self) -> int:
        """Bytes of the result: of bags the sums, which are fewer than the rows."""
        if not self.sums_bags:
            return self.out_bytes
        bags = math.prod(size for name, size in self.copied if name.role == "indices")
        return bags * trips(self.row) * (self.sum_bytes or self.width_bytes)

    @property
    def whole_bytes(self) -> int:
        """Bytes of data, of out and of the indices, whether they are read or not."""
        return self.out_bytes + self.table_bytes + self.all_index_bytes


def trips(loops: Loops) -> int:
    """Return how often the body of nested loops runs."""
    return math.prod([size for _, size in loops])


class ScheduledLoop(NamedTuple):
    """A loop of the nest that copies or adds: its name, its trips in the loops around it, and its kind."""

    name: LoopName
    trips: int
    is_parallel: bool


def scheduled_loops(nest: NestShape, schedule: Schedule) -> tuple[ScheduledLoop, ...]:
    """Return the loops of the nest that copies or adds under a schedule, outermost first.

    Where indices are grouped by position, the loops run over positions and, on average, the bag of each. Loops that the
    nest does not have are left to the passes.
    """
    loops = nest.loops
    if schedule.has(GroupIndices):
        axis = nest.axes[0]
        loops = (axis, (LoopName("bag"), -(-nest.indices // max(axis[1], 1))), *nest.row)
    cut, order, parallel = dict(schedule.tiles), schedule.order, schedule.parallel
    found = dict[LoopName, int]()
    for name, size in loops:
        found.update(_tiled(name, size, cut) if name in cut else {name: size})
    if order:
        found = {name: found[name] for name in map(LoopName, order) if name in found}
    if (owned := schedule.get(OwnerComputes)) is not None:
        found = {LoopName("owners"): owned.owners, **found}
    return tuple([ScheduledLoop(name, trips_of, name in parallel) for name, trips_of in found.items()])


def _tiled(name: LoopName, size: int, tiles: dict[str, int]) -> dict[LoopName, int]:
    """Return the loops, with their trips, that a loop becomes: those over and within its tiles."""
    if name not in tiles:
        return {name: size}
    tile = tiles[name]
    return {**_tiled(name.outer_tile, -(-size // tile), tiles), **_tiled(name.inner_tile, min(tile, size), tiles)}
