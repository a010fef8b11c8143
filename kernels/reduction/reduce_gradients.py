"""The gradients of `gather_reduce`, with respect to data and to weights."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import integers
from ...ir.errors import InvalidGatherError
from ...ir.semantics import BoundsMode, check_gather_reduce, parse_bounds
from ..argument_names import reject_others, shown_without_elsewhere
from ..gather import gather
from ..gradient import gather_elements_grad, gather_grad
from ..runtime.array_checks import check_out, data_array, in_memory, interop, out_array
from .bags import OPERATOR, divided, divisors, make_bags, read_ends, sum_bags
from .largest import BLOCK_ELEMENTS, rows_of_largest
from .operands import Reduction, check_reduction, native, read_arrays, read_factors
from .widened import deliver


@shown_without_elsewhere
def gather_reduce_grad(
    grad: ArrayLike,
    indices: ArrayLike,
    data_shape: Sequence[int],
    offsets: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    reduce: Reduction = "sum",
    weights: ArrayLike | None = None,
    padding_index: int | None = None,
    bounds: BoundsMode = "error",
    data: ArrayLike | None = None,
    out: np.ndarray | None = None,
    **others: Any,
) -> np.ndarray:
    """Return the gradient of `gather_reduce` with respect to data: each bag's row is added where the bag was read.

    The rows are added in the order of the indices, so the bytes are the same for any number of threads; of "mean" they
    are divided first, and with weights multiplied. Of "max" each element is added once, where the largest was read: of
    equal ones the first. The row of the padding index stays zero.

    Args:
        grad: the gradient of what gather_reduce gave, of its shape; dtypes as for `gather_reduce`.
        indices, offsets, lengths, reduce, weights, padding_index, bounds: as for `gather_reduce`.
        data_shape: the shape of data.
        data: what gather_reduce read; for "max" only, which looks for the largest elements again.
        out: where to put the result: of shape `data_shape` and the dtype of grad; its contents are replaced.

    Returns:
        `out`, or a new C-contiguous array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError, IndexTypeError, InvalidGatherError: as `gather_reduce` does.
    """
    reject_others(gather_reduce_grad, others)
    grad, indices = read_arrays(grad, indices, "grad")
    mode, shape, dtype = parse_bounds(bounds), integers(data_shape, "sizes"), grad.dtype
    check_reduction(reduce, dtype)
    check_gather_reduce(shape, indices.shape)
    ends = read_ends(indices, offsets, lengths)
    _check_grad(grad, indices, ends, shape)
    if not in_memory(grad, indices):
        options = {"reduce": reduce, "weights": weights, "padding_index": padding_index}
        return interop("reduce")(grad, indices, ends, out, bounds=mode, data_shape=shape, **options)
    written = None if out is None else out_array(out)
    check_out(written, shape, dtype)
    grad = grad if dtype.isnative else grad.astype(native(dtype))
    factors = read_factors(weights, None, None, (grad, indices.shape, reduce))
    bags = factors.apply(make_bags(indices, shape[0], mode, padding_index, ends), grad.dtype)
    grad = grad.reshape(len(bags.lengths), *shape[1:])
    direct = written if dtype.isnative else None
    if reduce == "mean":
        grad = divided(grad, divisors(bags, grad.ndim))
    if reduce == "max":
        table = _data_of_max(data, shape, dtype).astype(grad.dtype, copy=False)
        places = rows_of_largest(table, bags.of_largest())
        result = gather_elements_grad(grad, places, shape, bounds="zero", out=direct)
    elif factors.are_none and bags.is_even() and OPERATOR.result_dtype(grad.dtype) == grad.dtype:
        rows = bags.rows()
        spread = np.broadcast_to(grad[:, np.newaxis], (*rows.shape, *shape[1:]))
        result = gather_grad(spread, rows, shape, bounds="zero", out=direct)
    else:
        result = sum_bags(grad, bags.of_rows())
    return deliver(result, shape, dtype, out, written)


def gather_reduce_weights_grad(
    grad: ArrayLike,
    data: ArrayLike,
    indices: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    padding_index: int | None = None,
    bounds: BoundsMode = "error",
) -> np.ndarray:
    """Return the gradient of `gather_reduce` with respect to weights: of each index, its row times that of the bag.

    `result[n] = sum(data[indices[n]] * grad[b])` over the elements of the row, where n is an index of bag b; 0 of an
    index that is left out. The bytes are the same for any number of threads.

    Args:
        grad: the gradient of what gather_reduce gave, of its shape; of floats.
        data, indices, offsets, lengths, padding_index, bounds: as for `gather_reduce`.

    Returns:
        A new C-contiguous array of the shape of indices and the dtype of grad; narrow floats are added in float32.

    Raises:
        BoundsError, IndexTypeError, InvalidGatherError: as `gather_reduce` does.
    """
    grad, indices = read_arrays(grad, indices, "grad")
    data, _ = read_arrays(data, indices, "data")
    mode = parse_bounds(bounds)
    check_gather_reduce(data.shape, indices.shape)
    ends = read_ends(indices, offsets, lengths)
    if not in_memory(grad, data, indices):
        raise InvalidGatherError(
            "the gradient of weights is of arrays in memory; compute or read data, indices and grad first"
        )
    if native(data.dtype) != native(grad.dtype) or grad.dtype.kind in "iuc":
        raise InvalidGatherError(f"data and grad must be floats of one dtype, got {data.dtype} and {grad.dtype}")
    _check_grad(grad, indices, ends, data.shape)
    bags = make_bags(indices, data.shape[0], mode, padding_index, ends)
    wide = OPERATOR.result_dtype(native(grad.dtype))
    inner = math.prod(data.shape[1:])
    rows_of_grad = grad.reshape(len(bags.lengths), inner).astype(wide, copy=False)
    readers = np.repeat(np.arange(len(bags.lengths)), bags.lengths)
    found = np.empty(bags.positions.size, wide)
    table = data.reshape(len(data), inner)
    block = max(BLOCK_ELEMENTS // max(inner, 1), 1)
    for start in range(0, len(found), block):
        part = slice(start, start + block)
        rows = gather(table, bags.positions[part], bounds="zero").astype(wide, copy=False)
        np.einsum("nj,nj->n", rows, rows_of_grad[readers[part]], out=found[part])
    found[bags.positions == bags.size] = 0
    with np.errstate(all="ignore"):
        return found.reshape(indices.shape).astype(grad.dtype, copy=False)


def _check_grad(
    grad: np.ndarray, indices: np.ndarray, ends: tuple[np.ndarray, np.ndarray] | None, shape: tuple[int, ...]
) -> None:
    wanted = (*(indices.shape[:-1] if ends is None else (len(ends[0]),)), *shape[1:])
    if grad.shape != wanted:
        raise InvalidGatherError(
            f"grad must have shape {wanted}, as gather_reduce gives of data {shape} by indices {indices.shape}, got "
            f"{grad.shape}"
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
