"""The tasks of a gradient of chunked arrays: what is done with one block of grad, one of indices and one of the result.

Indices are resolved and sorted by the chunk of the result that they point into, as for a gather (`split`). Each block
of grad gives every chunk the sums of the rows that belong there (`part`), and they are added in a tree (`total`).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.element_types import number_scale
from ...ir.operator_spec import Gather, GatherElements, GatherNd
from ...ir.problem import Problem
from ...ir.semantics import Bounds, Shape
from ..runtime.array_checks import summation_dtype
from ..runtime.dispatch import run_gather
from .chunked import Split
from .sums import Sums, add_rows, add_sums


@dataclass(frozen=True, slots=True)
class ChunkedGradient:
    """One gradient of chunked arrays, as far as each of its tasks must know it.

    Attributes:
        problem: the whole arrays, as if they were contiguous, and the operator.
    """

    problem: Problem

    def part(self, number: int, shape: Shape, grad: np.ndarray, split: Split) -> Sums | None:
        """Return what a block of grad adds to a chunk of the result; None when no index points there.

        Args:
            number: of the chunk, counted over the indexed axes.
            shape: of the chunk.
            grad: the rows of the block of indices.
            split: that block.
        """
        found = self.keyed_rows(number, shape, grad, split)
        return None if found is None else add_rows(*found)

    def keyed_rows(
        self, number: int, shape: Shape, grad: np.ndarray, split: Split
    ) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Return the rows that a block of grad adds to a chunk, their keys in it, and how many keys it has."""
        picks = split.picks.get(number)
        if picks is None:
            return None
        operator, places = self.problem.operator, picks.places
        rows = grad.astype(summation_dtype(grad.dtype) or grad.dtype, copy=False)
        columns, where = list(picks.positions.T), split.where(places)
        if isinstance(operator, GatherElements):
            columns = [*where[: operator.axis], *columns, *where[operator.axis + 1 :]]
            keyed = shape
        else:
            assert isinstance(operator, Gather | GatherNd)
            shared = operator.batch_dims
            columns = [*where[:shared], *columns]
            keyed = (*shape[:shared], *(shape[axis] for axis in self.problem.axes))
            if isinstance(operator, Gather):
                rank = len(split.grid) - shared
                rows = np.moveaxis(rows, range(operator.axis, operator.axis + rank), range(shared, shared + rank))
        rows = rows.reshape(math.prod(split.grid), *rows.shape[len(split.grid) :])
        if len(places) != len(rows):
            rows = run_gather(Gather(0), rows, places, Bounds.UNCHECKED)
        keys = columns[0] if len(columns) == 1 else np.ravel_multi_index(columns, keyed)
        return rows, np.ascontiguousarray(keys), math.prod(keyed)

    def total(self, shape: Shape, parts: list[Sums | None]) -> np.ndarray:
        """Return a chunk of the result, of that shape: the sums of parts in their order, scaled, in grad's dtype."""
        problem, there = self.problem, [part for part in parts if part is not None]
        dtype, operator = problem.table.dtype, problem.operator
        summed = summation_dtype(dtype) or dtype
        sums = add_sums(there).of_all_keys() if there else np.zeros(math.prod(shape), summed)
        assert problem.gradient is not None
        sums = _scaled(sums, problem.gradient.scale)
        if isinstance(operator, Gather):
            shared, axis = operator.batch_dims, operator.axis
            outer = shape[shared:axis]
            moved = sums.reshape(*shape[:shared], shape[axis], *outer, *shape[axis + 1 :])
            sums = np.ascontiguousarray(np.moveaxis(moved, shared, axis))
        with np.errstate(all="ignore"):
            return sums.reshape(shape).astype(dtype, copy=False)


def _scaled(sums: np.ndarray, scale: float) -> np.ndarray:
    """Return sums times a scale, as a kernel does it, or NumPy for dtypes that no kernel adds."""
    if scale == 1:
        return sums
    factor: Any = int(scale) if scale.is_integer() and scale != 0 else scale
    if sums.dtype.kind in "iufc":
        factor = np.array(number_scale(scale, sums.dtype)).astype(sums.dtype)
    with np.errstate(all="ignore"):
        return sums * factor


def add_parts(parts: list[Sums | None]) -> Sums | None:
    """Return the sums of several parts, added in their order; None when all of them are."""
    there = [part for part in parts if part is not None]
    return add_sums(there) if there else None
