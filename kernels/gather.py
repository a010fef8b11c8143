"""The public functions `gather`, `gather_nd` and `gather_elements`."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..ir.errors import InvalidGatherError
from ..ir.operator_spec import Gather, GatherElements, GatherNd, Node, OperatorSpec
from ..ir.semantics import Bounds, BoundsMode, integer_argument, parse_bounds
from .argument_names import elsewhere, shown_without_elsewhere
from .runtime.array_checks import READERS, in_memory, index_array, interop, is_lazy, out_array, table_array
from .runtime.call_cache import CALLS, NO_KEYS, Keys
from .runtime.dispatch import run_gather

if TYPE_CHECKING:
    from ..lowering.registry import Pipeline
    from ..lowering.schedule.schedule import Schedule
    from .fill import Fill


@shown_without_elsewhere
def gather(
    data: ArrayLike,
    indices: ArrayLike,
    axis: Any = 0,
    dim: None = None,
    mode: None = None,
    keepdim: None = None,
    batch_dims: int = 0,
    bounds: "BoundsMode | Fill" = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Gather slices of `data` along `axis`.

    `out[p.., i.., q..] = data[p.., indices[p.., i..], q..]`, where the first `batch_dims` of p are shared.

    Args:
        data: (batch..., outer..., axis, inner...), rank 1 or more, any dtype. Strided, reversed, broadcast, read-only
            and memory-mapped arrays are read in place; subclasses of ndarray give a plain one, masked arrays are
            rejected. Arrays of other libraries are read in place, or by rows from files of h5py and zarr; only their
            values come back. When data or indices are a dask array, nothing is read before the result, a dask array
            too, is computed; of dask's indices, one outside is reported then.
        indices: (batch..., any shape), any integer dtype.
        axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element.
        batch_dims: leading dimensions that data and indices share, in [-rank(indices), min(rank(data), rank(indices))]
            and not above axis; a negative value counts from the rank of indices.
        bounds: the rule for an index outside [-s, s-1] on an axis of size s: "error", "zero", "clip", "wrap" or
            "unchecked", or `gn.Fill(value)`, which gives that value. "zero" gives an empty string for objects.
        out: where to put the result: its shape and dtype, writeable; strided or overlapping the inputs if need be. Of
            another library, it must share its memory; an `h5py.Dataset` or a `zarr.Array` is written by blocks, at once
            also where data or indices are a dask array.

    Returns:
        `out`, or a new C-contiguous array of shape `data.shape[:axis] + indices.shape[batch_dims:] +
        data.shape[axis+1:]` and data's dtype. The pages of a large new array are first touched by the threads that
        write them, so they lie in the memory of those threads' cores; an `out` lies where it was first written.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes or `out` do not fit the shapes.

    Spec: OpenVINO Gather-8 (bounds="zero"), ONNX Gather-13 (bounds="error").
    """
    if dim is not None or mode is not None or keepdim is not None:
        raise elsewhere(gather, dim=dim, mode=mode, keepdim=keepdim)
    found = CALLS.find(data, indices, out, axis, batch_dims, bounds)
    if found is not None:
        return found
    return _run_as_arrays(data, indices, out, (axis, batch_dims, bounds))


