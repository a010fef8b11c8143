"""The page in headless Chromium: what a click and the keyboard light, without an error and without the network."""

import dataclasses
import re

import pytest

import gathernest as gn
from gathernest.lowering.provenance.trace import Line
from gathernest.playground.report import page

from .browser import browser, check_silent

pytestmark = pytest.mark.thorough

LIT = """(word) => [...document.querySelectorAll(`.l.${word}`)].map((line) => line.id)"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory, program):
    with browser(program("chromium"), tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(gn.compile("gather", "100000x64xf32", "20000xi64").report(timing=False), encoding="utf-8")
    return path


def lit(tab, word):
    return set(tab.evaluate(f"({LIT})('{word}')"))


def line_of(tab, level, pattern):
    """Return the id of the first line that is shown of a level, by the name in its head, with a pattern in its text."""
    lines = tab.evaluate(
        f"""[...document.querySelectorAll('.pane')].filter((pane) => pane.querySelector('h4').textContent === '{level}')
        .flatMap((pane) => [...pane.querySelectorAll('.l')]
        .filter((line) => line.offsetParent).map((line) => [line.id, line.textContent]))"""
    )
    return next(name for name, text in lines if re.search(pattern, text))


def text_of(tab, name):
    return tab.evaluate(f"document.getElementById('{name}').textContent")


def test_a_load_in_the_nest_lights_its_vector_loads_and_the_reverse(tab, report):
    tab.open(report)
    load = line_of(tab, "hoist-invariants", r"vector\.load|gather\.load.*vector")
    tab.click(load)
    texts = [text_of(tab, name) for name in lit(tab, "to")]
    machine = [text for text in texts if re.match(r"v?movups .*\(.*\), %[xyz]mm", text)]
    assert lit(tab, "at") == {load}
    assert machine
    assert not [text for text in texts if text.startswith("prefetch")]
    other = line_of(tab, "assembly", "|".join(map(re.escape, machine)))
    tab.click(other)
    assert lit(tab, "at") == {other}
    assert load in lit(tab, "from")
    assert {"l0.", "l4."} & {name[:3] for name in lit(tab, "from")}
    check_silent(tab, report)


def test_a_link_lights_a_line_and_escape_clears_it(tab, report):
    tab.open(report, "#L0.2")
    assert lit(tab, "at") == {"l0.2"}
    assert lit(tab, "to")
    tab.press("Escape")
    assert not lit(tab, "at") | lit(tab, "to")
    check_silent(tab, report)


def test_a_link_to_a_line_that_is_not_there_lights_nothing(tab, report):
    for fragment in ("#L0.9999", "#L99.0", "#G7L0.0", "#L", "#gather-7"):
        tab.open(report, fragment)
        assert not lit(tab, "at"), fragment
        assert tab.evaluate("document.querySelector('.gather').hidden") is False, fragment
        check_silent(tab, report)


def test_arrows_move_and_enter_lights(tab, report):
    tab.open(report)
    first = line_of(tab, "hoist-invariants", "func.func")
    tab.click(first)
    tab.press("ArrowDown", "ArrowDown", "Enter")
    level, number = first[1:].split(".")
    assert lit(tab, "at") == {f"l{level}.{int(number) + 2}"}
    check_silent(tab, report)


def test_a_box_of_the_drawing_lights_its_line(tab, report):
    tab.open(report)
    box = "document.querySelector('figure [data-loop=\"indices_i\"] text')"
    tab.evaluate(f"{box}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    (line,) = lit(tab, "at")
    assert "indices_i" in text_of(tab, line)


def test_one_element_is_played_forwards_and_back_with_its_line_of_the_stage(tab, report):
    tab.open(report)
    at = "[...document.querySelectorAll('.steps .at')].map((found) => found.textContent)"
    press = "document.querySelector('.steps [data-step={}]').click()"
    place = "document.querySelector('.steps .place').textContent"
    seen = []
    for button in ("first", "next", "next", "back", "last"):
        tab.evaluate(press.format(button))
        seen.append(tab.evaluate(place))
    last = seen[-1].rpartition(" ")[2]
    assert seen == [f"step {number} of {last}" for number in ("1", "2", "3", "2", last)]
    line, step = tab.evaluate(at)
    assert line.strip().startswith(("vector.store", "memref.store"))
    assert step.startswith(line.split()[0])
    check_silent(tab, report)


def test_the_page_is_as_wide_as_a_phone(tab, report):
    tab.open(report, width=400)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_line_number_of_two_side_by_side_leads_to_that_line(tab, tmp_path, section, trace):
    other = dataclasses.replace(trace.levels[0], lines=(Line("b"), *trace.levels[0].lines[1:]))
    second = dataclasses.replace(section, name="B", trace=dataclasses.replace(trace, levels=(other, *trace.levels[1:])))
    (tmp_path / "two.html").write_text(page([section, second], compare=True), encoding="utf-8")
    tab.open(tmp_path / "two.html")
    shown = "[...document.querySelectorAll('#comparison, .gather')].filter((e) => !e.hidden).map((e) => e.id)"
    assert tab.evaluate(shown) == ["comparison"]
    tab.evaluate("document.querySelector('[href=\"#G1L0.0\"]').click()")
    tab.evaluate("new Promise((done) => setTimeout(() => done(0)))")
    assert tab.evaluate(shown) == ["gather-1"]
    assert lit(tab, "at") == {"G1l0.0"}
    check_silent(tab, tmp_path / "two.html")


def test_the_switch_changes_the_colours(tab, report):
    tab.open(report)
    page = "getComputedStyle(document.body).backgroundColor"
    first = tab.evaluate(page)
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate(page) != first
    tab.evaluate("document.getElementById('theme').click()")
    assert tab.evaluate(page) == first
    check_silent(tab, report)
