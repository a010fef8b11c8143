"""Proofs of `check-indices{how=staged}`: the check stages the position of every index, and the copy reads these."""

import pytest

from gathernest.ir.modules.operator_module import gather_module

from .conftest import Edit

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


@pytest.mark.draw(2)
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["gather", "gather_elements"])
def test_staged_positions_are_proved_down_to_loops(name, schedule, bits, operator, prove):
    own = {"gather": ("loops=outer", "loops=batch"), "gather_elements": ("loop=indices", "loop=inner")}
    pipeline = steps(NEST, SCHEDULES[schedule].replace(*own[name]), f"check-indices{{how=staged bits={bits}}}", LOOPS)
    assert left(prove(operator(name, "error"), pipeline)) == []


@pytest.mark.draw(4)
@pytest.mark.parametrize("index", ["i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_positions_of_every_index_type_are_proved(index, operator, prove):
    assert left(prove(operator("gather", "error", index), steps(NEST, "check-indices{how=staged bits=8}"))) == []


@pytest.mark.draw(2)
@pytest.mark.parametrize("indices", ["5xi64", "5x6xi64", "5x6x7xi64", "5x1x7xi64", "5x4x4x1xi64"])
def test_positions_of_indices_of_known_sizes_are_proved(indices, prove):
    module = gather_module("5x30x4xf32", indices, axis=1, batch_dims=1)
    assert left(prove(module, steps("nest,drop-unit-loops,check-indices{how=staged}", LOOPS))) == []


PIPELINE = steps(NEST, SCHEDULES["parallel"].replace("loops=outer", "loops=batch"), "check-indices{how=staged bits=8}")
SAMPLED = "a sampled gather gives other bytes"
OTHER_POSITION = "an index leads to another position"
WRONG = {
    "an axis with more positions than bits": (
        "gather.most_axis_size = 256",
        "gather.most_axis_size = 257",
        OTHER_POSITION,
    ),
    "a position as a signed integer": ("arith.extui %narrow_17", "arith.extsi %narrow_17", "reaches outside of data"),
    "the position behind": (
        "%narrow_17 = memref.load %positions[%place]",
        "%behind = arith.addi %place, %c1 : index\n%narrow_17 = memref.load %positions[%behind]",
        "memref.load reaches outside of the staged positions",
    ),
    "rows of another size": ("memref.dim %indices, %c1_3", "memref.dim %indices, %c0_3", SAMPLED),
    "batches of another array": ("arith.muli %b, %n_row", "arith.muli %o, %n_row", "reaches outside of"),
    "columns of another loop": ("arith.addi %row, %i :", "arith.addi %row, %j :", "reaches outside of"),
    "the last positions are not staged": (
        "memref.store %narrow_16, %positions[%i_i_16] : memref<?xi8>",
        "",
        "a position is read that the check does not stage",
    ),
    "the last positions are not resolved": ("arith.trunci %wrapped_16", "arith.trunci %index_16", SAMPLED),
    "a lane is staged twice": ("from_elements %narrow, %narrow_1,", "from_elements %narrow, %narrow,", SAMPLED),
    "positions are staged one late": (
        "vector.store %narrow_lanes, %positions[%i_i]",
        "vector.store %narrow_lanes, %positions[%i_i_1]",
        SAMPLED,
    ),
    "tiles overlap": (
        "arith.addi %i_o, %c32",
        "arith.addi %i_o, %n_index_run",
        "two iterations of the parallel loop check_indices_o stage one position",
    ),
    "memory of another size": (
        "memref.alloc(%n_index_run)",
        "memref.alloc(%n_indices)",
        "outside of the staged positions",
    ),
    "memory that is freed": (
        "scf.if %all_inside",
        "memref.dealloc %positions : memref<?xi8>\nscf.if %all_inside",
        "memref.load uses memory that is freed",
    ),
    "a lane is not resolved": ("%narrow_1 = arith.trunci %wrapped_1", "%narrow_1 = arith.trunci %index_1", SAMPLED),
    "no lane but one is resolved": (
        "from_elements %narrow, %narrow_1, %narrow_2, %narrow_3,",
        "from_elements %narrow, %narrow, %narrow, %narrow,",
        SAMPLED,
    ),
    "a lane is counted otherwise": (
        "%1 = arith.extui %outside_1 : i1 to i64",
        "%1 = arith.subi %index_1, %index_1 : i64",
        "an index outside is not found",
    ),
    "a lane is not checked": ("from_elements %0, %1,", "from_elements %0, %0,", "an index is not checked"),
}


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", WRONG)
def test_a_pass_that_breaks_staged_positions_is_refuted(name, operator, prove):
    old, new, reason = WRONG[name]
    *_, verdict = prove(operator("gather", "error"), PIPELINE, Edit(old, new))
    assert verdict.status == "refuted", str(verdict)
    assert reason in verdict.reason
    assert verdict.example is not None