@shown_without_elsewhere
def gather_nd(
    data: ArrayLike,
    indices: ArrayLike,
    dim: None = None,
    mode: None = None,
    keepdim: None = None,
    batch_dims: int = 0,
    bounds: "BoundsMode | Fill" = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Gather slices of `data` by tuples of indices.

    `out[b.., i.., q..] = data[b.., indices[b.., i.., 0], ..., indices[b.., i.., k-1], q..]`.

    Args:
        data: (batch..., indexed..., inner...), rank 1 or more, any dtype; read in place whatever its strides. Dask
            arrays as for `gather`.
        indices: (batch..., any shape, k), any integer dtype; 1 <= k <= rank(data) - batch_dims.
        batch_dims: leading dimensions that data and indices share, in [0, min(rank(data), rank(indices))-1].
        bounds: the rule for a component outside [-s, s-1] on its axis of size s, as for `gather`; with "zero", one
            component outside makes the whole slice zeros.
        out: where to put the result, as for `gather`.

    Returns:
        `out`, or a new C-contiguous array of shape `indices.shape[:-1] + data.shape[batch_dims+k:]` and data's dtype.

    Raises:
        BoundsError: a component is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes or `out` do not fit the shapes.

    Spec: ONNX GatherND-13, OpenVINO GatherND-8.
    """
    if dim is not None or mode is not None or keepdim is not None:
        raise elsewhere(gather_nd, dim=dim, mode=mode, keepdim=keepdim)
    found = CALLS.find(data, indices, out, GatherNd, batch_dims, bounds)
    if found is not None:
        return found
    return _run_as_arrays(data, indices, out, (GatherNd, batch_dims, bounds))


@shown_without_elsewhere
def gather_elements(
    data: ArrayLike,
    indices: ArrayLike,
    axis: Any = 0,
    dim: None = None,
    mode: None = None,
    keepdim: None = None,
    bounds: "BoundsMode | Fill" = "error",
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Gather elements of `data`, each by an index of its own along `axis`.

    `out[.., i, ..] = data[.., indices[.., i, ..], ..]` on the axis.

    Args:
        data: rank 1 or more, any dtype; read in place whatever its strides. Dask arrays as for `gather`.
        indices: of data's rank, any integer dtype; sizes off the axis may be smaller than data's, never larger.
        axis: in [-rank(data), rank(data)-1]; an int, a 0-D array or an array of one element.
        bounds: the rule for an index outside, as for `gather`.
        out: where to put the result, as for `gather`.

    Returns:
        `out`, or a new C-contiguous array of the shape of indices and data's dtype.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        IndexTypeError: indices are not integers.
        InvalidGatherError: the attributes or `out` do not fit the shapes.

    Spec: ONNX GatherElements-13, OpenVINO GatherElements-6; NumPy `take_along_axis` without its broadcasting.
    """
    if dim is not None or mode is not None or keepdim is not None:
        raise elsewhere(gather_elements, dim=dim, mode=mode, keepdim=keepdim)
    found = CALLS.find(data, indices, out, GatherElements, axis, bounds)
    if found is not None:
        return found
    return _run_as_arrays(data, indices, out, (GatherElements, axis, bounds))


def _run_as_arrays(data: ArrayLike, indices: ArrayLike, out: Any, keys: Keys) -> np.ndarray:
    """Run a call that was not found: look for it with arrays in place of others, then make its operator and run it."""
    try:
        known = READERS[type(data)](data), READERS[type(indices)](indices)
    except Exception:  # of whatever library it is: the code below finds another way, or raises the error
        known = None
    if known is not None and out is None and (known[0] is not data or known[1] is not indices):
        found = CALLS.find(*known, None, *keys)
        if found is not None:
            return found
    arrays = table_array(data), index_array(indices)
    written = out if out is None else out_array(out, keeps_stored=True)
    if arrays[1] is not indices or arrays[0] is not data or written is not out:
        found = CALLS.find(*arrays, written, *keys)
        if found is not None:
            return found if out is None else out
    operator = _operator_of(keys)
    if _is_fill(keys[2]):
        result = _run_filled(operator, *arrays, keys[2], written)
    else:
        result = run_operator(operator, *arrays, parse_bounds(keys[2]), written, tried=keys)
    return result if out is None else out


def _is_fill(bounds: Any) -> bool:
    if isinstance(bounds, str):
        return False
    from .fill import Fill

    return isinstance(bounds, Fill)


def _run_filled(
    operator: OperatorSpec, data: np.ndarray, indices: np.ndarray, fill: "Fill", out: np.ndarray | None
) -> np.ndarray:
    """Run a gather that gives the value of `fill` where an index is outside."""
    from .fill import places_outside, put

    if is_lazy(data) or is_lazy(indices):
        raise InvalidGatherError(
            'a fill value is for arrays in memory, got a dask array; use bounds="zero", or map_blocks over its chunks'
        )
    if out is not None and not in_memory(out):
        raise InvalidGatherError(
            'a fill value is for results in memory, and out lies in a file; use bounds="zero", or write the result '
            "with out[...] = result"
        )
    element, operator = fill.element(data.dtype), operator.normalized(data.shape, indices.shape)
    indices = indices.copy()  # another thread may write to them, and `out` may lie in their memory
    places = places_outside(operator, data.shape, indices)
    return put(operator, run_operator(operator, data, indices, Bounds.ZERO, out), places, element)


def _operator_of(keys: Keys) -> OperatorSpec:
    """Return the operator of a call with these keys, its attributes checked."""
    kind, attribute, _ = keys
    if kind is GatherNd:
        return GatherNd(integer_argument(attribute, "batch_dims"))
    if kind is GatherElements:
        return GatherElements(integer_argument(attribute, "axis", allow_array=True))
    return Gather(integer_argument(kind, "axis", allow_array=True), integer_argument(attribute, "batch_dims"))


def run_operator(
    operator: OperatorSpec,
    data: np.ndarray,
    indices: np.ndarray,
    bounds: Bounds,
    out: np.ndarray | None,
    *,
    version: str | None = None,
    node: Node | None = None,
    schedule: "Schedule | Pipeline | None" = None,
    tried: Keys = NO_KEYS,
) -> np.ndarray:
    """Run an operator on arrays that are parsed already, in memory or in chunks; see the functions above."""
    if not in_memory(data, indices) or not (out is None or in_memory(out)):
        written = out if out is None else out_array(out, keeps_stored=True)
        if in_memory(data, indices, written):
            result = run_gather(operator, data, indices, bounds, written, version, node, schedule)
        else:
            result = interop("gather")(operator, data, indices, bounds, written, version=version, schedule=schedule)
        return result if out is None else out
    return run_gather(operator, data, indices, bounds, out, version, node, schedule, tried)
