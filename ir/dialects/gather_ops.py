"""Levels 0 and 1 of the `gather` dialect: the operators.

All have a source, indices, and either a result (on tensors) or `into` (on memrefs), a bounds mode, and the name of the
operator version they came from. What they differ in is their attributes, their shapes, and the roles of dimensions.
The source of a gather is data; that of its gradient (`gradient_ops`) is the gradient of what the gather gave.
"""

from abc import ABC
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AnyOf,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..canonical import Role
from ..errors import InvalidGatherError
from ..operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ..semantics import Bounds, Shape, shapes_agree
from .attributes import I64, BoundsAttr, parse_bounds_word

AnyShaped = TensorType | MemRefType


@lru_cache
def _spec(kind: type[OperatorSpec], values: tuple[int, ...]) -> OperatorSpec:
    """Return an operator as a value; the nodes of a model share theirs."""
    return kind(*values)


@lru_cache
def _properties(
    names: tuple[str, ...], values: tuple[int, ...], bounds: Bounds, unsigned: bool, version: str | None
) -> Mapping[str, Attribute]:
    """Return the properties of an operator; the nodes of a model share theirs."""
    properties = {
        **{name: IntegerAttr(value, I64) for name, value in zip(names, values, strict=True)},
        "bounds": BoundsAttr(bounds),
        "unsigned": UnitAttr() if unsigned else None,
        "version": StringAttr(version) if version else None,
    }
    return {name: value for name, value in properties.items() if value is not None}


