"""Schedules as values and as text, and how one is chosen."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import ScheduleError
from gathernest.ir.operator_spec import Gather
from gathernest.ir.semantics import Bounds
from gathernest.kernels.build import build_program
from gathernest.kernels.plan import Problem, make_plan
from gathernest.lowering.cost_model import NestShape, choose_schedule
from gathernest.lowering.schedule import Schedule

NAMES = st.sampled_from(["batch", "outer", "outer_0", "indices", "indices_i", "inner", "check_indices"])


@given(
    st.lists(st.tuples(NAMES, st.integers(1, 2**20)), max_size=3, unique_by=lambda tile: tile[0]),
    st.lists(NAMES, max_size=4, unique=True),
    st.lists(NAMES, max_size=3, unique=True),
)
def test_schedule_reads_back_from_its_text(tiles, order, parallel):
    schedule = Schedule(tuple(tiles), tuple(order), tuple(parallel))
    assert Schedule.parse(str(schedule)) == schedule


def test_empty_schedule_is_empty_text():
    assert str(Schedule()) == ""
    assert Schedule.parse(" ") == Schedule()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tile-loop{loops=a sizes=1}",
            "'tile-loop' is not a pass of a schedule; use own-positions, tile-loops, interchange-loops, "
            "parallelize-loops; "
            "did you mean 'tile-loops'?",
        ),
        ("tile-loops{loops=a}", "tile-loops in a schedule takes loops and sizes, got {loops=a}"),
        (
            "tile-loops{loops=a,b sizes=1}",
            "tile-loops takes one size of 1 or more for each of its loops, got {loops=a,b sizes=1}",
        ),
        (
            "tile-loops{loops=a sizes=0}",
            "tile-loops takes one size of 1 or more for each of its loops, got {loops=a sizes=0}",
        ),
        (
            "tile-loops{loops=a loops=b sizes=3}",
            "tile-loops in a schedule takes loops and sizes, got {loops=a loops=b sizes=3}",
        ),
        ("interchange-loops{order=a,}", "interchange-loops in a schedule takes order, got {order=a,}"),
        ("tile-loops", "tile-loops in a schedule takes loops and sizes in braces, got 'tile-loops'"),
    ],
)
def test_wrong_text_says_what_is_wrong(text, message):
    with pytest.raises(ScheduleError) as raised:
        Schedule.parse(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "text",
    [
        "tile-loops{loops=a sizes=2},tile-loops{loops=b sizes=4}",
        "parallelize-loops{loops=a},tile-loops{loops=a sizes=2}",
    ],
)
def test_pass_out_of_order_is_refused(text):
    with pytest.raises(
        ScheduleError, match="a schedule has each pass once, in the order own-positions, tile-loops, interchange-loops"
    ):
        Schedule.parse(text)


def nest(batch=1, outer=1, indices=1, inner=1, *, width=4, checked=False):
    copied = (("batch", batch), ("outer", outer), ("indices", indices), ("inner", inner))
    return NestShape(copied, (copied[0], copied[2]) if checked else (), width)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (nest(indices=100_000, inner=64), "tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o}"),
        (nest(indices=4_000_000), "tile-loops{loops=indices sizes=4096},parallelize-loops{loops=indices_o}"),
        (nest(indices=1000, inner=16384), "parallelize-loops{loops=indices}"),
        (nest(outer=8192, indices=512), "tile-loops{loops=outer sizes=16},parallelize-loops{loops=outer_o}"),
        (
            nest(outer=64, indices=500, inner=32),
            "tile-loops{loops=indices sizes=256},parallelize-loops{loops=outer,indices_o}",
        ),
        (nest(batch=100_000, indices=3), "tile-loops{loops=batch sizes=4096},parallelize-loops{loops=batch_o}"),
        (
            nest(indices=100_000, inner=64, checked=True),
            "tile-loops{loops=indices,check_indices sizes=256,4096},parallelize-loops{loops=indices_o,check_indices_o}",
        ),
        (
            nest(outer=64, indices=256, inner=16),
            "tile-loops{loops=indices sizes=256},parallelize-loops{loops=outer,indices_o}",
        ),
        (nest(outer=64, indices=255, inner=16), "parallelize-loops{loops=outer}"),
        (
            NestShape((("indices", 100_000), ("unit", 64)), (), 4),
            "tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o}",
        ),
        (NestShape((("indices", 1000), ("unit", 16384)), (), 4), "parallelize-loops{loops=indices}"),
        (nest(inner=64), ""),
    ],
)
def test_chosen_schedule_cuts_tiles_of_64_kib(shape, expected):
    assert str(choose_schedule(shape)) == expected


SIZES = st.sampled_from([1, 2, 3, 17, 500, 5000, 70_000])


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(SIZES, SIZES, SIZES, SIZES, st.sampled_from([Bounds.ERROR, Bounds.ZERO]), st.booleans())
def test_chosen_schedule_is_legal_for_its_nest(batch, outer, indices, inner, bounds, strided):
    assume(4 * batch * outer * indices * inner < 2**63)  # a result of more bytes is refused
    strides = (-1, 0, 1, 5, 1, 0) if strided else None
    data = ArraySpec((batch, outer, 1, 9, inner, 1), "f4", strides and [4 * stride for stride in strides])
    problem = Problem.checked(Gather(3, 1), data, ArraySpec((batch, indices), "i8"), bounds)
    plan = make_plan(problem)
    assert make_plan(problem) == plan
    assert ("in prange(" in build_program(plan)[0].source) == bool(plan.schedule.parallel)
