"""The forms that bounds handling takes as arithmetic on i64, and the facts that choose among them.

`ir.semantics.resolve_index` defines the meaning of an index; `lowering/proof` proves that each form has that meaning.
"""

from dataclasses import dataclass

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Operation, SSAValue

from ...ir.dialects.gather_dialect import I64, ResolveOp
from ...ir.semantics import Bounds, reaches_past
from .builder import NestBuilder
from .queries import static_size


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """Facts about the indices of one axis.

    Attributes:
        unsigned: whether their type is unsigned.
        reaches_past: whether their type has a value outside the axis.
        axis_size: the size of the axis, None when it is not static.
        least_axis: the smallest axis for which code that relies on these facts is right; 0 for any.
    """

    unsigned: bool
    reaches_past: bool
    axis_size: int | None
    least_axis: int

    @classmethod
    def of(cls, resolve: ResolveOp) -> "IndexFacts":
        """Take the facts from the types around a `gather.resolve`."""
        assert isinstance(resolve.index.type, IntegerType)
        bits = resolve.index.type.width.data
        unsigned = resolve.unsigned is not None
        largest = (1 << bits) - 1 if unsigned else (1 << (bits - 1)) - 1
        size = static_size(resolve.size)
        past = reaches_past(largest, size)
        least = 0 if past else largest + 1
        if resolve.bounds.data in (Bounds.CLIP, Bounds.WRAP, Bounds.UNCHECKED) or (
            size and resolve.bounds.data is Bounds.ZERO
        ):
            least = max(least, 1)
        return cls(unsigned, past, size, least)


def is_clamp(op: Operation) -> bool:
    """Return whether an operation clamps a checked position; only functions that count indices outside have clamps."""
    if not isinstance(op, arith.MinUIOp) or not isinstance(op.rhs.owner, arith.SubiOp):
        return False
    function = op.parent_op()
    while not isinstance(function, func.FuncOp | None):
        function = function.parent_op()
    return function is not None and bool(function.function_type.outputs.data)


def is_wrap(op: Operation) -> bool:
    """Return whether an operation lets negative indices count from the end: `min(index + size, index)`, unsigned."""
    return isinstance(op, arith.MinUIOp) and isinstance(op.lhs.owner, arith.AddiOp) and op.lhs.owner.lhs is op.rhs


def size_of_clamp(op: Operation) -> SSAValue | None:
    """Return the size of the axis that an operation clamps a checked position to; None where it is no such clamp."""
    if not is_clamp(op):
        return None
    last = op.operands[1].owner
    assert isinstance(last, arith.SubiOp)
    return last.lhs


class BoundsBuilder(NestBuilder):
    """Inserts arithmetic on i64 that resolves indices."""

    def widened(self, index: SSAValue, unsigned: bool) -> SSAValue:
        """Extend an index to i64; an unsigned one of 64 bits keeps its bits."""
        if index.type == I64:
            return index
        return self.named((arith.ExtUIOp if unsigned else arith.ExtSIOp)(index, I64), "wide")

    def axis_size(self, size: SSAValue) -> SSAValue:
        """Cast the size of an axis to i64."""
        return self.cast(size, I64, "size")

    def wrapped(self, facts: IndexFacts, index: SSAValue, size: SSAValue) -> SSAValue:
        """Let negative indices count from the end, once."""
        if facts.unsigned:
            return index
        sign = self.compute(arith.ShRSIOp, index, self.constant(63, I64, "c63"), "sign")
        return self.compute(arith.AddiOp, index, self.compute(arith.AndIOp, size, sign, "shift"), "wrapped")

    def checked(self, facts: IndexFacts, index: SSAValue, size: SSAValue) -> SSAValue:
        """Insert the position of an index that was valid when it was checked, or some position for another index.

        As unsigned numbers, indices in [-size, 0) are above their sum with the size, and all others below it.
        """
        if not facts.reaches_past:
            return self.wrapped(facts, index, size)
        if not facts.unsigned:
            shifted = self.compute(arith.AddiOp, index, size, "shifted")
            index = self.compute(arith.MinUIOp, shifted, index, "wrapped")
        return self.lowered(arith.MinUIOp, index, size)

    def outside(self, facts: IndexFacts, index: SSAValue, size: SSAValue) -> SSAValue:
        """Insert the test whether an index is outside the axis; [-size, size) shifted by size is [0, 2 * size)."""
        if facts.unsigned:
            return self.compare("uge", index, size, "outside")
        shifted = self.compute(arith.AddiOp, index, size, "shifted")
        return self.compare("uge", shifted, self.compute(arith.AddiOp, size, size, "twice"), "outside")

    def always_valid(self, facts: IndexFacts, mode: Bounds, index: SSAValue, size: SSAValue) -> SSAValue:
        """Insert the position in the modes in which every index has one: clip, wrap and unchecked."""
        if mode is Bounds.UNCHECKED or (facts.unsigned and not facts.reaches_past):
            return index
        if mode is Bounds.CLIP:
            if facts.reaches_past:
                index = self.lowered(arith.MinUIOp if facts.unsigned else arith.MinSIOp, index, size)
            return (
                index if facts.unsigned else self.compute(arith.MaxSIOp, index, self.constant(0, I64, "zero"), "raised")
            )
        if facts.unsigned:
            return self.compute(arith.RemUIOp, index, size, "wrapped")
        remainder = self.compute(arith.RemSIOp, index, size, "remainder") if facts.reaches_past else index
        return self.wrapped(facts, remainder, size)

    def lowered(self, minimum: type[arith.MinUIOp | arith.MinSIOp], index: SSAValue, size: SSAValue) -> SSAValue:
        """Insert the minimum of an index and the last position of the axis."""
        return self.compute(
            minimum, index, self.compute(arith.SubiOp, size, self.constant(1, I64, "one"), "last"), "lowered"
        )

    def as_index(self, position: SSAValue) -> SSAValue:
        """Cast a position to the type of subscripts."""
        return self.cast(position, IndexType(), "position")
