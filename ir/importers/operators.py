"""Operators of models as operations of the `graph` dialect, where both formats mean the same."""

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ..dialects.graph.elementwise_ops import CumsumOp, ElementwiseOp, RangeOp, ReduceOp
from ..dialects.graph.movement_ops import BroadcastOp, PadOp, StridedSliceOp, TransposeOp
from ..dialects.graph.sized_op import run_of
from ..dialects.graph_op import shape_of_value
from ..dialects.graph_ops import ReshapeOp, ShapeOfOp, SliceOp
from ..errors import ModelError
from ..semantics import DYNAMIC
from .graph_builder import GraphBuilder, normal_axes

INT64 = np.dtype(np.int64)
MOST_PLACES = 64


def elementwise(builder: GraphBuilder, function: str, values: Sequence[SSAValue], name: str) -> SSAValue:
    """Add a function of elements; raises ModelError for operands that it does not take."""
    dtype = ElementwiseOp.result_dtype(values, {"function": function})
    return builder.shape_operator(ElementwiseOp, values, name, dtype, function=function)


def chained(builder: GraphBuilder, function: str, values: Sequence[SSAValue], name: str) -> SSAValue:
    """Add a function of two elements from the first value to the last, as ONNX's Min and Max have it."""
    first, *rest = values
    for value in rest:
        first = elementwise(builder, function, [first, value], name)
    return first


def clip(builder: GraphBuilder, value: SSAValue, least: SSAValue | None, most: SSAValue | None, name: str) -> SSAValue:
    """Add limits of elements; the upper one wins where they contradict each other."""
    if least is not None:
        value = elementwise(builder, "maximum", [value, least], name)
    return value if most is None else elementwise(builder, "minimum", [value, most], name)


def transpose(builder: GraphBuilder, value: SSAValue, order: Sequence[int] | None, name: str) -> SSAValue:
    """Add another order of dimensions; the reverse where it is None."""
    rank = len(shape_of_value(value))
    if order is None:
        order = range(rank - 1, -1, -1)
    return builder.shape_operator(TransposeOp, [value], name, order=tuple(order))


def numbers(builder: GraphBuilder, values: Sequence[int], name: str) -> SSAValue:
    """Add a vector of integers that is known."""
    try:
        return builder.constant(name, np.array(values, np.int64))
    except OverflowError:
        raise ModelError(f"{list(values)} are not integers of 64 bits") from None


def scalar(builder: GraphBuilder, value: SSAValue, name: str) -> SSAValue:
    """Return a tensor of one element as one of rank 0; raises ModelError for more elements."""
    shape = shape_of_value(value)
    if any(size not in (1, DYNAMIC) for size in shape):
        raise ModelError(f"one element is expected, got {value.type}")
    return builder.squeeze(value, range(len(shape)), name) if shape else value


def strided_slice(
    builder: GraphBuilder,
    value: SSAValue,
    bounds: tuple[SSAValue, SSAValue, SSAValue | None],
    axes: Sequence[int] | None,
    name: str,
) -> SSAValue:
    """Add positions along axes.

    Args:
        builder: where to.
        value: what is sliced.
        bounds: vectors of starts, ends and steps, one entry an axis; steps are 1 where they are None.
        axes: the axes; the first ones if omitted.
        name: of the result.
    """
    starts, ends, steps = bounds
    rank = len(shape_of_value(value))
    count = shape_of_value(starts)[0] if len(shape_of_value(starts)) == 1 else DYNAMIC
    if count == DYNAMIC or count > rank:
        raise ModelError(f"the starts must be a vector of known length, at most {rank}, got {starts.type}")
    axes = range(count) if axes is None else axes
    if len(axes) != count:
        raise ModelError(f"{len(axes)} axes have {count} starts")
    places = [normal_axes([axis], rank)[0] for axis in axes]
    steps = numbers(builder, [1] * count, f"{name}.steps") if steps is None else steps
    runs = _known_runs(builder, value, (starts, ends, steps), places)
    if runs is None:
        return builder.shape_operator(StridedSliceOp, [value, starts, ends, steps], name, axes=tuple(places))
    for axis, run in zip(places, runs, strict=True):
        if run != range(shape_of_value(value)[axis]):
            start, step, length = run.start, run.step, len(run)
            value = builder.shape_operator(SliceOp, [value], name, axis=axis, start=start, step=step, count=length)
    return value


