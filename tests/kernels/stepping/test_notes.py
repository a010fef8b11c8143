"""What the steps of an element say in plain words, and what is said where a call or a stage is wrong."""

import json
import re
from html.parser import HTMLParser
from typing import ClassVar

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.modules.read_module import InputError
from gathernest.ir.semantics import Bounds
from gathernest.kernels.stepping.rule import explained

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
INDICES = np.array([4, -1, 0])
GRAD = np.arange(12, dtype=np.float32).reshape(3, 4)
SHARED = "tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o},vectorize-inner{lanes=4}"
STAGED = (
    "tile-loops{loops=indices sizes=2},interchange-loops{order=indices_o,outer,indices_i,inner},"
    "hoist-indices{before=outer}"
)


def notes(steps: gn.Steps) -> list[str]:
    return [one.note for one in steps]


def test_index_wrap_and_addresses_are_said():
    steps = gn.step("gather", DATA, INDICES, bounds="zero", element=(1, 1))
    for note in (
        "index = indices[1] = -1: byte 8, cache line 0",
        "wrapped = index + shift = -1 + 5 = 4 (wrap)",
        "inside = wrapped unsigned < size = 4 unsigned < 5 = true",
        "loaded = data[4, 1] = 17.0: byte 68, cache line 1",
        "element = loaded = 17.0, since inside is true",
        "17.0 is stored to out[1, 1]: byte 20, cache line 0",
    ):
        assert note in notes(steps)
    assert steps.remarks == (
        "element [1, 1] = 17.0",
        "rule: indices[1] = -1, -1 + 5 = 4 (wrap); out[1, 1] = data[4, 1]",
        "addresses: indices[1] byte 8, cache line 0; data[4, 1] byte 68, cache line 1; out[1, 1] byte 20, cache line 0",
        "thread: the calling one, since no loop is parallel",
    )


RULES = {
    ("zero", 7): "7 is outside [-5, 4]: a zero",
    ("error", -1): "-1 + 5 = 4 (wrap)",
    ("error", 7): "7 is outside [-5, 4]: an error",
    ("clip", 7): "min(max(7, 0), 4) = 4 (clip)",
    ("clip", -1): "min(max(-1, 0), 4) = 0 (clip)",
    ("wrap", 7): "7 mod 5 = 2 (wrap)",
    ("wrap", -1): "-1 mod 5 = 4 (wrap)",
    ("unchecked", 3): "3 is in [0, 5)",
    ("unchecked", -1): "-1 is outside [0, 5), which unchecked leaves undefined",
}


@pytest.mark.parametrize(("bounds", "index"), RULES)
def test_each_bounds_mode_says_what_an_index_means(bounds, index):
    said = RULES[bounds, index]
    assert explained(index, 5, Bounds(bounds)) == said
    for stage in ("operator", "lower-gather-to-nest"):
        steps = gn.step("gather", DATA, [index], bounds=bounds, stage=stage)
        assert any(said in note for note in notes(steps)), str(steps)
        assert any(said in remark for remark in steps.remarks)


def test_the_rule_of_the_operator_is_the_one_of_the_reference():
    steps = gn.step("gather_nd", DATA, [[4, -1], [0, 2]], stage="operator")
    assert notes(steps) == [
        "the rule for [0]: out[before.., after..] = data[before.., positions..]",
        "index = indices[0, 0] = 4: byte 0, cache line 0",
        "4 is in [0, 5)",
        "index = indices[0, 1] = -1: byte 8, cache line 0",
        "-1 + 4 = 3 (wrap)",
        "data[4, 3] = 19.0: byte 76, cache line 1",
        "19.0 is stored to out[0]: byte 0, cache line 0",
    ]


