"""The public functions of bags: `gather_reduce` and its gradients, with respect to data and to weights."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...ir.array_spec import ArraySpec, integers
from ...ir.errors import InvalidGatherError
from ...ir.semantics import BoundsMode, check_gather_reduce, parse_bounds
from ..argument_names import reject_others, shown_without_elsewhere
from ..gather import gather, run_operator
from ..gradient import gather_elements_grad, gather_grad
from ..runtime.array_checks import check_out, data_array, in_memory, interop, out_array
from .bags import (
    BLOCK_ELEMENTS,
    LARGEST,
    OPERATOR,
    average_bags,
    divided,
    divisors,
    make_bags,
    plain_operator,
    read_bags,
    read_ends,
    reduce_bags,
    rows_of_largest,
    sum_bags,
)
from .operands import Reduction, check_reduction, native, read_arrays, read_factors


@shown_without_elsewhere
def gather_reduce(
    data: ArrayLike,
    indices: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    lengths: ArrayLike | None = None,
    reduce: Reduction = "sum",
    weights: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    padding_index: int | None = None,
    bounds: BoundsMode = "error",
    out: np.ndarray | None = None,
    **others: Any,
) -> np.ndarray:
    """Sum the rows of `data` that each bag of indices selects, or take their mean or maximum; no row is stored.

    `out[b.., q..] = 0 + data[indices[b.., 0], q..] + data[indices[b.., 1], q..] + ...`, in this order, so the bytes are
    the same for any number of threads. A bag without an index gives zeros. When data or indices are a dask array, so is
    the result, with the same bytes.

    The maximum begins with the first row of the bag, and an element of a later one takes its place where it is larger:
    so of 0.0 and -0.0 the first stays, and a NaN stays where it is the first, and is left out where it is not.

    Args:
        data: (rows, inner...), of floats (float16 and bfloat16 are added in float32, and rounded once), complex64,
            complex128 or integers (added modulo their width), of any byte order; read in place whatever its strides.
        indices: (bags..., bag), any integer dtype: the last dimension is a bag. With `offsets` or `lengths`: (indices).
        offsets: (bags), integers: where each bag begins in indices; the last one ends with them.
        lengths: (bags), integers: the number of indices of each bag; in the place of offsets.
        reduce: "sum"; "mean": the sum divided by the number of rows that were added, of floats and complex numbers; or
            "max", of floats and signed integers.
        weights: of the shape of indices, floats: the factor of each row before it is added, in float32, or
            float64 where data is; for "sum" and data of floats, or of int8 and uint8 with a scale. Infinities and NaN
            count as in NumPy; a finite number that would become infinite in the dtype of the sums is rejected.
        scale, bias: (rows), floats: data of int8 or uint8 is quantised, and stands for `scale * data + bias`, a scale
            and a bias each row, rounded to float32 as weights are; the result is float32. Without a bias it is 0.
        padding_index: rows at this index of data are left out: not added, nor counted by "mean".
        bounds: the rule for an index outside, as for `gather`; with "zero" it is left out.
        out: where to put the result: its shape and dtype, writeable.

    Returns:
        `out`, or a new C-contiguous array of shape `indices.shape[:-1] + data.shape[1:]` (with offsets or lengths:
        `(bags,) + data.shape[1:]`) and data's dtype; float32 with a scale.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices, offsets or lengths are not integers.
        InvalidGatherError: an argument does not fit the others, or elements have no such sum.

    Spec: torch.nn.functional.embedding_bag; torch.ops.quantized.embedding_bag_byte of rows with scale and bias.
    """
    reject_others(gather_reduce, others)
    data, indices = read_arrays(data, indices, "data")
    mode = parse_bounds(bounds)
    check_reduction(reduce, data.dtype if scale is None else np.dtype(np.float32))
    check_gather_reduce(data.shape, indices.shape)
    ends = read_ends(indices, offsets, lengths)
    if not in_memory(data, indices):
        options = {"reduce": reduce, "weights": weights, "scale": scale, "bias": bias, "padding_index": padding_index}
        return interop("reduce")(data, indices, ends, out, bounds=mode, **options)
    factors = read_factors(weights, scale, bias, (data, indices.shape, reduce))
    dtype = factors.result_dtype(data.dtype)
    shape = (*(indices.shape[:-1] if ends is None else (len(ends[0]),)), *data.shape[1:])
    written = None if out is None else out_array(out)
    check_out(written, shape, dtype)
    is_read = not data.dtype.isnative
    is_plain = not is_read and ends is None and padding_index is None and factors.are_none
    operator = plain_operator(reduce, dtype, mode)
    if is_plain and operator is not None:
        is_rounded = operator.result_dtype(dtype) != dtype
        result = run_operator(operator, data, indices, mode, None if is_rounded else written)
        return deliver(result, shape, dtype, out, written)
    bags = factors.apply(make_bags(indices, data.shape[0], mode, padding_index, ends), data.dtype)
    if is_read:
        data, bags = read_bags(data, bags)
    if reduce == "max":
        result = reduce_bags(LARGEST, data, bags.of_largest())
    else:
        result = (average_bags if reduce == "mean" else sum_bags)(data, bags)
    return deliver(result, shape, dtype, out, written)


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

    The rows are added in the order of the indices, so the bytes are the same for any number of threads; for "mean" they
    are divided first, and with weights multiplied. For "max" each element is added once, where the largest element was
    read, or the first of several. The row of the padding index stays zero.

    Args:
        grad: the gradient of gather_reduce's result, of its shape; dtypes as for `gather_reduce`.
        indices, offsets, lengths, reduce, weights, padding_index, bounds: as for `gather_reduce`.
        data_shape: the shape of data.
        data: the data of gather_reduce; for "max" only, which looks for the largest elements again.
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
    check_gather_reduce(ArraySpec(shape, dtype).shape, indices.shape)
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
    """Return the gradient of `gather_reduce` with respect to weights: for each index, its row times grad of the bag.

    `result[n] = sum(data[indices[n]] * grad[b])` over the elements of the row, where n is an index of bag b; 0 for an
    index that is left out. The bytes are the same for any number of threads.

    Args:
        grad: the gradient of gather_reduce's result, of its shape; of floats.
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


