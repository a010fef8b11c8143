"""The tasks of a reduction of chunked arrays: what is done with one block of bags and one chunk of rows.

Indices are resolved and sorted by the chunk of rows that they point into (`split`). A chunk gives the sums of the rows
that it holds (`part`), and those of all chunks are added in the order of the chunks (`total`). Of a gradient, a block
of bags gives each chunk the sums of the rows that it adds there (`grad_part`, `grad_total`).
"""

from dataclasses import dataclass

import numpy as np

from ...ir.semantics import Bounds, Shape
from ..chunks.sums import Sums, add_rows, add_sums
from .bags import Bags, divided, divisors, make_bags, sum_bags

Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a block of bags that points into one chunk of rows.

    Attributes:
        which: (n) int64, ascending: the bags that do.
        bags: their positions in the chunk, in the order of the indices.
    """

    which: np.ndarray
    bags: Bags


@dataclass(frozen=True, slots=True)
class SplitBags:
    """A block of bags, sorted by the chunks they point into.

    Attributes:
        shares: by the number of the chunk; only of those that are hit.
        divisors: (bags): what a mean divides by.
    """

    shares: dict[int, Share]
    divisors: np.ndarray


@dataclass(frozen=True, slots=True)
class ChunkedBags:
    """One reduction of chunked arrays, as far as each of its tasks must know it.

    Attributes:
        rows: how many data has.
        shape: of all indices.
        bounds, padding_index: as for `gather_reduce`.
        is_mean: whether sums are divided.
        ends: where the chunks of rows end; only `split` asks for them.
    """

    rows: int
    shape: Shape
    bounds: Bounds
    padding_index: int | None
    is_mean: bool
    ends: tuple[int, ...] = ()

    def split(self, origin: Shape, ends: Ends | None, indices: np.ndarray) -> SplitBags:
        """Resolve a block of bags and sort it by chunks.

        Args:
            origin: where the block starts in all indices.
            ends: the starts and lengths of bags in the block; None where each row of indices is a bag.

        Raises:
            BoundsError: an index is not valid; named by its place in the whole.
        """
        bags = make_bags(indices, self.rows, self.bounds, self.padding_index, ends, (origin, self.shape))
        numbers = np.searchsorted(self.ends, bags.positions, side="right")
        order = np.argsort(numbers, kind="stable")
        found, first = np.unique(numbers[order], return_index=True)
        of_bag = np.repeat(np.arange(len(bags.lengths)), bags.lengths)
        shares = {}
        for number, places in zip(found.tolist(), np.split(order, first[1:]), strict=False):  # none of none
            if number < len(self.ends):  # other positions add nothing
                start, end = (0, *self.ends)[number], self.ends[number]
                which, lengths = np.unique(of_bag[places], return_counts=True)
                positions = bags.positions[places] - start
                shares[number] = Share(which, Bags(positions, np.cumsum(lengths) - lengths, lengths, end - start))
        return SplitBags(shares, divisors(bags, 1))

    def chunks_hit(self, indices: np.ndarray) -> list[int] | None:
        """Return the numbers of the chunks that known indices point into; None when one is not valid."""
        try:
            bags = make_bags(indices.reshape(1, -1), self.rows, self.bounds, self.padding_index, None)
        except IndexError:
            return None
        numbers = np.unique(np.searchsorted(self.ends, bags.positions, side="right"))
        return numbers[numbers < len(self.ends)].tolist()

    def part(self, number: int, data: np.ndarray, split: SplitBags) -> Sums | None:
        """Return the sums of the rows that one chunk holds; None when it has none."""
        share = split.shares.get(number)
        if share is None:
            return None
        count, sums = len(split.divisors), sum_bags(data, share.bags)
        return Sums(None if len(share.which) == count else share.which, sums, count)

    def part_of(self, number: int, block: int, data: np.ndarray, splits: list[SplitBags]) -> Sums | None:
        """Return what `part` does for one of all blocks of bags."""
        return self.part(number, data, splits[block])

    def total(self, shape: Shape, dtype: np.dtype, parts: list[Sums | None], split: SplitBags) -> np.ndarray:
        """Return a block of the result, of that shape: the sums of parts in their order, or the means."""
        result = _sum_of(parts, (len(split.divisors), *shape[len(self.bag_shape()) :]), dtype)
        if self.is_mean:
            result = divided(result, _of_rank(split.divisors, result.ndim))
        return result.reshape(shape)

    def grad_part(self, number: int, grad: np.ndarray, split: SplitBags) -> Sums | None:
        """Return what a block of bags adds to one chunk of rows; None when it adds nothing there."""
        share = split.shares.get(number)
        if share is None:
            return None
        grad = grad.reshape(len(split.divisors), *grad.shape[len(self.bag_shape()) :])
        if self.is_mean:
            grad = divided(grad, _of_rank(split.divisors, grad.ndim))
        rows = np.repeat(grad[share.which], share.bags.lengths, axis=0)
        return add_rows(rows, share.bags.positions, share.bags.size)

    def grad_total(self, shape: Shape, dtype: np.dtype, parts: list[Sums | None]) -> np.ndarray:
        """Return a chunk of the gradient, of that shape: the sums of parts in their order."""
        return _sum_of(parts, shape, dtype).reshape(shape)

    def bag_shape(self) -> Shape:
        """Return a shape with as many dimensions as bags have."""
        return self.shape[:-1] or self.shape


def _sum_of(parts: list[Sums | None], shape: Shape, dtype: np.dtype) -> np.ndarray:
    there = [part for part in parts if part is not None]
    return add_sums(there).of_all_keys() if there else np.zeros(shape, dtype)


def _of_rank(numbers: np.ndarray, rank: int) -> np.ndarray:
    return numbers.reshape(-1, *[1] * (rank - 1))
