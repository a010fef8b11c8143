"""The `gather` dialect: the operators, and the loop nest with named loops that they become.

| op                   | level | what it says                                                              |
|----------------------|-------|---------------------------------------------------------------------------|
| `gather.gather`      | 0, 1  | the operator: on tensors it has a result, on memrefs it writes into `out` |
| `gather.loop`        | 2, 3  | one named loop of the nest; may be parallel; may sum what its body yields |
| `gather.yield`       | 2, 3  | the end of a loop body                                                    |
| `gather.resolve`     | 2, 3  | an index to a position and whether it is valid, by a bounds mode          |
| `gather.masked_load` | 2, 3  | a load that gives zero, and touches nothing, where its mask is false      |

Everything else in a nest is upstream `arith`, `memref`, `scf` and `func`. The kernel's contract holds at every level:
`out` overlaps neither `data` nor `indices`, and no other thread writes to them meanwhile.
"""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    I1,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    SignlessIntegerConstraint,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, Block, Data, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyOf,
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, MemoryReadEffect, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from .canonical import Groups, Operand
from .errors import InvalidGatherError
from .semantics import Bounds, gather_shape, normalize_gather, shapes_agree

AnyShaped = TensorType | MemRefType
I64 = IntegerType(64)


@irdl_attr_definition
class BoundsAttr(Data[Bounds]):
    """`#gather.bounds<zero>`; printed as the bare word inside our ops."""

    name = "gather.bounds"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Bounds:
        with parser.in_angle_brackets():
            return parse_bounds_word(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)


def parse_bounds_word(parser: AttrParser) -> Bounds:
    """Parse a bounds mode by name, or fail at its place in the text."""
    words = [mode.value for mode in Bounds]
    start = parser.pos
    word = parser.parse_identifier(f"a bounds mode ({', '.join(words)})")
    if word not in words:
        parser.raise_error(f"expected a bounds mode ({', '.join(words)}), got {word!r}", start, parser.pos)
    return Bounds(word)


@irdl_attr_definition
class ViewAttr(Data[tuple[tuple[str, tuple[int, ...]], ...]]):
    """`#gather.view<batch[0], outer[], axis[1], inner[2, 3]>`: how a kernel sees an argument.

    Names each dimension and lists the dimensions of the caller's array that it merges; dimensions of size 1 are left
    out. Carried by the arguments of a function from `collapse-dims` on.
    """

    name = "gather.view"

    @classmethod
    def of(cls, operand: Operand) -> Self:
        """Return the attribute for one operand of a canonical gather."""
        return cls(tuple(zip(operand.dims, operand.groups, strict=True)))

    @property
    def dims(self) -> tuple[str, ...]:
        """The name of each dimension."""
        return tuple(name for name, _ in self.data)

    @property
    def groups(self) -> Groups:
        """The dimensions of the caller's array that each dimension merges."""
        return tuple(group for _, group in self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, tuple[int, ...]], ...]:
        def entry() -> tuple[str, tuple[int, ...]]:
            name = parser.parse_identifier("the name of a dimension")
            group = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
            return name, tuple(group)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, entry))

    def print_parameter(self, printer: Printer) -> None:
        entries = (f"{name}[{', '.join(map(str, group))}]" for name, group in self.data)
        printer.print_string(f"<{', '.join(entries)}>")


