"""Operations and syntax of upstream MLIR that xDSL lacks.

They are `memref.prefetch`, `vector.from_elements`, `vector.compressstore`, and the vector forms of `arith.cmpf`,
`arith.sitofp`, `arith.uitofp` and `arith.select`. xDSL prints `scf.parallel` in the generic form only: `ParallelOp` is
xDSL's with upstream's syntax. It and `SelectOp` have methods for their text, since an `assembly_format` prints the
arguments of a region inside of it, and cannot leave out the type of a mandatory operand where that is i1.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import (
    I1,
    I32,
    BoolAttr,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .nest_ops import memref_at


def is_nontemporal(store: memref.StoreOp | vector.StoreOp) -> bool:
    """Return whether a store is non-temporal."""
    return store.nontemporal is not None and bool(store.nontemporal.value.data)


class ParallelOp(scf.ParallelOp):
    """`scf.parallel (%i, %j) = (%l, %m) to (%u, %v) step (%s, %t) init (%z) -> i64 { ... scf.reduce(...) }`."""

    name = "scf.parallel"

    def print(self, printer: Printer) -> None:
        def values(word: str, group: tuple[SSAValue, ...]) -> None:
            printer.print_string(word)
            printer.print_list(group, printer.print_ssa_value)
            printer.print_string(")")

        values(" (", tuple(self.body.block.args))
        values(" = (", tuple(self.lowerBound))
        values(" to (", tuple(self.upperBound))
        values(" step (", tuple(self.step))
        if self.initVals:
            values(" init (", tuple(self.initVals))
            printer.print_string(" -> ")
            printer.print_list([result.type for result in self.res], printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=bool(self.initVals))
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def operands(word: str | None) -> list[SSAValue]:
            parser.parse_keyword(word) if word else parser.parse_punctuation("=")
            unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            return [parser.resolve_operand(value, IndexType()) for value in unresolved]

        names = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_argument(expect_type=False).resolve(IndexType())
        )
        lower, upper, step = operands(None), operands("to"), operands("step")
        position, initial = parser.pos, []
        if parser.parse_optional_keyword("init"):
            unresolved = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
            parser.parse_punctuation("->")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            initial = parser.resolve_operands(unresolved, types, position)
        body = parser.parse_region(names)
        if not isinstance(body.block.last_op, scf.ReduceOp):
            body.block.add_op(scf.ReduceOp())
        op = cls(lower, upper, step, body, initial)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Prefetch the line of an element; it changes no value, and the element need not exist.

    `memref.prefetch %data[%b, %o, %position, %j], read, locality<3>, data : memref<1x1x?x?xi32>`
    """

    name = "memref.prefetch"

    memref = operand_def(base(MemRefType))
    indices = var_operand_def(IndexType())
    locality = prop_def(IntegerAttr[I32], prop_name="localityHint")
    # The text has only prefetches for reading, into the data cache.
    is_write = prop_def(BoolAttr, BoolAttr.from_bool(False), prop_name="isWrite")
    is_data_cache = prop_def(BoolAttr, BoolAttr.from_bool(True), prop_name="isDataCache")

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$memref `[` $indices `]` `,` `read` `,` `locality` `` `<` $localityHint `>` `,` `data` attr-dict "
        "`:` type($memref)"
    )

    def __init__(self, memref: SSAValue, indices: Sequence[SSAValue], locality: int):
        properties = {"localityHint": IntegerAttr(locality, i32), "isWrite": BoolAttr.from_bool(False)}
        super().__init__(operands=[memref, indices], properties={**properties, "isDataCache": BoolAttr.from_bool(True)})

    def verify_(self) -> None:
        memref_at(self, self.memref, self.indices)
        if self.is_write.value.data or not self.is_data_cache.value.data:
            raise VerifyException("memref.prefetch: expected a prefetch for reading, into the data cache")
        if not 0 <= self.locality.value.data <= 3:
            raise VerifyException(f"memref.prefetch: expected a locality of 0 to 3, got {self.locality.value.data}")


@irdl_op_definition
class FromElementsOp(IRDLOperation):
    """Make a vector of its elements: `%vector = vector.from_elements %a, %b : vector<2xi32>`."""

    name = "vector.from_elements"

    T: ClassVar = VarConstraint("T", AnyAttr())

    elements = var_operand_def(T)
    result = result_def(VectorType.constr(T))

    assembly_format = "$elements attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def __init__(self, elements: Sequence[SSAValue]):
        super().__init__(operands=[elements], result_types=[VectorType(elements[0].type, [len(elements)])])

    def verify_(self) -> None:
        assert isinstance(self.result.type, VectorType)
        wanted = self.result.type.get_shape()[0]
        if len(self.elements) != wanted:
            raise VerifyException(f"vector.from_elements: expected {wanted} elements, got {len(self.elements)}")


