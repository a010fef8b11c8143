"""Prefetches that have a loop of their own: which go there, how deep the nest is, and what is rejected."""

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.dialects.gather_dialect import LoopOp
from gathernest.ir.dialects.upstream import PrefetchOp
from gathernest.ir.modules.context import make_context
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import GatherReduce
from gathernest.lowering.nest.queries import functions, loops
from gathernest.lowering.pipeline import run_passes
from gathernest.lowering.registry import PIPELINES

NEST = PIPELINES["nest"] + ",drop-unit-loops"
FAR, NEAR = (f"prefetch{{what=rows loop=bag {options}}}" for options in ("ahead=64 lines=2 locality=2", "ahead=4"))
BOTH = f"{FAR},{NEAR}"


def apart(prefetch: str, loop: str) -> str:
    return prefetch.replace("}", f" separate={loop}}}")


def prefetched(steps: str) -> dict[str, list[int]]:
    """Return the localities of the prefetches in each loop, itself or inside it, of bags under some passes."""
    module = operator_module(GatherReduce(), ArraySpec.parse("900x32xf32"), ArraySpec.parse("70x9xi64"), bounds="zero")
    run_passes(module, f"{NEST},{steps}", make_context())
    (function,) = functions(module)
    found = {loop: [op for op in loop.walk() if isinstance(op, PrefetchOp)] for loop in loops(function)}
    return {str(loop.label): [op.locality.value.data for op in ops] for loop, ops in found.items() if ops}


def test_prefetches_of_one_pass_go_to_a_loop_of_their_own():
    assert sorted(prefetched(BOTH)["bag"]) == [2, 2, 3]
    for steps in (f"{apart(FAR, 'bag')},{NEAR}", f"{NEAR},{apart(FAR, 'bag')}"):
        found = prefetched(steps)
        assert (found["prefetch_bag"], found["bag"]) == ([2, 2], [3])
    assert prefetched(f"{FAR},{apart(NEAR, 'bag')}")["bag"] == [2, 2]


def test_a_loop_around_others_is_copied_with_those_around_the_prefetches():
    tiles = "tile-loops{loops=indices sizes=4}"
    found = prefetched(f"{tiles},{NEAR},{apart(FAR, 'indices_i')}")
    assert found["prefetch_indices_i"] == found["prefetch_bag"] == [2, 2]
    assert found["indices_i"] == found["bag"] == [3]
    assert sorted(found["indices_o"]) == [2, 2, 3]


def test_a_loop_of_prefetches_is_named_apart_and_runs_as_often():
    module = operator_module(GatherReduce(), ArraySpec.parse("900x32xf32"), ArraySpec.parse("70x9xi64"), bounds="zero")
    run_passes(module, f"{NEST},{NEAR},{apart(FAR, 'bag')}", make_context())
    (function,) = functions(module)
    made, bag = (next(loop for loop in loops(function) if loop.label == name) for name in ("prefetch_bag", "bag"))
    loads = [op.name for op in bag.walk() if op.name == "memref.load"]
    assert len(loads) == 3  # of the element, of its index, and of that of the near prefetch
    assert isinstance(made, LoopOp) and made.label.nest == "prefetch" and made.next_op is bag
    assert (made.lower, made.upper, made.step) == (bag.lower, bag.upper, bag.step)
