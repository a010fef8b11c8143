"""The pass `drop-unit-loops`: within the nest level."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from ....ir.dialects.gather_dialect import LoopOp
from ...nest.builder import rewrite_ops
from ...nest.queries import loops, static_size


@dataclass(frozen=True)
class DropUnitLoops(ModulePass):
    """Replace loops that are known to run once by their bodies.

    A gather along the first axis has no batch and no outer dimension; the canonical form gives both size 1. Without
    their loops the nest is what the schedule works on.

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
