"""The pass `normalize-gather`: operator level in and out."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from ....ir.dialects.gather_dialect import OperatorOp
from ...nest.builder import rewrite_ops


@dataclass(frozen=True)
class NormalizeGather(ModulePass):
    """Make axis and batch_dims of every gather non-negative.

    A negative axis counts from the rank of data, a negative batch_dims from the rank of indices. Their ranges, and the
    sizes of the batch dimensions, are checked with the operator's own words.

    Preconditions: none.

    Input:
        %r = gather.gather %data, %indices axis -1 batch_dims -1 bounds error
            : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
    Output:
        %r = gather.gather %data, %indices axis 1 batch_dims 1 bounds error
            : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>

    Raises:
        InvalidGatherError: an attribute is out of its range, or batch sizes differ.
    """

    name = "normalize-gather"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _NormalizeOperator())


class _NormalizeOperator(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: OperatorOp, rewriter: PatternRewriter) -> None:
        op.normalize()
        rewriter.notify_op_modified(op)
