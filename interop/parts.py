"""What one block of an array gives to a gather or a gradient of chunked arrays: NumPy and our kernels alone.

A gather of a chunk is the rows that a block of indices takes from it, with their places; `merge_rows` puts the rows of
all chunks there. A gradient of a chunk is the sums of the rows that belong there (`Sums`). Rows of
one key are added in the order in which they come, from zero, and sums of several parts in the order of the parts, so
the bytes depend on how rows are cut into parts, and not on who adds them, nor when.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.array_spec import ArraySpec
from ..ir.element_types import as_bytes, check_scale, number_scale
from ..ir.errors import InvalidGatherError
from ..ir.operator_spec import Gather, GatherElements, GatherNd, Gradient, OperatorSpec
from ..ir.positions import NOWHERE, bounds_error, first_outside, reject_negative, resolve
from ..ir.problem import Problem, check_addresses
from ..ir.reference import zero_of
from ..ir.semantics import NO_NEGATIVE_INDICES, Bounds, Shape
from ..kernels.runtime.array_checks import data_array, index_array, summation_dtype
from ..kernels.runtime.call_cache import CALLS, one_object
from ..kernels.runtime.dispatch import Request, run, run_gather

# A number for every dimension of an array; dimensions of data, indices and slices with one number are one.
Labels = tuple[int, ...]


def label_dimensions(problem: Problem) -> tuple[Labels, Labels, Labels]:
    """Return the labels of the table (0 to its rank - 1), of indices and of slices."""
    operator, rank = problem.operator, problem.table.rank
    data, own = tuple(range(rank)), tuple(range(rank, rank + problem.indices.rank))
    if isinstance(operator, GatherElements):
        indices = tuple(rank if label == operator.axis else label for label in data)
        return data, indices, indices
    batch_dims: int = operator.batch_dims  # type: ignore[attr-defined]
    indices = (*data[:batch_dims], *own[batch_dims:])
    if isinstance(operator, Gather):
        return data, indices, (*data[: operator.axis], *indices[batch_dims:], *data[operator.axis + 1 :])
    return data, indices, (*indices[:-1], *data[problem.axes.stop :])


def check_indices(problem: Problem, indices: np.ndarray, origin: Shape = ()) -> None:
    """Check a block of indices that starts at `origin`; raises BoundsError, which names the place in the whole."""
    if problem.version in NO_NEGATIVE_INDICES:
        reject_negative(indices, str(problem.version), origin)
    sizes, bounds = problem.axis_sizes, problem.bounds
    is_empty = 0 in sizes and bounds is not Bounds.ZERO and indices.size > 0
    if is_empty or (bounds is Bounds.ERROR and first_outside(indices, sizes) is not None):
        raise bounds_error(problem, indices, origin)


def find_positions(problem: Problem, indices: np.ndarray, origin: Shape = ()) -> np.ndarray:
    """Return (indices or tuples, indexed axes) int64: the positions that a block of indices means.

    A row of `NOWHERE` stands for zeros.

    Raises:
        BoundsError: an index is not valid; named by its place in the whole.
    """
    indices = index_array(indices).copy()  # another thread may write to them
    check_indices(problem, indices, origin)
    sizes = problem.axis_sizes
    flat = indices.reshape(-1, len(sizes))
    columns = [resolve(flat[:, part], size, problem.bounds) for part, size in enumerate(sizes)]
    if len(columns) == 1:
        return columns[0][:, np.newaxis]
    positions = np.stack(columns, -1)
    positions[(positions == NOWHERE).any(-1)] = NOWHERE
    return positions


def grid_of(problem: Problem, indices: Shape) -> Shape:
    """Return the shape of a block of indices, without the components of tuples."""
    return indices[:-1] if isinstance(problem.operator, GatherNd) else indices


def make_tuples(problem: Problem, grid: Shape, places: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return (hits, leading dimensions) int: where each hit reads in a table whose leading dimensions are indexed.

    Args:
        grid: the shape of the block of indices, without the components of tuples.
        places: (hits,): which indices, counted in C order.
        positions: (hits, indexed axes): in the table or its chunk.
    """
    operator, columns = problem.operator, list(positions.T)
    where = np.unravel_index(places, grid) if grid else ()
    if isinstance(operator, GatherElements):
        columns = [*where[: operator.axis], *columns, *where[operator.axis + 1 :]]
    elif operator.batch_dims:  # type: ignore[attr-defined]
        columns = [*where[: operator.batch_dims], *columns]  # type: ignore[attr-defined]
    return narrowed(np.stack(columns, -1))


