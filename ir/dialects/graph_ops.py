"""The `graph` dialect: the shape operators between the gathers of a model. Tensors only.

| op                | what it says                                                                |
|-------------------|-----------------------------------------------------------------------------|
| `graph.weight`    | a constant by name; its values lie in a table beside the module             |
| `graph.cast`      | elements of another type                                                    |
| `graph.shape_of`  | the sizes of a tensor, or some of them, as a vector of integers             |
| `graph.reshape`   | the same elements under sizes that a vector gives                           |
| `graph.squeeze`   | dimensions of size 1 left out                                               |
| `graph.unsqueeze` | dimensions of size 1 put in                                                 |
| `graph.concat`    | tensors one after the other along an axis                                   |
| `graph.slice`     | positions at regular steps along an axis                                    |

In the room `graph`: `graph.elementwise`, `graph.reduce`, `graph.cumsum` and `graph.range` compute, and so do
`graph.bags` and `graph.count_less` for bags of indices; `graph.transpose`, `graph.broadcast`, `graph.strided_slice`
and `graph.pad` move.

Small integer constants are `arith.constant dense<...>`. Axes are non-negative throughout. Every operation prints as
`graph.NAME operands fields {attributes} : operand types -> result type`, where a field is its name and its value.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, UnitAttr
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from ..element_types import element_type_name
from ..errors import ModelError
from ..semantics import DYNAMIC, Shape, shapes_agree
from .graph.bag_ops import BagsOp, CountLessOp
from .graph.elementwise_ops import CumsumOp, ElementwiseOp, RangeOp, ReduceOp
from .graph.movement_ops import BroadcastOp, PadOp, StridedSliceOp, TransposeOp
from .graph_op import Fields, GraphOp, Known, shape_of_value, tensor_type
from .shape_operators import reshaped_sizes
from .types import numpy_dtype

CASTABLE = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
CASTABLE += ("float16", "bfloat16", "float32", "float64")


def _check_axis(axis: int, rank: int, what: str = "axis") -> None:
    if not 0 <= axis < rank:
        raise ModelError(f"{what} {axis} is out of range [0, {rank - 1}] for rank {rank}")


@irdl_op_definition
class WeightOp(GraphOp):
    """A constant whose values lie in a table beside the module; its type is given, and its values are looked up.

    ```
    %w = graph.weight name "embedding.weight" : tensor<1000x64xf32>
    ```
    """

    name = "graph.weight"
    OPERANDS: ClassVar = 0
    KEEPS_ELEMENT_TYPE: ClassVar = False

    weight = prop_def(StringAttr, prop_name="name")

    def verify_(self) -> None:
        if DYNAMIC in shape_of_value(self.result):
            raise VerifyException(f"{self.name}: expected a result of static sizes, got {self.result.type}")


@irdl_op_definition
class CastOp(GraphOp):
    """Elements of another type, converted as NumPy's `astype` does: floats to integers towards zero.

    ```
    %y = graph.cast %x : tensor<?xi32> -> tensor<?xi64>
    ```
    """

    name = "graph.cast"
    KEEPS_ELEMENT_TYPE: ClassVar = False

    def verify_(self) -> None:
        super().verify_()
        for value in (*self.inputs, self.result):
            check_castable(numpy_dtype(tensor_type(value).element_type), VerifyException, f"{self.name}: ")

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        return shape_of_value(inputs[0])

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        with np.errstate(invalid="ignore", over="ignore"):
            return arrays[0].astype(dtype, copy=False)


def check_castable(dtype: np.dtype, error: type[Exception] = ModelError, where: str = "") -> None:
    """Check that `graph.cast` converts to and from a dtype; raises `error`."""
    if dtype.name not in CASTABLE:
        raise error(f"{where}elements of type {element_type_name(dtype)} are not converted; {', '.join(CASTABLE)} are")


@irdl_op_definition
class ShapeOfOp(GraphOp):
    """The sizes of dimensions `start` to `end` (not included), as 32- or 64-bit integers.

    ```
    %s = graph.shape_of %x start 0 end 2 : tensor<?x4x5xf32> -> tensor<2xi64>
    ```
    """

    name = "graph.shape_of"
    KEEPS_ELEMENT_TYPE: ClassVar = False

    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)

    def verify_(self) -> None:
        super().verify_()
        if tensor_type(self.result).element_type not in (IntegerType(32), IntegerType(64)):
            raise VerifyException(f"{self.name}: expected a result of i32 or i64, got {self.result.type}")

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        rank = len(shape_of_value(inputs[0]))
        if not 0 <= fields["start"] <= fields["end"] <= rank:
            raise ModelError(f"start {fields['start']} and end {fields['end']} are no range in [0, {rank}]")
        return (fields["end"] - fields["start"],)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.array(arrays[0].shape[fields["start"] : fields["end"]], dtype)


@irdl_op_definition
class ReshapeOp(GraphOp):
    """The same elements under the sizes that the second operand gives.

    One size may be -1 and is what is left. A size of 0 is the operand's own, unless `allow_zero` says that it is 0.

    ```
    %y = graph.reshape %x, %sizes : tensor<2x6xf32>, tensor<3xi64> -> tensor<2x3x2xf32>
    ```
    """

    name = "graph.reshape"
    OPERANDS: ClassVar = 2

    allow_zero = opt_prop_def(UnitAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        sizes = tensor_type(inputs[1])
        if not isinstance(sizes.element_type, IntegerType) or len(sizes.get_shape()) != 1:
            raise ModelError(f"the new shape must be a vector of integers, got {sizes}")
        wanted = known(inputs[1])
        if wanted is not None:
            return reshaped_sizes(shape_of_value(inputs[0]), list(wanted), allow_zero=fields["allow_zero"])
        if (rank := sizes.get_shape()[0]) == DYNAMIC:
            raise ModelError("the rank of the result is not known: the length of the new shape is dynamic")
        return (DYNAMIC,) * rank

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        wanted = [int(size) for size in arrays[1]]
        return arrays[0].reshape(reshaped_sizes(arrays[0].shape, wanted, allow_zero=fields["allow_zero"]))


class _AxesOp(GraphOp):
    axes = prop_def(DenseArrayBase)

    @staticmethod
    def check_axes(axes: Sequence[int], rank: int) -> None:
        """Check that axes are distinct dimensions of `rank`."""
        for axis in axes:
            _check_axis(axis, rank)
        if len(set(axes)) != len(axes):
            raise ModelError(f"axes {list(axes)} name a dimension twice")


@irdl_op_definition
class SqueezeOp(_AxesOp):
    """Dimensions of size 1 left out.

    ```
    %y = graph.squeeze %x axes [0, 2] : tensor<1x5x1xf32> -> tensor<5xf32>
    ```
    """

    name = "graph.squeeze"

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        shape = shape_of_value(inputs[0])
        cls.check_axes(fields["axes"], len(shape))
        for axis in fields["axes"]:
            if shape[axis] not in (1, DYNAMIC):
                raise ModelError(f"axis {axis} has size {shape[axis]}; only a dimension of size 1 can be left out")
        return tuple(size for axis, size in enumerate(shape) if axis not in fields["axes"])

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        for axis in fields["axes"]:
            if (size := arrays[0].shape[axis]) != 1:
                raise ModelError(f"axis {axis} has size {size}; only a dimension of size 1 can be left out")
        return np.squeeze(arrays[0], tuple(fields["axes"]))


@irdl_op_definition
class UnsqueezeOp(_AxesOp):
    """Dimensions of size 1 put in; axes count in the result.

    ```
    %y = graph.unsqueeze %x axes [0, 2] : tensor<5xf32> -> tensor<1x5x1xf32>
    ```
    """

    name = "graph.unsqueeze"

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        shape = list(shape_of_value(inputs[0]))
        cls.check_axes(fields["axes"], len(shape) + len(fields["axes"]))
        for axis in sorted(fields["axes"]):
            shape.insert(axis, 1)
        return tuple(shape)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.expand_dims(arrays[0], tuple(fields["axes"]))


@irdl_op_definition
class ConcatOp(GraphOp):
    """Tensors one after the other along an axis.

    ```
    %y = graph.concat %a, %b axis 0 : tensor<2xi64>, tensor<?xi64> -> tensor<?xi64>
    ```
    """

    name = "graph.concat"
    OPERANDS: ClassVar = None

    axis = prop_def(IntegerAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        shapes, axis = [shape_of_value(value) for value in inputs], fields["axis"]
        _check_axis(axis, len(shapes[0]))
        if len({tensor_type(value).element_type for value in inputs}) > 1:
            raise ModelError(f"element types differ: {', '.join(str(tensor_type(value)) for value in inputs)}")
        first = shapes[0]
        for shape in shapes[1:]:
            others = first[:axis] + first[axis + 1 :], shape[:axis] + shape[axis + 1 :]
            if len(first) != len(shape) or not shapes_agree(*others):
                raise ModelError(f"shapes {first} and {shape} differ off axis {axis}")
        result = [max(sizes) for sizes in zip(*shapes, strict=True)]  # DYNAMIC is less than any size
        joined = [shape[axis] for shape in shapes]
        result[axis] = DYNAMIC if DYNAMIC in joined else sum(joined)
        return tuple(result)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        cls.check_shapes(fields, arrays)
        return np.concatenate(arrays, fields["axis"])

    @staticmethod
    def check_shapes(fields: Fields, arrays: Sequence[np.ndarray]) -> None:
        """Check that arrays differ along the axis alone; raises ModelError."""
        axis = fields["axis"]
        if len({(array.ndim, array.shape[:axis] + array.shape[axis + 1 :]) for array in arrays}) > 1:
            raise ModelError(f"shapes {' and '.join(str(array.shape) for array in arrays)} differ off axis {axis}")


@irdl_op_definition
class SliceOp(GraphOp):
    """`count` positions of an axis of static size, from `start` on, at steps of `step`, which may be negative.

    ```
    %y = graph.slice %x axis 0 start 4 step -2 count 3 : tensor<5x4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "graph.slice"

    axis = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        shape, axis, count = list(shape_of_value(inputs[0])), fields["axis"], fields["count"]
        _check_axis(axis, len(shape))
        last = fields["start"] + fields["step"] * (count - 1)
        if fields["step"] == 0 or count < 1 or not all(0 <= end < shape[axis] for end in (fields["start"], last)):
            size = "an unknown size" if shape[axis] == DYNAMIC else f"size {shape[axis]}"
            raise ModelError(f"{count} positions from {fields['start']} to {last} are not on an axis of {size}")
        shape[axis] = count
        return tuple(shape)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        stop = fields["start"] + fields["step"] * fields["count"]
        positions = slice(fields["start"], stop if stop >= 0 else None, fields["step"])
        return arrays[0][(slice(None),) * fields["axis"] + (positions,)]


COMPUTING = [ElementwiseOp, ReduceOp, CumsumOp, RangeOp, BagsOp, CountLessOp]
MOVING = [SqueezeOp, UnsqueezeOp, ConcatOp, SliceOp, TransposeOp, BroadcastOp, StridedSliceOp, PadOp]
Graph = Dialect("graph", [WeightOp, CastOp, ShapeOfOp, ReshapeOp, *MOVING, *COMPUTING], [])
