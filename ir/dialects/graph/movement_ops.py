"""Operations that move elements: `graph.transpose`, `graph.broadcast`, `graph.strided_slice` and `graph.pad`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def

from ...errors import ModelError
from ...semantics import DYNAMIC, Shape
from ..graph_op import Fields, Known, tensor_type
from .elementwise_ops import INTEGERS, element_dtypes
from .sized_op import Elements, SizedOp, broadcast_shapes, run_of, shown

PADDINGS = ("constant", "edge", "reflect", "symmetric", "wrap")


def _check_vectors(inputs: Sequence[SSAValue], what: str, length: int | None = None) -> None:
    """Check that operands are vectors of integers, of that length."""
    for value, dtype in zip(inputs, element_dtypes(inputs), strict=True):
        shape = tensor_type(value).get_shape()
        if dtype.name not in INTEGERS or len(shape) != 1 or (length is not None and shape[0] not in (length, DYNAMIC)):
            size = "" if length is None else f" of length {length}"
            raise ModelError(f"{what} must be a vector of integers{size}, got {value.type}")


def _numbers(array: np.ndarray | None, count: int) -> list[int | None]:
    return [None] * count if array is None else [None if number is None else int(number) for number in array]


def _check_axes(axes: Sequence[int], rank: int) -> None:
    if len({*axes}) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise ModelError(f"axes {list(axes)} are no distinct dimensions of rank {rank}")


@irdl_op_definition
class TransposeOp(SizedOp):
    """Dimensions in another order: the result's dimension i is the operand's `order[i]`.

    ```
    %y = graph.transpose %x order [0, 2, 1] : tensor<?x4x5xf32> -> tensor<?x5x4xf32>
    ```
    """

    name = "graph.transpose"

    order = prop_def(DenseArrayBase)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        (shape,) = shapes
        if sorted(fields["order"]) != list(range(len(shape))):
            raise ModelError(f"order {list(fields['order'])} is none of the {len(shape)} dimensions of {shown(shape)}")
        return tuple(shape[axis] for axis in fields["order"])

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        return arrays[0].transpose(fields["order"])


@irdl_op_definition
class BroadcastOp(SizedOp):
    """The first operand repeated to the sizes that the second gives, as NumPy broadcasts.

    With `both`, sizes of 1 in the second operand give way to the first operand's, as in ONNX's Expand.

    ```
    %y = graph.broadcast %x, %sizes : tensor<1x8xf32>, tensor<3xi64> -> tensor<?x?x8xf32>
    ```
    """

    name = "graph.broadcast"
    OPERANDS: ClassVar = 2
    CONTROLS: ClassVar = (1,)

    both = opt_prop_def(UnitAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        _check_vectors(inputs[1:], "the sizes")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        shape, (rank,) = shapes
        if rank == DYNAMIC:
            raise ModelError("the rank of the result is not known: the length of the sizes is dynamic")
        given = _numbers(elements(1), rank)
        if any(number is not None and number < 0 for number in given):
            raise ModelError(f"sizes {['?' if number is None else number for number in given]} are 0 or more")
        numbers = [DYNAMIC if number is None else number for number in given]
        result = broadcast_shapes([shape, tuple(numbers)])
        is_larger = len(result) > rank or any(1 == number != size for number, size in zip(numbers, result, strict=True))
        if not fields["both"] and is_larger:
            raise ModelError(f"shape {shown(shape)} does not broadcast to {shown(numbers)}")
        return result

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        return np.broadcast_to(arrays[0], shape)


@irdl_op_definition
class StridedSliceOp(SizedOp):
    """Positions along axes: from starts to ends, which are not included, at steps; each is a vector, an entry an axis.

    Negative starts and ends count from the end, and what is outside is clamped.

    ```
    %y = graph.strided_slice %x, %starts, %ends, %steps axes [1]
        : tensor<?x?xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64> -> tensor<?x?xf32>
    ```
    """

    name = "graph.strided_slice"
    OPERANDS: ClassVar = 4
    CONTROLS: ClassVar = (1, 2, 3)

    axes = prop_def(DenseArrayBase)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        _check_vectors(inputs[1:], "each of starts, ends and steps", len(fields["axes"]))
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        axes, sizes = fields["axes"], list(shapes[0])
        _check_axes(axes, len(sizes))
        parts = [_numbers(elements(place), len(axes)) for place in (1, 2, 3)]
        for axis, start, end, step in zip(axes, *parts, strict=True):
            is_known = sizes[axis] != DYNAMIC and start is not None and end is not None and step is not None
            sizes[axis] = len(run_of(start, end, step, sizes[axis])) if is_known else DYNAMIC  # type: ignore[arg-type]
        return tuple(sizes)

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        data, places = arrays[0], [slice(None)] * arrays[0].ndim
        for axis, start, end, step in zip(fields["axes"], *arrays[1:], strict=True):
            run = run_of(int(start), int(end), int(step), data.shape[axis])
            stop = run.stop if run.stop >= 0 else None
            places[axis] = slice(run.start, stop, run.step) if run else slice(0)
        return data[tuple(places)]


@irdl_op_definition
class PadOp(SizedOp):
    """Elements put before and after those along axes; counts below 0 leave elements out.

    The second and third operands say how many, an entry an axis; the fourth is what they are where `mode` is
    "constant", a scalar. "edge", "reflect", "symmetric" and "wrap" are those of NumPy.

    ```
    %y = graph.pad %x, %before, %after, %zero mode "constant" axes [1]
        : tensor<?x4xf32>, tensor<1xi64>, tensor<1xi64>, tensor<f32> -> tensor<?x6xf32>
    ```
    """

    name = "graph.pad"
    OPERANDS: ClassVar = 4
    CONTROLS: ClassVar = (1, 2)

    mode = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        _check_vectors(inputs[1:3], "what is padded", len(fields["axes"]))
        data, value = tensor_type(inputs[0]), tensor_type(inputs[3])
        if value.get_shape() or value.element_type != data.element_type:
            raise ModelError(f"the value must be a scalar of {data.element_type}, got {value}")
        return super().infer_shape(inputs, fields, known)

    @classmethod
    def sizes(cls, fields: Fields, shapes: Sequence[Shape], elements: Elements) -> Shape:
        axes, sizes, mode = fields["axes"], list(shapes[0]), fields["mode"]
        _check_axes(axes, len(sizes))
        if mode not in PADDINGS:
            raise ModelError(f"mode {mode!r} is none of {', '.join(PADDINGS)}")
        counts = [_numbers(elements(place), len(axes)) for place in (1, 2)]
        for axis, before, after in zip(axes, *counts, strict=True):
            if sizes[axis] == DYNAMIC or before is None or after is None:
                sizes[axis] = DYNAMIC
                continue
            most = {"constant": 2**62, "edge": 2**62 * min(sizes[axis], 1), "reflect": max(sizes[axis] - 1, 0)}
            least = -sizes[axis] if mode == "constant" else 0
            if max(before, after) > most.get(mode, sizes[axis]) or min(before, after, before + after) < least:
                counted = f"{before} elements before and {after} after"
                raise ModelError(f"{counted} an axis of size {sizes[axis]} are no padding of mode {mode!r}")
            sizes[axis] += before + after
        return tuple(sizes)

    @classmethod
    def evaluate(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray], shape: Shape) -> np.ndarray:
        data, (before, after) = arrays[0], (arrays[1].tolist(), arrays[2].tolist())
        inside, widths = [slice(None)] * data.ndim, [(0, 0)] * data.ndim
        for axis, first, last in zip(fields["axes"], before, after, strict=True):
            inside[axis] = slice(max(-first, 0), data.shape[axis] + min(last, 0))
            widths[axis] = max(first, 0), max(last, 0)
        data = data[tuple(inside)]
        if fields["mode"] != "constant":
            modes: dict[str, Any] = {"mode": fields["mode"]}
            return np.pad(data, widths, **modes)
        result = np.empty(shape, dtype)
        result[...] = arrays[3]
        result[tuple(slice(first, first + size) for (first, _), size in zip(widths, data.shape, strict=True))] = data
        return result
