"""The shape of a nest: its sizes, and its loops and accesses under a schedule, without an IR. Plain Python.

`NestShape` has the sizes that a schedule is chosen from. `summarize` gives what a schedule makes of the nest: loops
with trip counts, and accesses with array, pattern and bytes. Steps change the summary as their passes change the nest.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ...ir.loop_name import LoopName
from .schedule import Schedule
from .steps import GroupIndices, OwnerComputes

# The patterns of accesses: from end to end; slices of one index at random places; single elements at random places;
# slices that are read again and again, since outer loops repeat them; and rows or elements that are added to.
ONCE, ROWS, ELEMENTS, SLICES, ADDED = PATTERNS = ("once through", "rows", "elements", "repeated slices", "added to")

# Bytes of a position, of the end of a group, and of a place in the order, where indices are sorted by position.
PLACE_BYTES = 8

Loop = tuple[LoopName, int]
Loops = Sequence[Loop]


@dataclass(frozen=True, slots=True)
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
        loops: the loops of `copied` that run more than once, or never.
        row: the loops among `loops` that copy the slice of one index.
        innermost: the innermost of `loops`.
        indices: how many there are, a tuple counting as one.
        out_bytes, table_bytes, all_index_bytes: that are written, of data, and of the indices.
        span_bytes: of data that one loop over the indices can reach.
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

    loops: tuple[Loop, ...] = field(init=False, repr=False, compare=False)
    row: tuple[Loop, ...] = field(init=False, repr=False, compare=False)
    innermost: Loop = field(init=False, repr=False, compare=False)
    indices: int = field(init=False, repr=False, compare=False)
    out_bytes: int = field(init=False, repr=False, compare=False)
    table_bytes: int = field(init=False, repr=False, compare=False)
    all_index_bytes: int = field(init=False, repr=False, compare=False)
    span_bytes: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("copied", "checked", "table"):
            loops = tuple((LoopName(loop), size) for loop, size in getattr(self, name))
            object.__setattr__(self, name, loops)
        loops = tuple(loop for loop in self.copied if loop[1] != 1)
        row = tuple(loop for loop in loops if loop[0] not in self.looked_up and loop[0].role in ("inner", "unit"))
        object.__setattr__(self, "loops", loops)
        object.__setattr__(self, "row", row)
        object.__setattr__(self, "innermost", loops[-1] if loops else (LoopName(), 1))
        indices = trips([loop for loop in self.copied if loop[0] in self.looked_up])
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "out_bytes", self.width_bytes * trips(self.copied))
        object.__setattr__(self, "table_bytes", self.width_bytes * trips(self.table))
        object.__setattr__(self, "all_index_bytes", self.index_bytes * indices)
        axis = next((place for place, (name, _) in enumerate(self.table) if name.role == "axis"), len(self.table))
        object.__setattr__(self, "span_bytes", self.width_bytes * trips(self.table[axis:]))

    @property
    def is_row(self) -> bool:
        """Whether the innermost loop copies the slice of one index."""
        return self.innermost in self.row

    @property
    def has_plain_rows(self) -> bool:
        """Whether a slice is the one inner dimension of data, and the innermost loop copies it."""
        names = [name for name, _ in self.table if name.role == "inner"]
        return self.is_row and self.innermost[0] == "inner" and names == ["inner"]

    @property
    def sums_bags(self) -> bool:
        """Whether a loop over bags adds up rows."""
        return any(name.role == "bag" for name, _ in self.copied)

    @property
    def tuple_size(self) -> int:
        """Indices for each slice: one for each axis that they select from."""
        return max(sum(name.role == "axis" for name, _ in self.table), 1)

    @property
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


class Access(NamedTuple):
    """An access of a nest.

    Attributes:
        array: `indices`, `data`, `grad` or `out`; of a sort by position its `positions`, `ends` and
            `places`.
        nest: `check`, `clear`, `scale` or `sort`; empty for the nest that copies or adds.
        pattern: one of `PATTERNS`.
        is_written: whether it writes; what is added to is read, too.
        places: how many pieces there are in a call.
        piece_bytes: the bytes of a piece: of a slice, or of one element or index.
    """

    array: str
    nest: str
    pattern: str
    is_written: bool
    places: int
    piece_bytes: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all pieces."""
        return self.places * self.piece_bytes


class Summary(NamedTuple):
    """What a schedule makes of a nest.

    Attributes:
        loops: of the nest that copies or adds, outermost first; those that run once are left out.
        accesses: of all nests.
    """

    loops: tuple[ScheduledLoop, ...]
    accesses: tuple[Access, ...]


def summarize(nest: NestShape, schedule: Schedule, *, is_gradient: bool = False) -> Summary:
    """Return the loops and accesses of a nest under a schedule."""
    is_grouped = schedule.has(GroupIndices)
    return Summary(scheduled_loops(nest, schedule), accesses(nest, is_gradient=is_gradient, is_grouped=is_grouped))


def scheduled_loops(nest: NestShape, schedule: Schedule) -> tuple[ScheduledLoop, ...]:
    """Return the loops of the nest that copies or adds under a schedule, outermost first.

    Where indices are grouped by position, the loops run over positions and, on average, the bag of each.
    """
    loops = nest.loops
    if schedule.has(GroupIndices):
        axis = next(loop for loop in nest.table if loop[0].role == "axis")
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


def accesses(nest: NestShape, *, is_gradient: bool = False, is_grouped: bool = False) -> tuple[Access, ...]:
    """Return the accesses of a nest: each index, slice and element counts once, however many loops read it."""
    width, row_bytes = max(nest.width_bytes, 1), nest.row_bytes
    rows, indices = nest.out_bytes // max(row_bytes, 1), nest.indices * nest.tuple_size
    found = [Access("indices", "sort" if is_grouped else "", ONCE, False, indices, nest.index_bytes)]
    if nest.checked:
        found.append(Access("indices", "check", ONCE, False, indices, nest.index_bytes))
    if not is_gradient:
        repeats = nest.span_bytes < nest.table_bytes and 2 * row_bytes * rows > nest.table_bytes
        found.append(
            Access("data", "", SLICES if repeats else ROWS if nest.is_row else ELEMENTS, False, rows, row_bytes)
        )
        written = nest.sum_bytes or width
        return (*found, Access("out", "", ONCE, True, nest.written_bytes // written, written))
    table, positions = nest.table_bytes // width, nest.table_bytes // max(row_bytes, 1)
    if is_grouped:
        found += [Access("positions", "sort", ONCE, is_written, rows, PLACE_BYTES) for is_written in (True, False)]
        found += [
            Access("ends", "sort", ADDED, True, rows, PLACE_BYTES),
            Access("places", "sort", ELEMENTS, True, rows, PLACE_BYTES),
            Access("ends", "", ONCE, False, positions, PLACE_BYTES),
            Access("places", "", ONCE, False, rows, PLACE_BYTES),
            Access("grad", "", ROWS, False, rows, row_bytes),
            Access("out", "", ONCE, True, table, width),
        ]
    else:
        found.append(Access("grad", "", ONCE, False, nest.out_bytes // width, width))
        found.append(Access("out", "", ADDED, True, rows, row_bytes))
    others = ("clear", "scale") if nest.scales else ("clear",)
    return (*found, *(Access("out", other, ONCE, True, table, width) for other in others))
