"""Handles of loops, steps by text, and the messages of what is no step."""

import pickle

import numpy as np
import pytest

import gathernest as gn
from gathernest.lowering.schedule.steps import Prefetch

DATA, INDICES = "4x30x24xf32", "20xi64"


@pytest.fixture
def script() -> gn.ScheduleScript:
    return gn.schedule("gather", DATA, INDICES, axis=1, bounds="wrap")


LONG = 16**5000  # Python does not print it


@pytest.mark.parametrize(
    "step",
    [
        lambda script: script.tile("indices", LONG),
        lambda script: script.tile(LONG, 4),
        lambda script: script.unroll("indices", [LONG]),
        lambda script: script.prefetch("indices", ahead=-LONG),
        lambda script: script.prefetch("indices", ahead=1, what=LONG),
        lambda script: script.vectorize(LONG),
        lambda script: script.specialize(LONG),
        lambda script: script.interchange(LONG),
        lambda script: script.apply(LONG),
        lambda script: gn.compile("gather", DATA, INDICES, pipeline=LONG),
        lambda script: gn.bisect("gather", DATA, INDICES, pipeline=LONG),
        lambda script: gn.bisect("gather", DATA, INDICES, pipeline=[LONG]),
        lambda script: gn.compile("gather", DATA, INDICES).with_schedule(LONG),
    ],
)
def test_a_number_that_python_does_not_print_is_one_error(script, step):
    with pytest.raises(gn.ScheduleError, match=r"an integer of 20001 bits|a value of type list"):
        step(script)


def test_a_handle_stays_through_steps_that_move_and_change_its_loop(script):
    outer, indices, inner = (script.loop(name) for name in ("outer", "indices", "inner"))
    script.interchange(indices, outer).parallel(indices).vectorize(inner, 4).unroll(inner.remainder, 2)
    assert [handle.is_live for handle in (outer, indices, inner)] == [True] * 3
    assert inner.parts == (inner,)
    assert repr(inner) == "<loop inner>"
    assert inner in script.loops


def test_a_handle_of_a_tiled_loop_leads_to_its_parts(script):
    indices = script.loop("indices")
    outer, inner = script.tile(indices, 8)
    assert (indices.outer, indices.inner, indices.parts) == (outer, inner, (outer, inner))
    script.tile(indices.inner, 4)
    assert [part.name for part in indices.parts] == ["indices_o", "indices_i_o", "indices_i_i"]
    made = 'consumed by step 3, tile("indices_i_i", 2), into indices_i_i_o and indices_i_i_i'
    assert (script.tile(indices.inner.inner, 2), repr(indices.inner.inner))[1] == f"<loop indices_i_i, {made}>"
    made = 'consumed by step 1, tile("indices", 8), into indices_o and indices_i'
    assert repr(indices) == f"<loop indices, {made}>"


def test_a_step_on_a_tiled_loop_names_the_step_that_consumed_it(script):
    indices = script.loop("indices")
    script.tile(indices, 8)
    for loop in (indices, "indices"):
        with pytest.raises(gn.ScheduleError) as caught:
            script.unroll(loop, 2)
        assert caught.value.reason == (
            'loop indices is consumed by step 1, tile("indices", 8), into indices_o and indices_i'
        )
        assert caught.value.way_out == "use indices_o or indices_i"
        assert caught.value.loop == "indices_o"


def test_steps_of_listed_elements_are_those_of_a_schedule():
    script = gn.schedule("gather_grad", "9xf32", "20xi64").owner_computes(2).fuse_into_owners()
    script.tile("indices", 16)
    script.parallel("owners").list_indices("indices_i").vectorize_lists(4)
    script.unroll("indices_i", 8)
    script.prefetch("indices_i", ahead=2, locality=2, what="tile")
    assert script.schedule.prefetches() == (Prefetch("tile", "indices_i", 2, locality=2),)
    again = gn.schedule("gather_grad", "9xf32", "20xi64").apply(script.schedule)
    assert (again.ir, again.calls) == (script.ir, script.calls)
    assert script.calls[-1] == 'prefetch("indices_i", ahead=2, locality=2, what="tile")'