@irdl_op_definition
class CompressStoreOp(IRDLOperation):
    """Store the lanes of a vector whose mask is true, side by side and in their order.

    `vector.compressstore %list[%place], %mask, %vector : memref<2056xi64>, vector<8xi1>, vector<8xi64>`
    """

    name = "vector.compressstore"

    base = operand_def(MemRefType)
    indices = var_operand_def(IndexType())
    mask = operand_def(VectorType[I1])
    value = operand_def(VectorType)

    assembly_format = (
        "$base `[` $indices `]` `,` $mask `,` $value attr-dict `:` type($base) `,` type($mask) `,` type($value)"
    )

    def __init__(self, memory: SSAValue, indices: Sequence[SSAValue], mask: SSAValue, value: SSAValue):
        super().__init__(operands=[memory, indices, mask, value])

    def verify_(self) -> None:
        memory = memref_at(self, self.base, self.indices)
        assert isinstance(self.mask.type, VectorType) and isinstance(self.value.type, VectorType)
        if self.mask.type.get_shape() != self.value.type.get_shape():
            raise VerifyException("vector.compressstore: expected a mask with one lane for each lane of the vector")
        if memory.element_type != self.value.type.element_type:
            raise VerifyException(
                f"vector.compressstore: expected a vector of {memory.element_type}, got {self.value.type}"
            )


def sum_of_lanes(lanes: SSAValue) -> vector.ReductionOp:
    """Return `vector.reduction <add>, %lanes : vector<8xi64> into i64`, the sum of the lanes, not inserted yet."""
    assert isinstance(lanes.type, VectorType)
    kind = vector.CombiningKindAttr(vector.CombiningKindFlag.ADD)
    properties = {"kind": kind, "fastmath": arith.FastMathFlagsAttr("none")}
    return vector.ReductionOp.create(operands=[lanes], result_types=[lanes.type.element_type], properties=properties)


class CmpfOp(arith.CmpfOp):
    """`arith.cmpf ogt, %a, %b : vector<8xf32>`: a vector of conditions where it compares vectors."""

    def __init__(self, left: SSAValue, right: SSAValue, predicate: str, *more: Any):
        super().__init__(left, right, predicate, *more)
        if isinstance(left.type, VectorType):
            Rewriter.replace_value_with_new_type(self.result, _conditions(left.type))

    def verify_(self) -> None:
        if not isinstance(self.lhs.type, VectorType):
            return super().verify_()
        if self.lhs.type != self.rhs.type or self.result.type != _conditions(self.lhs.type):
            raise VerifyException("arith.cmpf: expected vectors of one type, and one condition for each lane")


class SelectOp(arith.SelectOp):
    """`arith.select %conditions, %a, %b : vector<8xi1>, vector<8xf32>`: a lane of `a` where its condition is true."""

    assembly_format = None

    def verify_(self) -> None:
        if not isinstance(self.cond.type, VectorType):
            return super().verify_()
        type_ = self.lhs.type
        if not isinstance(type_, VectorType) or {self.rhs.type, self.result.type} != {type_}:
            raise VerifyException("arith.select: expected two vectors and a result of one type")
        if self.cond.type != _conditions(type_):
            raise VerifyException(f"arith.select: expected {_conditions(type_)} of conditions, got {self.cond.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        if isinstance(self.cond.type, VectorType):
            printer.print_attribute(self.cond.type)
            printer.print_string(", ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            operands.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        condition, type_ = i1, parser.parse_type()
        if parser.parse_optional_punctuation(","):
            condition, type_ = type_, parser.parse_type()
        op = cls(*parser.resolve_operands(operands, [condition, type_, type_], parser.pos))
        op.attributes |= attributes
        return op


class _ToFloat(IRDLOperation):
    """A conversion of integers to floats, as upstream has it: of vectors, too."""

    input = operand_def(base(IntegerType) | base(VectorType))
    result = result_def(base(Float32Type) | base(Float64Type) | base(VectorType))

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"
    traits = traits_def(Pure())

    def __init__(self, value: SSAValue, wanted: Attribute):
        super().__init__(operands=[value], result_types=[wanted])


@irdl_op_definition
class SIToFPOp(_ToFloat):
    """`arith.sitofp %a : vector<8xi8> to vector<8xf32>`."""

    name = "arith.sitofp"


@irdl_op_definition
class UIToFPOp(_ToFloat):
    """`arith.uitofp %a : vector<8xi8> to vector<8xf32>`."""

    name = "arith.uitofp"


def _conditions(type_: VectorType) -> VectorType:
    return VectorType(i1, type_.get_shape())


_OURS = {ours.name: ours for ours in (CmpfOp, SelectOp, SIToFPOp, UIToFPOp, ParallelOp)}

Arith = Dialect("arith", [_OURS.get(op.name, op) for op in arith.Arith.operations], list(arith.Arith.attributes))
MemRef = Dialect("memref", [*memref.MemRef.operations, PrefetchOp])
Vector = Dialect("vector", [*vector.Vector.operations, FromElementsOp, CompressStoreOp], list(vector.Vector.attributes))
Scf = Dialect("scf", [_OURS.get(op.name, op) for op in scf.Scf.operations])