def narrowed(numbers: np.ndarray) -> np.ndarray:
    """Return numbers of 0 or more as int32 where it holds them."""
    return numbers.astype(np.int32) if numbers.max(initial=0) < 2**31 else numbers


def take_rows(problem: Problem, data: np.ndarray, tuples: np.ndarray) -> np.ndarray:
    """Return the rows (hits, dimensions that are not indexed...) of a chunk of data at tuples of `make_tuples`."""
    operator = problem.operator
    if isinstance(operator, Gather) and operator.batch_dims == 0:
        rows = run_gather(Gather(operator.axis), data, np.ascontiguousarray(tuples[:, 0]), Bounds.UNCHECKED)
        return np.moveaxis(rows, operator.axis, 0)
    if isinstance(operator, Gather):
        data = np.moveaxis(data, operator.axis, operator.batch_dims)
    return run_gather(GatherNd(), data, tuples, Bounds.UNCHECKED)


def merge_rows(
    problem: Problem, shape: Shape, grid: Shape, places: Sequence[np.ndarray], rows_of: Sequence[np.ndarray]
) -> np.ndarray:
    """Return a block of the result, made of the rows of chunks; zeros stand where no chunk has a row.

    Args:
        shape, grid: of the block of the result, and of indices without the components of tuples.
        places: of each chunk (hits,): which indices, or tuples of them, counted in C order.
        rows_of: of each chunk (hits, dimensions that are not indexed...).
    """
    operator = problem.operator
    result = np.ndarray(shape, problem.table.dtype)  # np.empty would make S1 of S0
    rows = result
    if isinstance(operator, Gather):
        rank = len(grid) - operator.batch_dims
        to = range(operator.batch_dims, len(grid))
        rows = np.moveaxis(result, range(operator.axis, operator.axis + rank), to)
    moved = as_bytes(rows)
    if problem.bounds is Bounds.ZERO and sum(map(len, places)) < math.prod(grid):
        moved[...] = zero_of(moved.dtype)
    for hits, found in zip(places, rows_of, strict=True):
        if len(hits):
            moved[np.unravel_index(hits, grid) if grid else (np.newaxis,)] = as_bytes(found)
    return result


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of rows by key.

    Attributes:
        keys: (n) int64, ascending; None where every key has a sum. The others' is zero.
        rows: (n, rest...), in the dtype of the sums.
        size: how many keys there are.
        shape: of the block of the result that these are the sums of.
    """

    keys: np.ndarray | None
    rows: np.ndarray
    size: int
    shape: Shape

    def of_all_keys(self) -> np.ndarray:
        """Return (size, rest...): the sums of all keys; not to be written to."""
        return self.rows if self.keys is None else _add(self.rows, self.keys, self.size)


def add_rows(rows: np.ndarray, keys: np.ndarray, size: int, shape: Shape) -> Sums:
    """Return the sums of rows (n, rest...) by their keys (n) in [0, size); of few keys, only theirs."""
    if 2 * len(keys) >= size:
        return Sums(None, _add(rows, keys, size), size, shape)
    found, places = np.unique(keys, return_inverse=True)
    return Sums(found, _add(rows, places, len(found)), size, shape)


def add_sums(parts: Sequence[Sums]) -> Sums:
    """Return the sums of one part or more, added in their order."""
    first, *others = parts
    if not others:
        return first
    listed = [part.keys for part in parts if part.keys is not None]
    if len(listed) == len(parts) and 2 * sum(map(len, listed)) < first.size:
        keys, rows = np.concatenate(listed), np.concatenate([part.rows for part in parts])
        found, places = np.unique(keys, return_inverse=True)
        return Sums(found, _add(rows, places, len(found)), first.size, first.shape)
    total = first.rows.copy() if first.keys is None else first.of_all_keys()
    with np.errstate(all="ignore"):
        for part in others:
            total[... if part.keys is None else part.keys] += part.rows
    return Sums(None, total, first.size, first.shape)


def add_onto(total: np.ndarray, rows: np.ndarray, keys: np.ndarray) -> None:
    """Add rows (n, rest...) by their keys (n) to sums (size, rest...), as if they came after all rows added before."""
    found, places = np.unique(keys, return_inverse=True)
    both = np.concatenate([total[found], rows])
    total[found] = _add(both, np.concatenate([np.arange(len(found)), places]), len(found))


def _add(rows: np.ndarray, keys: np.ndarray, size: int) -> np.ndarray:
    """Return (size, rest...): rows added to zeros at their keys, in their order."""
    request = Request(Gather(0), Bounds.UNCHECKED, Gradient(), (size, *rows.shape[1:]))
    return run(request, rows, keys, None, CALLS, (one_object(("sums", request)), None, None))


def keyed_rows(
    problem: Problem, shape: Shape, grad: np.ndarray, grid: Shape, hits: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the rows that a block of grad adds to a chunk of the result, their keys in it, and how many it has.

    Args:
        shape, grid: of the chunk, and of the block of indices without the components of tuples.
        hits: which indices add to the chunk, and the positions in it that they mean.
    """
    operator, (places, positions) = problem.operator, hits
    rows = grad.astype(summation_dtype(grad.dtype) or grad.dtype, copy=False)
    keyed = shape
    if not isinstance(operator, GatherElements):
        shared: int = operator.batch_dims  # type: ignore[attr-defined]
        keyed = (*shape[:shared], *(shape[axis] for axis in problem.axes))
        if isinstance(operator, Gather):
            rank = len(grid) - shared
            rows = np.moveaxis(rows, range(operator.axis, operator.axis + rank), range(shared, shared + rank))
    rows = rows.reshape(math.prod(grid), *rows.shape[len(grid) :])
    if len(places) != len(rows):
        rows = run_gather(Gather(0), rows, places, Bounds.UNCHECKED)
    columns = make_tuples(problem, grid, places, positions).T.astype(np.int64)
    keys = columns[0] if len(columns) == 1 else np.ravel_multi_index(tuple(columns), keyed)
    return rows, np.ascontiguousarray(keys), math.prod(keyed)


