"""Gathers of elements that are references (object, StringDType), with NumPy: no kernel can copy them.

NumPy takes or adds them by their numbers: they count data in C order from 1, and 0 stands for none. Dtypes of no bytes
at all (`S0`) come here as well.
"""

import math

import numpy as np

from ...ir.array_spec import contiguous_strides
from ...ir.canonical import dim_names
from ...ir.operator_spec import Gradient
from ...ir.positions import NOWHERE, resolve
from ...ir.problem import Problem
from ...ir.reference import zero_of
from ...ir.semantics import Bounds, Shape
from .prepare import bounds_error

# Up to so many elements of data a kernel gathers their numbers in less time than NumPy finds them.
MOST_NUMBERED = 1 << 15


def numbers_of(problem: Problem, indices: np.ndarray) -> np.ndarray:
    """Return the number of the element of data for each element of the result.

    Raises:
        BoundsError: an index is not valid.
    """
    operator, sizes, bounds = problem.operator, problem.axis_sizes, problem.bounds
    components = np.moveaxis(indices, -1, 0) if operator.name == "gather_nd" else [indices]
    positions = [resolve(part, size, bounds) for part, size in zip(components, sizes, strict=True)]
    must_be_inside = bounds is Bounds.ERROR or (0 in sizes and bounds is not Bounds.ZERO)
    if must_be_inside and any(NOWHERE in part for part in positions):
        raise bounds_error(problem, indices)
    roles = operator.roles(problem.table.rank, indices.shape)
    trips = dict(zip(dim_names(roles, "out"), problem.slices.shape, strict=True))
    numbers, is_none, resolved = np.array(1), np.array(False), iter(positions)
    for dim, step in zip(dim_names(roles, "data"), contiguous_strides(problem.table.shape, 1), strict=True):
        is_axis = dim.role == "axis"
        loops = dim_names(roles, "indices") if is_axis else (dim.loop,)
        along = (next(resolved) if is_axis else np.arange(trips[dim.loop])).reshape(
            [trips[loop] if loop in loops else 1 for loop in trips]
        )
        numbers, is_none = numbers + along * step, is_none | (along == NOWHERE)
    return np.where(is_none, 0, numbers)


def take_numbered(data: np.ndarray, numbers: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Take the elements of data with these numbers, and zeros for 0."""
    flat, zero = numbers.reshape(-1), zero_of(data.dtype)  # NumPy spreads an element that is an array over a 0-D result
    if data.size:
        places = np.maximum(flat - 1, 0)
        taken = data.reshape(-1)[places] if data.flags.c_contiguous else data[np.unravel_index(places, data.shape)]
        taken[flat == 0] = zero
    else:
        taken = np.full(flat.shape, zero, data.dtype)
    if out is None and taken.dtype == data.dtype:
        return taken.reshape(numbers.shape)
    result = np.ndarray(numbers.shape, data.dtype) if out is None else out  # NumPy makes S1 of S0
    result[...] = taken.reshape(numbers.shape)
    return result


def add_numbered(gradient: Gradient, shape: Shape, grad: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Add each element of grad to that of data with its number, and scale the sums."""
    flat, scale = numbers.reshape(-1), gradient.scale
    sums = np.zeros(math.prod(shape), grad.dtype)
    is_taken = flat > 0
    np.add.at(sums, flat[is_taken] - 1, grad.reshape(-1)[is_taken])
    factor = int(scale) if scale.is_integer() and scale != 0 else scale
    with np.errstate(all="ignore"):
        return (sums * factor if scale != 1 else sums).reshape(shape)
