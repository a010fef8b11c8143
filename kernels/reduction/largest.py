"""Which row of data the largest elements of each bag come from: what the gradient of a maximum asks for."""

import numpy as np

from ..gather import gather
from .bags import Bags

# Elements of a block, whose rows and positions stay in the second cache.
BLOCK_ELEMENTS = 1 << 15


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
    """Return (bags, inner...) int64 as `rows_of_largest`, of (bags, bag) positions as `Bags.rows` gives them."""
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
        with np.errstate(invalid="ignore"):  # which ml_dtypes raises where it compares what is no number
            is_larger = rows > largest
        np.copyto(largest, rows, where=is_larger)
        np.copyto(found, positions[:, number][column], where=is_larger)
