"""Building loop nests: a builder gives operations names, and the location of the operation that they are made from.

xDSL's own builders and rewrites leave the location unknown.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialects.gather_dialect import LoopOp, YieldOp
from ...ir.errors import ScheduleError
from ...ir.semantics import DYNAMIC
from .queries import clone_slice, static_size, static_trips

# Lower bound, upper bound and step of a loop.
LoopBounds = tuple[SSAValue, SSAValue, SSAValue]
Made = TypeVar("Made", bound=Operation)


class NestBuilder(Builder):
    """Inserts operations at a point, gives them the location of a source operation, and names their results."""

    def __init__(self, point: InsertPoint, source: Operation):
        super().__init__(point, operation_insertion_handler=[lambda op: _locate(source, op)])

    def named(self, op: Operation, name: str | None) -> SSAValue:
        """Insert an operation of one result."""
        (result,) = self.insert(op).results
        result.name_hint = name
        return result

    def index(self, value: int) -> SSAValue:
        """Insert `arith.constant value : index`, named after its value."""
        return self.constant(value, IndexType(), f"c{value}")

    def constant(self, value: int, kind: IndexType | IntegerType | int, name: str | None) -> SSAValue:
        """Insert a constant of a type, which may be the number of bits of an integer type."""
        return self.named(arith.ConstantOp.from_int_and_width(value, kind), name)

    def compute(
        self, op: type[arith.SignlessIntegerBinaryOperation], left: SSAValue, right: SSAValue | int, name: str | None
    ) -> SSAValue:
        """Insert an operation of two operands, of which a number is a constant index."""
        return self.named(op(left, self._value(right)), name)

    def compare(self, predicate: str, left: SSAValue, right: SSAValue | int, name: str | None) -> SSAValue:
        """Insert a comparison of two operands, of which a number is a constant index."""
        return self.named(arith.CmpiOp(left, self._value(right), predicate), name)

    def select(self, condition: SSAValue, left: SSAValue, right: SSAValue, name: str | None) -> SSAValue:
        """Insert a select."""
        return self.named(arith.SelectOp(condition, left, right), name)

    def cast(self, value: SSAValue, kind: Attribute, name: str | None) -> SSAValue:
        """Insert a cast between an index and an integer."""
        return self.named(arith.IndexCastOp(value, kind), name)

    def load(self, memory: SSAValue | Operation, places: Sequence[SSAValue], name: str | None) -> SSAValue:
        """Insert the load of an element."""
        return self.named(memref.LoadOp.get(memory, places), name)

    def size(self, source: SSAValue, dim: int, name: str) -> SSAValue:
        """Insert the size of a memref along a dimension."""
        return self.named(memref.DimOp(source, self.index(dim)), f"n_{name}")

    def loop(
        self,
        name: str,
        bounds: Sequence[SSAValue],
        induction: str | None,
        source: Operation | None = None,
        **kind: bool,
    ) -> LoopOp:
        """Insert an empty loop without a terminator: name, (lower, upper, step) and kind; it is made from `source`."""
        body = Block(arg_types=[IndexType()])
        body.args[0].name_hint = induction
        lower, upper, step = bounds
        loop = LoopOp(name, lower, upper, step, body, **kind)
        return self.insert(loop if source is None else made_from(source, loop))

    def _value(self, value: SSAValue | int) -> SSAValue:
        return self.index(value) if isinstance(value, int) else value


def builder_before(op: Operation, source: Operation | None = None) -> NestBuilder:
    """Return a builder that inserts before an operation; the new operations are made from it, or from `source`."""
    return NestBuilder(InsertPoint.before(op), source or op)


def builder_at_start(loop: LoopOp, source: Operation | None = None) -> NestBuilder:
    """Return a builder at the start of a loop's body; the new operations are made from the loop, or from `source`."""
    return NestBuilder(InsertPoint.at_start(loop.body.block), source or loop)


def builder_at_end(loop: LoopOp, source: Operation | None = None) -> NestBuilder:
    """Return a builder at the end of a loop's body; the new operations are made from the loop, or from `source`."""
    return NestBuilder(InsertPoint.at_end(loop.body.block), source or loop)


def rewrite_ops(module: ModuleOp, *patterns: RewritePattern) -> None:
    """Apply patterns once to each operation of a module, in order, but not to the operations that they make."""
    each = GreedyRewritePatternApplier([*patterns], dce_enabled=False)
    PatternRewriteWalker(each, apply_recursively=False).rewrite_module(module)


def made_from(source: Operation, made: Made) -> Made:
    """Give an operation and all in its regions the location of `source` where they have none; return it."""
    _locate(source, made)
    return made


def _locate(source: Operation, made: Operation) -> None:
    for op in made.walk():
        if isinstance(op.location, UnknownLoc):
            op.location = source.location


