"""The public functions `gather_reduce` and `gather_reduce_grad`."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import integers
from ...ir.errors import InvalidGatherError, did_you_mean
from ...ir.semantics import Bounds, BoundsMode, check_gather_reduce, parse_bounds
from ..gather import run_operator
from ..gradient import gather_elements_grad, gather_grad
from ..runtime.array_checks import check_out, data_array, index_array, is_dask_array, is_stored_array, table_array
from .bags import LARGEST, OPERATOR, divisors, make_bags, read_bags, read_ends, reduce_bags, sum_bags
from .largest import rows_of_largest

Reduction = Literal["sum", "mean", "max"]
_REDUCTIONS = ("sum", "mean", "max")


def gather_reduce(
    data: ArrayLike,
    indices: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    reduce: Reduction = "sum",
    padding_index: int | None = None,
    bounds: BoundsMode = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the rows of `data` that each bag of indices selects, or take their mean or maximum; no row is stored.

    `out[b.., q..] = 0 + data[indices[b.., 0], q..] + data[indices[b.., 1], q..] + ...`, in this order, so the bytes are
    the same for any number of threads. A bag without an index gives zeros. When data or indices are a dask array, so is
    the result: each chunk of rows gives its sums, and they are added in the order of the chunks.

    The maximum begins with the first row of the bag, and an element of a later one takes its place where it is larger:
    so of 0.0 and -0.0 the first stays, and a NaN stays where it is the first, and is left out where it is not.

    Args:
        data: (rows, inner...), of float32, float64, complex64, complex128 or integers (added modulo their width); read
            in place whatever its strides.
        indices: (bags..., bag), any integer dtype: the last dimension is a bag. With `offsets` or `lengths`: (indices).
        offsets: (bags), integers: where each bag begins in indices; the last one ends with them.
        lengths: (bags), integers: how many indices each bag has; in the place of offsets.
        reduce: "sum"; "mean": the sum divided by the number of rows that were added, of floats and complex numbers; or
            "max", of floats and signed integers.
        padding_index: rows at this index of data are left out: not added, nor counted by "mean".
        bounds: what an index outside means, as for `gather`; with "zero" it is left out.
        out: where to put the result: its shape and dtype, writeable.

    Returns:
        `out`, or a new C-contiguous array of shape `indices.shape[:-1] + data.shape[1:]` (with offsets or lengths:
        `(bags,) + data.shape[1:]`) and data's dtype.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices, offsets or lengths are not integers.
        InvalidGatherError: an argument does not fit the others, or elements have no such sum.

    Spec: torch.nn.functional.embedding_bag.
    """
    data, indices = _arrays(data, indices, "data")
    mode = parse_bounds(bounds)
    _check_reduction(reduce, data.dtype)
    check_gather_reduce(data.shape, indices.shape)
    ends = read_ends(indices, offsets, lengths)
    if is_dask_array(data) or is_dask_array(indices):
        from .dask_bags import reduce_dask

        _check_no_maximum(reduce)
        return reduce_dask(data, indices, ends, reduce, padding_index, mode, out)
    shape = (*(indices.shape[:-1] if ends is None else (len(ends[0]),)), *data.shape[1:])
    check_out(out, shape, data.dtype)
    is_stored = is_stored_array(data)
    if not is_stored and ends is None and padding_index is None and not (reduce != "sum" and mode is Bounds.ZERO):
        result = run_operator(LARGEST if reduce == "max" else OPERATOR, data, indices, mode, out)
        if reduce == "mean":
            np.divide(result, max(indices.shape[-1], 1), out=result)
        return result
    bags = make_bags(indices, data.shape[0], mode, padding_index, ends)
    if is_stored:
        data, bags = read_bags(data, bags)
    result = reduce_bags(LARGEST, data, bags.of_largest()) if reduce == "max" else sum_bags(data, bags)
    if reduce == "mean":
        np.divide(result, divisors(bags, result.ndim), out=result)
    if out is None:
        return result.reshape(shape)
    out[...] = result.reshape(shape)
    return out


