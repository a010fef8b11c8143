"""`gathernest.run_stage`: every stage by both engines of ours, and stages that were edited."""

import itertools
import re

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.playground.check import check_stage
from gathernest.playground.stage import parsed, rest_of

# tests/upstream has the tests of the other.
ENGINES = "interpreter", "numba"

DATA = np.arange(40, dtype=np.float32).reshape(5, 8)
INDICES = np.array([[1, -1], [3, 0]])
SCHEDULE = "tile-loops{loops=indices sizes=3},vectorize-inner{lanes=4}"


@pytest.mark.draw(4)
@pytest.mark.parametrize("schedule", ["", SCHEDULE])
@pytest.mark.parametrize(
    ("axis", "bounds"), [(0, "error"), (1, "zero"), (1, "clip"), (0, "wrap")], ids=["error", "zero", "clip", "wrap"]
)
def test_every_stage_gives_the_bytes_of_the_gather(axis, bounds, schedule):
    options = {"axis": axis, "bounds": bounds}
    wanted = gn.gather(DATA, INDICES, **options)
    stages = gn.compile("gather", DATA, INDICES, schedule=schedule, **options).stages
    for name, text in stages.items():
        assert gn.run_stage(text, DATA, INDICES, **options).tobytes() == wanted.tobytes(), name


@pytest.mark.draw(2)
@pytest.mark.parametrize("stage", ["operator", "collapse-dims", "fold-bounds", "vectorize-inner", "cse"])
def test_every_level_is_compiled(stage):
    text = gn.compile("gather", DATA, INDICES, schedule=SCHEDULE).stages[stage]
    got = gn.run_stage(text, DATA, INDICES, engine="numba")
    assert got.tobytes() == gn.gather(DATA, INDICES).tobytes()


@pytest.mark.thorough
def test_every_stage_of_a_gradient_gives_its_bytes():
    grad, indices = np.arange(12, dtype=np.float64).reshape(3, 4), np.array([4, 1, 4])
    wanted = gn.gather_grad(grad, indices, (5, 4), scale=0.5)
    for name, text in gn.compile("gather_grad", np.zeros((5, 4)), indices, scale=0.5).stages.items():
        for engine in ENGINES if name in ("operator", "cse") else ENGINES[:1]:
            got = gn.run_stage(text, grad, indices, operator="gather_grad", data_shape=(5, 4), scale=0.5, engine=engine)
            assert got.tobytes() == wanted.tobytes(), name


def test_passes_run_first_and_a_file_is_read(tmp_path):
    file = tmp_path / "gather.mlir"
    file.write_text(gn.compile("gather", DATA, INDICES).stages["operator"])
    assert (gn.run_stage(file, DATA, INDICES, pipeline="nest") == DATA[INDICES]).all()
    assert "gather.loop" not in str(parsed(file))


def test_what_is_not_written_stands_out():
    text = gn.compile("gather", DATA, INDICES).stages["fold-bounds"]
    got = gn.run_stage(text.replace("memref.store %element", "%c9 = arith.constant 9 : index //"), DATA, INDICES)
    assert set(got.tobytes()) == {0xA5}


def test_the_rest_of_a_pipeline_is_what_a_stage_has_not_been_through():
    stages = gn.compile("gather", DATA, INDICES).stages
    rests = {name: rest_of(parse_module(text)).split(",") for name, text in stages.items()}
    for name, before in itertools.pairwise(("operator", "collapse-dims", "fold-bounds", "lower-nest-to-loops")):
        assert len(rests[name]) > len(rests[before])
    assert rests["operator"][0] == "normalize-gather"
    assert rests["collapse-dims"][0] == "lower-to-nest"
    assert rests["lower-to-nest"][0] == "fold-bounds"
    assert rests["fold-bounds"][0] == "hoist-invariants"
    assert rests["cse"] == [""]


def test_an_index_that_is_not_valid_is_an_error_of_both_engines():
    text = gn.compile("gather", DATA, INDICES).stages["fold-bounds"]
    for engine in ENGINES:
        with pytest.raises(gn.BoundsError, match="1 index is out of range"):
            gn.run_stage(text, DATA, [[1, 5], [0, 0]], engine=engine)


def test_an_access_outside_names_the_operation_its_line_and_the_iteration():
    text = gn.compile("gather", DATA, INDICES).stages["fold-bounds"]
    edited = text.replace("%position = arith.index_cast %lowered", "%position = arith.index_cast %twice_1").replace(
        "%position =", "%twice_1 = arith.addi %index_1, %size_1 : i64\n%position ="
    )
    line = next(number for number, row in enumerate(edited.splitlines(), 1) if "%element = memref.load" in row)
    wanted = rf"access at \(0, 0, 6, \d\) is outside .*; memref.load on line {line} at %b = 0, %o = 0, %i = 0, %j = \d"
    with pytest.raises(gn.InternalError, match=wanted):
        gn.run_stage(edited, DATA, [[1, 1], [1, 1]])


EDITS = {
    "a loop begins late": (
        "gather.loop inner(%j) = %c0_2 to",
        "gather.loop inner(%j) = %c1_1 to",
        r"at \[0, 0, 0\] of the result it must give data\[1, 0\], 8.0, and nothing is written there; 4 of 32 elements",
    ),
    "a store in the wrong place": (
        "%out[%b_1, %o, %i_1, %j]",
        "%out[%b_1, %o, %i_1, %c0_2]",
        r"at \[0, 0, 0\] of the result it must give data\[1, 0\], 8.0, and it gives \d+.0, "
        r"stored by memref.store on line \d+ at %b = 0, %o = 0, %i = 0, %j = \d; ",
    ),
    "the wrap and the clamp are dropped": (
        "%position = arith.index_cast %lowered :",
        "%position = arith.index_cast %index_1 :",
        r"access at \(0, 0, -1, \d\) is outside an array of shape \(1, 1, 5, 8\); memref.load on line \d+ at ",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_that_changes_the_result_is_found_with_its_writer(edit):
    before, after, message = EDITS[edit]
    kernel = gn.compile("gather", DATA, INDICES)
    text = kernel.stages["fold-bounds"]
    assert before in text
    text = text.replace(before, after).replace("%index_1 =", "%c0_3 = arith.constant 0 : i64\n%index_1 =")
    difference = check_stage(parsed(text), kernel.problem, DATA, INDICES, "interpreter")
    assert difference is not None
    assert re.search(message, str(difference)), str(difference)


def test_a_gather_that_must_be_rejected_and_is_not_is_a_difference():
    kernel = gn.compile("gather", DATA, INDICES, bounds="clip")
    wrong = gn.compile("gather", DATA, INDICES).problem
    difference = check_stage(parsed(kernel.stages["fold-bounds"]), wrong, DATA, INDICES + 5, "interpreter")
    assert "it must be rejected (index 6 at position (0, 0) of indices is out of range [-5, 4]" in str(difference)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("pattern", "into", "message"),
    [
        (r"inner\[1\]", "inner[7]", r"^data of 5x8xf32: .* names a dimension that it does not have; the stage"),
        (r"constant 3 : index", f"constant {2**63 - 1} : index", r"memref.dim: memref<.*> has dimensions"),
    ],
)
def test_a_dimension_that_an_array_does_not_have_is_an_error(engine, pattern, into, message):
    text = gn.compile("gather", DATA, INDICES[0]).stages["lower-to-nest"]
    edited, count = re.subn(pattern, into, text, count=1)
    assert count
    with pytest.raises(gn.GathernestError, match=message):
        gn.run_stage(edited, DATA, INDICES[0], engine=engine)
