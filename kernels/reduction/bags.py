"""Bags of indices as a kernel takes them: one row of positions a bag, padded with a position that changes nothing."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError
from ...ir.operator_spec import GatherMax, GatherMean, GatherReduce, GatherWeighted, GatherWeightedMean
from ...ir.positions import NOWHERE, bounds_error, first_outside, resolve
from ...ir.problem import Problem
from ...ir.semantics import Bounds, Shape, integer_argument
from ..gather import gather, run_operator
from ..runtime.array_checks import index_array

OPERATOR, LARGEST, WEIGHTED = GatherReduce(), GatherMax(), GatherWeighted()
MEAN, WEIGHTED_MEAN = GatherMean(), GatherWeightedMean()
# The operators of rows without weights, by the caller's name of the reduction.
OPERATORS = {"sum": OPERATOR, "mean": MEAN, "max": LARGEST}
# Bags of different lengths are one array of positions if it has at most this many places for each index.
MAX_PLACES_AN_INDEX = 4
# Elements of a block, whose rows and positions stay in the second cache.
BLOCK_ELEMENTS = 1 << 15


@dataclass(frozen=True, slots=True)
class Bags:
    """The positions of all bags, one after the other.

    Attributes:
        positions: (indices) int64 in [0, size], where `size` adds nothing.
        starts: (bags) int64: the first position of each bag.
        lengths: (bags) int64: the number of positions of each bag.
        size: of the first axis of data.
        repeats_first: whether rows of positions are padded with the first position of a bag, and not with `size`.
        weights: (indices) float32 or float64: the factor of the row at each position; with biases, which are added to
            the products, (2, indices). None without weights.
    """

    positions: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    size: int
    repeats_first: bool = False
    weights: np.ndarray | None = None

    def counts(self) -> np.ndarray:
        """Return (bags) int64: the number of positions of each bag that add something."""
        before = np.concatenate([[0], np.cumsum(self.positions < self.size)])
        return before[self.starts + self.lengths] - before[self.starts]

    def of_largest(self) -> "Bags":
        """Return the bags for a largest slice: without positions that add nothing, and with the first one repeated."""
        lengths = self.counts()
        positions = self.positions[self.positions < self.size]
        return replace(
            self, positions=positions, starts=np.cumsum(lengths) - lengths, lengths=lengths, repeats_first=True
        )

    def of_rows(self) -> "Bags":
        """Return a bag for each row of data: the bags that read the row, in the order of the indices."""
        order = np.argsort(self.positions, kind="stable")
        lengths = np.bincount(self.positions, minlength=self.size + 1)[: self.size]
        order = order[: lengths.sum()]
        readers = np.repeat(np.arange(len(self.lengths)), self.lengths)
        weights = None if self.weights is None else self.weights[..., order]
        return Bags(readers[order], np.cumsum(lengths) - lengths, lengths, len(self.lengths), weights=weights)

    def is_even(self) -> bool:
        """Return whether one array of all bags has few places more than there are indices."""
        longest = int(self.lengths.max(initial=0))
        return longest * len(self.lengths) <= MAX_PLACES_AN_INDEX * (self.positions.size + len(self.lengths))

    def rows(self) -> np.ndarray:
        """Return (bags, longest) int64: the positions of each bag in a row; with weights as by `with_weights`."""
        return self._rows(slice(None))

    def classes(self) -> Iterator[tuple[slice | np.ndarray, np.ndarray]]:
        """Yield (bags, rows): all bags where their lengths are similar; else the bags of up to 1, 3, 7, ... positions.

        In the second case, empty bags are left out.
        """
        if self.is_even():
            yield slice(None), self.rows()
            return
        kinds = np.frexp(self.lengths)[1]
        for kind in np.unique(kinds[self.lengths > 0]):
            (bags,) = np.nonzero(kinds == kind)
            yield bags, self._rows(bags)

    def _rows(self, bags: slice | np.ndarray) -> np.ndarray:
        starts, lengths, weights = self.starts[bags], self.lengths[bags], self.weights
        positions, longest = self.positions, int(lengths.max(initial=0))
        if not isinstance(bags, slice):
            places = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
            positions, weights = positions[places], None if weights is None else weights[..., places]
        elements = positions if weights is None else with_weights(positions, weights, self.size)
        if (lengths == longest).all():
            return elements.reshape(len(lengths), longest, *elements.shape[1:])
        rows = np.zeros((len(lengths), longest, *elements.shape[1:]), elements.dtype)
        padding = self.size
        if self.repeats_first and positions.size:
            padding = np.where(lengths > 0, self.positions[np.minimum(starts, len(self.positions) - 1)], self.size)
        rows.reshape(*rows.shape[:2], -1)[..., 0] = np.reshape(padding, (-1, 1))
        whole = f"V{elements.dtype.itemsize * math.prod(elements.shape[1:])}"  # which a mask copies at once
        is_there = np.arange(longest) < lengths[:, np.newaxis]
        rows.view(whole).reshape(is_there.shape)[is_there] = np.ascontiguousarray(elements).view(whole).reshape(-1)
        return rows


def with_weights(positions: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Return (..., 2): each position and the bits of its weight, as a gather_weighted reads them; 3 with biases.

    Args:
        positions: (...) in [0, size], where `size` adds nothing.
        weights: (...) float32 or float64; with biases (2, ...).
        size: of the first axis of data.

    Raises:
        InvalidGatherError: positions do not fit beside weights of 32 bits.
    """
    dtype = np.dtype(f"i{weights.itemsize}")
    if size > np.iinfo(dtype).max:
        raise InvalidGatherError(
            f"weights of float32 are for data of at most {np.iinfo(dtype).max} rows, got {size}; "
            "convert data to float64"
        )
    columns = [positions, *weights.view(dtype)] if weights.ndim > positions.ndim else [positions, weights.view(dtype)]
    places = np.empty((*positions.shape, len(columns)), dtype)
    for number, column in enumerate(columns):
        places[..., number] = column
    return places