def test_tile_thread_and_lane_are_said():
    steps = gn.step("gather", DATA, INDICES, element=(2, 3), schedule=SHARED, stage="cse", threads=4)
    assert steps.remarks[-2:] == (
        "tile: 2 of 2 of indices_o",
        "thread: 1 of 0 to 3 begins with iteration 2 of 2; one that is done may take it over; this is indices_o 2 of 2",
    )
    place = "indices_o: i_o = 2 in 0..3 step 2, tile 2 of 2; the loop is parallel: thread 1 of 0 to 3 begins with "
    assert f"{place}iteration 2 of 2; one that is done may take it over" in notes(steps)
    assert steps[-1].note == "3.0 is stored to out[2, 3]: byte 44, cache line 0 (lane 3 of 4)"
    assert [(trip.loop, trip.value, trip.number, trip.count) for trip in steps[-1].trips] == [
        ("indices_o", 2, 1, 2),
        ("indices_i", 2, 0, 1),
        ("inner", 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("stage", "element", "threads", "said"),
    [
        ("cse", (1, 1, 0), 4, "1 of 0 to 3 begins with iterations 3 to 4 of 8; one that is done may take it over"),
        (
            "hoist-invariants",
            (3, 0, 0),
            3,
            "2 of 0 to 2 begins with iterations 6 to 8 of 8; one that is done may take it",
        ),
        ("cse", (3, 0, 0), 1, "the calling one, since there is one thread or one iteration"),
    ],
)
def test_several_parallel_loops_are_shared_as_one(stage, element, threads, said):
    schedule = "tile-loops{loops=indices sizes=2},interchange-loops{order=batch,indices_o,indices_i,inner},"
    steps = gn.step(
        "gather", "4x5x4xf32", "4x3xi64", 1, batch_dims=1, element=element, threads=threads, stage=stage,
        schedule=f"{schedule}parallelize-loops{{loops=batch,indices_o}}",
    )  # fmt: skip
    assert steps.remarks[-1].startswith(f"thread: {said}")
    bounds = [(trip.loop, trip.lower, trip.upper, trip.step) for trip in steps[-1].trips[:2]]
    assert bounds == [("batch", 0, 4, 1), ("indices_o", 0, 3, 2)]


def test_prefetches_of_its_iterations_are_steps_with_their_address():
    schedule = "prefetch-indices{loop=indices distance=1 lines=1 locality=3}"
    steps = gn.step("gather", DATA, INDICES, element=(1, 3), schedule=schedule)
    (found,) = [one for one in steps if one.op == "memref.prefetch"]
    assert found.note == "prefetches data[0, 0]: byte 0, cache line 0, inside"
    assert found.accesses == () and steps.sources == ((4, 3),) and steps.is_right
    assert steps[-1].op == "memref.store" and found.trips == steps[-1].trips[:1]
    far = re.sub(r"(memref.prefetch %data\[\S+ \S+ )%\w+", r"\1%n_axis", steps.text)
    outside = [one.note for one in gn.step("gather", DATA, INDICES, element=(1, 3), module=far)]
    assert "prefetches byte 80, cache line 1 of data, outside of the array: no error, and no use" in outside


def test_no_thread_at_all_is_rejected():
    with pytest.raises(gn.InvalidGatherError, match="threads must be a whole number from 1, got 0"):
        gn.step("gather", DATA, INDICES, threads=0)


def test_a_staged_index_is_followed_into_its_buffer():
    data = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
    steps = gn.step("gather", data, INDICES, 1, element=(2, 1, 3), schedule=STAGED, bounds="wrap")
    said = notes(steps)
    stored = said.index("4 is stored to positions[1]: byte 4, cache line 0")
    loaded = said.index("kept = positions[1] = 4: byte 4, cache line 0")
    assert said.index("index = indices[1] = -1: byte 8, cache line 0") < stored < loaded
    assert stored in steps[loaded].needs
    assert steps.sources == ((2, 4, 3),)


@pytest.mark.parametrize("stage", ["operator", "lower-gradient-to-nest", "cse"])
def test_a_gradient_has_its_contributions_in_order(stage):
    steps = gn.step("gather_grad", GRAD, [1, 4, 1], data_shape=(5, 4), element=(1, 2), scale=0.5, stage=stage)
    assert steps.sources == ((0, 2), (2, 2))
    assert steps.value == 6
    assert "contributions: 2, in this order: grad[0, 2], grad[2, 2]" in steps.remarks
    sums = [note for note in notes(steps) if "0.0 + 2.0 = 2.0" in note or "2.0 + 10.0 = 12.0" in note]
    assert len(sums) == 2 and "= 2.0" in sums[0] and "= 12.0" in sums[1]
    if stage == "operator":
        assert notes(steps)[-1] == "12.0 * 0.5 = 6.0 is stored to out[1, 2]: byte 24, cache line 0"
        whole = gn.step("gather_grad", GRAD, [1, 4, 1], data_shape=(5, 4), element=(1, 2), stage=stage)
        assert notes(whole)[-1] == "12.0 is stored to out[1, 2]: byte 24, cache line 0"


def test_an_index_outside_is_followed_to_the_error():
    steps = gn.step("gather", DATA, [4, -1, 7], element=(1, 1))
    assert steps.is_right and steps.value is None and steps.expected is None
    assert steps.remarks[0] == "element [1, 1]: the call fails: 1 index is out of range"
    assert "index = indices[2] = 7: byte 16, cache line 0" in notes(steps)
    assert steps[-1].note == "n_outside = 1, the sum over check_indices; the call fails"
    nest = gn.step("gather", DATA, [4, -1, 7], stage="lower-gather-to-nest")
    assert nest[-1].note == "7 is outside [-5, 4]: an error; the call fails"


def test_no_index_outside_is_said_of_the_check():
    steps = gn.step("gather", DATA, INDICES, element=(1, 1))
    assert notes(steps)[1:4] == [
        "n_outside = 0, the sum over check_indices: no index is outside",
        "all_inside = n_outside == 0 = 0 == 0 = true",
        "all_inside is true: this branch runs",
    ]


def edited(before: str, after: str) -> str:
    text = gn.compile("gather", DATA, INDICES, bounds="clip").stages["fold-bounds"]
    assert before in text
    return text.replace(before, after)


def test_a_stage_that_is_wrong_says_so():
    text = edited("arith.minsi %index, %last", "arith.maxsi %index, %last")
    steps = gn.step("gather", DATA, INDICES, bounds="clip", element=(2, 0), module=text)
    assert not steps.is_right and (steps.value, steps.expected) == (16, 0)
    assert steps.remarks[1] == "the stage is wrong here: the operator's reference gives 0.0"
    assert "lowered = max(index, last) = max(0, 4) = 4 (clip)" in notes(steps)
    assert steps[0].line is not None and "memref.dim" in text.splitlines()[steps[0].line - 1]


def test_an_access_outside_ends_the_steps():
    text = edited("%raised : i64 to index", "%index : i64 to index")
    steps = gn.step("gather", DATA, INDICES, bounds="clip", element=(0, 0), module=text)
    assert not steps.is_right
    assert steps[-1].op == "memref.load"
    assert steps[-1].note.startswith("this fails: access at (0, 0, -1, 0) is outside an array of shape (1, 1, 5, 4); ")


def test_an_element_that_is_not_written_says_so():
    text = edited("gather.loop inner(%j) = %c0_2", "gather.loop inner(%j) = %c1_1")
    steps = gn.step("gather", DATA, INDICES, bounds="clip", element=(2, 0), module=text)
    assert steps.remarks[:2] == (
        "element [2, 0]: the stage stores nothing there",
        "the stage is wrong here: the operator's reference gives 0.0",
    )
    assert len(steps) == 0 and not steps.is_right


def test_json_has_every_field_and_reads_back():
    steps = gn.step("gather", DATA, INDICES, element=(2, 3), schedule=SHARED, stage="cse", threads=4)
    facts = json.loads(json.dumps(steps.to_json()))
    assert (facts["element"], facts["value"], facts["sources"]) == ([2, 3], 3.0, [[0, 3]])
    assert len(facts["steps"]) == len(steps)
    last = facts["steps"][-1]
    assert last["accesses"][0] == {
        "array": "out",
        "position": [2, 3],
        "byte": 44,
        "cache_line": 0,
        "is_store": True,
        "value": 3.0,
        "unit": None,
    }
    assert last["values"]["element[3]"] == 3.0
    assert facts["text"].splitlines()[last["line"] - 1].strip() == last["text"]


class Rows(HTMLParser):
    cells: ClassVar[list[str]] = []

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


def test_html_has_every_step_with_its_text_escaped():
    steps = gn.step("gather", DATA, INDICES, bounds="zero")
    assert "<1x3xi64>" not in steps.to_html()
    rows = Rows()
    rows.feed(steps._repr_html_())
    assert [cell for cell in rows.cells if cell in notes(steps)] == notes(steps)


ERRORS = {
    "an element outside": ({"element": (3, 0)}, r"element 3,0 is outside of the result of shape \(3, 4\); give a posi"),
    "a number outside": ({"element": 12}, "element 12 is outside of .* or a number from 0 to 11"),
    "a position of another rank": ({"element": (1,)}, "element 1 is outside of the result of shape"),
    "a negative number": ({"element": -1}, "element -1 is outside of the result"),
    "no number": ({"element": 1.5}, "element 1.5 is outside of the result"),
    "an empty result": ({"indices": np.zeros(0, int)}, r"the result of shape \(0, 4\) is empty; give sizes from 1 on"),
    "another stage": ({"stage": "fold-bond"}, "there is no stage 'fold-bond'; the stages are operator, .*fold-bounds'"),
    "too large": ({"data": "1000x1000xf32", "indices": "1000xi64"}, "the gather has 1000000 elements, .*smaller sizes"),
    "objects": ({"data": np.array(["a", "b"], object)}, "elements of dtype object are not bytes to move"),
    "a gradient without a shape": ({"operator": "gather_grad"}, "gather_grad needs the shape of data, got none"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_arguments_have_clear_messages(case):
    changes, message = ERRORS[case]
    with pytest.raises(gn.GathernestError, match=message):
        gn.step(**{"operator": "gather", "data": DATA, "indices": INDICES, **changes})


def test_a_module_that_does_not_parse_has_its_place():
    with pytest.raises(InputError, match=r"<text>:1:1: .*modul"):
        gn.step("gather", DATA, INDICES, module="builtin.modul {}")


def test_a_stage_of_other_arrays_is_an_error():
    with pytest.raises(gn.InvalidGatherError, match="the stage is of other arrays"):
        gn.step("gather", DATA[:3], [0, 1, 2], bounds="clip", module=edited("%last", "%last"))


CONSTANT = """
func.func @gather(%data: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %indices = arith.constant dense<[1, -1]> : tensor<2xi64>
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
       : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}
"""


@pytest.mark.parametrize("stage", [None, "fold-bounds", "cse"])
def test_indices_that_the_module_holds_are_its_own(stage):
    steps = gn.step("gather", DATA, [1, -1], element=(1, 2), module=CONSTANT, stage=stage)
    assert steps.is_right and steps.sources == ((4, 2),)
    said = "index = indices[1] = -1" if stage is None else "index = constant indices[0, 1] = 4: byte 8, cache line 0"
    assert said in notes(steps)
    assert not any("constant" in remark for remark in steps.remarks)


def test_an_index_of_rank_0_has_the_empty_position():
    steps = gn.step("gather", np.arange(5.0), 3)
    assert (steps.element, steps.value, steps.sources) == ((), 3, ((3,),))


def test_an_undefined_element_is_not_called_wrong():
    steps = gn.step("gather", DATA, [-1], bounds="unchecked")
    assert steps.is_right and steps.expected is None
    assert steps.remarks[1] == "an index is outside, which bounds unchecked leaves undefined"
    assert steps[-1].note.startswith("this fails: access at (0, 0, -1, 0) is outside")


def test_an_empty_axis_gives_a_zero_by_the_other_branch():
    steps = gn.step("gather", np.zeros((0, 3)), [0], bounds="zero", stage="cse")
    assert steps.is_right and steps.sources == ()
    assert "inside is false: this branch runs" in notes(steps)


def indices_of(steps: gn.Steps) -> set[tuple[int, ...]]:
    return {access.position for one in steps for access in one.accesses if access.array == "indices"}


def test_a_lane_that_is_gathered_has_an_index_of_its_own():
    steps = gn.step(
        "gather", np.arange(9.0), np.arange(8), bounds="clip", element=6, schedule="vectorize-inner{lanes=4}"
    )
    assert any(one.op == "vector.from_elements" and one.lane == 2 for one in steps)
    assert steps.sources == ((6,),) and indices_of(steps) == {(6,)}


def test_a_lowered_check_is_followed_to_the_index_outside_alone():
    steps = gn.step("gather", DATA, [4, 7, -1, 8, 0], stage="cse")
    assert indices_of(steps) == {(1,), (3,)}
    assert steps[-1].note == "n_outside = 2, the sum over check_indices; the call fails"


def test_each_part_of_a_wide_element_is_followed():
    data = np.arange(60, dtype=np.uint8).view("V12")
    steps = gn.step("gather", data, [3, 1], element=1, stage="fold-bounds", bounds="wrap")
    assert {access.unit for one in steps for access in one.accesses if access.is_store} == {0, 1, 2}


def test_merged_dimensions_are_told_apart():
    steps = gn.step("gather", DATA, [[0, 1, 2], [3, 4, -1]], element=(1, 1, 3), bounds="wrap")
    assert "19.0 is stored to out[1, 1, 3]: byte 76, cache line 1" in notes(steps)
    assert indices_of(steps) == {(1, 1)}


def test_bytes_count_from_the_first_byte_of_an_array_that_is_reversed():
    steps = gn.step("gather", DATA[::-1], [0], element=(0, 1), bounds="wrap")
    assert any("data[0, 1] = 17.0: byte 68, cache line 1" in note for note in notes(steps))


@pytest.mark.parametrize("stage", ["operator", "lower-gather-to-nest"])
def test_an_unsigned_index_is_not_negative(stage):
    steps = gn.step("gather", DATA, np.array([200], np.uint8), bounds="clip", stage=stage)
    assert any("min(max(200, 0), 4) = 4 (clip)" in note for note in notes(steps))


def test_a_stage_that_accepts_an_index_outside_is_wrong():
    steps = gn.step("gather", DATA, [4, -1, 7], module=edited("%last", "%last"))
    assert not steps.is_right
    assert steps.remarks[1] == "the stage is wrong here: the operator's reference rejects the call"
