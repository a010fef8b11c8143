"""Proofs of `check-indices{how=staged}`: the check stages the position of every index, and the copy reads these."""

import pytest

from gathernest.ir.modules.operator_module import gather_module

NEST = "nest,erase-sizes,drop-unit-loops"
LOOPS = "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse"
TILED_CHECK = "tile-loops{loops=check_indices sizes=32}"
SCHEDULES = {
    "plain": "",
    "parallel": f"{TILED_CHECK},parallelize-loops{{loops=outer,check_indices_o}}",
    "vectors": f"{TILED_CHECK},vectorize-inner{{lanes=4}}",
    "unrolled": f"{TILED_CHECK},unroll{{loop=inner factor=2}}",
    "prefetched": f"{TILED_CHECK},prefetch{{what=rows loop=indices ahead=4}}",
}


def left(verdicts):
    """Return what is not proved and not unchanged; the pass itself must be among the proved."""
    assert any(verdict.name.startswith("check-indices") and verdict.status == "proved" for verdict in verdicts)
    return [str(verdict) for verdict in verdicts if verdict.status not in ("proved", "unchanged")]


def steps(*given):
    return ",".join(filter(None, given))


@pytest.mark.draw(1)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("name", "bits"), [("gather", 8), ("gather_elements", 16)])
def test_staged_positions_are_proved_down_to_loops(name, schedule, bits, operator, prove):
    own = {"gather": ("loops=outer", "loops=batch"), "gather_elements": ("loop=indices", "loop=inner")}
    pipeline = steps(NEST, SCHEDULES[schedule].replace(*own[name]), f"check-indices{{how=staged bits={bits}}}", LOOPS)
    assert left(prove(operator(name, "error"), pipeline)) == []


@pytest.mark.draw(2)
@pytest.mark.parametrize("index", ["i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_positions_of_every_index_type_are_proved(index, operator, prove):
    assert left(prove(operator("gather", "error", index), steps(NEST, "check-indices{how=staged bits=8}"))) == []


@pytest.mark.draw(1)
@pytest.mark.parametrize("indices", ["5xi64", "5x6xi64", "5x6x7xi64", "5x1x7xi64", "5x4x4x1xi64"])
def test_positions_of_indices_of_known_sizes_are_proved(indices, prove):
    module = gather_module("5x30x4xf32", indices, axis=1, batch_dims=1)
    assert left(prove(module, steps("nest,drop-unit-loops,check-indices{how=staged}", LOOPS))) == []
