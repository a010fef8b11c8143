"""The function that people call: `gather`."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.element_types import is_movable
from ..ir.semantics import Bounds, gather_shape, integer_argument, normalize_gather, parse_bounds
from ..lowering.schedule import Schedule
from .arguments import check_out, index_array
from .opaque import gather_opaque
from .prepare import prepare


def gather(
    data: ArrayLike,
    indices: ArrayLike,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: str = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Gather slices of `data` along `axis`.

    `out[p.., i.., q..] = data[p.., indices[p.., i..], q..]`, where the first `batch_dims` of p are shared.

    Args:
        data: (batch..., outer..., axis, inner...), rank 1 or more, any dtype. Strided, reversed, broadcast, read-only
            and memory-mapped arrays are read in place.
        indices: (batch..., any shape), any integer dtype.
        axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element.
        batch_dims: leading dimensions that data and indices share, in [-rank(indices), min(rank(data), rank(indices))]
            and not above axis; a negative value counts from the rank of indices.
        bounds: what an index outside [-s, s-1] means on an axis of size s: "error", "zero", "clip", "wrap" or
            "unchecked".
        out: where to put the result: its shape and dtype, writeable; strided or overlapping the inputs if need be.

    Returns:
        `out`, or a new C-contiguous array of shape `data.shape[:axis] + indices.shape[batch_dims:] +
        data.shape[axis+1:]` and data's dtype.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes or `out` do not fit the shapes.

    Spec: OpenVINO Gather-8 (bounds="zero"), ONNX Gather-13 (bounds="error").
    """
    return gather_arrays(
        np.asarray(data),
        index_array(indices),
        integer_argument(axis, "axis", allow_array=True),
        integer_argument(batch_dims, "batch_dims"),
        parse_bounds(bounds),
        out,
    )


def gather_arrays(
    data: np.ndarray,
    indices: np.ndarray,
    axis: int,
    batch_dims: int,
    bounds: Bounds,
    out: np.ndarray | None,
    *,
    version: str | None = None,
    schedule: Schedule | None = None,
) -> np.ndarray:
    """Gather with arguments that are parsed already; see `gather`."""
    if not is_movable(data.dtype) or data.dtype.itemsize == 0:
        return gather_opaque(data, indices, axis, batch_dims, bounds, out, gather_arrays)
    if out is None:
        prepared = prepare(data, indices, None, axis, batch_dims, bounds, version=version, schedule=schedule)
        result = np.empty(prepared.plan.problem.out_shape, data.dtype)
        prepared.run(data, indices, result)
        return result
    normal_axis, normal_batch_dims = normalize_gather(data.shape, indices.shape, axis, batch_dims)
    check_out(out, gather_shape(data.shape, indices.shape, normal_axis, normal_batch_dims), data.dtype)
    if np.may_share_memory(out, data) or np.may_share_memory(out, indices):
        out[...] = gather_arrays(data, indices, axis, batch_dims, bounds, None, version=version, schedule=schedule)
        return out
    prepare(data, indices, out, axis, batch_dims, bounds, version=version, schedule=schedule).run(data, indices, out)
    return out
