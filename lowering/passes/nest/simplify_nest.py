"""The passes `erase-sizes` and `drop-unit-loops`, within the nest level."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.canonical import Operand, erased
from ....ir.dialects.attributes import NARROW_AXES
from ....ir.dialects.gather_dialect import LoopOp
from ....ir.dialects.types import memref_type, strides_of
from ....ir.errors import ScheduleError
from ....ir.semantics import LARGEST_NARROW_AXIS
from ...nest.builder import merged_shape, rewrite_ops
from ...nest.queries import functions, loops, merged_dims, static_size, view_of


@dataclass(frozen=True)
class EraseSizes(ModulePass):
    """Make sizes and strides run-time arguments.

    One kernel then serves every shape. A kernel is still made for dimensions of size 1 (their loops vanish later), the
    length of tuples, the contiguous layout, and strides of one element, which stay static. The size of an axis is
    always a run-time argument. Facts that `fold-bounds` took from the sizes stay on the function as
    `gather.min_axis_sizes`; `gather.narrow_axes` says that every axis is smaller than 2**31.

    Preconditions: arguments carry `#gather.view`. Functions with constant indices keep their sizes: their positions
    hold for one axis only.

    Input:
        func.func @gather(%data: memref<1x2x5x12xi32>, %indices: memref<1x42xi64>, %out: memref<1x2x42x12xi32>)
    Output:
        func.func @gather(%data: memref<1x?x?x?xi32>, %indices: memref<1x?xi64>, %out: memref<1x?x?x?xi32>)

    Raises:
        ScheduleError: a loop relies on the sizes already.
    """

    name = "erase-sizes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if not any(isinstance(inner, memref.GetGlobalOp) for inner in function.walk()):
                _erase(function)


def _erase(function: func.FuncOp) -> None:
    for loop in loops(function):  # a constant end, or a tile proved to fit, is right for the present sizes only
        ends = list(loop.upper.owner.operands) if isinstance(loop.upper.owner, arith.MinSIOp) else [loop.upper]
        if not any(isinstance(end.owner, memref.DimOp) for end in ends):
            raise ScheduleError(
                f"erase-sizes: the end of {loop.label} relies on the sizes; run erase-sizes before that"
            )
    viewed = [
        (argument, type_, view.dims)
        for argument in function.body.block.args
        if isinstance(type_ := argument.type, MemRefType) and (view := view_of(argument, function)) is not None
    ]
    dims_and_sizes = [dim for _, type_, dims in viewed for dim in zip(dims, type_.get_shape(), strict=True)]
    if all(0 <= size <= LARGEST_NARROW_AXIS for dim, size in dims_and_sizes if dim.role == "axis"):
        function.attributes[NARROW_AXES] = UnitAttr()
    for argument, type_, dims in viewed:
        known = erased(Operand(dims, (), type_.get_shape(), strides_of(type_)))
        Rewriter.replace_value_with_new_type(argument, memref_type(known.shape, type_.element_type, known.strides))
    for view in [op for op in function.walk() if isinstance(op, memref.CollapseShapeOp)]:
        source = SSAValue.get(view.src, type=MemRefType).type
        shape = merged_shape(source.get_shape(), merged_dims(view))
        Rewriter.replace_value_with_new_type(view.result, MemRefType(source.element_type, shape))
    function.update_function_type()


@dataclass(frozen=True)
class DropUnitLoops(ModulePass):
    """Replace loops that are known to run once by their bodies.

    A gather along the first axis has no batch and no outer dimension; the canonical form gives both size 1. The
    schedule works on the nest without their loops.

    before                              after
        for batch in 0..1                   for indices in 0..n
          for outer in 0..1                   for inner in 0..m
            for indices in 0..n                 out[0, 0, i, j] = ...
              for inner in 0..m
                out[b, o, i, j] = ...

    Preconditions: none.

    Input:
        gather.loop batch(%b) = %c0 to %n_batch step %c1 { gather.loop indices(%i) = ... }
    Output:
        gather.loop indices(%i) = ... { ... }

    What it does not do: drop the last loop of a nest, even where it runs once.
    """

    name = "drop-unit-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _InlineUnitLoop())


class _InlineUnitLoop(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoopOp, rewriter: PatternRewriter) -> None:
        runs_once = static_size(op.lower) == 0 and static_size(op.upper) == 1
        if runs_once and (len(loops(op)) > 1 or isinstance(op.parent_op(), LoopOp)):
            counted = list(op.terminator.operands)
            rewriter.erase(op.terminator)
            rewriter.inline_block(op.body.block, InsertPoint.before(op), [op.lower])
            rewriter.replace(op, (), counted)