def replace_op(
    op: Operation, new: Operation | Sequence[Operation], results: Sequence[SSAValue | None] | None = None
) -> None:
    """Replace an operation as xDSL's `Rewriter.replace_op` does; the new operations get its location."""
    for one in (new,) if isinstance(new, Operation) else new:
        made_from(op, one)
    Rewriter.replace_op(op, new, results)


def erase_unused(ops: Sequence[Operation]) -> None:
    """Erase the operations whose results have no uses; each operation stands behind its operands."""
    for op in reversed(ops):
        if not any(result.uses for result in op.results):
            Rewriter.erase_op(op)


def zero_of(by: str, element_type: Attribute) -> arith.ConstantOp:
    """Return the constant 0 of an element type, not inserted yet.

    Raises:
        ScheduleError: elements are not plain numbers; the message begins with `by`, the name of a pass.
    """
    if isinstance(element_type, AnyFloat):
        return arith.ConstantOp(FloatAttr(0.0, element_type))
    if isinstance(element_type, IntegerType) and element_type.signedness.data is Signedness.SIGNLESS:
        return arith.ConstantOp(IntegerAttr(0, element_type))
    raise ScheduleError(f"{by}: elements are {element_type}; run erase-element-type first")


def tile_end(builder: NestBuilder, start: SSAValue, step: SSAValue, upper: SSAValue) -> SSAValue:
    """Insert the end of a tile of `step` iterations from `start`, which is `upper` where that comes first."""
    limit = builder.compute(arith.AddiOp, start, step, "limit")
    return builder.compute(arith.MinSIOp, limit, upper, "end")


def tile_bounds(builder: NestBuilder, around: LoopOp) -> LoopBounds:
    """Return the bounds of the tile of one iteration of a loop over tiles."""
    end = tile_end(builder, around.induction, around.step, around.upper)
    return around.induction, end, builder.index(1)


def sum_up(around: Iterable[LoopOp], count: SSAValue) -> SSAValue:
    """Make nested loops, innermost first, sum a count of each innermost iteration, and return the total."""
    for loop in around:
        Rewriter.erase_op(loop.terminator)
        loop.body.block.add_op(made_from(loop, YieldOp(count)))
        body, bounds = loop.detach_region(loop.body), (loop.lower, loop.upper, loop.step)
        summing = LoopOp(loop.label, *bounds, body, **kind_of(loop) | {"sums": True})
        replace_op(loop, summing, [])
        assert summing.total is not None
        summing.total.name_hint, count = count.name_hint, summing.total
    return count


def sum_counts(made: Sequence[LoopOp], count: SSAValue) -> SSAValue:
    """End nested summing loops without terminators, outermost first, which sum a count; return the total."""
    for loop in reversed(made):
        loop.body.block.add_op(made_from(loop, YieldOp(count)))
        assert loop.total is not None
        count = loop.total
        count.name_hint = "n_outside"
    return count


def unguard(branch: scf.IfOp) -> None:
    """Replace a branch without results by the operations in it, and erase its condition."""
    for op in list(branch.true_region.block.ops):
        if not isinstance(op, scf.YieldOp):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(branch))
    condition = branch.cond.owner
    Rewriter.erase_op(branch)
    assert isinstance(condition, Operation)
    Rewriter.erase_op(condition)


def kind_of(loop: LoopOp) -> dict[str, bool]:
    """Return the arguments of `NestBuilder.loop` that make another loop of the same kind."""
    return {"sums": loop.total is not None, "parallel": loop.parallel is not None, "ordered": loop.ordered is not None}


def split_off_remainder(loop: LoopOp, count: int) -> tuple[LoopOp, bool]:
    """Put an empty loop of steps of `count` before a loop of step 1, which becomes the remainder loop.

    Returns:
        The new loop, which takes over the name and has no terminator yet, and whether iterations may remain; where none
        do, the old loop is unchanged, and the caller erases it.
    """
    builder = builder_before(loop)
    trips = static_trips(loop)
    has_remainder = trips is None or trips % count != 0
    end = whole_end(builder, loop.lower, loop.upper, count) if has_remainder else loop.upper
    bounds = loop.lower, end, builder.index(count)
    made = builder.loop(loop.label, bounds, loop.induction.name_hint)
    if has_remainder:
        loop.label = loop.label.remainder
        loop.operands[0] = end
    return made, has_remainder


def split_off_steps(loop: LoopOp, count: int) -> LoopOp:
    """Put an empty loop of the same kind, in steps of `count`, before a loop of step 1, which becomes its remainder.

    The new loop takes over the name, and has no terminator yet.
    """
    builder = builder_before(loop)
    end = whole_end(builder, loop.lower, loop.upper, count)
    bounds = loop.lower, end, builder.index(count)
    made = builder.loop(loop.label, bounds, loop.induction.name_hint, loop, **kind_of(loop))
    loop.label, loop.operands[0] = loop.label.remainder, end
    return made


