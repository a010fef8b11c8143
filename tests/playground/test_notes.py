"""What the steps of an element say, each a golden, and what is said where a call or a stage is wrong."""

import json
import re

import numpy as np
import pytest

import gathernest as gn

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
CUBE = np.arange(60, dtype=np.float32).reshape(3, 5, 4)
INDICES = np.array([4, -1, 0])
GRAD = np.arange(12, dtype=np.float32).reshape(3, 4)
SHARED = "tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o},vectorize-inner{lanes=4}"
STAGED = (
    "tile-loops{loops=indices sizes=2},interchange-loops{order=indices_o,outer,indices_i,inner},"
    "hoist-indices{before=outer}"
)
PARALLEL = (
    "tile-loops{loops=indices sizes=2},interchange-loops{order=batch,indices_o,indices_i,inner},"
    "parallelize-loops{loops=batch,indices_o}"
)
PREFETCH = "prefetch{what=rows loop=indices ahead=1 locality=3}"
BATCHES = {"axis": 1, "batch_dims": 1, "schedule": PARALLEL}
OUTSIDE = {"error": (-1, 7), "zero": (7,), "clip": (7, -1), "wrap": (7, -1), "unchecked": (3, -1)}
CONSTANT = """
func.func @gather(%data: tensor<5x4xf32>) -> tensor<2x4xf32> {
  %indices = arith.constant dense<[1, -1]> : tensor<2xi64>
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
       : tensor<5x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
  func.return %r : tensor<2x4xf32>
}
"""


def edited(before: str, after: str) -> str:
    text = gn.compile("gather", DATA, INDICES, bounds="clip").stages["fold-bounds"]
    assert before in text
    return text.replace(before, after)


# The arguments of `step` by the golden of each.
STEPPED = {
    **{
        f"{bounds}_{index}_lower-to-nest": (("gather", DATA, [index]), {"bounds": bounds, "stage": "lower-to-nest"})
        for bounds, indices in OUTSIDE.items()
        for index in indices
    },
    "wrapped_index": (("gather", DATA, INDICES), {"bounds": "zero", "element": (1, 1)}),
    "tuples": (("gather_nd", DATA, [[4, -1], [0, 2]]), {"stage": "operator"}),
    "tiles_threads_and_lanes": (
        ("gather", DATA, INDICES),
        {"element": (2, 3), "schedule": SHARED, "stage": "cse", "threads": 4},
    ),
    "parallel_batches": (
        ("gather", "4x5x4xf32", "4x3xi64"),
        {**BATCHES, "element": (1, 1, 0), "threads": 4, "stage": "cse"},
    ),
    "parallel_nest": (
        ("gather", "4x5x4xf32", "4x3xi64"),
        {**BATCHES, "element": (3, 0, 0), "threads": 3, "stage": "hoist-invariants"},
    ),
    "one_thread": (("gather", "4x5x4xf32", "4x3xi64"), {**BATCHES, "element": (3, 0, 0), "threads": 1, "stage": "cse"}),
    "prefetch": (("gather", DATA, INDICES), {"element": (1, 3), "schedule": PREFETCH}),
    "staged_index": (("gather", CUBE, INDICES, 1), {"element": (2, 1, 3), "schedule": STAGED, "bounds": "wrap"}),
    **{
        f"gradient_{stage}": (
            ("gather_grad", GRAD, [1, 4, 1]),
            {"data_shape": (5, 4), "element": (1, 2), "scale": 0.5, "stage": stage},
        )
        for stage in ("operator", "lower-to-nest", "cse")
    },
    "gradient_without_a_scale": (
        ("gather_grad", GRAD, [1, 4, 1]),
        {"data_shape": (5, 4), "element": (1, 2), "stage": "lower-to-nest"},
    ),
    "index_outside": (("gather", DATA, [4, -1, 7]), {"element": (1, 1)}),
    "index_outside_in_the_nest": (("gather", DATA, [4, -1, 7]), {"stage": "lower-to-nest"}),
    "index_outside_in_loops": (("gather", DATA, [4, 7, -1, 8, 0]), {"stage": "cse"}),
    "no_index_outside": (("gather", DATA, INDICES), {"element": (1, 1)}),
    "rank_0": (("gather", np.arange(5.0), 3), {}),
    "empty_axis": (("gather", np.zeros((0, 3)), [0]), {"bounds": "zero", "stage": "cse"}),
    "gathered_lane": (
        ("gather", np.arange(9.0), np.arange(8)),
        {"bounds": "clip", "element": 6, "schedule": "vectorize-inner{lanes=4}"},
    ),
    "wide_element": (
        ("gather", np.arange(60, dtype=np.uint8).view("V12"), [3, 1]),
        {"element": 1, "stage": "fold-bounds", "bounds": "wrap"},
    ),
    "merged_dimensions": (("gather", DATA, [[0, 1, 2], [3, 4, -1]]), {"element": (1, 1, 3), "bounds": "wrap"}),
    "reversed": (("gather", DATA[::-1], [0]), {"element": (0, 1), "bounds": "wrap"}),
    "unsigned_lower-to-nest": (
        ("gather", DATA, np.array([200], np.uint8)),
        {"bounds": "clip", "stage": "lower-to-nest"},
    ),
    **{
        f"constant_{stage}": (("gather", DATA, [1, -1]), {"element": (1, 2), "module": CONSTANT, "stage": stage})
        for stage in (None, "fold-bounds", "cse")
    },
}


