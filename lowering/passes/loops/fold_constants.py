"""The pass `fold-constants`: the folds that our IR needs and xDSL's `canonicalize` lacks, within the loops level."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand

from ...nest.builder import made_from
from ...nest.queries import static_size


@dataclass(frozen=True)
class FoldConstants(ModulePass):
    """Fold operations that static sizes make constant.

    * `memref.dim` of a static size, and `arith.index_cast` of a constant, become constants.
    * `arith.minsi` and `arith.addi` of constants fold; a minimum of a value with itself is the value.

    Loops that run once and conditions that are constant are left to `canonicalize`.

    Preconditions: none.

    Input:
        %n = memref.dim %data, %c0 : memref<1x?x?x?xi32>
        %size = arith.index_cast %n : index to i64
    Output:
        %size = arith.constant 1 : i64
    """

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = GreedyRewritePatternApplier([_FoldDim(), _FoldCast(), _FoldArithmetic()])
        PatternRewriteWalker(patterns).rewrite_module(op)


class _FoldDim(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: memref.DimOp, rewriter: PatternRewriter) -> None:
        if (size := static_size(op.result)) is not None:
            _replace(rewriter, op, size, IndexType())


class _FoldCast(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.IndexCastOp, rewriter: PatternRewriter) -> None:
        if (value := const_evaluate_operand(op.input)) is not None and op.result.type in (IndexType(), IntegerType(64)):
            _replace(rewriter, op, value, op.result.type)


class _FoldArithmetic(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.MinSIOp | arith.AddiOp, rewriter: PatternRewriter) -> None:
        left, right = const_evaluate_operand(op.lhs), const_evaluate_operand(op.rhs)
        if isinstance(op, arith.MinSIOp) and op.lhs is op.rhs:
            rewriter.replace(op, (), [op.lhs])
        elif left is not None and right is not None and isinstance(op.result.type, IndexType):
            value = min(left, right) if isinstance(op, arith.MinSIOp) else left + right
            _replace(rewriter, op, value, IndexType())


def _replace(rewriter: PatternRewriter, op: Operation, value: int, kind: IndexType | IntegerType) -> None:
    rewriter.replace(op, made_from(op, arith.ConstantOp.from_int_and_width(value, kind)))
