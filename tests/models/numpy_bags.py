"""Bags by NumPy, for tests of bags in models: a table, indices, and what their sums are in several orders."""

import numpy as np

RNG = np.random.default_rng(3)
TABLE = RNG.standard_normal((50, 20)).astype(np.float32)
INDICES = RNG.integers(-50, 50, 40)
STARTS = np.array([0, 7, 7, 30, 31])
WEIGHTS = RNG.standard_normal(40).astype(np.float32)


def one_by_one(rows):
    total = np.zeros(rows.shape[1:], rows.dtype)
    for row in rows:
        total = total + row
    return total


def by_four(rows):
    total, start, group = np.zeros(rows.shape[1:], rows.dtype), 0, 4
    while start < len(rows):
        group = next(size for size in (4, 2, 1) if size <= min(group, len(rows) - start))
        total, start = total + one_by_one(rows[start : start + group]), start + group
    return total


def of_bags(table, indices, starts, weights=None, reduce="sum", ends=None):
    """Return what bags give, by NumPy."""
    ends = np.append(starts[1:], len(indices)) if ends is None else ends
    factors = np.ones(len(indices), table.dtype) if weights is None else weights
    rows = [table[indices[a:b]] * factors[a:b, np.newaxis] for a, b in zip(starts, ends, strict=True)]
    if reduce == "max":
        return np.stack([part.max(0, initial=-np.inf) for part in rows]).astype(table.dtype)
    sums = np.stack([one_by_one(part) for part in rows])
    counts = np.array([[max(len(part), 1)] for part in rows], table.dtype)
    return sums / counts if reduce == "mean" else sums


def same(got, wanted):
    return (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())
