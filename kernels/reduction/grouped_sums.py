"""Sums of bags in ONNX Runtime's order: rows are added in groups, and the sums of the groups one by one."""

import numpy as np

from ...ir.semantics import BoundsMode
from .gather_reduce import gather_reduce


def grouped_sum(
    table: np.ndarray, indices: np.ndarray, group: int, weights: np.ndarray | None = None, bounds: BoundsMode = "error"
) -> np.ndarray:
    """Return (bags, columns): the sums of groups of rows, added in their order; no row is stored.

    Each group has `group` rows, as long as so many are left; then half as many, and so on.
    """
    if group == 1 or not indices.size:
        return gather_reduce(table, indices, weights=weights, bounds=bounds)
    bags, bag = indices.shape
    parts: list[np.ndarray] = []
    start = 0
    while start < bag:
        count = (bag - start) // group
        places, shape = np.s_[:, start : start + count * group], (bags, count, group)
        if count:
            some = None if weights is None else weights[places].reshape(shape)
            parts.append(gather_reduce(table, indices[places].reshape(shape), weights=some, bounds=bounds))
        start, group = start + count * group, group // 2
    sums = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    count = sums.shape[1]
    if count == 1:
        return sums.reshape(bags, -1)
    return gather_reduce(sums.reshape(bags * count, -1), np.arange(bags * count).reshape(bags, count))
