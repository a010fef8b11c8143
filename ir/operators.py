"""Levels 0 and 1 of the `gather` dialect: the operators."""

from typing import Self

from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, Signedness, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, SSAValue
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

from .attributes import I64, BoundsAttr, parse_bounds_word
from .errors import InvalidGatherError
from .semantics import Bounds, gather_shape, normalize_gather, shapes_agree

AnyShaped = TensorType | MemRefType


@irdl_op_definition
class GatherOp(IRDLOperation):
    """The gather operator.

    ```
    %r = gather.gather %data, %indices axis 1 batch_dims 0 bounds error
         : tensor<2x3xf32>, tensor<4xi64> -> tensor<2x4xf32>
    gather.gather %data, %indices into %out axis 1 batch_dims 0 bounds zero : memref<...>, memref<...>, memref<...>
    ```

    `unsigned` says that the index type was unsigned before its signedness was erased; `version` names the operator
    it came from, such as "openvino.Gather-8".
    """

    name = "gather.gather"

    data = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    indices = operand_def(AnyOf((base(TensorType), base(MemRefType))))
    out = opt_operand_def(base(MemRefType))
    result = opt_result_def(base(TensorType))

    axis = prop_def(IntegerAttr)
    batch_dims = prop_def(IntegerAttr)
    bounds = prop_def(BoundsAttr)
    unsigned = opt_prop_def(UnitAttr)
    version = opt_prop_def(StringAttr)

    def __init__(
        self,
        data: SSAValue,
        indices: SSAValue,
        out: SSAValue | None = None,
        *,
        axis: int,
        batch_dims: int,
        bounds: Bounds,
        unsigned: bool = False,
        version: str | None = None,
        result_type: TensorType | None = None,
    ):
        properties: dict[str, Attribute | None] = {
            "axis": IntegerAttr(axis, I64),
            "batch_dims": IntegerAttr(batch_dims, I64),
            "bounds": BoundsAttr(bounds),
            "unsigned": UnitAttr() if unsigned else None,
            "version": StringAttr(version) if version else None,
        }
        super().__init__(operands=[data, indices, out], result_types=[result_type], properties=properties)

    @property
    def axis_value(self) -> int:
        """`axis` as an int, negative where the source wrote it so."""
        return self.axis.value.data

    @property
    def batch_dims_value(self) -> int:
        """`batch_dims` as an int, negative where the source wrote it so."""
        return self.batch_dims.value.data

    def infer_type(self) -> TensorType:
        """Return the type of the result on tensors: `data[:axis] + indices[batch_dims:] + data[axis+1:]`."""
        data, indices = self.data.type, self.indices.type
        assert isinstance(data, AnyShaped) and isinstance(indices, AnyShaped)
        axis, batch_dims = normalize_gather(
            data.get_shape(), indices.get_shape(), self.axis_value, self.batch_dims_value
        )
        shape = gather_shape(data.get_shape(), indices.get_shape(), axis, batch_dims)
        return TensorType(data.element_type, shape)

    def verify_(self) -> None:
        data, indices = self.data.type, self.indices.type
        assert isinstance(data, AnyShaped) and isinstance(indices, AnyShaped)
        if type(data) is not type(indices):
            raise VerifyException("gather.gather: expected data and indices both tensors or both memrefs")
        if isinstance(data, TensorType) == (self.out is not None):
            raise VerifyException(
                "gather.gather: expected a result and no `into` on tensors, `into` and no result on memrefs"
            )
        if (self.out is None) == (self.result is None):
            raise VerifyException("gather.gather: expected either a result or `into`, not both or neither")
        if not isinstance(indices.element_type, IntegerType) or indices.element_type.width.data not in (8, 16, 32, 64):
            raise VerifyException(
                f"gather.gather: expected indices of an integer type of 8 to 64 bits, got {indices.element_type}"
            )
        if self.unsigned is not None and indices.element_type.signedness.data is not Signedness.SIGNLESS:
            raise VerifyException(
                f"gather.gather: `unsigned` is for erased index types; {indices.element_type} says it by itself"
            )
        try:
            expected = self.infer_type()
        except InvalidGatherError as error:
            raise VerifyException(f"gather.gather: {error}") from None
        target = self.result.type if self.result is not None else self.out.type if self.out is not None else None
        assert isinstance(target, AnyShaped)
        if target.element_type != data.element_type:
            raise VerifyException(
                f"gather.gather: expected element type {data.element_type} as data has, got {target.element_type}"
            )
        if not shapes_agree(expected.get_shape(), target.get_shape()):
            raise VerifyException(
                f"gather.gather: expected a result of shape {expected.get_shape()}, got {target.get_shape()}"
            )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.data)
        printer.print_string(", ")
        printer.print_ssa_value(self.indices)
        if self.out is not None:
            printer.print_string(" into ")
            printer.print_ssa_value(self.out)
        printer.print_string(f" axis {self.axis_value} batch_dims {self.batch_dims_value}")
        printer.print_string(f" bounds {self.bounds.data}")
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
        parser.parse_keyword("axis")
        axis = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("batch_dims")
        batch_dims = parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("bounds")
        bounds = parse_bounds_word(parser)
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
        op = cls(
            *values,
            axis=axis,
            batch_dims=batch_dims,
            bounds=bounds,
            unsigned=unsigned,
            version=version,
            result_type=result_type,
        )
        op.attributes |= attributes
        return op
