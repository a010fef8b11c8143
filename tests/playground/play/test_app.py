"""The cells of the app, run in order without a browser."""

import dataclasses

import pytest

from gathernest.playground.play.settings import FIRST

pytest.importorskip("marimo", reason="the app needs marimo: pip install 'gathernest[play]'")


@pytest.fixture
def run(monkeypatch):
    """Run the app with settings in its link, and return (what its cells show, its definitions)."""
    import marimo

    from gathernest.playground.play.app import app
    from gathernest.playground.play.page import Session

    monkeypatch.setattr(Session, "follow", lambda *words: None)

    def run_with(settings):
        monkeypatch.setattr(marimo, "query_params", lambda: Parameters(settings.to_query()))
        outputs, definitions = app.run()
        return "\n".join(output.text for output in outputs if hasattr(output, "text")), definitions

    return run_with


class Parameters(dict):
    def to_dict(self):
        return dict(self)


def test_the_page_has_editors_nest_bytes_and_stages(run):
    shown, names = run(FIRST)
    assert names["settings"] == dataclasses.replace(FIRST, steps=FIRST.steps)
    assert "parallel for indices_o(i_o) in 0..n_indices step 64:" in shown
    assert "The bytes are right" in shown
    assert "19 cse" in shown
    assert "marimo-code-editor" in shown and "The nest with the edited stage" not in shown
    assert "A link brought" not in shown and "The hot loops" in shown


def test_another_tile_is_another_nest(run):
    shown, _ = run(dataclasses.replace(FIRST, steps=FIRST.steps.replace("64", "48")))
    assert "step 48:" in shown and "by 51xi64" in shown


def test_an_illegal_step_is_underlined_and_nothing_behind_it_runs(run):
    shown, names = run(dataclasses.replace(FIRST, steps=FIRST.steps + 'parallel("inner")'))
    assert "<u>for inner(j) in 0..whole step 8:</u>" in shown
    assert "The bytes" not in shown and "stages" not in names


def test_an_edited_stage_of_a_link_is_restored(run, edited):
    settings = edited("14-hoist-invariants", "arith.andi", "arith.ori")
    shown, names = run(settings)
    assert names["settings"] == settings
    assert "The bytes are wrong" in shown and "The nest with the edited stage" in shown
    assert "arith.ori" in names["stage_text"].value
    assert "A link brought the edited stage." in shown and "The hot loops" not in shown


def test_a_stage_that_does_not_parse_is_underlined(run, edited):
    shown, _ = run(edited("14-hoist-invariants", "arith.andi", "arith.andu"))
    assert "<u>arith.andu</u>" in shown
    assert "The bytes" not in shown
