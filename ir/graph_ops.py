"""The `graph` dialect: what stands between the gathers of a model. Tensors only.

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

Small integer constants are `arith.constant dense<...>`. Axes are non-negative throughout. Every operation prints as
`graph.NAME operands fields {attributes} : operand types -> result type`, where a field is its name and its value.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .element_types import element_type_name
from .errors import ModelError
from .glue import concat, reshape, reshaped_sizes, slice_axis
from .semantics import DYNAMIC, Shape, shapes_agree
from .types import numpy_dtype

Fields = Mapping[str, Any]
Known = Callable[[SSAValue], np.ndarray | None]
"""The elements of an integer tensor as far as they are known: an object array in which None is not known."""

CASTABLE = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
CASTABLE += ("float16", "bfloat16", "float32", "float64")


class GraphOp(IRDLOperation, ABC):
    """What every operation has: tensors in, one tensor out, and fields that are integers, lists of them, or flags."""

    OPERANDS: ClassVar[int | None] = 1
    """How many operands; None for one or more."""
    FIELDS: ClassVar[Mapping[str, type]] = {}
    """The fields in the order in which they print: int, tuple (of ints), bool (a flag) or str."""
    KEEPS_ELEMENT_TYPE: ClassVar[bool] = True

    inputs = var_operand_def(base(TensorType))
    result = result_def(base(TensorType))

    def __init__(self, inputs: Sequence[SSAValue], result_type: TensorType, **fields: Any):
        properties = {name: _attribute(fields[name]) for name in self.FIELDS}
        super().__init__(operands=[list(inputs)], result_types=[result_type], properties=properties)

    @classmethod
    def inferred(
        cls, inputs: Sequence[SSAValue], known: Known, element_type: Attribute | None = None, **fields: Any
    ) -> Self:
        """Return the operation with the type of its result worked out.

        Args:
            inputs: the operands.
            known: tells the elements of operands that are known.
            element_type: of the result, where it is not that of the first operand.
            fields: the fields by name.

        Raises:
            ModelError: the operands and the fields do not fit.
        """
        shape = cls.infer_shape(inputs, fields, known)
        element = tensor_type(inputs[0]).element_type if element_type is None else element_type
        return cls(inputs, TensorType(element, shape), **fields)

    @classmethod
    @abstractmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        """Return the sizes of the result; raises ModelError."""

    @classmethod
    @abstractmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the result for the operands' arrays, a view where that is enough; raises ModelError.

        Args:
            fields: the fields by name.
            dtype: of the result.
            arrays: the operands.
        """

    def fields(self) -> dict[str, Any]:
        """Return the fields as Python values."""
        return {name: _value(self.properties.get(name)) for name in self.FIELDS}

    def verify_(self) -> None:
        count = len(self.inputs)
        if count != self.OPERANDS if self.OPERANDS is not None else count == 0:
            raise VerifyException(f"{self.name}: expected {self.OPERANDS or 'one or more'} operands, got {count}")
        try:
            expected = self.infer_shape(self.inputs, self.fields(), no_elements)
        except ModelError as error:
            raise VerifyException(f"{self.name}: {error}") from None
        got = tensor_type(self.result)
        if not shapes_agree(expected, got.get_shape()):
            raise VerifyException(f"{self.name}: expected a result of shape {expected}, got {got.get_shape()}")
        if self.KEEPS_ELEMENT_TYPE and got.element_type != tensor_type(self.inputs[0]).element_type:
            raise VerifyException(
                f"{self.name}: expected element type {tensor_type(self.inputs[0]).element_type} as the operand has, "
                f"got {got.element_type}"
            )

    def print(self, printer: Printer) -> None:
        if self.inputs:
            printer.print_string(" ")
            printer.print_list(self.inputs, printer.print_ssa_value)
        for name, value in self.fields().items():
            if isinstance(value, str):
                printer.print_string(f" {name} ")
                printer.print_string_literal(value)
            elif value is not False:
                printer.print_string(f" {name}{'' if value is True else f' {_text(value)}'}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if self.inputs:
            printer.print_list(self.operand_types, printer.print_attribute)
            printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [] if cls.OPERANDS == 0 else [parser.parse_unresolved_operand()]
        while operands and parser.parse_optional_punctuation(","):
            operands.append(parser.parse_unresolved_operand())
        fields = {name: _parse_field(parser, name, kind) for name, kind in cls.FIELDS.items()}
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types: list[Attribute] = []
        if operands:
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            parser.parse_punctuation("->")
        result_at = parser.pos
        result_type = parser.parse_type()
        if not isinstance(result_type, TensorType):
            parser.raise_error(f"expected a tensor type for the result, got {result_type}", result_at, parser.pos)
        op = cls(parser.resolve_operands(operands, types, position), result_type, **fields)
        op.attributes |= attributes
        return op


def tensor_type(value: SSAValue) -> TensorType:
    """Return the type of a value that is a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


def shape_of_value(value: SSAValue) -> Shape:
    """Return the sizes of a tensor, `DYNAMIC` where they are not known."""
    return tuple(tensor_type(value).get_shape())


def no_elements(value: SSAValue) -> None:
    """Know the elements of no value."""


def _attribute(value: Any) -> Attribute | None:
    if isinstance(value, bool):
        return UnitAttr() if value else None
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return StringAttr(value) if isinstance(value, str) else DenseArrayBase.from_list(i64, list(value))


def _value(attribute: Attribute | None) -> Any:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    return attribute.data if isinstance(attribute, StringAttr) else attribute is not None


def _text(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else f"[{', '.join(map(str, value))}]"


def _parse_field(parser: Parser, name: str, kind: type) -> Any:
    if kind is bool:
        return parser.parse_optional_keyword(name) is not None
    parser.parse_keyword(name)
    if kind is int:
        return parser.parse_integer(allow_boolean=False)
    if kind is str:
        return parser.parse_str_literal()
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
    )


def _check_axis(axis: int, rank: int, what: str = "axis") -> None:
    if not 0 <= axis < rank:
        raise ModelError(f"{what} {axis} is out of range [0, {rank - 1}] for rank {rank}")


@irdl_op_definition
class WeightOp(GraphOp):
    """A constant whose values lie in a table beside the module.

    ```
    %w = graph.weight name "embedding.weight" : tensor<1000x64xf32>
    ```
    """

    name = "graph.weight"
    OPERANDS: ClassVar = 0
    FIELDS: ClassVar = {"name": str}
    KEEPS_ELEMENT_TYPE: ClassVar = False

    weight = prop_def(StringAttr, prop_name="name")
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if DYNAMIC in shape_of_value(self.result):
            raise VerifyException(f"{self.name}: expected a result of static sizes, got {self.result.type}")

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        raise NotImplementedError  # its type is given

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        raise NotImplementedError  # its values are looked up


@irdl_op_definition
class CastOp(GraphOp):
    """Elements of another type, converted as NumPy's `astype` does: floats to integers towards zero.

    ```
    %y = graph.cast %x : tensor<?xi32> -> tensor<?xi64>
    ```
    """

    name = "graph.cast"
    KEEPS_ELEMENT_TYPE: ClassVar = False

    traits = traits_def(Pure())

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
    FIELDS: ClassVar = {"start": int, "end": int}
    KEEPS_ELEMENT_TYPE: ClassVar = False

    start = prop_def(IntegerAttr)
    end = prop_def(IntegerAttr)
    traits = traits_def(Pure())

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
    FIELDS: ClassVar = {"allow_zero": bool}

    allow_zero = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

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
        return reshape(arrays[0], [int(size) for size in arrays[1]], allow_zero=fields["allow_zero"])


class _AxesOp(GraphOp, ABC):
    FIELDS: ClassVar = {"axes": tuple}

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
    traits = traits_def(Pure())

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
    traits = traits_def(Pure())

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
    FIELDS: ClassVar = {"axis": int}

    axis = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        shapes, axis = [shape_of_value(value) for value in inputs], fields["axis"]
        _check_axis(axis, len(shapes[0]))
        if len({tensor_type(value).element_type for value in inputs}) > 1:
            raise ModelError(f"element types differ: {', '.join(str(tensor_type(value)) for value in inputs)}")
        first = shapes[0]
        result = list(first)
        for shape in shapes[1:]:
            if not shapes_agree(first[:axis] + first[axis + 1 :], shape[:axis] + shape[axis + 1 :]):
                raise ModelError(f"shapes {first} and {shape} differ off axis {axis}")
            for dim, size in enumerate(shape):
                if dim == axis:
                    result[dim] = DYNAMIC if DYNAMIC in (size, result[dim]) else size + result[dim]
                elif result[dim] == DYNAMIC:
                    result[dim] = size
        return tuple(result)

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return concat(arrays, fields["axis"])


@irdl_op_definition
class SliceOp(GraphOp):
    """`count` positions of an axis of static size, from `start` on, at steps of `step`, which may be negative.

    ```
    %y = graph.slice %x axis 0 start 4 step -2 count 3 : tensor<5x4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "graph.slice"
    FIELDS: ClassVar = {"axis": int, "start": int, "step": int, "count": int}

    axis = prop_def(IntegerAttr)
    start = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    traits = traits_def(Pure())

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
        return slice_axis(arrays[0], **fields)


Graph = Dialect("graph", [WeightOp, CastOp, ShapeOfOp, ReshapeOp, SqueezeOp, UnsqueezeOp, ConcatOp, SliceOp], [])