@irdl_attr_definition
class BytesType(ParametrizedAttribute, TypeAttribute):
    """`!gather.bytes<12, "|S12">`: an element known by its size in bytes and its NumPy name only."""

    name = "gather.bytes"
    size_bytes: IntegerAttr = param_def()
    numpy_name: StringAttr = param_def()

    def __init__(self, size_bytes: int, numpy_name: str):
        super().__init__(IntegerAttr(size_bytes, I64), StringAttr(numpy_name))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            size = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            return IntegerAttr(size, I64), StringAttr(parser.parse_str_literal())

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.size_bytes.value.data}, ")
            printer.print_string_literal(self.numpy_name.data)


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


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The end of a loop body; with a value it adds to what the loop sums."""

    name = "gather.yield"
    value = opt_operand_def(I64)
    traits = traits_def(IsTerminator())
    assembly_format = "($value^ `:` type($value))? attr-dict"

    def __init__(self, value: SSAValue | None = None):
        super().__init__(operands=[value])


@irdl_op_definition
class LoopOp(IRDLOperation):
    """One named loop of a nest.

    ```
    gather.loop indices(%i) = %lower to %upper step %step { ... }
    gather.loop parallel indices_o(%i_o) = %lower to %upper step %step { ... }
    %bad = gather.loop check_indices(%i) = %lower to %upper step %step sum { ... gather.yield %one : i64 }
    ```

    Iterations may run in any order. A summing loop gives the sum of what its iterations yield, modulo 2**64, so
    tiling, interchanging and running it in parallel change nothing.
    """

    name = "gather.loop"

    lower = operand_def(IndexType())
    upper = operand_def(IndexType())
    step = operand_def(IndexType())
    total = opt_result_def(I64)
    body = region_def("single_block")

    loop_name = prop_def(StringAttr)
    parallel = opt_prop_def(UnitAttr)

    traits = traits_def(RecursiveMemoryEffect())

    def __init__(
        self,
        loop_name: str,
        lower: SSAValue,
        upper: SSAValue,
        step: SSAValue,
        body: Region | Block,
        *,
        sums: bool = False,
        parallel: bool = False,
    ):
        super().__init__(
            operands=[lower, upper, step],
            result_types=[I64 if sums else None],
            properties={"loop_name": StringAttr(loop_name), "parallel": UnitAttr() if parallel else None},
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @property
    def label(self) -> str:
        """The loop's name: `indices`, `indices_o`, `check_batch`, ..."""
        return self.loop_name.data

    @property
    def induction(self) -> SSAValue:
        """The loop's counter."""
        return self.body.block.args[0]

    @property
    def terminator(self) -> YieldOp:
        """The `gather.yield` that ends the body."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_(self) -> None:
        if [argument.type for argument in self.body.block.args] != [IndexType()]:
            raise VerifyException(f"gather.loop {self.label}: expected one block argument of type index")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"gather.loop {self.label}: expected the body to end with gather.yield")
        if (last.value is None) != (self.total is None):
            wanted, got = ("a value", "none") if self.total is not None else ("no value", "one")
            raise VerifyException(f"gather.loop {self.label}: expected gather.yield with {wanted}, got {got}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" parallel " if self.parallel is not None else " ")
        printer.print_identifier_or_string_literal(self.label)
        with printer.in_parens():
            printer.print_ssa_value(self.induction)
        for word, value in ((" = ", self.lower), (" to ", self.upper), (" step ", self.step)):
            printer.print_string(word)
            printer.print_ssa_value(value)
        printer.print_string(" sum " if self.total is not None else " ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=self.total is not None)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parallel = parser.parse_optional_keyword("parallel") is not None
        label = parser.parse_identifier_or_str_literal()
        with parser.in_parens():
            induction = parser.parse_argument(expect_type=False)
        bounds: list[SSAValue] = []
        for punctuation, keyword in (("=", None), (None, "to"), (None, "step")):
            parser.parse_punctuation("=") if punctuation else parser.parse_keyword(str(keyword))
            bounds.append(parser.resolve_operand(parser.parse_unresolved_operand(), IndexType()))
        sums = parser.parse_optional_keyword("sum") is not None
        body = parser.parse_region((induction.resolve(IndexType()),))
        if not isinstance(body.block.last_op, YieldOp) and not sums:
            body.block.add_op(YieldOp())
        lower, upper, step = bounds
        op = cls(label, lower, upper, step, body, sums=sums, parallel=parallel)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class ResolveOp(IRDLOperation):
    """Turn an index into a position on an axis.

    `%position, %valid = gather.resolve %index within %size bounds zero : i64`

    The position is in [0, size) where `valid` is true, and 0 where it is false. With `error` an index outside raises;
    with `unchecked` it is undefined.
    """

    name = "gather.resolve"

    index = operand_def(SignlessIntegerConstraint)
    size = operand_def(IndexType())
    position = result_def(IndexType())
    valid = result_def(I1)
    bounds = prop_def(BoundsAttr)
    unsigned = opt_prop_def(UnitAttr)

    traits = traits_def(Pure())

    def __init__(self, index: SSAValue, size: SSAValue, bounds: Bounds, *, unsigned: bool = False):
        super().__init__(
            operands=[index, size],
            result_types=[IndexType(), i1],
            properties={"bounds": BoundsAttr(bounds), "unsigned": UnitAttr() if unsigned else None},
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.index)
        printer.print_string(" within ")
        printer.print_ssa_value(self.size)
        printer.print_string(f" bounds {self.bounds.data}")
        if self.unsigned is not None:
            printer.print_string(" unsigned")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.index.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        index = parser.parse_unresolved_operand()
        parser.parse_keyword("within")
        size = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        parser.parse_keyword("bounds")
        bounds = parse_bounds_word(parser)
        unsigned = parser.parse_optional_keyword("unsigned") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(index, parser.parse_type()), size, bounds, unsigned=unsigned)
        op.attributes |= attributes
        return op


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """Load an element, or give zero and touch no memory where the mask is false.

    `%element = gather.masked_load %data[%b, %o, %position, %j], %valid : memref<2x1x5x4xi32>`
    """

    name = "gather.masked_load"

    memref = operand_def(base(MemRefType))
    subscripts = var_operand_def(IndexType())
    mask = operand_def(I1)
    element = result_def()

    traits = traits_def(MemoryReadEffect())
    assembly_format = "$memref `[` $subscripts `]` `,` $mask attr-dict `:` type($memref) `->` type($element)"

    def __init__(self, memref: SSAValue, subscripts: Sequence[SSAValue], mask: SSAValue):
        assert isinstance(memref.type, MemRefType)
        super().__init__(operands=[memref, subscripts, mask], result_types=[memref.type.element_type])

    def verify_(self) -> None:
        assert isinstance(self.memref.type, MemRefType)
        if len(self.subscripts) != self.memref.type.get_num_dims():
            raise VerifyException(
                f"gather.masked_load: expected {self.memref.type.get_num_dims()} subscripts, got {len(self.subscripts)}"
            )
        if self.element.type != self.memref.type.element_type:
            raise VerifyException(
                f"gather.masked_load: expected an element of type {self.memref.type.element_type}, "
                f"got {self.element.type}"
            )


Gather = Dialect("gather", [GatherOp, LoopOp, YieldOp, ResolveOp, MaskedLoadOp], [BoundsAttr, ViewAttr, BytesType])
