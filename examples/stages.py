"""Every stage of a gather: the operator, the nest, the scheduled nest, the source that Numba compiles."""

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.pseudocode import print_loop_nest

kernel = gn.compile("gather", "1000x64xf32", "100xi64", bounds="zero")
print(kernel.pipeline, "\n")
print(kernel.stages["operator"])
for stage in ("lower-to-nest", "drop-unit-loops", "hoist-invariants"):
    print(f"after {stage}:")
    print(print_loop_nest(parse_module(kernel.stages[stage])))
print(kernel.source)
