"""Bags of a model, by the kernels of `gather_reduce`."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ir.dialects.graph.bag_ops import BagsOp, check_bags, flat_bags, least_of, used_places
from ...ir.importers.file_limits import FileLimits
from ..reduction.gather_reduce import gather_reduce
from ..reduction.grouped_sums import grouped_sum


def reduced_bags(fields: Mapping[str, Any], limits: FileLimits, *arrays: np.ndarray) -> np.ndarray:
    """Return what `graph.bags` gives for the arrays of its operands.

    Raises:
        ModelError: a bag does not lie within the indices, or the result is too large.
        BoundsError: an index is not valid.
    """
    sizes, reduce = BagsOp.result_sizes(fields, arrays), fields["reduce"]
    limits.check_shape("the result", sizes, arrays[0].dtype)
    table, indices, starts, ends, weights = flat_bags(arrays)
    lengths = ends - starts
    if (total := sum(lengths.tolist())) > len(indices):  # bags overlap
        limits.check_shape("the indices of all bags", [total], np.dtype(np.int64))
    check_bags(fields, len(table), indices, starts, ends)
    limits.check_shape("the rows of all bags", [total, *table.shape[1:]], table.dtype)  # as those of a gather: its work
    used = used_places(starts, ends)
    indices, weights = indices[used], None if weights is None else weights[used]
    bags, bag = len(lengths), int(lengths[0]) if len(lengths) else 0
    settings: dict[str, Any] = {"lengths": lengths}
    if (lengths == bag).all():
        indices, settings = indices.reshape(bags, bag), {}
        weights = None if weights is None else weights.reshape(bags, bag)
    if fields["bounds"] == "zero" or fields["group"] > 1:
        group = fields["group"] if bags > 1 else 1
        bounds = "zero" if fields["bounds"] == "zero" else "error"
        columns = math.prod(table.shape[1:])
        sums = grouped_sum(table.reshape(len(table), columns), indices, group, weights, bounds)
        if reduce == "mean" and bag:
            sums /= table.dtype.type(bag)
        return sums.reshape(sizes)
    result = gather_reduce(table, indices, reduce=reduce, weights=weights, **settings)
    if reduce == "max":
        result[lengths == 0] = least_of(result.dtype)
    return result.reshape(sizes)
