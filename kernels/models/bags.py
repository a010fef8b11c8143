"""Bags of a model, by the kernels of `gather_reduce`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.dialects.graph.bag_ops import BagsOp, check_bags, flat_bags, least_of, used_places
from ...ir.importers.file_limits import FileLimits
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ..reduction.bags import OPERATORS
from ..reduction.gather_reduce import gather_reduce
from ..reduction.grouped_sums import grouped_sum
from ..reduction.operands import WEIGHTED_REDUCTIONS, weighted_places


def reduced_bags(fields: Mapping[str, Any], limits: FileLimits, *arrays: np.ndarray) -> np.ndarray:
    """Return what `graph.bags` gives for the arrays of its operands.

    Raises:
        ModelError: a bag does not lie within the indices, or the result or the rows of all bags are too large.
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


def problem_of_bags(fields: Mapping[str, Any], specs: Sequence[ArraySpec], size: int) -> Problem:
    """Return what runs most of `graph.bags`: the reduction of bags of one length, of groups where rows are grouped.

    Args:
        fields: those of the operation.
        specs: of its operands.
        size: of bags that are parts of a vector, whose lengths only a run of the model knows.

    Raises:
        InvalidGatherError: the sizes do not fit.
    """
    table, indices, *others = specs
    has_weights, has_parts = len(specs) % 2 == 1, len(specs) > 3
    *bags, bag = (*others[0].shape, size) if has_parts else indices.shape
    count, group = math.prod(bags), fields["group"]
    is_grouped = fields["bounds"] == "zero" or group > 1
    shape = (count, bag // group, group) if group > 1 and count > 1 and bag >= group else (count, bag)
    reduce = "sum" if is_grouped and fields["reduce"] == "mean" else fields["reduce"]
    if has_weights:
        name, places = weighted_places(
            "gather_reduce", table, ArraySpec(shape, indices.dtype), weights=True, quantised=False
        )
        return Problem.checked(WEIGHTED_REDUCTIONS[name], table, places, Bounds.ZERO)
    bounds = Bounds.ZERO if fields["bounds"] == "zero" or (has_parts and reduce != "max") else Bounds.ERROR
    return Problem.checked(OPERATORS[reduce], table, ArraySpec(shape, indices.dtype), bounds)
