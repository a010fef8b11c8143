"""The shape of a nest: its sizes, and its loops under a schedule, without an IR. Plain Python.

`NestShape` has the sizes that a schedule is chosen from. `scheduled_loops` gives the loops that a schedule makes of the
nest, with their trips. Steps change these loops as their passes change the nest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
        scales: whether it is a gradient whose sums are scaled.
        looked_up: the loops that the indices depend on.
        index_bytes: bytes an index.
        sum_bytes: bytes a sum, where elements become other numbers before they are added; 0 elsewhere.
        is_packed: whether out, or of a gradient grad, is contiguous.
        has_packed_rows: whether the elements of a row of data lie side by side.
        has_packed_indices: whether indices are contiguous.
    """

    copied: tuple[Loop, ...]
    checked: tuple[Loop, ...]
    width_bytes: int
    table: tuple[Loop, ...] = ()
    scales: bool = False
    looked_up: frozenset[str] = frozenset()
    index_bytes: int = 8
    sum_bytes: int = 0
    is_packed: bool = True
    has_packed_rows: bool = True
    has_packed_indices: bool = True

    def __post_init__(self) -> None:
        for name in ("copied", "checked", "table"):
            self.__dict__[name] = tuple([(LoopName(loop), size) for loop, size in self.__dict__[name]])

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops of `copied` that run more than once, or never."""
        return tuple([loop for loop in self.copied if loop[1] != 1])

    @cached_property
    def row(self) -> tuple[Loop, ...]:
        """The loops among `loops` that copy the slice of one index."""
        others = [loop for loop in self.loops if loop[0] not in self.looked_up]
        return tuple([loop for loop in others if loop[0].role in ("inner", "unit")])

    @cached_property
    def innermost(self) -> Loop:
        """The innermost of `loops`."""
        return self.loops[-1] if self.loops else (LoopName(), 1)

    @cached_property
    def axes(self) -> tuple[Loop, ...]:
        """The dimensions of data that indices select from."""
        return tuple([loop for loop in self.table if loop[0].role == "axis"])

    @cached_property
    def indices(self) -> int:
        """How many indices there are, a tuple counting as one."""
        return trips([loop for loop in self.copied if loop[0] in self.looked_up])

    @cached_property
    def out_bytes(self) -> int:
        """Bytes that are written."""
        return self.width_bytes * trips(self.copied)

    @cached_property
    def table_bytes(self) -> int:
        """Bytes of data."""
        return self.width_bytes * trips(self.table)

    @property
    def all_index_bytes(self) -> int:
        """Bytes of the indices."""
        return self.index_bytes * self.indices

    @cached_property
    def span_bytes(self) -> int:
        """Bytes of data that one loop over the indices can reach."""
        axis = self.table.index(self.axes[0]) if self.axes else len(self.table)
        return self.width_bytes * trips(self.table[axis:])

    @cached_property
    def is_row(self) -> bool:
        """Whether the innermost loop copies the slice of one index."""
        return self.innermost in self.row

    @cached_property
    def has_plain_rows(self) -> bool:
        """Whether a slice is the one inner dimension of data, and the innermost loop copies it."""
        names = [name for name, _ in self.table if name.role == "inner"]
        return self.is_row and self.innermost[0] == "inner" and names == ["inner"]

    @cached_property
    def has_whole_rows(self) -> bool:
        """Whether rows are plain, and contiguous in data and in out, so that vectors copy them."""
        return self.has_plain_rows and self.has_packed_rows and self.is_packed

    @cached_property
    def repeats(self) -> bool:
        """Whether a loop repeats indices."""
        return any(loop not in self.looked_up for loop, _ in self.loops)

    @property
    def has_rows_of_one_axis(self) -> bool:
        """Whether one loop over the indices copies rows of one loop, each at a position of the one axis."""
        is_nest_of_rows = [name for name, _ in self.loops] == ["indices", "inner"]
        return is_nest_of_rows and len(self.axes) == 1 and all(name.loop == name for name, _ in self.table)

    @cached_property
    def sums_bags(self) -> bool:
        """Whether a loop over bags adds up rows."""
        return any(name.role == "bag" for name, _ in self.copied)

    @cached_property
    def tuple_size(self) -> int:
        """Indices for each slice: one for each axis that they select from."""
        return max(len(self.axes), 1)

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of the slice of one index."""
        return self.width_bytes * trips(self.row)

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
    def moved_bytes(self) -> int:
        """Bytes of data that are read at most, and of out."""
        return self.out_bytes + self.read_bytes

    @property
    def whole_bytes(self) -> int:
        """Bytes of data, of out and of the indices, whether they are read or not."""
        return self.out_bytes + self.table_bytes + self.all_index_bytes


def trips(loops: Loops) -> int:
    """Return how often the body of nested loops runs."""
    return math.prod(size for _, size in loops)


class ScheduledLoop(NamedTuple):
    """A loop of the nest that copies or adds: its name, its trips in the loops around it, and its kind."""

    name: LoopName
    trips: int
    is_parallel: bool


def scheduled_loops(nest: NestShape, schedule: Schedule) -> tuple[ScheduledLoop, ...]:
    """Return the loops of the nest that copies or adds under a schedule, outermost first.

    Where indices are grouped by position, the loops run over positions and, on average, the bag of each.
    """
    loops = nest.loops
    if schedule.has(GroupIndices):
        axis = nest.axes[0]
        loops = (axis, (LoopName("bag"), -(-nest.indices // max(axis[1], 1))), *nest.row)
    cut, order, parallel = dict(schedule.tiles), schedule.order, schedule.parallel
    found = {name: trips_of for loop in loops for name, trips_of in _tiled(*loop, cut)}
    if order:
        found = {LoopName(name): found[LoopName(name)] for name in order}
    if (owned := schedule.get(OwnerComputes)) is not None:
        found = {LoopName("owners"): owned.owners, **found}
    return tuple([ScheduledLoop(name, trips_of, name in parallel) for name, trips_of in found.items()])


def _tiled(name: LoopName, size: int, tiles: dict[str, int]) -> list[Loop]:
    """Return the loops, with their trips, that a loop becomes: those over and within its tiles."""
    if name not in tiles:
        return [(name, size)]
    tile = tiles[name]
    return [*_tiled(name.outer_tile, -(-size // tile), tiles), *_tiled(name.inner_tile, min(tile, size), tiles)]