def test_a_tile_of_owners_is_rejected_with_the_nest_and_the_loop_marked():
    script = gn.schedule("gather_grad", "9x6xf32", "20xi64").owner_computes(3)
    before = script.ir
    with pytest.raises(gn.ScheduleError) as caught:
        script.tile("owners", 2)
    error = caught.value
    assert error.reason == "the step of owners depends on sizes, and a tile is a known number of steps"
    assert error.way_out == "tile a loop inside it"
    marked = [line for line in error.nest.splitlines() if line.startswith("> ")]
    assert marked == [">   for owners(first) in 0..n_owned step part:  <-- owners"]
    assert script.ir == before


def test_undo_brings_a_consumed_loop_back_and_its_parts_say_so(script):
    indices = script.loop("indices")
    outer, _ = script.tile(indices, 8)
    script.undo()
    assert indices.is_live
    assert not outer.is_live
    assert repr(outer) == "<loop indices_o, of a step that undo took back>"
    with pytest.raises(gn.ScheduleError, match="loop indices_o is of a step that undo took back"):
        script.parallel(outer)
    with pytest.raises(gn.ScheduleError, match=r"take a new handle with loop\(\)"):
        outer.parts  # noqa: B018
    with pytest.raises(gn.ScheduleError, match="no step made indices_o of indices; the nest has outer, indices, inner"):
        indices.outer  # noqa: B018


def test_a_handle_belongs_to_one_schedule(script):
    other = gn.schedule("gather", DATA, INDICES, axis=1).loop("indices")
    with pytest.raises(gn.ScheduleError, match=r"belongs to another schedule; take this one's with loop\('indices'\)"):
        script.tile(other, 4)
    with pytest.raises(gn.ScheduleError, match="a loop is named by text or by a handle, got 3"):
        script.tile(3, 4)


TILE_BEFORE = "tile a loop before it is vectorized or unrolled"
REASONS = {
    'loop("indces")': "the nest has no loop 'indces': it has outer, indices, inner; did you mean 'indices'?",
    'tile("indices", 0)': "expected whole numbers from 1 for sizes, got '0'",
    'tile("indices", "8")': "expected whole numbers with commas between for sizes, got 'sizes=8'",
    "parallel()": "name at least one loop; the nest has outer, indices, inner",
    "interchange()": "name at least one loop; the nest has outer, indices, inner",
    'unroll("inner", 0)': "expected a whole number of 2 to 64 for factor, got '0'",
    'apply("tile-loops")': 'requires argument "loops"',
    'interchange("inner", "inner")': "expected every loop of the nest once (inner), got inner, inner",
    'prefetch("indices", ahead=0)': "expected a whole number of 1 to 4096 for ahead, got '0'",
    "stream()": "expected vector stores",
    "specialize(5)": "rows have 96 bytes, got 5",
    'group_indices("indices")': "expected indices to be the loop over the indices of a gradient",
    "parallelize_sort(2)": "expected indices that are sorted",
    "owner_computes(2)": "expected one gather.accumulate, got 0",
    "fuse_into_owners()": "expected a loop owners, whose iterations own positions",
    'list_indices("indices")': "expected a loop owners, whose iterations own positions",
    "vectorize_lists(8)": "expected a loop that lists one index at a time",
    'prefetch("indices", ahead=2, what="tile")': "nothing is listed for indices",
    'stage_indices("outer")': "expected a tile of indices",
    'unroll("indices", 2)': "indices is not innermost",
    'vectorize("inner", 3)': "expected a power of two of lanes, 2 to 16 for elements of 4 bytes, got 3",
    'apply("til-loops{loops=indices sizes=4}")': "there is no pass 'til-loops'; did you mean 'tile-loops'?",
    'apply("lower-nest-to-loops")': "lower-nest-to-loops is no step of a schedule",
}
WAYS_OUT = [
    *(
        "use one of these",
        TILE_BEFORE,
        TILE_BEFORE,
        "make loops of the copy parallel",
        "name loops that stand directly in each other",
        "unroll a loop of step 1",
        "see its preconditions",
        "name loops that stand directly in each other",
        "prefetch in a loop",
    ),
    *(
        "run vectorize first",
        "give the bytes of a row",
        "use it for a gradient",
        "run group_indices first",
        "use it once, for a gradient",
        *(*["run owner_computes first"] * 2, *["run list_indices first"] * 2),
        "stage before a loop that copies",
    ),
    *("unroll a loop inside it", "vectorize once", "see its preconditions", "leave it out"),
]


