"""A pass of one's own: a frozen dataclass over the module, run between ours, and checked by `gn.bisect`."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.gather_dialect import LoopOp
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, verify_module
from gathernest.ir.modules.operator_module import gather_module
from gathernest.ir.modules.pseudocode import print_loop_nest
from gathernest.lowering.passes.schedule.order_loops import InterchangeLoops
from gathernest.lowering.pipeline import parse_passes, run_pipeline


@dataclass(frozen=True)
class ReverseLoops(ModulePass):
    """Turn a nest inside out, so that its innermost loop stands outermost."""

    name = "reverse-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names = [loop.label for loop in op.walk() if isinstance(loop, LoopOp)]
        InterchangeLoops(tuple(reversed(names))).apply(ctx, op)


data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
indices = np.array([2, 0, -1])
module = gather_module(ArraySpec.of(data), ArraySpec.of(indices), axis=1)
run_pipeline(module, "canonical")
run_pipeline(module, "lower-to-nest,drop-unit-loops")
ReverseLoops().apply(make_context(), module)
verify_module(module)
print(print_loop_nest(module))

out = np.zeros((2, 3, 4), np.float32)
interpret(module, data, indices, out)
assert out.tobytes() == np.take(data, indices, axis=1).tobytes()

# The same on arrays of other values and sizes: a wrong pass would be named, with a small gather that it breaks.
passes = [*parse_passes("canonical,lower-to-nest,drop-unit-loops"), ReverseLoops()]
assert gn.bisect("gather", data, indices, 1, pipeline=passes) is None