class OperatorOp(IRDLOperation, ABC):
    """What every gather operator has.

    `unsigned` says that the index type was unsigned before its signedness was erased; `version` names the operator
    it came from, such as "openvino.Gather-8".
    """

    SPEC: ClassVar[type[OperatorSpec]]
    # The integer attributes, in the order in which they print.
    INTEGERS: ClassVar[tuple[str, ...]]
    # Whether dimensions of data after the rank of indices are an element's own.
    IGNORES_TAIL: ClassVar[bool] = False
    # What messages call the source, and what has a slice for each index.
    SOURCE: ClassVar[str] = "data"
    SLICES: ClassVar[str] = "a result"

    source = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    indices = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    out = opt_operand_def(base(MemRefType))
    result = opt_result_def(base(TensorType))

    bounds = prop_def(BoundsAttr)
    unsigned = opt_prop_def(UnitAttr)
    version = opt_prop_def(StringAttr)

    def __init__(
        self,
        source: SSAValue,
        indices: SSAValue,
        out: SSAValue | None = None,
        *,
        bounds: Bounds,
        unsigned: bool = False,
        version: str | None = None,
        result_type: TensorType | None = None,
        integers: Mapping[str, int],
    ):
        values = tuple([integers[name] for name in self.INTEGERS])
        properties = _properties(self.INTEGERS, values, bounds, unsigned, version)
        operands = (source, indices) if out is None else (source, indices, out)
        result_types = () if result_type is None else (result_type,)
        # A model's many nodes are made so: by the definition it takes more than twice as long.
        Operation.__init__(
            self, operands=operands, result_types=result_types, properties=properties, location=UNKNOWN_LOC
        )

    @property
    def target(self) -> SSAValue:
        """What is written: the result on tensors, `into` on memrefs."""
        target = self.result if self.result is not None else self.out
        assert target is not None
        return target

    @property
    def table(self) -> SSAValue:
        """The value that has the shape of data: what the indices point into."""
        return self.source

    @property
    def slices(self) -> SSAValue:
        """The value that has the shape of what a gather gives: one slice for each index."""
        return self.target

    def integer(self, name: str) -> int:
        """Return an integer attribute, negative where the source wrote it so."""
        value = self.properties[name]
        assert isinstance(value, IntegerAttr)
        return value.value.data

    def shapes(self) -> tuple[Shape, Shape]:
        """Return the shapes of data and indices."""
        data, indices = self.table.type, self.operands[1].type
        assert isinstance(data, AnyShaped) and isinstance(indices, AnyShaped)
        return data.get_shape(), indices.get_shape()

    def spec(self) -> OperatorSpec:
        """Return the operator as a value, with its attributes as they are written."""
        return _spec(self.SPEC, tuple([self.integer(name) for name in self.INTEGERS]))

    def normalized(self) -> OperatorSpec:
        """Return the operator as a value, checked against the shapes; raises InvalidGatherError."""
        data, indices = self.shapes()
        return self.spec().normalized(data[: len(indices)] if self.IGNORES_TAIL else data, indices)

    def normalize(self) -> None:
        """Make the integer attributes non-negative; raises InvalidGatherError."""
        for name, value in self.normalized().attributes().items():
            self.properties[name] = IntegerAttr(value, I64)

    def roles(self) -> tuple[Role, ...]:
        """Return what each dimension is for; raises InvalidGatherError."""
        data, indices = self.shapes()
        return self.normalized().roles(len(data), indices)

    def infer_type(self) -> TensorType:
        """Return the type of what the gather gives, on tensors; raises InvalidGatherError."""
        assert isinstance(self.source.type, AnyShaped)
        return TensorType(self.source.type.element_type, self.normalized().result_shape(*self.shapes()))

    def into(self, source: SSAValue, indices: SSAValue, out: SSAValue) -> Self:
        """Return the same operator on memrefs, with every attribute it has."""
        return type(self).create(
            operands=[source, indices, out], properties=self.properties, attributes=self.attributes
        )

    def verify_(self) -> None:
        self._verify_form()
        self._verify_indices()
        try:
            expected = self.infer_type()
        except InvalidGatherError as error:
            raise VerifyException(f"{self.name}: {error}") from None
        target, slices = self.target.type, self.slices.type
        assert isinstance(target, AnyShaped) and isinstance(slices, AnyShaped)
        if target.element_type != expected.element_type:
            raise VerifyException(
                f"{self.name}: expected element type {expected.element_type} as {self.SOURCE} has, "
                f"got {target.element_type}"
            )
        if not shapes_agree(expected.get_shape(), slices.get_shape()):
            raise VerifyException(
                f"{self.name}: expected {self.SLICES} of shape {expected.get_shape()}, got {slices.get_shape()}"
            )

    def _verify_form(self) -> None:
        source, indices = self.source.type, self.indices.type
        if type(source) is not type(indices):
            raise VerifyException(f"{self.name}: expected {self.SOURCE} and indices both tensors or both memrefs")
        if isinstance(source, TensorType) == (self.out is not None):
            raise VerifyException(
                f"{self.name}: expected a result and no `into` on tensors, `into` and no result on memrefs"
            )
        if (self.out is None) == (self.result is None):
            raise VerifyException(f"{self.name}: expected either a result or `into`, not both or neither")

    def _verify_indices(self) -> None:
        assert isinstance(self.indices.type, AnyShaped)
        element = self.indices.type.element_type
        if not isinstance(element, IntegerType) or element.width.data not in (8, 16, 32, 64):
            raise VerifyException(f"{self.name}: expected indices of an integer type of 8 to 64 bits, got {element}")
        if self.unsigned is not None and element.signedness.data is not Signedness.SIGNLESS:
            raise VerifyException(f"{self.name}: `unsigned` is for erased index types; {element} says it by itself")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(", ")
        printer.print_ssa_value(self.indices)
        if self.out is not None:
            printer.print_string(" into ")
            printer.print_ssa_value(self.out)
        for name in self.INTEGERS:
            printer.print_string(f" {name} {self.integer(name)}")
        printer.print_string(f" bounds {self.bounds.data}")
        self.print_more(printer)
        if self.unsigned is not None:
            printer.print_string(" unsigned")
        if self.version is not None:
            printer.print_string(" version ")
            printer.print_string_literal(self.version.data)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list([operand.type for operand in self.operands], printer.print_attribute)
        if self.result is not None:
            printer.print_string(" -> ")
            printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        operands.append(parser.parse_unresolved_operand())
        if parser.parse_optional_keyword("into"):
            operands.append(parser.parse_unresolved_operand())
        integers: dict[str, int] = {}
        for name in cls.INTEGERS:
            parser.parse_keyword(name)
            integers[name] = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("bounds")
        bounds = parse_bounds_word(parser)
        more = cls.parse_more(parser)
        unsigned = parser.parse_optional_keyword("unsigned") is not None
        version = parser.parse_str_literal() if parser.parse_optional_keyword("version") else None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        result_type = parser.parse_type() if parser.parse_optional_punctuation("->") else None
        if result_type is not None and not isinstance(result_type, TensorType):
            parser.raise_error(f"expected a tensor type for the result, got {result_type}", position, parser.pos)
        values = parser.resolve_operands(operands, types, position)
        op = cls(*values, bounds=bounds, unsigned=unsigned, version=version, result_type=result_type, integers=integers)
        op.properties |= more
        op.attributes |= attributes
        return op

    def print_more(self, printer: Printer) -> None:
        """Print the properties that only some operators have."""

    @classmethod
    def parse_more(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse what `print_more` prints."""
        return {}


@irdl_op_definition
class GatherOp(OperatorOp):
    """Slices of data along one axis.

    ```
    %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds error
         : tensor<2x3xf32>, tensor<4xi64> -> tensor<2x4xf32>
    gather.gather %data, %indices into %out axis 1 batch_dims 0 bounds zero : memref<...>, memref<...>, memref<...>
    ```
    """

    name = "gather.gather"
    SPEC: ClassVar = Gather
    INTEGERS: ClassVar = ("axis", "batch_dims")

    axis = prop_def(IntegerAttr)
    batch_dims = prop_def(IntegerAttr)


@irdl_op_definition
class GatherNdOp(OperatorOp):
    """Slices of data by tuples of indices, which lie along the last dimension of indices.

    ```
    %r = gather.gather_nd %data, %indices batch_dims 0 bounds error
         : tensor<2x3x4xf32>, tensor<5x2xi64> -> tensor<5x4xf32>
    ```
    """

    name = "gather.gather_nd"
    SPEC: ClassVar = GatherNd
    INTEGERS: ClassVar = ("batch_dims",)

    batch_dims = prop_def(IntegerAttr)


@irdl_op_definition
class GatherElementsOp(OperatorOp):
    """Elements of data, each by an index of its own along one axis.

    Dimensions of data after the rank of indices are an element's own, and carried whole.

    ```
    %r = gather.gather_elements %data, %indices axis 1 bounds error
         : tensor<2x3xf32>, tensor<2x5xi64> -> tensor<2x5xf32>
    ```
    """

    name = "gather.gather_elements"
    SPEC: ClassVar = GatherElements
    INTEGERS: ClassVar = ("axis",)
    IGNORES_TAIL: ClassVar = True

    axis = prop_def(IntegerAttr)
