import dataclasses
import re

import pytest

from gathernest.playground.play.settings import FIRST, LinkError, Settings


@pytest.mark.parametrize(
    "settings",
    [
        FIRST,
        Settings(),
        Settings("gather_grad", "9x4xf32", "5xi32", bounds="zero", scale=0.5, steps=""),
        Settings(steps='tile("indices", 8) # ä & = +\n', stage="07-fold-bounds", text='"é" %x = <&>\n' * 500),
    ],
)
def test_a_link_gives_the_same_settings(settings):
    assert Settings.from_query(settings.to_query()) == settings


def test_no_parameters_give_the_first_gather():
    assert Settings.from_query({}) == FIRST
    assert Settings.from_query({"other": "1"}) == FIRST


def test_the_text_of_a_stage_makes_a_short_link():
    text = "    %element = memref.load %data[%c0, %i] : memref<1x?xi32>\n" * 100
    assert len(dataclasses.replace(FIRST, stage="18-cse", text=text).to_query()["text"]) < 300


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"axis": "one"}, "the link gives axis='one', expected a whole number; mend or leave it out"),
        ({"scale": "x"}, "the link gives scale='x', expected a number"),
        ({"operator": "gathr"}, "the link gives operator='gathr', expected gather, gather_nd, gather_elements, "),
        ({"bounds": "clop"}, "expected error, zero, clip, wrap, unchecked; did you mean 'clip'?; mend or leave it out"),
        ({"data": ["1xf32", "2xf32"]}, "the link gives data 2 times; leave all but one out"),
        ({"text": "abc"}, "the text of the stage in the link is damaged"),
        ({"text": FIRST.to_query()["steps"]}, "the text of the stage in the link is damaged"),
    ],
)
def test_a_link_that_cannot_be_read_says_why(query, message):
    with pytest.raises(LinkError, match=re.escape(message)):
        Settings.from_query(query)


def test_a_text_that_unpacks_to_too_much_is_rejected():
    query = Settings(stage="18-cse", text="x" * (1 << 21)).to_query()
    with pytest.raises(LinkError, match="damaged"):
        Settings.from_query(query)