def make_bags(
    indices: np.ndarray,
    size: int,
    bounds: Bounds,
    padding_index: int | None,
    ends: tuple[np.ndarray, np.ndarray] | None,
    whole: tuple[Shape, Shape] | None = None,
) -> Bags:
    """Return the bags of indices.

    Args:
        indices: (bags..., bag), or (indices) with `ends`.
        size: of the first axis of data.
        bounds: the rule for an index outside.
        padding_index: the index whose position adds nothing, as for `padding_position`.
        ends: the starts and the lengths of bags of different lengths.
        whole: for a block of indices, its start and the shape of all indices; for messages.

    Raises:
        BoundsError: an index is not valid under `bounds`.
    """
    indices = indices.copy()  # another thread may write to them
    positions = resolve(indices.reshape(-1), size, bounds)
    is_nowhere = positions == NOWHERE
    if bounds is not Bounds.ZERO and is_nowhere.any():
        check_indices(indices, size, bounds, whole)
    positions[is_nowhere] = size
    if padding_index is not None:
        positions[positions == padding_position(padding_index, size)] = size
    if ends is None:
        count, length = int(np.prod(indices.shape[:-1])), indices.shape[-1]
        ends = np.arange(count) * length, np.full(count, length)
    return Bags(positions, *ends, size)


def check_indices(indices: np.ndarray, size: int, bounds: Bounds, whole: tuple[Shape, Shape] | None = None) -> None:
    """Check that indices are valid, as the check of a kernel does; raises BoundsError."""
    if size == 0 or (bounds is Bounds.ERROR and first_outside(indices, (size,)) is not None):
        origin, shape = whole or ((), indices.shape)
        table, flat = ArraySpec((size,), np.dtype(np.float32)), ArraySpec(shape, indices.dtype)
        raise bounds_error(Problem.checked(OPERATOR, table, flat, bounds), indices, origin)