def _known_runs(
    builder: GraphBuilder, value: SSAValue, bounds: Sequence[SSAValue], axes: Sequence[int]
) -> list[range] | None:
    """Return the positions along each axis where they are known before the model runs, and none is empty."""
    known = [builder.constants.known(bound) for bound in bounds]
    sizes = [shape_of_value(value)[axis] for axis in axes]
    if DYNAMIC in sizes or len(set(axes)) != len(axes) or any(part is None or None in part.flat for part in known):
        return None
    parts = [[int(number) for number in part.flat] for part in known if part is not None]
    if any(len(part) != len(axes) for part in parts):
        return None
    runs = [run_of(*bounds) for bounds in zip(*parts, sizes, strict=True)]
    return runs if all(runs) else None


def split(builder: GraphBuilder, value: SSAValue, sizes: Sequence[int] | int, axis: int, name: str) -> list[SSAValue]:
    """Add the parts of a tensor along an axis of static size.

    Args:
        builder: where to.
        value: the tensor.
        sizes: of each part, one of them -1 for what is left; or the number of equal parts, the last of which may be
            smaller.
        axis: the axis.
        name: of the results.
    """
    (axis,) = normal_axes([axis], len(shape_of_value(value)))
    whole = shape_of_value(value)[axis]
    if whole == DYNAMIC:
        raise ModelError(f"axis {axis} of {value.type} is split, and its size must be known before the model runs")
    if isinstance(sizes, int):
        most = -(-whole // sizes)
        sizes = [min(most, max(whole - most * part, 0)) for part in range(sizes)]
    if list(sizes).count(-1) == 1:
        sizes = [whole - sum(sizes) - 1 if size == -1 else size for size in sizes]
    if any(size < 0 for size in sizes) or sum(sizes) != whole:
        raise ModelError(f"parts of {list(sizes)} do not make up axis {axis} of size {whole}")
    parts: list[SSAValue] = []
    start = 0
    for size in sizes:
        first, last = (numbers(builder, [place], f"{name}.at") for place in (start, start + size))
        parts.append(strided_slice(builder, value, (first, last, None), [axis], name))
        start += size
    return parts


def broadcast(builder: GraphBuilder, value: SSAValue, sizes: SSAValue, name: str, *, both: bool = False) -> SSAValue:
    """Add what repeats elements to the sizes of a vector; with `both`, sizes of 1 in it give way."""
    return builder.shape_operator(BroadcastOp, [value, sizes], name, both=both)


def pad(builder: GraphBuilder, values: Sequence[SSAValue], axes: Sequence[int], mode: str, name: str) -> SSAValue:
    """Add elements before and after those along axes.

    Args:
        builder: where to.
        values: the tensor, vectors of how many come before and after, and the scalar that they are.
        axes: the axes.
        mode: one of `PADDINGS`.
        name: of the result.
    """
    rank = len(shape_of_value(values[0]))
    places = tuple(normal_axes([axis], rank)[0] for axis in axes)
    return builder.shape_operator(PadOp, values, name, mode=mode, axes=places)


def reduce(
    builder: GraphBuilder, function: str, value: SSAValue, axes: Sequence[int] | None, name: str, *, keep: bool
) -> SSAValue:
    """Add a reduction along axes, along all where they are None."""
    rank = len(shape_of_value(value))
    axes = normal_axes(range(rank) if axes is None else axes, rank)
    return builder.shape_operator(ReduceOp, [value], name, function=function, axes=axes, keep=keep)


def cumsum(builder: GraphBuilder, value: SSAValue, axis: int, name: str, *, exclusive: bool, reverse: bool) -> SSAValue:
    """Add running sums along an axis."""
    (axis,) = normal_axes([axis], len(shape_of_value(value)))
    return builder.shape_operator(CumsumOp, [value], name, axis=axis, exclusive=exclusive, reverse=reverse)


def integers(builder: GraphBuilder, bounds: Sequence[SSAValue], name: str) -> SSAValue:
    """Add the integers from a start to an end at a step."""
    return builder.shape_operator(RangeOp, [scalar(builder, bound, name) for bound in bounds], name)


def shape_of(builder: GraphBuilder, value: SSAValue, start: int, end: int, name: str) -> SSAValue:
    """Add the sizes of dimensions as a vector of 64 bits."""
    return builder.shape_operator(ShapeOfOp, [value], name, INT64, start=start, end=end)


def element_count(
    builder: GraphBuilder, value: SSAValue, name: str, start: int = 0, end: int | None = None, *, keep: bool = False
) -> SSAValue:
    """Add the number of elements of some dimensions, of all where they are not given."""
    rank = len(shape_of_value(value))
    sizes = shape_of(builder, value, start, rank if end is None else end, name)
    return reduce(builder, "product", sizes, [0], name, keep=keep)


def put(builder: GraphBuilder, vector: SSAValue, places: Sequence[int], values: SSAValue, name: str) -> SSAValue:
    """Add a short vector with other elements in some places, as exporters change one size of a shape.

    Raises:
        ModelError: the vector is longer than `MOST_PLACES`, or the places or the number of values do not fit it.
    """
    (size,) = shape_of_value(vector) if len(shape_of_value(vector)) == 1 else (DYNAMIC,)
    if not 0 <= size <= MOST_PLACES:
        raise ModelError(f"elements are put into vectors of at most {MOST_PLACES} elements, got {vector.type}")
    if shape_of_value(values) != (len(places),) or not all(-size <= place < size for place in places):
        raise ModelError(f"{values.type} are not put into places {list(places)} of {size} elements")
    last = {place % size: number for number, place in enumerate(places)}
    parts = [(values, last[place]) if place in last else (vector, place) for place in range(size)]
    if not parts:
        return vector
    elements: list[SSAValue] = []
    for part, place in parts:
        first, end = (numbers(builder, [number], name) for number in (place, place + 1))
        elements.append(strided_slice(builder, part, (first, end, None), [0], name))
    return builder.concat(elements, 0, name)


def flatten(builder: GraphBuilder, value: SSAValue, axis: int, name: str) -> SSAValue:
    """Add a reshape to two dimensions: those before an axis, and the others."""
    rank = len(shape_of_value(value))
    if not -rank <= axis <= rank:
        raise ModelError(f"axis {axis} is out of range [{-rank}, {rank}] for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    before = element_count(builder, value, name, 0, axis, keep=True)
    sizes = builder.concat([before, element_count(builder, value, name, axis, keep=True)], 0, name)
    return builder.shape_operator(ReshapeOp, [value, sizes], name, allow_zero=True)


def roll(builder: GraphBuilder, value: SSAValue, shift: int, axis: int, name: str) -> SSAValue:
    """Add elements moved along an axis of static size, the last ones to the front."""
    (axis,) = normal_axes([axis], len(shape_of_value(value)))
    size = shape_of_value(value)[axis]
    if size == DYNAMIC:
        raise ModelError(f"axis {axis} of {value.type} is rolled, and its size must be known before the model runs")
    if size == 0 or shift % size == 0:
        return value
    first, last = split(builder, value, [size - shift % size, shift % size], axis, name)
    return builder.concat([last, first], axis, name)


def tile(builder: GraphBuilder, value: SSAValue, repeats: Sequence[int], name: str) -> SSAValue:
    """Add a tensor repeated along its dimensions, by numbers that are known."""
    rank = len(shape_of_value(value))
    if len(repeats) < rank:
        repeats = [1] * (rank - len(repeats)) + list(repeats)
    if any(number < 0 for number in repeats):
        raise ModelError(f"repeats {list(repeats)} are not 0 or more")
    added = len(repeats) - rank
    value = builder.unsqueeze(value, range(added), name) if added else value
    if not repeats:
        return value
    paired = builder.unsqueeze(value, range(0, 2 * len(repeats), 2), name)
    ones = [size for number in repeats for size in (number, 1)]
    wide = broadcast(builder, paired, numbers(builder, ones, f"{name}.repeats"), name, both=True)
    sizes = [_times(builder, value, axis, number, name) for axis, number in enumerate(repeats)]
    return builder.shape_operator(ReshapeOp, [wide, builder.concat(sizes, 0, name)], name, allow_zero=True)


def _times(builder: GraphBuilder, value: SSAValue, axis: int, number: int, name: str) -> SSAValue:
    """Add the size of one dimension, times a number, as a vector of one."""
    size = shape_of(builder, value, axis, axis + 1, name)
    return elementwise(builder, "multiply", [size, numbers(builder, [number], f"{name}.times")], name)
