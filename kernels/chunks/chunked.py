"""The tasks of a gather of chunked arrays: what is done with one chunk of data and one of indices. NumPy alone.

Where the indexed axes are one chunk, a task is a gather (`gather_block`). Where they are several, known indices are
resolved and sorted by the chunk that they point into (`split`), every chunk gives the rows that it holds (`take`), and
the rows are put in the places of their indices (`merge`). Of indices that are not known yet, every chunk looks for its
own (`take_own`), and `merge_own` puts the rows in their places. So each element of the result comes from exactly one
chunk, and what a chunk gives is never larger than its share of the result. The tasks are methods of a value that
pickles.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import as_bytes
from ...ir.errors import BoundsError, InvalidGatherError
from ...ir.operator_spec import Gather, GatherElements, GatherNd
from ...ir.positions import NOWHERE, reject_negative, resolve
from ...ir.problem import Problem
from ...ir.reference import zero_of
from ...ir.semantics import NO_NEGATIVE_INDICES, Bounds, Shape
from ...lowering.registry import Pipeline
from ...lowering.schedule.schedule import Schedule
from ..runtime.array_checks import index_array
from ..runtime.dispatch import run_gather
from ..runtime.prepare import bounds_error


@dataclass(frozen=True, slots=True)
class Picks:
    """The gather of one block of indices from one chunk of the indexed axes.

    Attributes:
        places: (hits,) int64 or int32; which indices, or tuples of them, counted in C order.
        positions: (hits, indexed axes) int64 or int32, in the chunk.
    """

    places: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True, slots=True)
class Split:
    """A block of indices, sorted by the chunks they point into.

    Attributes:
        grid: the shape of the block, without the components of tuples.
        picks: by the number of the chunk, counted in C order over the indexed axes; only of those that are hit.
        nowhere: (zeros,) int64; the places that get zeros.
    """

    grid: Shape
    picks: dict[int, Picks]
    nowhere: np.ndarray

    def of_chunk(self, number: int, has_places: bool) -> "Split":
        """Return the part that one chunk asks for, in few bytes; its places, too, where it needs them."""
        found = self.picks[number]
        picks = Picks(_narrow(found.places if has_places else found.places[:0]), _narrow(found.positions))
        return Split(self.grid, {number: picks}, self.nowhere[:0])

    def of_result(self) -> "Split":
        """Return the part that the result asks for, in few bytes: places alone."""
        picks = {number: Picks(_narrow(found.places), found.positions[:0]) for number, found in self.picks.items()}
        return Split(self.grid, picks, _narrow(self.nowhere))

    def where(self, places: np.ndarray) -> tuple[Any, ...]:
        """Return places as a NumPy index of an array whose first dimensions are the grid."""
        return np.unravel_index(places, self.grid) if self.grid else (np.newaxis,)


@dataclass(frozen=True, slots=True)
class Own:
    """What one chunk gives for a block of indices.

    Attributes:
        places: (hits,) int64 or int32; which indices, or tuples of them, counted in C order.
        rows: (hits, dimensions that are not indexed...).
    """

    places: np.ndarray
    rows: np.ndarray


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Return numbers of 0 or more as int32 where it holds them."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 2**31 else numbers


@dataclass(frozen=True, slots=True)
class ChunkedGather:
    """One gather of chunked arrays, as far as each of its tasks must know it.

    Attributes:
        problem: the whole arrays, as if they were contiguous, and the operator.
        schedule: how `gather_block` runs; chosen by the sizes when None.
        ends: of each indexed axis, where its chunks end; only `split` and `chunks_hit` ask for them.
    """

    problem: Problem
    schedule: Schedule | Pipeline | None
    ends: tuple[tuple[int, ...], ...]

    def gather_block(self, origin: Shape, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """Gather by a block of indices, which starts at `origin` in the whole, from data whose indexed axes are whole.

        Raises:
            BoundsError: an index is not valid; named by its place in the whole.
        """
        problem, indices = self.problem, self._checked(origin, indices)
        rest = None, problem.version, None, self.schedule
        try:
            return run_gather(problem.operator, data, indices, problem.bounds, *rest)
        except BoundsError:
            raise bounds_error(problem, indices, origin) from None

    def splitter(self) -> "ChunkedGather":
        """Return the same for `split` alone: equal for all arrays that are split alike."""
        problem = self.problem
        sizes = tuple(size if axis in problem.axes else 1 for axis, size in enumerate(problem.table.shape))
        table = ArraySpec(sizes, np.dtype(np.int8))
        return replace(self, problem=replace(problem, table=table, slices=table, gradient=None), schedule=None)

    def split(self, origin: Shape, indices: np.ndarray) -> Split:
        """Resolve a block of indices and sort it by chunks; raises BoundsError as `gather_block` does."""
        indices = self._checked(origin, indices)
        grid = indices.shape[:-1] if isinstance(self.problem.operator, GatherNd) else indices.shape
        positions = self._positions(origin, indices)
        numbers = self._chunk_numbers(positions)
        order = np.argsort(numbers, kind="stable")
        found, first = np.unique(numbers[order], return_index=True)
        shares = dict(zip(found.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}
        nowhere = shares.pop(NOWHERE, np.empty(0, np.int64))
        picks = {number: Picks(places, positions[places] - self._starts(number)) for number, places in shares.items()}
        return Split(grid, picks, nowhere)

    def chunks_hit(self, origin: Shape, indices: np.ndarray) -> list[int] | None:
        """Return the numbers of the chunks that a block of indices points into.

        None where an index is not valid: whatever chunk is computed then, `split` says so.
        """
        try:
            numbers = self._chunk_numbers(self._positions(origin, self._checked(origin, indices)))
        except BoundsError:
            return None
        return np.unique(numbers[numbers != NOWHERE]).tolist()

    def take(self, number: int, data: np.ndarray, split: Split) -> np.ndarray | None:
        """Return the rows (hits, dimensions that are not indexed...) of one chunk; None when it has none."""
        if number not in split.picks:
            return None
        operator, picks = self.problem.operator, split.picks[number]
        if isinstance(operator, Gather) and operator.batch_dims == 0:
            rows = run_gather(Gather(operator.axis), data, picks.positions[:, 0], Bounds.UNCHECKED)
            return np.moveaxis(rows, operator.axis, 0)
        if isinstance(operator, Gather):
            data = np.moveaxis(data, operator.axis, operator.batch_dims)
        columns = list(picks.positions.T)
        where = split.where(picks.places)
        if isinstance(operator, GatherElements):
            columns = [*where[: operator.axis], *columns, *where[operator.axis + 1 :]]
        else:
            assert isinstance(operator, Gather | GatherNd)
            columns = [*where[: operator.batch_dims], *columns]
        return run_gather(GatherNd(), data, np.stack(columns, -1), Bounds.UNCHECKED)

    def take_own(
        self, origin: Shape, share: tuple[tuple[int, int], ...], data: np.ndarray, indices: np.ndarray
    ) -> Own | None:
        """Return the rows that a block of indices takes from one chunk; None when there are none.

        Args:
            origin: where the block of indices starts in the whole.
            share: of each indexed axis, where the chunk starts and where it ends.
            data: the chunk.
            indices: the block.

        Raises:
            BoundsError: an index is not valid, also where it is one of another chunk.
        """
        indices = self._checked(origin, indices)
        grid = indices.shape[:-1] if isinstance(self.problem.operator, GatherNd) else indices.shape
        positions = self._positions(origin, indices)
        starts, ends = np.array(share).T
        (places,) = ((positions >= starts) & (positions < ends)).all(-1).nonzero()
        if not len(places):
            return None
        rows = self.take(0, data, Split(grid, {0: Picks(places, positions[places] - starts)}, places[:0]))
        assert rows is not None
        return Own(_narrow(places), rows)

    def merge_own(self, shape: Shape, grid: Shape, parts: list[Own | None]) -> np.ndarray:
        """Return a block of the result, of that shape, made of what `take_own` gave of every chunk.

        Args:
            shape: of the block.
            grid: the shape of the block of indices, without the components of tuples.
            parts: of all chunks.
        """
        own = [part for part in parts if part is not None]
        nowhere = np.zeros(0, np.int64)
        if self.problem.bounds is Bounds.ZERO:
            is_nowhere = np.ones(math.prod(grid), bool)
            for part in own:
                is_nowhere[part.places] = False
            (nowhere,) = is_nowhere.nonzero()
        picks = {number: Picks(part.places, part.places[:0]) for number, part in enumerate(own)}
        return self.merge(shape, list(picks), Split(grid, picks, nowhere), [part.rows for part in own])

    def merge(self, shape: Shape, numbers: list[int], split: Split, parts: list[np.ndarray | None]) -> np.ndarray:
        """Return a block of the result, of that shape, made of the rows of the chunks of those numbers.

        Raises:
            InvalidGatherError: an index points into another chunk than it did when the graph was made.
        """
        if not split.picks.keys() <= set(numbers):
            raise InvalidGatherError(
                "indices were written to after the gather was made and before it was computed; pass a copy of them"
            )
        operator, dtype = self.problem.operator, self.problem.table.dtype
        result = np.ndarray(shape, dtype)  # np.empty would make S1 of S0
        rows = result
        if isinstance(operator, Gather):
            rank = len(split.grid) - operator.batch_dims
            to = range(operator.batch_dims, operator.batch_dims + rank)
            rows = np.moveaxis(result, range(operator.axis, operator.axis + rank), to)
        moved = as_bytes(rows)
        for number, part in zip(numbers, parts, strict=True):
            if part is not None:
                moved[split.where(split.picks[number].places)] = as_bytes(part)
        if len(split.nowhere):
            moved[split.where(split.nowhere)] = zero_of(moved.dtype)
        return result

    def _checked(self, origin: Shape, indices: np.ndarray) -> np.ndarray:
        indices = index_array(indices)
        if self.problem.version in NO_NEGATIVE_INDICES:
            reject_negative(indices, str(self.problem.version), origin)
        return indices

    def _positions(self, origin: Shape, indices: np.ndarray) -> np.ndarray:
        """Return (indices or tuples, indexed axes) int64: positions in the whole axes, `NOWHERE` for zeros."""
        sizes, bounds = self.problem.axis_sizes, self.problem.bounds
        if indices.size and 0 in sizes and bounds is not Bounds.ZERO:
            raise bounds_error(self.problem, indices, origin)
        flat = indices.reshape(-1, len(sizes))
        positions = np.empty(flat.shape, np.int64)
        for component, size in enumerate(sizes):
            positions[:, component] = resolve(flat[:, component], size, bounds)
        if bounds is Bounds.ERROR and positions.size and positions.min() == NOWHERE:
            raise bounds_error(self.problem, indices, origin)
        return positions

    def _chunk_numbers(self, positions: np.ndarray) -> np.ndarray:
        """Return (tuples,) int64: the chunk that each points into, `NOWHERE` for zeros."""
        numbers = np.zeros(len(positions), np.int64)
        for component, ends in enumerate(self.ends):
            numbers = numbers * len(ends) + np.searchsorted(ends, positions[:, component], side="right")
        numbers[(positions == NOWHERE).any(-1)] = NOWHERE
        return numbers

    def _starts(self, number: int) -> list[int]:
        """Return where a chunk starts on each indexed axis."""
        coordinates = np.unravel_index(number, [len(ends) for ends in self.ends])
        return [(0, *ends)[coordinate] for coordinate, ends in zip(coordinates, self.ends, strict=True)]