def padding_position(padding_index: object, size: int) -> int:
    """Return the position of a padding index; raises InvalidGatherError where it is no index of data."""
    index = integer_argument(padding_index, "padding_index")
    if not -size <= index < size:
        raise InvalidGatherError(
            f"padding_index {index} is out of range [{-size}, {size - 1}] for data of {size} rows; use the index of "
            "the row that stands for padding, or None"
        )
    return index % size


def read_ends(
    indices: np.ndarray, offsets: ArrayLike | None, lengths: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the starts and the lengths of bags, (bags) int64 each; None where a row of indices is a bag.

    Raises:
        InvalidGatherError: both are given, indices have several dimensions, or the bags do not cover all indices.
        IndexTypeError: they are no integers.
    """
    if offsets is None and lengths is None:
        return None
    if offsets is not None and lengths is not None:
        raise InvalidGatherError("offsets and lengths both say where bags end; give one of them")
    name = "offsets" if lengths is None else "lengths"
    given = index_array(offsets if lengths is None else lengths, name)  # type: ignore[arg-type]
    count = indices.size
    if not isinstance(given, np.ndarray):
        raise InvalidGatherError(f"{name} are a dask array, and they say how bags are cut; pass {name}.compute()")
    given = given.copy()  # another thread may write to them
    if indices.ndim != 1:
        raise InvalidGatherError(
            f"{name} are for indices of one dimension, got indices of shape {indices.shape}; leave them out where each "
            "row of indices is a bag, or pass indices.reshape(-1)"
        )
    if given.ndim != 1:
        raise InvalidGatherError(f"{name} must have one dimension, one entry a bag, got shape {given.shape}")
    if lengths is not None:
        if given.size and given.min() < 0:
            raise InvalidGatherError(f"lengths must not be negative, got {int(given.min())}")
        total = sum(given.tolist()) if given.max(initial=0) > count else int(given.sum())  # without overflow
        if total != count:
            raise InvalidGatherError(f"lengths must sum to the number of indices, {count}, got {total}")
        sizes = given.astype(np.int64)
        ends = np.cumsum(sizes)
        return ends - sizes, sizes
    if given.size == 0:
        if count:
            raise InvalidGatherError(f"offsets has no bag for {count} indices; the first bag begins at 0")
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if given[0] != 0:
        raise InvalidGatherError(f"offsets must begin with 0, the start of the first bag, got {int(given[0])}")
    if (given[1:] < given[:-1]).any() or given[-1] > count:
        raise InvalidGatherError(
            f"offsets must not fall, nor be above the number of indices, {count}: each is the start of a bag"
        )
    starts = given.astype(np.int64)
    return starts, np.diff(starts, append=count)


def divides(dtype: np.dtype) -> bool:
    """Return whether kernels divide sums of a dtype.

    A complex number is two floats there, and NumPy's quotient of each depends on both: `(real + 0 * imag) * (1 / n)`,
    so infinity makes a NaN beside it. NumPy divides them behind the kernel.
    """
    return dtype.kind != "c"


def plain_operator(reduce: str, dtype: np.dtype, mode: Bounds) -> GatherReduce | None:
    """Return the operator that runs on indices as they are; None where bags are made of them first."""
    if reduce == "mean":
        return MEAN if divides(dtype) else None
    if reduce == "max":
        return LARGEST if mode is not Bounds.ZERO else None
    return OPERATOR


def sum_bags(data: np.ndarray, bags: Bags) -> np.ndarray:
    """Return (bags, inner...): the sums of bags that may be of different lengths, in a dtype that holds them.

    That is data's dtype, float32 for narrower floats, and the weights' dtype where bags have weights.
    """
    return reduce_bags(OPERATOR if bags.weights is None else WEIGHTED, data, bags)


def average_bags(data: np.ndarray, bags: Bags) -> np.ndarray:
    """Return (bags, inner...): the sums of `sum_bags`, each divided by the number of rows in it."""
    if not divides(data.dtype):
        sums = sum_bags(data, bags)
        return divided(sums, divisors(bags, sums.ndim))
    return reduce_bags(MEAN if bags.weights is None else WEIGHTED_MEAN, data, bags)


def reduce_bags(operator: GatherReduce, data: np.ndarray, bags: Bags) -> np.ndarray:
    """Return (bags, inner...): an operator's result for bags that may be of different lengths."""
    if bags.is_even():
        return run_operator(operator, data, bags.rows(), Bounds.ZERO, None)
    result = np.zeros((len(bags.lengths), *data.shape[1:]), operator.result_dtype(data.dtype))
    for which, rows in bags.classes():
        result[which] = run_operator(operator, data, rows, Bounds.ZERO, None)
    return result


def read_bags(data: Any, bags: Bags) -> tuple[np.ndarray, Bags]:
    """Return the rows that bags read from an array in foreign byte order, and the bags of these rows.

    Each row is read once, and is in the byte order of this machine.
    """
    used = np.unique(bags.positions[bags.positions < bags.size])
    positions = np.where(bags.positions < bags.size, np.searchsorted(used, bags.positions), len(used))
    rows = gather(data, used)
    return rows.astype(rows.dtype.newbyteorder("="), copy=False), replace(bags, positions=positions, size=len(used))


def divided(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return sums divided by counts, in the dtype of the sums.

    NumPy divides complex64 by integers as complex128, which rounds differently.
    """
    counts = counts.astype(sums.dtype) if sums.dtype.kind == "c" else counts
    with np.errstate(all="ignore"):
        return np.divide(sums, counts).astype(sums.dtype, copy=False)


def divisors(bags: Bags, rank: int) -> np.ndarray:
    """Return (bags, 1...): the divisors of sums, 1 for a bag that adds nothing."""
    return np.maximum(bags.counts(), 1).reshape(-1, *[1] * (rank - 1))


def rows_of_largest(data: np.ndarray, bags: Bags) -> np.ndarray:
    """Return (bags, inner...) int64: the row that each largest element comes from; `bags.size` in an empty bag.

    Of equal elements it is the first, and a NaN is the largest where it is the first of its bag, as in `gather_max`.

    Args:
        data: (rows, inner...).
        bags: as `Bags.of_largest` gives them.
    """
    if bags.is_even():
        return rows_of_largest_in(data, bags.rows())
    found = np.full((len(bags.lengths), *data.shape[1:]), bags.size)
    for which, positions in bags.classes():
        found[which] = rows_of_largest_in(data, positions)
    return found


def rows_of_largest_in(data: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (bags, inner...) int64 as `rows_of_largest`, for (bags, bag) positions from `Bags.rows`."""
    found = np.empty((len(positions), *data.shape[1:]), np.int64)
    block = max(BLOCK_ELEMENTS // max(int(np.prod(data.shape[1:])), 1), 1)
    for start in range(0, len(positions), block):
        _find(data, positions[start : start + block], found[start : start + block])
    return found


def _find(data: np.ndarray, positions: np.ndarray, found: np.ndarray) -> None:
    """Find the rows of the largest elements of a block of bags, (bags, bag) positions."""
    column = (slice(None), *[np.newaxis] * (data.ndim - 1))
    if not positions.shape[1]:
        found[...] = len(data)
        return
    found[...] = positions[:, 0][column]
    largest = gather(data, positions[:, 0], bounds="zero")
    rows = np.empty_like(largest)
    for number in range(1, positions.shape[1]):
        gather(data, positions[:, number], bounds="zero", out=rows)
        with np.errstate(invalid="ignore"):  # which ml_dtypes raises where it compares NaN
            is_larger = rows > largest
        np.copyto(largest, rows, where=is_larger)
        np.copyto(found, positions[:, number][column], where=is_larger)