def gather_reduce_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    offsets: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    reduce: Reduction = "sum",
    padding_index: int | None = None,
    bounds: BoundsMode = "error",
    data: ArrayLike | None = None,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Return the gradient of `gather_reduce` with respect to data: each bag's row is added where the bag was read.

    The rows are added in the order of the indices, so the bytes are the same for any number of threads; of "mean" they
    are divided first. Of "max" each element is added once, where the largest was read: of equal ones the first. The row
    of the padding index stays zero.

    Args:
        grad: the gradient of what gather_reduce gave, of its shape; dtypes as for `gather_reduce`.
        indices, offsets, lengths, reduce, padding_index, bounds: as for `gather_reduce`.
        data_shape: the shape of data.
        data: what gather_reduce read; for "max" only, which looks for the largest elements again.
        out: where to put the result: of shape `data_shape` and the dtype of grad; its contents are replaced.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError, IndexTypeError, InvalidGatherError: as `gather_reduce` does.
    """
    grad, indices = _arrays(grad, indices, "grad")
    mode, shape = parse_bounds(bounds), integers(data_shape, "sizes")
    _check_reduction(reduce, grad.dtype)
    check_gather_reduce(shape, indices.shape)
    ends = read_ends(indices, offsets, lengths)
    wanted = (*(indices.shape[:-1] if ends is None else (len(ends[0]),)), *shape[1:])
    if grad.shape != wanted:
        raise InvalidGatherError(
            f"grad must have shape {wanted}, as gather_reduce gives of data {shape} by indices {indices.shape}, got "
            f"{grad.shape}"
        )
    if is_dask_array(grad) or is_dask_array(indices):
        from .dask_bags import reduce_dask_grad

        _check_no_maximum(reduce)
        return reduce_dask_grad(grad, indices, shape, ends, reduce, padding_index, mode, out)
    check_out(out, shape, grad.dtype)
    bags = make_bags(indices, shape[0], mode, padding_index, ends)
    grad = grad.reshape(len(bags.lengths), *shape[1:])
    if reduce == "max":
        places = rows_of_largest(_data_of_max(data, shape, grad.dtype), bags.of_largest())
        return gather_elements_grad(grad, places, shape, bounds="zero", out=out)
    if reduce == "mean":
        grad = np.divide(grad, divisors(bags, grad.ndim)).astype(grad.dtype, copy=False)
    if bags.is_even():
        rows = bags.rows()
        spread = np.broadcast_to(grad[:, np.newaxis], (*rows.shape, *shape[1:]))
        return gather_grad(spread, rows, shape, bounds="zero", out=out)
    repeated = np.repeat(grad, bags.lengths, axis=0)
    return gather_grad(repeated, bags.positions, shape, bounds="zero", out=out)


def _check_no_maximum(reduce: str) -> None:
    if reduce == "max":
        raise InvalidGatherError(
            'reduce="max" is of arrays in memory, got a dask array; compute data and indices first'
        )


def _data_of_max(data: ArrayLike | None, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the data of a maximum, checked against the gradient; raises InvalidGatherError."""
    if data is None:
        raise InvalidGatherError(
            'the gradient of "max" looks for the largest elements in data; pass data=, what gather_reduce read'
        )
    array = data_array(data, "data")
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        raise InvalidGatherError(
            f"data must be an array of shape {shape} and dtype {dtype}, as data_shape and grad say, got "
            f"{getattr(array, 'shape', type(array).__name__)} of {getattr(array, 'dtype', 'no dtype')}"
        )
    return array


def _arrays(source: ArrayLike, indices: ArrayLike, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return data, or grad, and indices, each in memory or of dask, whose elements a kernel adds."""
    array, places = table_array(source, name) if name == "data" else data_array(source, name), index_array(indices)
    if is_stored_array(array) and is_dask_array(places):
        from dask.array import from_array

        array = from_array(array)
    if is_dask_array(array) or is_dask_array(places):
        from ..chunks.blocks import check_dask_arrays

        check_dask_arrays(**{name: array, "indices": places})
    dtype = array.dtype
    is_summed = dtype.kind in "iufc" and dtype.isnative and dtype.itemsize <= (16 if dtype.kind == "c" else 8)
    if not is_summed or (dtype.kind == "f" and dtype.itemsize < 4):
        raise InvalidGatherError(
            f"{name} must be float32, float64, complex64, complex128 or integers of 8 to 64 bits in native byte order, "
            f"got {dtype}; convert it, for instance with {name}.astype('float32')"
        )
    return array, places


def _check_reduction(reduce: str, dtype: np.dtype) -> None:
    if reduce not in _REDUCTIONS:
        raise InvalidGatherError(
            f"reduce {reduce!r} is not a reduction; use one of {', '.join(_REDUCTIONS)}"
            f"{did_you_mean(str(reduce), _REDUCTIONS)}"
        )
    if reduce == "mean" and dtype.kind in "iu":
        raise InvalidGatherError(f"the mean is of floats and complex numbers, got {dtype}; use reduce='sum'")
    if reduce == "max" and dtype.kind in "uc":
        raise InvalidGatherError(
            f"the maximum is of floats and signed integers, got {dtype}; convert data, for instance with "
            "data.astype('int64'), or take data.real"
        )