@pytest.mark.parametrize(
    ("step", "reason", "way_out"), [(*item, out) for item, out in zip(REASONS.items(), WAYS_OUT, strict=True)]
)
def test_an_illegal_step_says_why_and_the_way_out(script, step, reason, way_out):
    before = script.ir
    with pytest.raises(gn.ScheduleError) as caught:
        eval(f"script.{step}", {"script": script})
    assert caught.value.reason.startswith(reason)
    assert caught.value.way_out.startswith(way_out)
    assert script.ir == before
    assert pickle.loads(pickle.dumps(caught.value)).way_out == caught.value.way_out


def test_steps_in_text_are_all_applied_or_none(script):
    script.apply("tile-loops{loops=indices,outer sizes=8,2},parallelize-loops{loops=outer_o}")
    assert script.calls == ('tile("indices", 8)', 'tile("outer", 2)', 'parallel("outer_o")')
    before = script.ir
    with pytest.raises(gn.ScheduleError, match=r'step 5, parallel\("inner"\), is not legal'):
        script.apply("unroll{loop=inner factor=2},parallelize-loops{loops=inner}")
    assert script.ir == before


def test_passes_that_are_no_step_of_a_schedule_are_steps_by_their_names(script):
    script.tile("indices", 8)
    script.apply("cse,prefetch{what=rows loop=indices_i}")
    assert script.calls[1:] == ('apply("cse")', 'prefetch("indices_i", ahead=16, locality=3)')
    known: dict = {}
    exec(script.trace, known)
    assert known["s"].ir == script.ir
    assert (
        gn.schedule("gather", DATA, INDICES, axis=1, bounds="wrap").from_transform(script.to_transform()).ir
        == script.ir
    )


def test_a_frozen_schedule_is_applied_and_given_back(script):
    frozen = gn.Schedule.parse(
        "tile-loops{loops=indices,inner sizes=8,4},parallelize-loops{loops=outer},vectorize-inner{lanes=2}"
    )
    assert script.apply(frozen).schedule == frozen
    assert script.compile().schedule == frozen


def test_steps_in_another_order_have_no_frozen_value_and_a_kernel_by_their_pipeline(script):
    script.vectorize(lanes=4).parallel("outer")
    with pytest.raises(gn.ScheduleError, match="a schedule has each pass once"):
        script.schedule  # noqa: B018
    assert script.compile().pipeline == script.plan.pipeline == str(script)


def test_loops_that_interchange_does_not_name_keep_their_places(script):
    script.tile("indices", 8)
    script.interchange("inner", "outer")
    assert script.labels == ("inner", "indices_o", "indices_i", "outer")


def test_a_perfect_tile_must_be_proved_and_stays_in_the_trace(script):
    with pytest.raises(gn.ScheduleError, match="tail=perfect needs a trip count that 8 divides"):
        script.tile("inner", 8, tail="perfect")
    script.specialize().tile("inner", 8, tail="perfect")
    known: dict = {}
    exec(script.trace, known)
    assert known["s"].ir == script.ir
    assert script.calls[-1] == 'tile("inner", 8, tail="perfect")'
    assert script.undo().apply("tile-loops{loops=inner sizes=8 tail=guard}").calls[-1] == 'tile("inner", 8)'
    assert script.undo().tile("inner", 8) and script.calls[-1] == 'tile("inner", 8)'


@pytest.mark.parametrize("dtype", ["f4", ">i2", "S3", "datetime64[s]", "c16", "float16", "V5"])
def test_a_trace_keeps_dtypes_strides_and_attributes(dtype):
    data = np.zeros((3, 8, 6), dtype)[:, ::2]
    script = gn.schedule("gather", data, np.zeros((3, 2), np.uint8), 1, batch_dims=1, bounds="clip")
    known: dict = {}
    exec(script.trace, known)
    assert known["s"].problem == script.problem


