"""Levels 2 and 3 of the `gather` dialect: the loop nest with named loops."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    I1,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SignlessIntegerConstraint,
    StringAttr,
    UnitAttr,
    VectorType,
    i1,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, MemoryReadEffect, MemoryWriteEffect, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from ..loop_name import LoopName
from ..semantics import Bounds
from .attributes import I64, BoundsAttr


def memref_at(op: IRDLOperation, memory: SSAValue, subscripts: Sequence[SSAValue]) -> MemRefType:
    """Return the type of the memory that an operation reaches, having checked the number of subscripts."""
    assert isinstance(memory.type, MemRefType)
    if len(subscripts) != memory.type.get_num_dims():
        raise VerifyException(f"{op.name}: expected {memory.type.get_num_dims()} subscripts, got {len(subscripts)}")
    return memory.type


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The end of a loop body; its value, if any, is added to the loop's sum."""

    name = "gather.yield"
    value = opt_operand_def(I64)
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(LoopOp)))
    assembly_format = "($value^ `:` type($value))? attr-dict"

    def __init__(self, value: SSAValue | None = None):
        super().__init__(operands=[value])


@irdl_op_definition
class LoopOp(IRDLOperation):
    """One named loop of a nest.

    ```
    gather.loop indices(%i) = %lower to %upper step %step { ... }
    gather.loop parallel indices_o(%i_o) = %lower to %upper step %step { ... }
    gather.loop ordered indices(%i) = %lower to %upper step %step { ... }
    %bad = gather.loop check_indices(%i) = %lower to %upper step %step sum { ... gather.yield %one : i64 }
    ```

    Iterations may run in any order; only an ordered loop runs them one after the other, as a sum of floats needs. A
    summing loop gives the sum of the values that its iterations yield, modulo 2**64, so tiling, interchanging and
    running it in parallel change nothing.

    The text has methods of its own, since an `assembly_format` prints a region's argument and terminator inside the
    region.
    """

    name = "gather.loop"

    lower = operand_def(IndexType())
    upper = operand_def(IndexType())
    step = operand_def(IndexType())
    total = opt_result_def(I64)
    body = region_def("single_block")

    loop_name = prop_def(StringAttr)
    parallel = opt_prop_def(UnitAttr)
    ordered = opt_prop_def(UnitAttr)

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
        ordered: bool = False,
    ):
        super().__init__(
            operands=[lower, upper, step],
            result_types=[I64 if sums else None],
            properties={
                "loop_name": StringAttr(loop_name),
                "parallel": UnitAttr() if parallel else None,
                "ordered": UnitAttr() if ordered else None,
            },
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @property
    def label(self) -> LoopName:
        """The loop's name: `indices`, `indices_o`, `check_batch`, ..."""
        return LoopName(self.loop_name.data)

    @label.setter
    def label(self, name: str) -> None:
        self.loop_name = StringAttr(name)

    @property
    def induction(self) -> SSAValue:
        """The loop's induction variable."""
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
        if not self.label or "," in self.label:
            raise VerifyException(f"gather.loop: expected a name without commas, got {self.label!r}")
        if self.parallel is not None and self.ordered is not None:
            raise VerifyException(f"gather.loop {self.label}: expected parallel or ordered, got both")
        step = getattr(self.step.owner, "value", None)
        if isinstance(step, IntegerAttr) and step.value.data < 1:
            raise VerifyException(f"gather.loop {self.label}: expected a step of 1 or more, got {step.value.data}")
        last = self.body.block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException(f"gather.loop {self.label}: expected the body to end with gather.yield")
        if (last.value is None) != (self.total is None):
            wanted, got = ("a value", "none") if self.total is not None else ("no value", "one")
            raise VerifyException(f"gather.loop {self.label}: expected gather.yield with {wanted}, got {got}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" parallel " if self.parallel is not None else " ")
        printer.print_string("ordered " if self.ordered is not None else "")
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
        ordered = parser.parse_optional_keyword("ordered") is not None
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
        op = cls(label, lower, upper, step, body, sums=sums, parallel=parallel, ordered=ordered)
        op.attributes |= parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class ResolveOp(IRDLOperation):
    """Turn an index into a position on an axis.

    `%position, %valid = gather.resolve %index within %size bounds zero : i64`

    The position is in [0, size) where `valid` is true, and 0 where it is false. With `error` an index outside raises;
    with `unchecked` it is undefined.
    Nothing but the position depends on it, so it may run earlier than written or not at all: that an index outside
    raises is a promise of the nest as a whole, which `fold-bounds` makes explicit.
    """

    name = "gather.resolve"

    index = operand_def(SignlessIntegerConstraint)
    size = operand_def(IndexType())
    position = result_def(IndexType())
    valid = result_def(I1)
    bounds = prop_def(BoundsAttr)
    unsigned = opt_prop_def(UnitAttr)

    traits = traits_def(Pure())
    assembly_format = "$index `within` $size `bounds` $bounds (`unsigned` $unsigned^)? attr-dict `:` type($index)"

    def __init__(self, index: SSAValue, size: SSAValue, bounds: Bounds, *, unsigned: bool = False):
        super().__init__(
            operands=[index, size],
            result_types=[IndexType(), i1],
            properties={"bounds": BoundsAttr(bounds), "unsigned": UnitAttr() if unsigned else None},
        )

    def verify_(self) -> None:
        if not isinstance(self.index.type, IntegerType) or self.index.type.width.data not in (8, 16, 32, 64):
            raise VerifyException(f"gather.resolve: expected an index of 8 to 64 bits, got {self.index.type}")


@irdl_op_definition
class MaskedLoadOp(IRDLOperation):
    """Load an element, or give zero and touch no memory where the mask is false.

    `%element = gather.masked_load %data[%b, %o, %position, %j], %valid : memref<2x1x5x4xi32> -> i32`
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
        wanted, got = memref_at(self, self.memref, self.subscripts).element_type, self.element.type
        if got != wanted:
            raise VerifyException(f"gather.masked_load: expected an element of type {wanted}, got {got}")


@irdl_op_definition
class AccumulateOp(IRDLOperation):
    """Add an element to one in memory, or do nothing and touch no memory where the mask is false.

    ```
    gather.accumulate %element, %out[%b, %o, %position, %j] if %valid : f32, memref<2x1x5x4xf32>
    gather.accumulate %element, %out[%i, %j] if %valid max %first : f32, memref<5x4xf32>
    ```

    A vector is added to adjacent elements along the last dimension. Integers are added modulo their width.
    With `max` the element takes the place of the one in memory where it is larger, or where `first` is true.
    """

    name = "gather.accumulate"

    element = operand_def()
    memref = operand_def(base(MemRefType))
    subscripts = var_operand_def(IndexType())
    mask = opt_operand_def(I1)
    first = opt_operand_def(I1)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$element `,` $memref `[` $subscripts `]` (`if` $mask^)? (`max` $first^)? attr-dict "
        "`:` type($element) `,` type($memref)"
    )

    def __init__(
        self,
        element: SSAValue,
        memref: SSAValue,
        subscripts: Sequence[SSAValue],
        mask: SSAValue | None = None,
        first: SSAValue | None = None,
    ):
        super().__init__(operands=[element, memref, subscripts, mask, first])

    def verify_(self) -> None:
        wanted, got = memref_at(self, self.memref, self.subscripts).element_type, self.element.type
        if (got.element_type if isinstance(got, VectorType) and got.get_num_dims() == 1 else got) != wanted:
            raise VerifyException(
                f"gather.accumulate: expected an element of type {wanted} or a vector of them, got {got}"
            )
