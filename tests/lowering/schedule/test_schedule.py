"""Schedules as values and as text, and how one is chosen."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gathernest.ir.errors import ScheduleError
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.registry import NAMES as NAMES_OF_PASSES
from gathernest.lowering.registry import load_pass
from gathernest.lowering.schedule.schedule import PREFETCHED, STEPS, Prefetch, Schedule

NAMES = st.sampled_from(["batch", "outer", "outer_0", "indices", "indices_i", "inner", "check_indices"])


COUNTS = st.integers(1, 2**20)
PREFETCHES = st.builds(
    Prefetch, st.sampled_from(PREFETCHED), NAMES, COUNTS, st.integers(0, 64), st.integers(0, 3), st.none() | NAMES
)
SCHEDULES = st.builds(
    Schedule,
    st.lists(st.tuples(NAMES, COUNTS), max_size=3, unique_by=lambda tile: tile[0]),
    st.lists(NAMES, max_size=4, unique=True),
    st.lists(NAMES, max_size=3, unique=True),
    owners=st.none() | st.tuples(NAMES, COUNTS),
    specialize=st.none() | COUNTS,
    hoist=st.none() | NAMES,
    lanes=st.none() | COUNTS,
    unroll=st.none() | st.tuples(NAMES, COUNTS),
    prefetch=st.lists(PREFETCHES, max_size=3),
    stream=st.booleans(),
)


@given(SCHEDULES)
def test_schedule_reads_back_from_its_text(schedule):
    assert Schedule.parse(str(schedule)) == schedule


@given(SCHEDULES)
def test_passes_of_a_schedule_stand_in_the_order_of_the_pipeline(schedule):
    names = [step.name for step in parse_passes(str(schedule))] if str(schedule) else []
    assert names == sorted(names, key=NAMES_OF_PASSES.index)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"specialize": 0}, "specialize of a schedule must be a whole number from 1, got 0"),
        ({"specialize": True}, "specialize of a schedule must be a whole number from 1, got True"),
        ({"lanes": -8}, "lanes of a schedule must be a whole number from 1, got -8"),
        ({"lanes": 8.0}, "lanes of a schedule must be a whole number from 1, got 8.0"),
        ({"lanes": np.array([8, 4])}, "lanes of a schedule must be a whole number from 1, got array([8, 4])"),
        ({"hoist": ""}, "hoist of a schedule must be the name of a loop, got ''"),
        ({"hoist": 3}, "hoist of a schedule must be the name of a loop, got 3"),
        ({"unroll": ("inner", 0)}, "unroll of a schedule for inner must be a whole number from 1, got 0"),
        ({"unroll": 4}, "unroll of a schedule must be pairs of a name and a whole number from 1, got [4]"),
        ({"owners": ("axis", True)}, "owners of a schedule for axis must be a whole number from 1, got True"),
        ({"prefetch": 16}, "prefetch of a schedule must be a Prefetch, or a sequence of them, got 16"),
        ({"stream": 1}, "stream of a schedule must be True or False, got 1"),
        ({"tiles": (("a", 1), ("a", 2))}, "tiles of a schedule names a loop twice: a, a"),
        ({"order": "abc"}, "order of a schedule must be a sequence of names of loops, got 'abc'"),
    ],
)
def test_wrong_field_says_what_is_wrong(fields, message):
    with pytest.raises(ScheduleError) as raised:
        Schedule(**fields)
    assert str(raised.value).startswith(message)


def test_numbers_of_numpy_are_plain_ones():
    schedule = Schedule(lanes=np.int64(8), tiles={"indices": np.int32(4)})
    assert schedule == Schedule(lanes=8, tiles={"indices": 4})
    assert type(schedule.lanes) is int and str(schedule) == "tile-loops{loops=indices sizes=4},vectorize-inner{lanes=8}"


def test_empty_schedule_is_empty_text():
    assert str(Schedule()) == ""
    assert Schedule.parse(" ") == Schedule()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tile-loop{loops=a sizes=1}",
            f"'tile-loop' is not a pass of a schedule; use {', '.join(STEPS)}; did you mean 'tile-loops'?",
        ),
        ("tile-loops{loops=a}", "tile-loops in a schedule takes loops and sizes"),
        ("tile-loops{loops=a,b sizes=1}", "tiles of a schedule for b must be a whole number from 1, got None"),
        ("tile-loops{loops=a sizes=0}", "tiles of a schedule for a must be a whole number from 1, got 0"),
        ("tile-loops{loops=a loops=b sizes=3}", "a schedule has each option of a pass once, with a value"),
        ("tile-loops{loops sizes}", "a schedule has each option of a pass once, with a value"),
        ("specialize-inner{bytes=0}", "specialize of a schedule must be a whole number from 1, got 0"),
        ("vectorize-inner{lanes=x}", "lanes of a schedule must be a whole number from 1, got 'x'"),
        ("vectorize-inner{lanes=4,8}", "lanes of a schedule must be a whole number from 1, got (4, 8)"),
        ("vectorize-inner{lane=8}", "vectorize-inner in a schedule takes lanes"),
        ("hoist-indices{before=3}", "hoist of a schedule must be the name of a loop, got 3"),
        ("unroll{loop=a}", "unroll in a schedule takes loop and factor"),
        ("owner-computes{owners=0 axis=axis}", "owners of a schedule for axis must be a whole number from 1, got 0"),
        (
            "prefetch{what=rows loop=a}",
            "prefetch in a schedule takes what and loop and ahead and lines and locality and separate",
        ),
        ("prefetch{what=row loop=a ahead=1 locality=2}", "a Prefetch is of rows, slices, tile, got 'row'"),
        ("prefetch{what=rows loop=a ahead=0 locality=0}", "ahead of a Prefetch must be a whole number from 1, got 0"),
        (
            "prefetch{what=rows loop=a ahead=1 locality=-1}",
            "locality of a Prefetch must be a whole number from 0, got -1",
        ),
        ("stream-stores{lanes=8}", "stream-stores in a schedule takes no options"),
        ("tile-loops", "tile-loops in a schedule takes loops and sizes"),
    ],
)
def test_wrong_text_says_what_is_wrong(text, message):
    with pytest.raises(ScheduleError) as raised:
        Schedule.parse(text)
    assert str(raised.value) == f"{message}, in {text!r}"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "prefetch-indices{loop=a distance=2 lines=1 locality=2}",
            "prefetch{what=rows loop=a ahead=2 lines=1 locality=2}",
        ),
        ("prefetch-slices{loop=a distance=2 locality=2}", "prefetch{what=slices loop=a ahead=2 locality=2}"),
        ("prefetch-next-tile{loop=a ahead=4}", "prefetch{what=tile loop=a ahead=4}"),
        ("fuse-bounds-check{loop=a lines=0}", "check-indices{how=fused loop=a lines=0}"),
        ("stage-positions{bits=8}", "check-indices{how=staged bits=8}"),
        ("count-listed", "check-indices{how=counted}"),
        ("fission-prefetches{loop=a locality=2}", "prefetch{what=rows separate=a locality=2}"),
    ],
)
def test_names_of_earlier_versions_are_rejected_with_those_of_now(text, written):
    with pytest.raises(ScheduleError, match=f"is the name that an earlier version had; write {written}$"):
        Schedule.parse(text)


@pytest.mark.parametrize("text", ["interchange-loops{order=a,}", "interchange-loops{", "stream-stores+"])
def test_text_that_does_not_parse_says_so(text):
    with pytest.raises(ScheduleError, match=r"^the pipeline does not parse: .* in "):
        Schedule.parse(text)


def test_spaces_between_passes_and_within_braces_are_skipped():
    parsed = Schedule.parse(" tile-loops{ loops=a , b  sizes=1,2 } ,\n stream-stores\n")
    assert parsed == Schedule((("a", 1), ("b", 2)), stream=True)


def test_every_pass_of_a_schedule_takes_the_options_that_it_is_given():
    for name, step in STEPS.items():
        options = {field.name for field in dataclasses.fields(load_pass(name))} - {"name"}
        assert load_pass(name).required_fields() <= set(step.options) <= options


@pytest.mark.parametrize(
    "text",
    [
        "tile-loops{loops=a sizes=2},tile-loops{loops=b sizes=4}",
        "parallelize-loops{loops=a},tile-loops{loops=a sizes=2}",
    ],
)
def test_pass_out_of_order_is_rejected(text):
    with pytest.raises(
        ScheduleError, match="a schedule has each pass once, but for prefetch, in the order specialize-inner, "
    ):
        Schedule.parse(text)
