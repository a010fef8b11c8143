"""The public function `gather_reduce`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...ir.semantics import BoundsMode, check_gather_reduce, parse_bounds
from ..argument_names import reject_others, shown_without_elsewhere
from ..gather import run_operator
from ..runtime.array_checks import check_out, in_memory, interop, out_array
from .bags import LARGEST, average_bags, make_bags, plain_operator, read_bags, read_ends, reduce_bags, sum_bags
from .operands import Reduction, check_reduction, read_arrays, read_factors
from .widened import deliver


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
        lengths: (bags), integers: how many indices each bag has; in the place of offsets.
        reduce: "sum"; "mean": the sum divided by the number of rows that were added, of floats and complex numbers; or
            "max", of floats and signed integers.
        weights: of the shape of indices, floats: what each row is multiplied by before it is added, in float32, or
            float64 where data is; for "sum" and data of floats, or of int8 and uint8 with a scale. Infinities and NaN
            count as in NumPy; a finite number that would become infinite in the dtype of the sums is rejected.
        scale, bias: (rows), floats: data of int8 or uint8 is quantised, and stands for `scale * data + bias`, a scale
            and a bias each row, rounded to float32 as weights are; the result is float32. Without a bias it is 0.
        padding_index: rows at this index of data are left out: not added, nor counted by "mean".
        bounds: what an index outside means, as for `gather`; with "zero" it is left out.
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
