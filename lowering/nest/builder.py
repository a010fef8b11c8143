"""Building loop nests, for the passes that make one."""

from collections.abc import Iterable, Sequence

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, Signedness
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ...ir.dialects.gather_dialect import LoopOp, YieldOp
from ...ir.errors import ScheduleError
from .located import made_from, replace_op

# Lower bound, upper bound and step of a loop.
LoopBounds = tuple[SSAValue, SSAValue, SSAValue]


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


def insert_loop(
    builder: Builder,
    name: str,
    bounds: Sequence[SSAValue],
    induction: str | None,
    source: Operation | None = None,
    **kind: bool,
) -> LoopOp:
    """Insert an empty loop of a name, (lower, upper, step) and a kind, made from `source`; it has no terminator yet."""
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = induction
    lower, upper, step = bounds
    loop = LoopOp(name, lower, upper, step, body, **kind)
    return builder.insert(loop if source is None else made_from(source, loop))


def tile_end(builder: Builder, start: SSAValue, step: SSAValue, upper: SSAValue) -> SSAValue:
    """Insert where a tile of `step` ends that begins at `start`: at `upper` where that comes first."""
    limit = named(builder, arith.AddiOp(start, step), "limit")
    return named(builder, arith.MinSIOp(limit, upper), "end")


def tile_bounds(builder: Builder, around: LoopOp) -> LoopBounds:
    """Return the bounds of what one iteration of a loop over tiles runs through."""
    end = tile_end(builder, around.induction, around.step, around.upper)
    return around.induction, end, index_constant(builder, 1)


def sum_up(around: Iterable[LoopOp], count: SSAValue) -> SSAValue:
    """Let loops, innermost first, sum a count of the first one's iterations, and return the sum of all."""
    for loop in around:
        Rewriter.erase_op(loop.terminator)
        loop.body.block.add_op(made_from(loop, YieldOp(count)))
        body, bounds = loop.detach_region(loop.body), (loop.lower, loop.upper, loop.step)
        summing = LoopOp(loop.label, *bounds, body, **kind_of(loop) | {"sums": True})
        replace_op(loop, summing, [])
        assert summing.total is not None
        summing.total.name_hint, count = count.name_hint, summing.total
    return count


def unguard(branch: scf.IfOp) -> None:
    """Put what a branch without a result does in its place; its condition goes with it."""
    for op in list(branch.true_region.block.ops):
        if not isinstance(op, scf.YieldOp):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(branch))
    condition = branch.cond.owner
    Rewriter.erase_op(branch)
    assert isinstance(condition, Operation)
    Rewriter.erase_op(condition)


def kind_of(loop: LoopOp) -> dict[str, bool]:
    """Return what `insert_loop` takes to make another loop of the kind."""
    return {"sums": loop.total is not None, "parallel": loop.parallel is not None, "ordered": loop.ordered is not None}


def named(builder: Builder, op: Operation, name: str | None) -> SSAValue:
    """Insert an operation of one result, and give the result a name."""
    (result,) = builder.insert(op).results
    result.name_hint = name
    return result


def compute(
    builder: Builder, op: type[arith.SignlessIntegerBinaryOperation], left: SSAValue, right: SSAValue | int, name: str
) -> SSAValue:
    """Insert an operation of two operands, of which a number is a constant index, and give the result a name."""
    return named(builder, op(left, index_constant(builder, right) if isinstance(right, int) else right), name)


def index_constant(builder: Builder, value: int) -> SSAValue:
    """Insert `arith.constant value : index`, named after its value."""
    return named(builder, arith.ConstantOp.from_int_and_width(value, IndexType()), f"c{value}")


def size_of(builder: Builder, source: SSAValue, dim: int, name: str) -> SSAValue:
    """Insert the size of a memref along a dimension."""
    return named(builder, memref.DimOp(source, index_constant(builder, dim)), f"n_{name}")
