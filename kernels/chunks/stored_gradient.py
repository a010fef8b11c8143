"""Gradients whose `grad` lies in a file or a store (h5py, zarr): read by blocks of rows, each added to the sums."""

import math
from typing import Any

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.element_types import check_scale
from ...ir.operator_spec import Gradient, OperatorSpec
from ...ir.problem import Problem, check_addresses
from ...ir.semantics import Bounds, Shape
from ..runtime.array_checks import check_out, summation_dtype
from .blocks import Grid, label_dimensions
from .chunked import ChunkedGather
from .chunked_gradient import ChunkedGradient
from .into_stored import check_indices
from .stored_results import chunk_shape
from .sums import Sums, add_rows_onto

# Of the rows that are read at once; more where a chunk has more.
READ_BYTES = 1 << 24


def gradient_stored(
    operator: OperatorSpec,
    grad: Any,
    indices: np.ndarray,
    data_shape: Shape,
    bounds: Bounds,
    gradient: Gradient,
    out: np.ndarray | None,
    *,
    version: str | None,
) -> np.ndarray:
    """Return the gradient by a stored `grad`, with the bytes that one in memory gives; see `gradient.gather_grad`.

    The result is in memory, and beside it a copy of the sums of narrow floats.

    Raises:
        BoundsError: an index is not valid; nothing was read.
        InvalidGatherError: the attributes, grad or `out` do not fit the shapes, or its elements have no sum.
    """
    dtype = np.dtype(grad.dtype)
    summed = summation_dtype(dtype) or dtype
    check_scale(gradient.scale, dtype)
    check_addresses(f"data_shape {data_shape}", data_shape, dtype)
    table, read = ArraySpec(data_shape, dtype), ArraySpec(tuple(grad.shape), dtype)
    problem = Problem.checked(operator, table, ArraySpec.of(indices), bounds, read, version, gradient)
    check_out(out, data_shape, dtype)
    check_indices(problem, indices)
    sizes = problem.axis_sizes
    splitter = ChunkedGather(problem, None, tuple((size,) for size in sizes))
    task, total = ChunkedGradient(problem), None
    of_table, of_indices, of_grad = label_dimensions(problem)
    grid = Grid(_read_chunks(grad, of_grad, [label for label in of_indices if label not in of_table]))
    grid.chunks.update(
        {label: (size,) for label, size in zip(of_indices, indices.shape, strict=True) if label not in of_grad}
    )
    for place in grid.places(of_grad):
        split = splitter.split(grid.origin(of_indices, place), grid.block(indices, of_indices, place))
        found = task.keyed_rows(0, data_shape, np.asarray(grad[grid.slices(of_grad, place)]), split)
        if found is None:
            continue
        rows, keys, size = found
        if total is None:
            total = np.zeros((size, *rows.shape[1:]), summed)
        add_rows_onto(total, rows, keys)
    result = task.total(data_shape, [None if total is None else Sums(None, total, len(total))])
    if out is None:
        return result
    out[...] = result
    return out


def _read_chunks(grad: Any, labels: tuple[int, ...], own: list[int]) -> dict[int, tuple[int, ...]]:
    """Return how grad is cut by label: along the first dimension of indices alone, so that rows come in their order."""
    shape, steps = tuple(grad.shape), chunk_shape(grad)
    chunks = {label: (size,) for label, size in zip(labels, shape, strict=True)}
    first = next((dim for dim, label in enumerate(labels) if label in own), None)
    if first is None or 0 in shape:
        return chunks
    row_bytes = max(math.prod(shape) // shape[first] * grad.dtype.itemsize, 1)
    size = max(READ_BYTES // row_bytes // steps[first], 1) * steps[first]
    chunks[labels[first]] = tuple(min(size, shape[first] - start) for start in range(0, shape[first], size))
    return chunks
