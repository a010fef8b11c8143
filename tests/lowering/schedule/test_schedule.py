"""Schedules as values and as text, and how one is chosen."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir.errors import ScheduleError
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.registry import NAMES as NAMES_OF_PASSES
from gathernest.lowering.registry import load_pass
from gathernest.lowering.schedule.schedule import Schedule, shorter_schedules
from gathernest.lowering.schedule.steps import (
    REQUIRED,
    STEPS,
    Prefetch,
    Step,
    StreamStores,
    TileLoops,
    Unroll,
    VectorizeInner,
    print_pass,
)

NAMES = st.sampled_from(["batch", "outer", "outer_0", "indices", "indices_i", "inner", "check_indices"])


def values_of(option) -> st.SearchStrategy:
    """Return the values of an option: loops, words, or numbers in its range."""
    kind = option.kind
    least = option.least or 0
    numbers = st.integers(least, option.most or 2**20)
    if kind in (tuple[int, ...], tuple[str, ...]):
        return st.lists(numbers if kind == tuple[int, ...] else NAMES, min_size=1, max_size=3).map(tuple)
    if kind in (int, str, str | None):
        return numbers if kind is int else NAMES if kind is str else st.none() | NAMES
    return st.sampled_from(kind.__args__)


def steps_of(kind: type[Step]) -> st.SearchStrategy:
    return st.builds(kind, **{name: values_of(option) for name, option in kind.options.items()})


STEPS_DRAWN = st.lists(st.sampled_from(list(STEPS.values())).flatmap(steps_of), max_size=6)


@given(STEPS_DRAWN)
def test_schedule_reads_back_from_its_text(drawn):
    once = list({type(step): step for step in drawn if not step.repeats}.values())
    schedule = Schedule().put(*once, *(step for step in drawn if step.repeats))
    again = Schedule.parse(str(schedule))
    assert (again, hash(again)) == (schedule, hash(schedule))
    assert eval(repr(schedule), {"Schedule": Schedule}) == schedule
    names = [step.name for step in parse_passes(str(schedule))] if schedule else []
    assert names == sorted(names, key=NAMES_OF_PASSES.index)


@given(STEPS_DRAWN)
def test_the_pass_of_a_step_has_its_options(drawn):
    for step in drawn:
        (built,) = parse_passes(str(step))
        assert isinstance(built, type(step))
        assert {name: getattr(built, name) for name in step.options} == {n: getattr(step, n) for n in step.options}


RANGES = [(kind, option) for kind in STEPS.values() for option in kind.options.values() if option.most is not None]


@pytest.mark.parametrize(("kind", "option"), RANGES, ids=[f"{kind.name} {option.name}" for kind, option in RANGES])
def test_a_number_out_of_range_is_rejected(kind, option):
    asked = {each.name: "indices" for each in kind.options.values() if each.default is REQUIRED}
    if "what" in asked:
        asked["what"] = "rows"
    for number in (option.least - 1, option.most + 1):
        text = print_pass(kind.name, asked | {option.name: number})
        wanted = f"expected a whole number of {option.least} to {option.most} for {option.name}, got '{number}'"
        for read in (Schedule.parse, parse_passes):
            with pytest.raises(ScheduleError, match=re.escape(wanted)):
                read(text)


@pytest.mark.parametrize("name", STEPS)
def test_the_docstring_of_a_pass_has_the_options_of_its_step(name):
    text = " ".join((load_pass(name).__doc__ or "").split())
    assert all(" ".join(option.described.split()) in text for option in STEPS[name].options.values())


def test_a_schedule_is_made_of_steps():
    for wrong in ("stream-stores", ["stream-stores"], [3]):
        with pytest.raises(ScheduleError, match=r"^a Schedule is made of steps, got .*; Schedule.parse reads a text$"):
            Schedule(wrong)
    with pytest.raises(ScheduleError, match="a schedule must be a Schedule or its text, got 3"):
        Schedule.parse(3)


def test_a_step_is_an_immutable_value():
    step = Prefetch("rows", "indices", locality=2)
    assert step == Prefetch("rows", "indices", 16, 1, 2) != Prefetch("rows", "indices")
    assert step.replace(ahead=4) == Prefetch("rows", "indices", 4, locality=2)
    with pytest.raises(AttributeError, match="a step is immutable"):
        step.ahead = 4  # type: ignore[misc]
    for wrong in (lambda: Unroll("inner"), lambda: Unroll("inner", 4, 5), lambda: Unroll("inner", 4, by=5)):
        with pytest.raises(TypeError, match=r"^unroll takes loop, factor, got "):
            wrong()


def test_steps_are_put_at_their_places_and_left_out():
    schedule = Schedule().put(VectorizeInner(8), None, TileLoops(("indices",), (4,)))
    assert str(schedule) == "tile-loops{loops=indices sizes=4},vectorize-inner{lanes=8}"
    assert (schedule.tiles, schedule.lanes, schedule.parallel, schedule.order) == ((("indices", 4),), 8, (), ())
    assert schedule.put(VectorizeInner(4)).lanes == 4
    assert schedule.without(TileLoops, VectorizeInner) == Schedule()
    both = Schedule.parse(
        "prefetch{what=rows loop=a ahead=2 locality=2},prefetch{what=rows loop=a ahead=1 locality=3},stream-stores"
    )
    assert list(shorter_schedules(both)) == [",".join(map(str, both[:2])), "stream-stores"]


def test_numbers_of_numpy_are_plain_ones_in_a_script():
    script = gn.schedule("gather", "40x8xf32", "20xi64")
    script.tile("indices", np.int32(4))
    assert script.schedule == Schedule((TileLoops(("indices",), (4,)),))


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
        ("tile-loops{loops=a}", 'pass tile-loops: requires argument "sizes"'),
        ("tile-loops{loops=a sizes=0}", "pass tile-loops: expected whole numbers from 1 for sizes, got '0'"),
        ("tile-loops{loops=a loops=b sizes=3}", "a schedule has each option of a pass once"),
        ("tile-loops{loops sizes}", "pass tile-loops: expected words with commas between for loops, got 'loops'"),
        ("specialize-inner{bytes=0}", "pass specialize-inner: expected a whole number from 1 for bytes, got '0'"),
        ("vectorize-inner{lanes=x}", "pass vectorize-inner: expected a whole number for lanes, got 'lanes=x'"),
        ("vectorize-inner{lanes=4,8}", "pass vectorize-inner: expected a whole number for lanes, got 'lanes=4,8'"),
        ("vectorize-inner{lane=8}", "pass vectorize-inner has no option 'lane'; it takes lanes; did you mean 'lanes'?"),
        ("hoist-indices{before=3}", "pass hoist-indices: expected a word for before, got 'before=3'"),
        ("unroll{loop=a}", 'pass unroll: requires argument "factor"'),
        ("unroll{loop=a factor=65}", "pass unroll: expected a whole number of 2 to 64 for factor, got '65'"),
        ("owner-computes{owners=0}", "pass owner-computes: expected a whole number of 1 to 65536 for owners, got '0'"),
        (
            "prefetch{what=row loop=a}",
            "pass prefetch: expected rows or slices or tile for what, got 'row'; did you mean 'rows'?",
        ),
        (
            "prefetch{what=rows loop=a ahead=0}",
            "pass prefetch: expected a whole number of 1 to 4096 for ahead, got '0'",
        ),
        (
            "prefetch{what=rows loop=a locality=-1}",
            "pass prefetch: expected a whole number of 0 to 3 for locality, got '-1'",
        ),
        ("stream-stores{lanes=8}", "pass stream-stores has no option 'lanes'; it takes none"),
    ],
)
def test_wrong_text_says_what_is_wrong(text, message):
    for read in (Schedule.parse, lambda text: gn.compile("gather", "9x4xf32", "3xi64", schedule=text)):
        with pytest.raises(ScheduleError) as raised:
            read(text)
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
    assert parsed == Schedule((TileLoops(("a", "b"), (1, 2)), StreamStores()))


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
