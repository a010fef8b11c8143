"""The base class of the operations of the `graph` dialect: form, text and checks."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, base, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from ..errors import ModelError
from ..semantics import Shape, shapes_agree

Fields = Mapping[str, Any]
# The elements of an integer tensor as far as they are known: an object array in which None is not known.
Known = Callable[[SSAValue], np.ndarray | None]


class GraphOp(IRDLOperation):
    """What every operation has: tensors in, one tensor out, and fields that are integers, lists of them, or flags."""

    # How many operands; None for one or more.
    OPERANDS: ClassVar[int | None] = 1
    KEEPS_ELEMENT_TYPE: ClassVar[bool] = True

    inputs = var_operand_def(base(TensorType))
    result = result_def(base(TensorType))
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], result_type: TensorType, **fields: Any):
        given = {name: _attribute(fields[name]) for name in self.field_kinds()}
        properties = {name: value for name, value in given.items() if value is not None}
        Operation.__init__(self, operands=inputs, result_types=[result_type], properties=properties)

    @classmethod
    def inferred(
        cls, inputs: Sequence[SSAValue], known: Known, element_type: Attribute | None = None, **fields: Any
    ) -> Self:
        """Return the operation with the sizes of its result worked out; raises ModelError where they do not fit.

        `element_type` is given where it is not that of the first operand.
        """
        shape = cls.infer_shape(inputs, fields, known)
        element = tensor_type(inputs[0]).element_type if element_type is None else element_type
        return cls(inputs, tensor_of(element, shape), **fields)

    @classmethod
    def infer_shape(cls, inputs: Sequence[SSAValue], fields: Fields, known: Known) -> Shape:
        """Return the sizes of the result; raises ModelError."""
        raise NotImplementedError

    @classmethod
    def compute(cls, fields: Fields, dtype: np.dtype, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the result, of that dtype, for the operands' arrays, a view where that will do; raises ModelError."""
        raise NotImplementedError

    @classmethod
    def result_sizes(cls, fields: Fields, arrays: Sequence[np.ndarray]) -> Shape | None:
        """Return the sizes of the result for operands' arrays; None where it is about as large as they are."""
        return None

    def carried(self, operands: Sequence[np.ndarray]) -> np.ndarray | None:
        """Return the elements of the result as far as they are known, for those of the operands; None where none are.

        They are ints and None in object arrays.
        """
        return type(self).compute(self.fields(), np.dtype(object), operands)

    @classmethod
    @cache
    def field_kinds(cls) -> Mapping[str, type[Attribute]]:
        """Return the fields' names, in the order in which they print, and the kinds of attributes that hold them."""
        properties = cls.get_irdl_definition().properties
        return {name: next(iter(definition.constr.get_bases() or ())) for name, definition in properties.items()}

    def fields(self) -> dict[str, Any]:
        """Return the fields as Python values."""
        return {name: _value(self.properties.get(name)) for name in self.field_kinds()}

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
        fields = {name: _parse_field(parser, name, kind) for name, kind in cls.field_kinds().items()}
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


@lru_cache
def tensor_of(element_type: Attribute, shape: Shape) -> TensorType:
    """Return a type of tensors; the nodes of a model share theirs."""
    return TensorType(element_type, shape)


def tensor_type(value: SSAValue) -> TensorType:
    """Return the type of a value that is a tensor."""
    kind = value.type
    assert isinstance(kind, TensorType)
    return kind


def shape_of_value(value: SSAValue) -> Shape:
    """Return the sizes of a tensor, `DYNAMIC` where they are not known."""
    return tuple([size.data for size in tensor_type(value).shape.data])  # half the time of `get_shape`


def no_elements(value: SSAValue) -> None:
    """Know the elements of no value."""


@lru_cache(typed=True)
def _attribute(value: Any) -> Attribute | None:
    if isinstance(value, bool):
        return UnitAttr() if value else None
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return StringAttr(value) if isinstance(value, str) else DenseArrayBase.from_list(i64, value)


def _value(attribute: Attribute | None) -> Any:
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(attribute.get_values())
    return attribute.data if isinstance(attribute, StringAttr) else attribute is not None


def _text(value: int | tuple[int, ...]) -> str:
    return str(value) if isinstance(value, int) else f"[{', '.join(map(str, value))}]"


def _parse_field(parser: Parser, name: str, kind: type[Attribute]) -> Any:
    if kind is UnitAttr:
        return parser.parse_optional_keyword(name) is not None
    parser.parse_keyword(name)
    if kind is IntegerAttr:
        return parser.parse_integer(allow_boolean=False)
    if kind is StringAttr:  # xDSL reads a literal that is not ASCII as bytes
        literal = parser.parse_optional_bytes_literal()
        return parser.parse_str_literal() if literal is None else literal.decode()
    return tuple(
        parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False))
    )