SEQUENCE = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%nest: !transform.any_op) {
    STEPS
    transform.yield
  }
}"""


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("nonsense", "the transform script does not parse"),
        (
            '%0 = transform.structured.match ops{["a"]} in %nest : (!transform.any_op) -> !transform.any_op',
            "a schedule is read from transform.apply_registered_pass, got transform.structured.match",
        ),
        (
            '%0 = transform.apply_registered_pass "stream-stores" to %nest : (!transform.any_op) -> !transform.any_op\n'
            '%1 = transform.apply_registered_pass "stream-stores" to %nest : (!transform.any_op) -> !transform.any_op',
            "is applied to another handle than the pass before gave; use that",
        ),
        (
            '%0 = transform.apply_registered_pass "unroll" with options = {"loop" = unit} to %nest '
            ": (!transform.any_op) -> !transform.any_op",
            "an option of a pass is a number, a word or an array of them, got unit",
        ),
        (
            '%0 = transform.apply_registered_pass "stream-stores" to %nest : (!transform.any_op) -> !transform.any_op',
            r"step 1, stream\(\), is not legal: expected vector stores",
        ),
    ],
)
def test_a_transform_script_that_is_no_schedule_is_rejected(script, steps, message):
    with pytest.raises(gn.ScheduleError, match=message):
        script.from_transform(SEQUENCE.replace("STEPS", steps))
    assert script.calls == ()


def test_a_transform_script_without_its_sequence_is_rejected(script):
    with pytest.raises(gn.ScheduleError, match="a transform script has a named_sequence @__transform_main"):
        script.from_transform("module {}")


def gradient_of(script, rows, count):
    """Return what a kernel of a script adds, and what it must be."""
    rng = np.random.default_rng(1)
    indices, grad = rng.integers(0, rows, count), rng.integers(0, 9, (count, 64)).astype(np.float32)
    wanted = np.zeros((rows, 64), np.float32)
    np.add.at(wanted, indices, grad)
    return script.compile()(grad, indices), wanted


@pytest.mark.thorough
def test_owners_that_clear_are_not_divided_again():
    script = gn.schedule("gather_grad", "100x64xf32", "80xi64")
    script.owner_computes(2).owner_computes(3)
    np.testing.assert_array_equal(*gradient_of(script, 100, 80))
    script.undo()
    script.fuse_into_owners()
    with pytest.raises(gn.ScheduleError) as caught:
        script.owner_computes(2)
    assert caught.value.reason == (
        "the nest that adds clears or scales the table, too, which each owner would do again"
    )
    assert caught.value.way_out.startswith("run it before")
    np.testing.assert_array_equal(*gradient_of(script, 100, 80))


@pytest.mark.parametrize("change", ["stream", "unroll"])
def test_a_nest_that_clears_in_other_ways_becomes_a_part_of_its_owners(change):
    script = gn.schedule("gather_grad", "100x64xf32", "80xi64")
    script = script.stream() if change == "stream" else script.unroll("clear_inner", 4)
    script.owner_computes(2).fuse_into_owners()
    np.testing.assert_array_equal(*gradient_of(script, 100, 80))


def test_a_nest_that_clears_along_the_axis_in_vectors_stays():
    script = gn.schedule("gather_grad", "500xf32", "1000xi64").stream().owner_computes(2)
    with pytest.raises(gn.ScheduleError) as caught:
        script.fuse_into_owners()
    assert caught.value.reason == "expected a loop of clear_axis over all positions of the axis, in steps of 1"
    assert caught.value.way_out == "run it before other passes change that nest, for an axis of more than one position"


@pytest.mark.parametrize("order", ["specialize first", "vectors first"])
def test_steps_go_on_after_a_row_of_a_gradient_is_vectors(order):
    script = gn.schedule("gather_grad", "100x64xf32", "80xi64")
    script = script.specialize().vectorize("inner", 4) if order[0] == "s" else script.vectorize("inner", 4).specialize()
    script.prefetch("indices", ahead=4).stream()
    np.testing.assert_array_equal(*gradient_of(script, 100, 80))