def overlapping_remainder(whole: LoopOp, remainder: LoopOp) -> LoopOp | None:
    """Insert an empty loop of one step that ends with a remainder loop and overlaps the step before it.

    The caller erases the remainder loop. None where a remainder behind one of the `whole` steps is not certain.
    """
    first, last, count = static_size(whole.lower), static_size(remainder.upper), static_size(whole.step)
    if first is None or last is None or count is None or last - first <= count:
        return None
    builder = builder_before(remainder)
    bounds = builder.index(last - count), remainder.upper, whole.step
    return builder.loop(remainder.label, bounds, remainder.induction.name_hint)


def split_overlapping(loop: LoopOp, count: int, least: int, most: int) -> tuple[LoopOp, LoopOp] | None:
    """Put empty loops in steps of `count` before a loop of step 1 from 0, whose steps from both ends overlap.

    The caller erases the old loop.

    Args:
        loop: a loop of `least` iterations or more, and of `most` or fewer; 0 for any number.
        count: iterations a step.
        least, most: fix the numbers of steps at both ends; where `most` is 0, there is one step at the end.

    Returns:
        The loops; None where the iterations are too few for the whole steps of the loop at the end.
    """
    if loop.parallel is not None or static_size(loop.lower) != 0 or static_size(loop.step) != 1 or least < count:
        return None
    first = least // count * count if most else 0
    behind = -(-(most - first) // count) * count if most else count
    if behind > least:
        return None
    builder, none, size = builder_before(loop), loop.lower, loop.upper
    step = builder.index(count)
    start = builder.compute(arith.SubiOp, size, behind, "last")
    end = builder.index(first) if most else start
    whole = builder.loop(loop.label, (none, end, step), loop.induction.name_hint)
    rest = builder.loop(loop.label.remainder, (start, size, step), loop.induction.name_hint)
    return whole, rest


def clone_iterations(
    builder: NestBuilder, ops: Sequence[Operation], loop: LoopOp, body: LoopOp, count: int
) -> list[dict[SSAValue, SSAValue]]:
    """Insert the operations of `count` iterations of a loop into `body`, and return the values of each."""
    copies, place = list[dict[SSAValue, SSAValue]](), body.induction
    for copy in range(count):
        if copy:
            place = builder.compute(arith.AddiOp, body.induction, copy, f"{body.induction.name_hint}_{copy}")
        copies.append(clone_slice(ops, builder, {loop.induction: place}))
    return copies


def whole_end(builder: NestBuilder, lower: SSAValue, upper: SSAValue, count: int) -> SSAValue:
    """Insert the largest end up to `upper` that whole steps of `count` from `lower` reach."""
    first, last = static_size(lower), static_size(upper)
    if first is not None and last is not None:
        return builder.index(last - (last - first) % count)
    trips = upper
    if static_size(lower) != 0:
        trips = builder.compute(arith.SubiOp, upper, lower, "trips")
    rest = builder.compute(arith.RemUIOp, trips, count, "rest")
    return builder.compute(arith.SubiOp, upper, rest, "whole")


def rows_of(function: func.FuncOp, memory: SSAValue, dim: int) -> SSAValue:
    """Return a contiguous memref without the dimensions of size 1 behind `dim`, so that vectors lie along its last."""
    type_ = SSAValue.get(memory, type=MemRefType).type
    shape = type_.get_shape()
    if dim == len(shape) - 1:
        return memory
    groups = [[place] for place in range(dim)] + [list(range(dim, len(shape)))]
    first = function.body.block.first_op
    assert first is not None
    view = collapsed(memory, groups)
    Rewriter.insert_op(view, InsertPoint.before(first))
    view.result.name_hint = "out_rows"
    return view.result


def in_one_run(memory: SSAValue) -> memref.CollapseShapeOp:
    """Return a view of a contiguous memref as one dimension."""
    return collapsed(memory, [list(range(SSAValue.get(memory, type=MemRefType).type.get_num_dims()))])


def collapsed(memory: SSAValue, groups: list[list[int]]) -> memref.CollapseShapeOp:
    """Return a view of a contiguous memref with groups of its dimensions merged."""
    type_ = SSAValue.get(memory, type=MemRefType).type
    reassociation = ArrayAttr([ArrayAttr([IntegerAttr(place, i64) for place in group]) for group in groups])
    return memref.CollapseShapeOp(
        operands=[memory],
        result_types=[MemRefType(type_.element_type, merged_shape(type_.get_shape(), groups))],
        properties={"reassociation": reassociation},
    )


def merged_shape(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return the sizes of merged dimensions, DYNAMIC where one of a group is."""
    sizes = [[shape[place] for place in group] for group in groups]
    return [DYNAMIC if DYNAMIC in group else math.prod(group) for group in sizes]
