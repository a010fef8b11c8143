"""Schedules as values and as text, and how one is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gathernest.ir.errors import ScheduleError
from gathernest.lowering.passes import NAMES as NAMES_OF_PASSES
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.schedule.schedule import Prefetch, Schedule

NAMES = st.sampled_from(["batch", "outer", "outer_0", "indices", "indices_i", "inner", "check_indices"])


COUNTS = st.integers(1, 2**20)
PREFETCHES = st.builds(Prefetch, NAMES, COUNTS, COUNTS, st.integers(0, 3))
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
        ({"hoist": ""}, "hoist of a schedule must be the name of a loop, got ''"),
        ({"hoist": 3}, "hoist of a schedule must be the name of a loop, got 3"),
        (
            {"unroll": ("inner", 0)},
            "unroll of a schedule must be pairs of a name and a whole number from 1, got [('inner', 0)]",
        ),
        ({"unroll": 4}, "unroll of a schedule must be pairs of a name and a whole number from 1, got [4]"),
        ({"owners": ("axis", True)}, "owners of a schedule must be pairs of a name and a whole number from 1, "),
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


def test_empty_schedule_is_empty_text():
    assert str(Schedule()) == ""
    assert Schedule.parse(" ") == Schedule()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tile-loop{loops=a sizes=1}",
            "'tile-loop' is not a pass of a schedule; use specialize-inner, owner-computes, tile-loops, "
            "interchange-loops, parallelize-loops, hoist-indices, vectorize-inner, unroll, prefetch-indices, "
            "stream-stores; did you mean 'tile-loops'?",
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
        ("specialize-inner{bytes=0}", "specialize-inner takes a number of bytes of 1 or more, got 0"),
        ("vectorize-inner{lanes=x}", "vectorize-inner takes a number of lanes of 1 or more, got x"),
        ("vectorize-inner{lane=8}", "vectorize-inner in a schedule takes lanes, got {lane=8}"),
        ("unroll{loop=a}", "unroll in a schedule takes loop and factor, got {loop=a}"),
        (
            "prefetch-indices{loop=a}",
            "prefetch-indices in a schedule takes loop and distance and lines and locality, got {loop=a}",
        ),
        (
            "prefetch-indices{loop=a distance=0 lines=1 locality=0}",
            "prefetch-indices takes a number of distance of 1 or more, got 0",
        ),
        (
            "prefetch-indices{loop=a distance=1 lines=1 locality=-1}",
            "prefetch-indices takes a number of locality of 0 or more, got -1",
        ),
        ("stream-stores{lanes=8}", "stream-stores in a schedule takes no options, got {lanes=8}"),
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
def test_pass_out_of_order_is_rejected(text):
    with pytest.raises(
        ScheduleError,
        match="a schedule has each pass once, but for prefetch-indices, in the order specialize-inner, ",
    ):
        Schedule.parse(text)