def finish_gradient(problem: Problem, shape: Shape, sums: np.ndarray) -> np.ndarray:
    """Return a chunk of a gradient, of that shape: its sums by key, scaled, in the dtype of grad."""
    operator, scale = problem.operator, problem.gradient.scale  # type: ignore[union-attr]
    if scale != 1:
        factor: Any = int(scale) if scale.is_integer() and scale != 0 else scale
        if sums.dtype.kind in "iufc":  # as a kernel does it; other dtypes are NumPy's
            factor = np.array(number_scale(scale, sums.dtype)).astype(sums.dtype)
        with np.errstate(all="ignore"):
            sums = sums * factor
    if isinstance(operator, Gather):
        shared, axis = operator.batch_dims, operator.axis
        moved = sums.reshape(*shape[:shared], shape[axis], *shape[shared:axis], *shape[axis + 1 :])
        sums = np.ascontiguousarray(np.moveaxis(moved, shared, axis))
    with np.errstate(all="ignore"):
        return sums.reshape(shape).astype(problem.table.dtype, copy=False)


def gradient_problem(
    operator: OperatorSpec, grad: Any, indices: Any, data_shape: Shape, bounds: Bounds, gradient: Gradient,
    version: str | None,
) -> Problem:  # fmt: skip
    """Return the problem of a gradient of arrays that are not in memory; raises InvalidGatherError where none is."""
    dtype = np.dtype(grad.dtype)
    summation_dtype(dtype)
    check_scale(gradient.scale, dtype)
    check_addresses("data", data_shape, dtype)
    table, read = ArraySpec(data_shape, dtype), ArraySpec(tuple(grad.shape), dtype)
    spec = ArraySpec(tuple(indices.shape), np.dtype(indices.dtype))
    return Problem.checked(operator, table, spec, bounds, read, version, gradient)


def told(block: Any, name: str, shape: Shape, dtype: np.dtype | None = None) -> np.ndarray:
    """Return a block as an ndarray; raises InvalidGatherError where it is another than dask was told, or masked.

    Positions in it are not checked again, so rows beyond a smaller block would be read.
    """
    array = data_array(block, f"a block of {name}")
    if array.shape != shape or (dtype is not None and array.dtype != dtype):
        raise InvalidGatherError(
            f"a block of {name} has shape {array.shape} and dtype {array.dtype}, and dask was told shape "
            f"{shape}{'' if dtype is None else f' and dtype {dtype}'}; say what the blocks are where they are made, "
            "as map_blocks(function, dtype=dtype, chunks=chunks) does"
        )
    return array
