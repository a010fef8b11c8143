import dataclasses

import pytest

import gathernest as gn
from gathernest.playground.play.settings import FIRST, Settings
from gathernest.playground.play.work import Mistake, begin, nest_of, stage_names, stages, with_edit


@pytest.mark.thorough
def test_the_stages_are_those_of_the_kernel_and_the_nest_that_of_the_script(plan, made):
    kernel = gn.compile(**FIRST.gather, schedule=str(plan.schedule))
    assert [stage.text for stage in made][-1] == list(kernel.stages.values())[-1]
    assert stage_names(made)[:2] == ["00-operator", "01-normalize-gather"]
    assert nest_of(made) == begin(FIRST).nest


def test_a_gather_that_does_not_exist_is_a_mistake():
    mistake = begin(Settings(data="5x4xf32", axis=2))
    assert isinstance(mistake, Mistake)
    assert mistake.title == "The gather"
    assert "axis 2 is out of range" in mistake.message


def test_an_illegal_step_marks_the_loop_in_the_nest_before_it():
    mistake = begin(dataclasses.replace(FIRST, steps=FIRST.steps + 'parallel("inner")'))
    assert mistake.title == 'Line 6 of the steps: parallel("inner")'
    assert mistake.message.startswith("inner stands in indices_i, which is not parallel. Way out: ")
    assert mistake.text == begin(FIRST).nest
    assert mistake.text.splitlines()[mistake.line - 1].strip() == "for inner(j) in 0..whole step 8:"


def test_a_line_that_cannot_be_read_is_a_mistake_without_a_nest():
    mistake = begin(dataclasses.replace(FIRST, steps="tile(indices, 64)"))
    assert mistake.message.startswith("expected a text or a number, got indices")
    assert (mistake.text, mistake.line) == ("", None)


def test_an_edited_stage_goes_on_through_the_passes(plan, made, edited):
    settings = edited("13-vectorize-inner", "arith.constant 64 : index", "arith.constant 48 : index")
    shown = stages(with_edit(plan, settings.stage, settings.text))
    assert shown[12].text == made[12].text
    assert "step 48" in nest_of(shown, 13) and "step 64" in nest_of(made)
    assert shown[-1].text == made[-1].text.replace("constant 64 : index", "constant 48 : index")


def test_a_stage_that_does_not_parse_has_line_and_column(plan, edited):
    settings = edited("14-hoist-invariants", "arith.andi", "arith.andu")
    mistake = stages(with_edit(plan, settings.stage, settings.text))
    assert mistake.title == "The stage 14-hoist-invariants"
    assert "Operation arith.andu is not registered" in mistake.message
    line = mistake.text.splitlines()[mistake.line - 1]
    assert line[mistake.column - 1 :][: mistake.length] == "arith.andu"
    assert mistake.message.startswith(f"line {mistake.line}, column {mistake.column}: ")


def test_a_pass_that_rejects_an_edited_stage_says_so_and_shows_the_stage(plan, edited, temporary_folder):
    settings = edited("08-drop-unit-loops", "gather.loop outer(", "gather.loop outside(")
    mistake = stages(with_edit(plan, settings.stage, settings.text))
    assert isinstance(mistake, Mistake)
    assert mistake.text.startswith("// RUN: gathernest-opt %s -p ")
    assert list(temporary_folder.iterdir()) == []


@pytest.mark.parametrize("operator", ["gather_nd", "gather_elements", "gather_grad", "gather_nd_grad"])
def test_each_operator_has_stages_and_a_nest(operator):
    indices = {"gather_nd": "30x1xi64", "gather_nd_grad": "30x1xi64", "gather_elements": "20x8xi64"}
    script = begin(Settings(operator, "20x8xf32", indices.get(operator, "30xi64")))
    assert nest_of(stages(script.plan)) == script.nest
