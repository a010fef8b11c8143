"""The pass `drop-unit-loops`: within the nest level."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.gather_dialect import LoopOp
from ...nest.builder import replace_op
from ...nest.queries import functions, loops, static_size


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
        for function in functions(op):
            for loop in loops(function):
                runs_once = static_size(loop.lower) == 0 and static_size(loop.upper) == 1
                if runs_once and (len(loops(loop)) > 1 or isinstance(loop.parent_op(), LoopOp)):
                    _inline(loop)


def _inline(loop: LoopOp) -> None:
    terminator = loop.terminator
    counted = list(terminator.operands)
    Rewriter.erase_op(terminator)
    Rewriter.inline_block(loop.body.block, InsertPoint.before(loop), [loop.lower])
    replace_op(loop, (), counted)
