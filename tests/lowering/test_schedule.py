"""Schedules as values and as text, and how one is chosen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gathernest.ir.errors import ScheduleError
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
