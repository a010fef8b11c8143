import dataclasses
import re

import pytest

from gathernest.playground.play.settings import FIRST, Settings
from gathernest.playground.play.work import begin, check_bytes, with_edit


def checked(settings, plan=None):
    plan = plan or begin(settings).plan
    return check_bytes(with_edit(plan, settings.stage, settings.text) if settings.text else plan)


def test_a_legal_schedule_gives_the_bytes_on_more_than_a_tile():
    check = checked(FIRST)
    assert check.difference is None and check.crossed
    assert str(check) == (
        "gather of 3x3x11xf32 by 67xi64: the bytes of the reference, for 3 pairs of arrays with indices at both ends "
        "and outside."
    )


def test_the_tile_that_the_sizes_choose_is_full():
    check = checked(dataclasses.replace(FIRST, steps=None))
    assert check.difference is None and check.crossed, str(check)


def test_the_check_follows_the_tile():
    assert checked(dataclasses.replace(FIRST, steps=FIRST.steps.replace("64", "48"))).tried.indices.shape == (51,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("arith.andi", "arith.ori", "is outside an array of shape"),
        ("%data[%c0_2, %o, %position_1, %j]", "%data[%c0_2, %o, %c0_2, %j]", "it must give data"),
        ("arith.constant 63 : i64", "arith.constant 62 : i64", None),
    ],
)
def test_an_edited_stage_is_checked(plan, edited, old, new, message):
    check = checked(edited("14-hoist-invariants", old, new), plan)
    assert (check.difference is None) == (message is None)
    assert message is None or message in str(check)


def test_a_stage_with_large_sizes_in_its_text_is_not_interpreted_and_says_so(plan, made):
    text = made[-1].text.replace("%data: memref<1x?x?x?xi32>", "%data: memref<1x16x4000x64xi32>")
    text = re.sub(r"(memref.dim %data.*|load %data.*)memref<1x.x.x.xi32>", r"\1memref<1x16x4000x64xi32>", text)
    check = checked(dataclasses.replace(FIRST, stage="19-cse", text=text), plan)
    assert check.tried is None
    assert str(check).startswith("Nothing is interpreted, as no smaller arrays fit")


@pytest.mark.parametrize(
    "settings",
    [
        Settings(data="4x3xf32", indices="6xi64"),
        Settings(data="300x16xf32", indices="900xi64", steps='tile("indices", 2000)'),
        Settings(data="1000x64xf32", indices="100xi64", bounds="clip"),
        Settings(data="4x100x8xf16", indices="4x1000xi32", axis=1, batch_dims=1, bounds="zero"),
        Settings("gather_nd", "30x40x8xf32", "500x2xi64"),
        Settings("gather_elements", "300x40xf32", "300x40xi64", axis=1, bounds="wrap"),
        Settings("gather_grad", "1000x64xf32", "5000xi64", scale=2.0),
    ],
)
def test_each_operator_is_interpreted_and_right(settings):
    check = checked(settings)
    assert check.difference is None
    assert check.tried is not None and check.cases
