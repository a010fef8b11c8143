"""The gather in plain NumPy: the first oracle. It also answers calls that have no kernel (yet). Meant to be read."""

import math
from typing import Any

import numpy as np

from .canonical import dim_names
from .element_types import as_bytes, number_scale
from .errors import BoundsError, GathernestError, InvalidGatherError
from .operator_spec import Gather, GatherElements, GatherMax, GatherNd, GatherReduce, GatherWeighted, OperatorSpec
from .positions import NOWHERE, bounds_error
from .positions import resolve as resolve_all
from .problem import Problem
from .semantics import Bounds, Shape, resolve_index

# Subscripts of an array of StringDType end the process, in NumPy 2.0 and 2.1.
SUBSCRIPTED_STRINGS_CRASH = np.lib.NumpyVersion(np.__version__) < "2.2.0"


def zero_of(dtype: np.dtype) -> Any:
    """Return the element that `bounds="zero"` gives for an index outside: zero bytes; an empty string for objects."""
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


def run(
    operator: OperatorSpec,
    data: np.ndarray,
    indices: np.ndarray,
    bounds: Bounds = Bounds.ERROR,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Carry out any operator.

        gather           out[before.., outer.., after..] = data[before.., outer.., position]
        gather_nd        out[before.., after..]          = data[before.., positions..]
        gather_elements  out[before.., i, after..]       = data[before.., position, after..]
        gather_weighted  out[i..] = 0 + (data[position of indices[i.., 0]] * weights[i.., 0] + biases[i.., 0]) + ...
        gather_max       out[i..] = the first of data[position of indices[i.., k]] that no later one is larger than
        gather_reduce    out[i..] = 0 + data[position of indices[i.., 0]] + data[position of indices[i.., 1]] + ...
        gather_mean      gather_reduce divided by the number of positions; gather_weighted_mean divides gather_weighted

    Args:
        operator: with its attributes negative or not.
        data: any shape of rank 1 or more, any dtype; dimensions at its end that are not indexed are copied whole.
        indices: of a shape that fits, any native integer dtype; nobody may write to them meanwhile.
        bounds: the rule for an index outside; with ZERO, one component of a tuple outside makes the whole slice zeros.
        out: where to put the result: of its shape and dtype, and without memory of the inputs.

    Returns:
        `out`, or a new C-contiguous array of the shape that `operator.result_shape` gives.

    Raises:
        BoundsError: an index is not valid under `bounds`; `out` is untouched.
        InvalidGatherError: the attributes do not fit the shapes.
    """
    is_elements = isinstance(operator, GatherElements)
    operator = operator.normalized(data.shape[: indices.ndim] if is_elements else data.shape, indices.shape)
    if isinstance(operator, GatherReduce):
        sums = reduce(operator, data, indices, bounds)
        if out is not None:
            out[...] = sums
        return sums if out is None else out
    shape = operator.result_shape(data.shape, indices.shape)
    components = np.moveaxis(indices, -1, 0) if isinstance(operator, GatherNd) else [indices]
    axes = operator.axes(indices.shape)
    positions = [_positions(part, data.shape[axis], bounds) for part, axis in zip(components, axes, strict=True)]
    out = np.ndarray(shape, data.dtype) if out is None else out
    read, written = as_bytes(data), as_bytes(out)
    if isinstance(operator, Gather) and not operator.batch_dims and data.size and data.flags.c_contiguous:
        is_none = (positions[0] == NOWHERE).reshape((1,) * operator.axis + indices.shape)
        np.take(read, positions[0], operator.axis, written, "clip")
    else:
        subscripts, is_none = _subscripts(operator, data.shape, indices.shape, shape, positions)
        is_taken = data.flags.c_contiguous or len(subscripts) > 63  # NumPy takes at most 64 subscripts
        is_taken = is_taken or (data.dtype.kind == "T" and SUBSCRIPTED_STRINGS_CRASH)
        if out.size and data.size and is_taken:
            rows: Any = 0
            for along, size in zip(subscripts, data.shape, strict=False):
                rows = rows * size + np.maximum(along, 0)  # an index outside reads the first one
            np.take(read.reshape(-1, *data.shape[len(subscripts) :]), rows, 0, written, "clip")
        elif out.size and data.size:
            written[...] = read[(*subscripts, ...)]  # an Ellipsis keeps an element that is a list
    if is_none.any():
        slices = is_none.reshape(is_none.shape + (1,) * (out.ndim - is_none.ndim))
        np.copyto(written, zero_of(written.dtype), where=slices)
    return out


def _positions(indices: np.ndarray, size: int, bounds: Bounds) -> np.ndarray:
    """Return the position of each index, `NOWHERE` where the result is zeros; raises BoundsError as `resolve` does."""
    positions = resolve_all(indices, size, bounds)
    if indices.size and bounds is not Bounds.ZERO and (size == 0 or bounds is Bounds.ERROR):
        is_outside = positions == NOWHERE
        if is_outside.any():
            resolve(int(indices[is_outside][0]), size, bounds)
    return positions


def _subscripts(
    operator: OperatorSpec, shape: Shape, indices_shape: Shape, result_shape: Shape, positions: list[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the subscripts of data for each slice of the result, and whether the slice is zeros in place of data.

    The dimensions at the end of data which no index selects from have no subscripts: slices hold them whole. All arrays
    broadcast over the other dimensions of the result.
    """
    roles = operator.roles(len(shape), indices_shape)
    loops, names = dim_names(roles, "out"), dim_names(roles, "data")
    looked_up = [name for name in dim_names(roles, "indices") if name.role != "tuple"]
    whole = 0
    while names[-1 - whole].role in ("inner", "unit") and names[-1 - whole].loop not in looked_up:
        whole += 1
    loops, trips = loops[: len(loops) - whole], dict(zip(loops, result_shape, strict=True))
    subscripts: list[np.ndarray] = []
    is_none, resolved = np.zeros((1,) * len(loops), bool), iter(positions)
    for name in names[: len(names) - whole]:
        is_axis = name.role == "axis"
        over = looked_up if is_axis else (name.loop,)
        along = (next(resolved) if is_axis else np.arange(trips[name.loop])).reshape(
            [trips[loop] if loop in over else 1 for loop in loops]
        )
        if is_axis:
            is_none = is_none | (along == NOWHERE)
        subscripts.append(along)
    return subscripts, is_none


def reduce(operator: GatherReduce, data: np.ndarray, indices: np.ndarray, bounds: Bounds = Bounds.ERROR) -> np.ndarray:
    """Sum the slices of each bag in the order of its indices, from zero, or take the largest of them.

    The largest begins with the first slice, and an element of a later one takes its place where it is larger. Elements
    are converted to the dtype of the result first; then slices of a gather_weighted are multiplied by their weights
    and biases are added. The sums of a mean are divided last, by the number of their slices in the dtype of the result.

    Args:
        operator, indices, bounds: as for `run`; under ZERO an index outside adds nothing, and is no larger than zero.
        data: of rank 1 or more; a dtype that NumPy adds.

    Returns:
        A new C-contiguous array of shape `indices.shape[:-1] + data.shape[1:]` and the dtype that
        `operator.result_dtype` gives.

    Raises:
        BoundsError, InvalidGatherError: as `run` does.
    """
    operator.normalized(data.shape, indices.shape)
    sums = np.zeros(operator.result_shape(data.shape, indices.shape), operator.result_dtype(data.dtype))
    factors: list[np.ndarray] = []
    if isinstance(operator, GatherWeighted):
        indices, *bits = np.moveaxis(indices, -1, 0)
        factors = [np.ascontiguousarray(part).view(sums.dtype) for part in bits]
    per_slice = (..., *[np.newaxis] * (data.ndim - 1))
    positions = _positions(indices, data.shape[0], bounds)
    is_added = (positions != NOWHERE)[per_slice]
    with np.errstate(all="ignore"):
        for place in range(indices.shape[-1] if data.size else 0):
            rows = data[positions[..., place]].astype(sums.dtype)
            is_next = is_added[(slice(None),) * (indices.ndim - 1) + (place,)]
            if isinstance(operator, GatherMax):
                np.copyto(sums, rows, where=is_next & ((rows > sums) if place else np.True_))
                continue
            for factor, combine in zip(factors, (np.multiply, np.add), strict=False):
                rows = combine(rows, factor[..., place][per_slice])
            np.add(sums, rows, out=sums, where=is_next)
        if operator.divides:
            sums /= np.maximum(is_added.sum(axis=indices.ndim - 1), 1).astype(sums.dtype)
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
        grad: of the shape of the gather's result; a dtype that NumPy adds.
        scale: the factor of the sums, which is converted to the dtype of grad.

    Returns:
        A new array of shape `data_shape` and the dtype of grad.

    Raises:
        BoundsError, InvalidGatherError: as `run` does.
    """
    places = np.arange(1, math.prod(data_shape) + 1).reshape(data_shape)
    read = run(operator, places, indices, bounds).reshape(-1)
    sums: Any = np.zeros(math.prod(data_shape), grad.dtype)
    with np.errstate(all="ignore"):
        np.add.at(sums, read[read > 0] - 1, grad.reshape(-1)[read > 0])
        if scale != 1 and grad.dtype.kind in "mO":
            sums = sums * (int(scale) if scale.is_integer() and scale != 0 else scale)
        elif scale != 1:
            parts = sums.view(sums.real.dtype)  # a real number multiplies each part of a complex one
            factor = np.array(number_scale(scale, grad.dtype)).astype(parts.dtype)
            sums = (parts * factor).astype(parts.dtype).view(grad.dtype)
    return sums.reshape(data_shape)


def of_problem(problem: Problem, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Carry out the operator or the gradient of a problem. For a gradient, `data` is grad; `out` is as for `run`.

    Raises:
        BoundsError, InvalidGatherError: an index is not valid, or objects cannot be added; `out` is untouched.
    """
    operator, bounds = problem.operator, problem.bounds
    indices = indices.copy()  # another thread may write to them
    try:
        if problem.gradient is None:
            result = run(operator, data, indices, bounds, out)
        else:
            result = gradient(operator, data, indices, problem.table.shape, bounds, problem.gradient.scale)
    except BoundsError:
        raise bounds_error(problem, indices) from None
    except (ArithmeticError, TypeError, ValueError) as error:  # of objects
        if isinstance(error, GathernestError):
            raise
        raise InvalidGatherError(f"grad must have elements that can be added to 0 and scaled: {error}") from None
    if out is None or problem.gradient is None:
        return result
    out[...] = result
    return out
