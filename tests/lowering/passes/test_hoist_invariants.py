"""How much work `hoist-invariants` does; what it moves is in tests/filecheck."""

import sys

from gathernest.ir.modules.context import make_context, parse_module
from gathernest.lowering.passes.loops.hoist_invariants import HoistInvariants
from gathernest.lowering.pipeline import run_passes

SOURCE = """
func.func @gather(%data: tensor<9x4096xf32>, %indices: tensor<70xi64>) -> tensor<70x4096xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
    : tensor<9x4096xf32>, tensor<70xi64> -> tensor<70x4096xf32>
  func.return %r : tensor<70x4096xf32>
}
"""


def calls_with(lines: int) -> int:
    """Return how many Python functions the pass calls for a loop that prefetches so many lines in each step."""
    before = f"nest,erase-sizes,drop-unit-loops,prefetch{{what=rows loop=indices ahead=1 lines={lines}}}"
    module, context = parse_module(SOURCE), make_context()
    run_passes(module, before, context)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call"

    outer = sys.getprofile()
    sys.setprofile(count)
    try:
        HoistInvariants().apply(context, module)
    finally:
        sys.setprofile(outer)
    return calls


def test_four_times_as_many_prefetches_are_at_most_five_times_as_much_work():
    assert calls_with(64) <= 5 * calls_with(16)
