"""The page in headless Chromium: charts, marks, what is found and pointed at; no console error and no network."""

import pytest

from gathernest.tools.tracking.history import history, otava
from gathernest.tools.tracking.history.commits import Commit
from gathernest.tools.tracking.history.history import judge, make_history
from gathernest.tools.tracking.history.page import page
from gathernest.tools.tracking.history.series import Series

from ....playground.report.browser import browser, check_silent

pytestmark = pytest.mark.thorough

HOSTILE = "</script><script>alert('&')</script>"
NAMES = [f"{number:040x}" for number in range(20)]


@pytest.fixture(scope="module")
def tab(tmp_path_factory, program):
    with browser(program("chromium"), tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the page of a step, of equal numbers and of noise, one of them with a name that would leave the page."""
    measured = [Commit(name, "2026-01-02", f"work: {HOSTILE}") for name in NAMES]
    noise = tuple(100.0 + number * 7 % 11 for number in range(20))
    series = [
        Series("work.track_calls(rows)", "quiet", "", tuple(NAMES), (1000.0,) * 10 + (1020.0,) * 10),
        Series(f"work.track_{HOSTILE}", "quiet", "bytes", tuple(NAMES), (2e6,) * 20),
        Series("call", "beside 1", "times the base", tuple(NAMES[::2]), noise[:10]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "static_difference", lambda *_: ["loads 1 → 2", HOSTILE])
        made = make_history(measured, judge(series, {}), otava=otava.VERSION, notes=[f"note {HOSTILE}"])
    path = tmp_path_factory.mktemp("history") / "history.html"
    path.write_text(page(made), encoding="utf-8")
    return path


def shown(tab):
    figures = "[...document.querySelectorAll('figure')].filter((figure) => figure.offsetParent)"
    return tab.evaluate(f"{figures}.map((figure) => figure.querySelector('b').textContent)")


def test_page_has_a_chart_a_benchmark_and_the_change_with_its_commit(tab, written):
    tab.open(written)
    assert shown(tab) == ["work.track_calls(rows)", f"work.track_{HOSTILE}", "call"]
    assert tab.evaluate("document.querySelectorAll('.change').length") == 1
    text = tab.evaluate("document.querySelector('.change').textContent")
    assert NAMES[10][:8] in text and HOSTILE in text and "+2.00 %" in text and "loads 1 → 2" in text
    assert tab.evaluate("document.querySelectorAll('figure')[0].querySelectorAll('.worse').length") == 1
    check_silent(tab, written)


def test_pointer_on_a_chart_names_the_result_and_its_commit(tab, written):
    tab.open(written)
    x, y = tab.evaluate(
        "(() => { const svg = document.querySelector('figure svg'); svg.scrollIntoView({block: 'center'});"
        "const box = svg.getBoundingClientRect(); return [box.right - 1, box.top + 40]; })()"
    )
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    said = tab.evaluate(
        "new Promise((done) => requestAnimationFrame(() => done(document.querySelector('.result').textContent)))"
    )
    assert said == f"1,020 at {NAMES[19][:8]}, 2026-01-02: work: {HOSTILE}"
    check_silent(tab, written)


def test_charts_are_found_by_name_and_by_having_changes(tab, written):
    tab.open(written)
    typed = "const e = document.getElementById('find'); e.value = {}; e.dispatchEvent(new Event('input'))"
    tab.evaluate(f"(() => {{ {typed.format('`CALL`')} }})()")
    assert shown(tab) == ["work.track_calls(rows)", "call"]
    tab.evaluate("document.getElementById('changed').click()")
    assert shown(tab) == ["work.track_calls(rows)"]


@pytest.mark.parametrize("width", [320, 760, 1400])
def test_page_is_no_wider_than_its_window(tab, written, width):
    tab.open(written, width=width)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_colours_follow_the_system_and_the_button(tab, written):
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    tab.open(written)
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = tab.evaluate(colour)
    tab.evaluate("document.getElementById('theme').click()")
    assert (dark, tab.evaluate(colour)) == ("rgb(13, 17, 23)", "rgb(255, 255, 255)")
    tab.call("Emulation.setEmulatedMedia", features=[])