def grouped_sum(
    table: np.ndarray, indices: np.ndarray, group: int, weights: np.ndarray | None = None, bounds: BoundsMode = "error"
) -> np.ndarray:
    """Return (bags, columns): sums of bags in ONNX Runtime's order: of groups of rows, and of these sums one by one.

    No row is stored. Each group has `group` rows while enough are left; then groups have half the size, and so on.
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


def rounded(sums: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return sums in their dtype or a narrower one, rounded to the nearest even."""
    if (sums.dtype, dtype) != (np.float32, np.float16) or not sums.flags.c_contiguous:
        return sums.astype(dtype, copy=False)
    from ...lowering.native.c_function import rounding
    from ..runtime.disk_cache import native_code

    run = rounding(native_code)
    if run is None:
        return sums.astype(dtype)
    halves = np.empty(sums.shape, dtype)
    run(sums.ctypes.data, halves.ctypes.data, sums.size)
    return halves


def deliver(
    result: np.ndarray, shape: tuple[int, ...], dtype: np.dtype, out: Any, written: np.ndarray | None
) -> np.ndarray:
    """Return a result in its shape and dtype; in `out`, whose memory is `written`, if there is one."""
    if result is not written:
        with np.errstate(all="ignore"):  # sums may become infinite
            result = rounded(result.reshape(shape), dtype)
            if written is not None:
                written[...] = result
    return result if out is None else out


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
            'the gradient of "max" looks for the largest elements in data; pass the data of gather_reduce as data='
        )
    array = data_array(data, "data")
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != dtype:
        raise InvalidGatherError(
            f"data must be an array of shape {shape} and dtype {dtype}, as data_shape and grad say, got "
            f"{getattr(array, 'shape', type(array).__name__)} of {getattr(array, 'dtype', 'no dtype')}"
        )
    return array
