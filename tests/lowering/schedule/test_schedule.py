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
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.steps import REQUIRED, STEPS, Prefetch, Step, TileLoops, Unroll, print_pass

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


def test_a_step_is_an_immutable_value():
    step = Prefetch("rows", "indices", locality=2)
    assert step == Prefetch("rows", "indices", 16, 1, 2) != Prefetch("rows", "indices")
    assert step.replace(ahead=4) == Prefetch("rows", "indices", 4, locality=2)
    with pytest.raises(AttributeError, match="a step is immutable"):
        step.ahead = 4  # type: ignore[misc]
    for wrong in (lambda: Unroll("inner"), lambda: Unroll("inner", 4, 5), lambda: Unroll("inner", 4, by=5)):
        with pytest.raises(TypeError, match=r"^unroll takes loop, factor, got "):
            wrong()


def test_numbers_of_numpy_are_plain_ones_in_a_script():
    script = gn.schedule("gather", "40x8xf32", "20xi64")
    script.tile("indices", np.int32(4))
    assert script.schedule == Schedule((TileLoops(("indices",), (4,)),))
