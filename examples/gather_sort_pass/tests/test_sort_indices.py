"""The pass `sort-indices`: the same bytes in another order, and the nests that it rejects."""

import numpy as np
import pytest

import gathernest as gn

RNG = np.random.default_rng(7)
DATA = RNG.random((300, 24)).astype(np.float32)
STAGED = (
    "tile-loops{loops=indices sizes=64},interchange-loops{order=indices_o,indices_i,inner},"
    "parallelize-loops{loops=indices_o},hoist-indices{before=indices_i}"
)


@pytest.mark.parametrize(("bounds", "more"), [("error", ","), ("zero", ",vectorize-inner{lanes=8},")])
def test_the_bytes_are_those_of_the_nest_as_it_stands(bounds, more):
    inside = RNG.integers(0, 300, 501)
    indices = inside if bounds == "error" else RNG.integers(-900, 900, 501)
    schedules = "", f"{STAGED}{more}sort-indices{{pages=7}}"
    plain, kernel = (gn.compile("gather", DATA, indices, bounds=bounds, schedule=schedule) for schedule in schedules)
    for picks in (indices, np.sort(indices), np.full(65, 299), inside[:2]):
        assert kernel(DATA, picks).tobytes() == plain(DATA, picks).tobytes()


def test_rows_are_read_in_the_order_of_pages():
    kernel = gn.compile("gather", DATA, np.zeros(501, int), schedule=f"{STAGED},sort-indices{{pages=7}}")
    nest = kernel.stages["sort-indices"]
    for loop in ("clear", "tally", "add_up", "put"):
        assert f"gather.loop ordered {loop}_indices_i(" in nest


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("sort-indices{pages=64}", "no loop reads staged indices; run hoist-indices"),
        (f"{STAGED},sort-indices{{pages=1}}", "pages must be 2 or more, got 1"),
        (
            f"{STAGED},prefetch{{what=rows loop=indices_i ahead=8 lines=2 locality=3}},sort-indices{{pages=4}}",
            "leave prefetch out",
        ),
    ],
)
def test_a_nest_that_it_cannot_sort_is_rejected(schedule, message):
    with pytest.raises(gn.ScheduleError, match=message):
        gn.compile("gather", DATA, "501xi64", schedule=schedule)