@pytest.mark.draw(10)
@pytest.mark.parametrize("name", STEPPED)
def test_steps_are_right_and_the_reviewed_ones(name, golden):
    arguments, options = STEPPED[name]
    steps = gn.step(*arguments, **options)
    assert steps.is_right
    sources = f"sources: {list(steps.sources)}, value {steps.value}, expected {steps.expected}"
    golden(f"stepping/{name}.txt", f"{steps}\n{sources}")


# What is replaced in the stage `fold-bounds` of a gather with bounds clip, by the golden of each.
WRONG = {
    "maximum": ("arith.minsi %index, %last", "arith.maxsi %index, %last", INDICES, (2, 0)),
    "access_outside": ("%raised : i64 to index", "%index : i64 to index", INDICES, (0, 0)),
    "not_written": ("gather.loop inner(%j) = %c0_2", "gather.loop inner(%j) = %c1_1", INDICES, (2, 0)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_stage_that_is_wrong_says_so(name, golden):
    before, after, indices, element = WRONG[name]
    steps = gn.step("gather", DATA, indices, bounds="clip", element=element, module=edited(before, after))
    assert not steps.is_right
    golden(f"stepping/wrong_{name}.txt", str(steps))


def test_a_prefetch_outside_of_the_array_is_shown_as_outside():
    text = gn.step("gather", DATA, INDICES, element=(1, 3), schedule=PREFETCH).text
    far = re.sub(r"(memref.prefetch %data\[\S+ \S+ )%\w+", r"\1%n_axis", text)
    outside = [one.cells[-1] for one in gn.step("gather", DATA, INDICES, element=(1, 3), module=far)]
    assert "data outside byte 80 line 1" in outside


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
    assert (last["operands"]["element[3]"], last["thread"]) == (3.0, 1)
    assert facts["text"].splitlines()[last["line"] - 1].strip() == last["text"]


def test_html_has_every_step_with_its_text_escaped():
    steps = gn.step("gather", DATA, INDICES, bounds="zero")
    text = steps._repr_html_()
    assert "<1x3xi64>" not in text
    assert text.count("<tr>") == len(steps) + 1 and "data[4, 0] byte 64 line 1" in text


def test_a_stage_of_other_arrays_is_an_error():
    with pytest.raises(gn.InvalidGatherError, match="the stage is of other arrays"):
        gn.step("gather", DATA[:3], [0, 1, 2], bounds="clip", module=edited("%last", "%last"))


def test_an_undefined_element_is_not_called_wrong():
    steps = gn.step("gather", DATA, [-1], bounds="unchecked")
    assert steps.is_right and steps.expected is None
    assert steps.remarks[1] == "an index is outside, which bounds unchecked leaves undefined"
    assert steps[-1].error.startswith("access at (0, 0, -1, 0) is outside")


def test_a_stage_that_accepts_an_index_outside_is_wrong():
    steps = gn.step("gather", DATA, [4, -1, 7], module=edited("%last", "%last"))
    assert not steps.is_right
    assert steps.remarks[1] == "wrong: the operator's reference rejects the call"
