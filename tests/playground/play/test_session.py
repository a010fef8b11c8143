import dataclasses

import pytest

from gathernest.playground.play import page as module
from gathernest.playground.play.page import NO_STAGE, Session
from gathernest.playground.play.settings import FIRST
from gathernest.playground.play.work import Mistake

NAMES = ["00-operator", "01-tile-loops", "02-tile-loops", "03-cse"]


def test_the_stage_of_a_link_is_chosen_with_its_text():
    session = Session.of(dataclasses.replace(FIRST, stage="03-cse", text="edited"))
    assert session.stage_in(NAMES) == "03-cse"
    assert session.text_of("made", 0) == "edited"


def test_a_chosen_stage_is_found_again_when_its_number_changes():
    session = Session("04-cse", "edited")
    assert session.stage_in(NAMES) == "03-cse"
    assert session.text == "edited"


def test_a_stage_that_is_gone_or_is_not_the_only_one_is_given_up():
    for stage in ("03-unroll", "07-tile-loops"):
        session = Session(stage, "edited")
        assert (session.stage_in(NAMES), session.text) == (NO_STAGE, None)


def test_another_stage_drops_the_text_and_a_reset_too():
    session = Session("03-cse", "edited")
    session.choose("03-cse")
    assert session.text == "edited"
    assert session.text_of("made", 1) == "made"
    assert session.text_of("made", 1) == "made"
    session.text = "edited"
    session.choose("01-tile-loops")
    assert session.text is None


def test_a_text_as_the_passes_make_it_is_no_edit():
    session = Session("03-cse", "edited")
    assert session.edited(FIRST, "03-cse", "made", "made") == dataclasses.replace(FIRST, stage="03-cse")
    assert session.text is None
    assert session.edited(FIRST, "03-cse", "edited", "made").text == "edited"
    assert session.edited(FIRST, NO_STAGE, "", None) == FIRST


def test_the_link_follows_the_settings():
    parameters = {"stage": "03-cse", "text": "x", "scale": "2.0", "data": "old", "theirs": "kept"}
    Session().write_link(parameters, FIRST)
    assert parameters == {**FIRST.to_query(), "theirs": "kept"}
    Session("03-cse", "edited").write_link(parameters, FIRST)
    assert parameters["stage"] == "03-cse" and parameters["text"] not in ("", "edited")


def test_the_last_results_stay_below_a_mistake():
    session, wrong = Session(), Mistake("The schedule", "it is <wrong>")
    assert "kept" not in session.mistake(wrong)
    session.keep("bytes", "<p>right</p>")
    session.keep("nest", "<p>old</p>")
    session.keep("nest", "<p>nest</p>")
    assert (
        session.mistake(wrong)
        .partition("it is &lt;wrong&gt;")[2]
        .partition('class="kept"')[2]
        .endswith("<p>nest</p><p>right</p></div>")
    )


def test_a_stage_of_a_link_waits_until_somebody_agrees_or_changes_it():
    linked = dataclasses.replace(FIRST, stage="03-cse", text="edited")
    session = Session.of(linked)
    assert session.waits(linked, agreed=False)
    assert not session.waits(linked, agreed=True)
    assert not session.waits(linked, agreed=False)
    session = Session.of(linked)
    assert not session.waits(dataclasses.replace(linked, text="changed"), agreed=False)
    assert not session.waits(linked, agreed=False)
    assert not Session.of(FIRST).waits(linked, agreed=False)


@pytest.fixture
def answers(monkeypatch):
    class Answering:
        def ask(self, settings, *, explain=False, is_stale):
            yield from (
                [{"explanation": "why"}]
                if explain
                else [{"assembly": ["retq"], "hot_loops": []}, {"error": "too large"}]
            )

    monkeypatch.setattr(module, "WORKER", Answering())


def test_what_the_worker_finds_is_shown_part_by_part(answers, plan):
    shown, session = [], Session()
    session.follow(FIRST, plan, shown.append, lambda: False)
    assert ["retq" in text for text in shown] == [True, True]
    assert ["too large" in text for text in shown] == [False, True]
    assert session.found["error"] == "too large" and session.found["assembly"] == ["retq"]


def test_nothing_is_shown_when_the_settings_have_changed(answers, plan):
    shown, session = [], Session()
    session.follow(FIRST, plan, shown.append, lambda: True)
    session.explain(FIRST, shown.append, lambda: True)
    assert shown == [] and session.found == {}


def test_the_whole_explanation_is_shown(answers):
    shown = []
    Session().explain(FIRST, shown.append, lambda: False)
    assert "why" in shown[0]
