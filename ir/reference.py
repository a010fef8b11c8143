"""The gather in plain NumPy, one element at a time: the first oracle. Slow, and meant to be read."""

import math
from typing import Any

import numpy as np

from .element_types import as_bytes, number_scale
from .errors import BoundsError
from .operator_spec import Gather, GatherElements, GatherMax, GatherNd, GatherReduce, GatherWeighted, OperatorSpec
from .problem import Problem
from .semantics import Bounds, Shape, resolve_index


def zero_of(dtype: np.dtype) -> Any:
    """Return what `bounds="zero"` puts for an index outside: all bytes zero; an empty string for object arrays."""
    return "" if dtype.kind == "O" else np.zeros((), dtype)[()]


def resolve(index: int, size: int, bounds: Bounds) -> int | None:
    """Return the position that `index` means on an axis of `size`, or None for a slice of zeros.

    Raises:
        BoundsError: the index is not valid under `bounds`.

    Spec: `ir.semantics.resolve_index`.
    """
    if size == 0 and bounds is not Bounds.ZERO:
        raise BoundsError(f"index {index} on an axis of size 0: no index is valid; use bounds='zero' to get zeros")
    position, is_valid = resolve_index(index, size, bounds) if size else (0, False)
    if is_valid or bounds is Bounds.UNCHECKED:
        return position
    if bounds is Bounds.ZERO:
        return None
    raise BoundsError(f"index {index} is out of range [{-size}, {size - 1}]")


