"""Gathers of elements that are references (object, StringDType), with NumPy: no kernel can copy them."""

import functools
import math
from dataclasses import replace

import numpy as np

from ...ir.canonical import dim_names
from ...ir.positions import NOWHERE, resolve
from ...ir.problem import Problem
from ...ir.reference import zero_of
from ...ir.semantics import Bounds
from .prepare import bounds_error


def gather_opaque(problem: Problem, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Take the elements with NumPy, at the positions that the indices mean.

    Dtypes of no bytes at all (`S0`) come here as well.

    Raises:
        BoundsError: an index is not valid; `out` is untouched.
    """
    sizes, bounds, zero = problem.axis_sizes, problem.bounds, zero_of(data.dtype)
    components = np.moveaxis(indices, -1, 0) if problem.operator.name == "gather_nd" else [indices]
    positions = [resolve(part, size, bounds) for part, size in zip(components, sizes, strict=True)]
    must_be_inside = bounds is Bounds.ERROR or (0 in sizes and bounds is not Bounds.ZERO)
    if must_be_inside and any(NOWHERE in part for part in positions):
        raise bounds_error(problem, indices)
    if 0 in sizes:
        taken = np.full(problem.slices.shape, zero, data.dtype)
    else:
        before, places = _places(problem, positions)
        taken = data[(*before, *(np.maximum(place, 0) for place in places))]
        if bounds is Bounds.ZERO:
            taken[(*before, functools.reduce(np.logical_or, (place == NOWHERE for place in places)))] = zero
    taken = taken.reshape(problem.slices.shape)
    if out is None and taken.dtype == data.dtype:
        return taken
    result = np.ndarray(problem.slices.shape, data.dtype) if out is None else out  # NumPy makes S1 of S0
    result[...] = taken
    return result


def _places(problem: Problem, positions: list[np.ndarray]) -> tuple[list[slice], list[np.ndarray]]:
    """Return an index of data: whole dimensions, and arrays for those from the first to the last that indices choose.

    The arrays have one dimension at least, since NumPy would give an element itself for none: one that is an array
    would be spread over the result.
    """
    roles = problem.operator.roles(problem.table.rank, problem.indices.shape)
    chosen, dims = dim_names(roles, "indices"), [dim.loop for dim in dim_names(roles, "data")]
    trips = dict(zip(dim_names(roles, "out"), problem.slices.shape, strict=True))
    looked_up = [place for place, dim in enumerate(dims) if dim in chosen or dim.role == "axis"]
    between = dims[looked_up[0] : looked_up[-1] + 1]
    loops = [loop for loop in trips if loop in chosen or loop in between]
    resolved = iter(positions)

    def along(array: np.ndarray, own: tuple[str, ...]) -> np.ndarray:
        return array.reshape([trips[loop] if loop in own else 1 for loop in loops] or [1])

    places = [
        along(next(resolved), chosen) if dim.role == "axis" else along(np.arange(trips[dim]), (dim,)) for dim in between
    ]
    return [slice(None)] * looked_up[0], places


def sum_opaque(problem: Problem, grad: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Add with NumPy, at the places that a gather reads; they count from 1, and 0 stands for none."""
    assert problem.gradient is not None
    shape, scale = problem.table.shape, problem.gradient.scale
    places = np.arange(1, math.prod(shape) + 1).reshape(shape)
    read = gather_opaque(replace(problem, gradient=None), places, indices, None).reshape(-1)
    sums = np.zeros(math.prod(shape), grad.dtype)
    np.add.at(sums, read[read > 0] - 1, grad.reshape(-1)[read > 0])
    factor = int(scale) if scale.is_integer() and scale != 0 else scale
    return (sums * factor if scale != 1 else sums).reshape(shape)
