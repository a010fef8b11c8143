"""Handles of loops, steps by text, and the messages of what is no step."""

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


@pytest.mark.parametrize("order", ["specialize first", "vectors first"])
def test_steps_go_on_after_a_row_of_a_gradient_is_vectors(order):
    script = gn.schedule("gather_grad", "100x64xf32", "80xi64")
    script = script.specialize().vectorize("inner", 4) if order[0] == "s" else script.vectorize("inner", 4).specialize()
    script.prefetch("indices", ahead=4).stream()
    np.testing.assert_array_equal(*gradient_of(script, 100, 80))