def run(operator: OperatorSpec, data: np.ndarray, indices: np.ndarray, bounds: Bounds = Bounds.ERROR) -> np.ndarray:
    """Carry out any operator.

        gather           out[before.., outer.., after..] = data[before.., outer.., position]
        gather_nd        out[before.., after..]          = data[before.., positions..]
        gather_elements  out[before.., i, after..]       = data[before.., position, after..]
        gather_weighted  out[i..] = 0 + (data[position of indices[i.., 0]] * weights[i.., 0] + biases[i.., 0]) + ...
        gather_max       out[i..] = the first of data[position of indices[i.., k]] that no later one is larger than
        gather_reduce    out[i..] = 0 + data[position of indices[i.., 0]] + data[position of indices[i.., 1]] + ...
        gather_mean      the same, divided by the number of positions; gather_weighted_mean is that of gather_weighted

    Args:
        operator: with its attributes negative or not.
        data: any shape of rank 1 or more, any dtype; dimensions that are not indexed at its end are carried whole.
        indices: of a shape that fits, any integer dtype.
        bounds: what an index outside means; with ZERO, one component of a tuple outside makes the whole slice zeros.

    Returns:
        A new C-contiguous array of the shape that `operator.result_shape` gives.

    Raises:
        BoundsError: an index is not valid under `bounds`.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    if isinstance(operator, GatherReduce):
        return reduce(operator, data, indices, bounds)
    is_elements = isinstance(operator, GatherElements)
    operator = operator.normalized(data.shape[: indices.ndim] if is_elements else data.shape, indices.shape)
    dtype, data = data.dtype, as_bytes(data)
    out = np.ndarray(operator.result_shape(data.shape, indices.shape), data.dtype)
    axes = operator.axes(indices.shape)
    assert isinstance(operator, Gather | GatherNd | GatherElements)
    shared = operator.axis if isinstance(operator, GatherElements) else operator.batch_dims
    outers = data.shape[shared : axes.start]
    tuples = indices if isinstance(operator, GatherNd) else indices[..., np.newaxis]
    for place in np.ndindex(*tuples.shape[:-1]):
        before, after = place[:shared], place[shared:]
        position = [
            resolve(int(index), data.shape[axis], bounds) for index, axis in zip(tuples[place], axes, strict=True)
        ]
        for outer in np.ndindex(*outers):
            source = (*before, *outer, *position, *(after[1:] if is_elements else ()))
            out[(*before, *outer, *after)] = zero_of(data.dtype) if None in position else data[source]
    return out.view(dtype) if out.dtype != dtype else out


def reduce(operator: GatherReduce, data: np.ndarray, indices: np.ndarray, bounds: Bounds = Bounds.ERROR) -> np.ndarray:
    """Sum the slices of each bag in the order of its indices, from zero, or take the largest of them.

    The largest begins with the first slice, and an element of a later one takes its place where it is larger. Slices of
    a gather_weighted are multiplied by their weights first, and biases are added. Narrow elements become those of the
    result before that. The sums of a mean are divided last, by the number of their slices in the dtype of the result.

    Args:
        operator, indices, bounds: as for `run`; an index outside adds nothing under ZERO, and is no larger.
        data: of rank 1 or more; a dtype that NumPy adds.

    Returns:
        A new C-contiguous array of shape `indices.shape[:-1] + data.shape[1:]` and the dtype that
        `operator.result_dtype` gives.

    Raises:
        BoundsError, InvalidGatherError: as `run` does.
    """
    operator.normalized(data.shape, indices.shape)
    sums = np.zeros(operator.result_shape(data.shape, indices.shape), operator.result_dtype(data.dtype))
    counts = np.zeros((*sums.shape[: sums.ndim - data.ndim + 1], *[1] * (data.ndim - 1)), np.int64)
    factors: list[np.ndarray] = []
    if isinstance(operator, GatherWeighted):
        indices, *bits = np.moveaxis(indices, -1, 0)
        factors = [np.ascontiguousarray(part).view(sums.dtype) for part in bits]
    for place in np.ndindex(*indices.shape):
        position = resolve(int(indices[place]), data.shape[0], bounds)
        if position is not None:
            counts[place[:-1]] += 1
            so_far, row = sums[place[:-1]], data[position].astype(sums.dtype)
            if isinstance(operator, GatherMax):
                sums[place[:-1]] = row if place[-1] == 0 else np.where(row > so_far, row, so_far)
                continue
            with np.errstate(all="ignore"):
                row = row * factors[0][place] if factors else row
                row = row + factors[1][place] if factors[1:] else row
                sums[place[:-1]] = so_far + row
    if operator.divides:
        with np.errstate(all="ignore"):
            sums /= np.maximum(counts, 1).astype(sums.dtype)
    return sums


def gradient(
    operator: OperatorSpec,
    grad: np.ndarray,
    indices: np.ndarray,
    data_shape: Shape,
    bounds: Bounds = Bounds.ERROR,
    scale: float = 1.0,
) -> np.ndarray:
    """Add each element of `grad` to where the gather read it, in the order of the indices, and scale the sums.

    Args:
        operator, indices, bounds: as for `run`; an index outside adds nothing under ZERO.
        grad: of the shape of what the gather gives; a dtype that NumPy adds.
        scale: what the sums are multiplied by, as a number of the dtype of grad.

    Returns:
        A new array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError, InvalidGatherError: as `run` does.
    """
    places = np.arange(1, math.prod(data_shape) + 1).reshape(data_shape)
    read = run(operator, places, indices, bounds).reshape(-1)
    sums: Any = np.zeros(math.prod(data_shape), grad.dtype)
    np.add.at(sums, read[read > 0] - 1, grad.reshape(-1)[read > 0])
    if scale != 1:
        parts = sums.view(sums.real.dtype)  # a real number multiplies each part of a complex one
        factor = np.array(number_scale(scale, grad.dtype)).astype(parts.dtype)
        sums = (parts * factor).astype(parts.dtype).view(grad.dtype)
    return sums.reshape(data_shape)


def of_problem(problem: Problem, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Carry out the operator or the gradient of a problem; of a gradient, `data` is grad.

    Raises:
        BoundsError: an index is not valid.
    """
    operator, bounds = problem.operator, problem.bounds
    if problem.gradient is None:
        return run(operator, data, indices, bounds)
    return gradient(operator, data, indices, problem.table.shape, bounds, problem.gradient.scale)
