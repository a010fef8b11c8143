"""The pass `unroll`: within the scheduled nest, level 3."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.gather_dialect import LoopOp, YieldOp
from ....ir.errors import ScheduleError
from ...nest.builder import builder_at_end, induction_of_copy, split_off_remainder
from ...nest.queries import clone_slice, find_loop, functions, static_size
from ...schedule import steps


@steps.pass_of_step
class Unroll(ModulePass, steps.Unroll):
    """Run several iterations of a loop in one, without a test between them.

    Their order stays. The last iterations, which make no whole step, go to a remainder loop, `inner_rest`.

    before                              after unroll{loop=inner factor=4}
        for inner in 0..n                   for inner in 0..n - n % 4 step 4
          out[i, j] = data[p, j]              out[i, j] = data[p, j]
                                              out[i, j + 1] = data[p, j + 1]
                                              ...
                                            for inner_rest in n - n % 4..n
                                              out[i, j] = data[p, j]

    Preconditions: the loop has step 1, is neither parallel nor a sum, and has no loop in it.

    Input:
        gather.loop inner(%j) = %c0 to %n step %c1 { ... }
    Output:
        gather.loop inner(%j) = %c0 to %whole step %c4 { ... }
        gather.loop inner_rest(%j) = %whole to %n step %c1 { ... }

    Raises:
        ScheduleError: a precondition does not hold.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _unroll(find_loop(function, self.loop), self.factor)


def _unroll(loop: LoopOp, factor: int) -> None:
    if loop.parallel is not None or loop.total is not None:
        kind = "parallel" if loop.parallel is not None else "a sum"
        raise ScheduleError(f"unroll: {loop.label} is {kind}; unroll a loop inside it")
    if static_size(loop.step) != 1:
        raise ScheduleError(f"unroll: {loop.label} takes several iterations at a time already")
    ops = [op for op in loop.body.block.ops if not isinstance(op, YieldOp)]
    if any(op.regions for op in ops):
        raise ScheduleError(f"unroll: {loop.label} is not innermost; unroll a loop inside it")
    body, has_remainder = split_off_remainder(loop, factor)
    body.ordered = loop.ordered
    builder = builder_at_end(body)
    for copy in range(factor):
        clone_slice(ops, builder, {loop.induction: induction_of_copy(builder, body, copy)})
    builder.insert(YieldOp())
    if not has_remainder:
        Rewriter.erase_op(loop)
