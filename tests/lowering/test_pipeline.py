"""Pipelines as text, and the recorder."""

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import InternalError, ScheduleError
from gathernest.ir.modules.operator_module import gather_module
from gathernest.lowering.pipeline import parse_passes, run_pipeline
from gathernest.lowering.registry import PIPELINES, default_pipeline
from gathernest.lowering.schedule.schedule import Schedule


def module():
    return gather_module(ArraySpec.parse("5x4xf32"), ArraySpec.parse("3xi64"))


@pytest.mark.parametrize("name", PIPELINES)
def test_named_pipeline_is_its_passes(name):
    assert [str(step) for step in parse_passes(name)] == [str(step) for step in parse_passes(PIPELINES[name])]


def test_named_pipeline_stands_among_passes():
    names = [step.name for step in parse_passes("canonical,lower-to-nest,cse")]
    assert names[-2:] == ["lower-to-nest", "cse"]
    assert names[0] == "normalize-gather"


def test_pass_prints_as_it_is_written():
    text = "tile-loops{loops=indices,inner sizes=4,2 tail=guard}"
    (step,) = parse_passes(text)
    assert (step.loops, step.sizes, step.tail) == (("indices", "inner"), (4, 2), "guard")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tile-loop{loops=a sizes=1}", "there is no pass 'tile-loop'; did you mean 'tile-loops'?"),
        ("defualt", "there is no pass 'defualt'; did you mean 'default'?"),
        ("tile-loops{", "the pipeline does not parse: Expected argument name here in 'tile-loops{'"),
        ("tile-loops{loops=a}", 'pass tile-loops: requires argument "sizes"'),
        (
            "tile-loops{loop=a}",
            "pass tile-loops has no option 'loop'; it takes loops, sizes, tail; did you mean 'loops'?",
        ),
        ("cse{a=1}", "pass cse has no option 'a'; it takes none"),
        (
            "nest{loops=a}",
            f"the pipeline nest takes no options, got loops; write its passes instead: {PIPELINES['nest']}",
        ),
        (
            "tile-loops{loops=a sizes=true}",
            "pass tile-loops: expected whole numbers with commas between for sizes, got 'sizes=True'",
        ),
        (
            "tile-loops{loops=a sizes=4 tail=gaurd}",
            "pass tile-loops: expected guard or perfect for tail, got 'gaurd'; did you mean 'guard'?",
        ),
        (
            "tile-loops{loops=a sizes=4,abc}",
            "pass tile-loops: expected whole numbers with commas between for sizes, got 'sizes=4,abc'",
        ),
        ("vectorize-inner{lanes}", "pass vectorize-inner: expected a whole number for lanes, got 'lanes'"),
        ("vectorize-inner{lanes=4,5}", "pass vectorize-inner: expected a whole number for lanes, got 'lanes=4,5'"),
        ("unroll{loop=3 factor=2}", "pass unroll: expected a word for loop, got 'loop=3'"),
    ],
)
def test_wrong_pipeline_says_what_is_wrong(text, message):
    with pytest.raises(ScheduleError) as raised:
        parse_passes(text)
    assert str(raised.value) == message


def test_recorder_keeps_text_time_and_count_of_every_stage():
    stages = run_pipeline(module(), default_pipeline(Schedule.parse("tile-loops{loops=indices sizes=2}")))
    assert stages[0].name == "operator"
    assert [stage.pass_name for stage in stages[1:]] == [
        step.name for step in parse_passes(default_pipeline(Schedule.parse("tile-loops{loops=indices sizes=2}")))
    ]
    tiled = next(stage for stage in stages if stage.pass_name == "tile-loops")
    assert tiled.name == "tile-loops{loops=indices sizes=2}"
    assert all(stage.milliseconds > 0 for stage in stages[1:])
    assert stages[0].op_count == 4
    assert "gather.loop indices_o" in tiled.text


def test_stage_names_are_a_pipeline_again():
    stages = run_pipeline(
        module(),
        default_pipeline(Schedule.parse("tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o}")),
    )
    again = run_pipeline(module(), ",".join(stage.name for stage in stages[1:]))
    assert [stage.text for stage in again] == [stage.text for stage in stages]


def test_invalid_module_after_a_pass_is_an_internal_error(monkeypatch):
    from gathernest.lowering.passes.canonicalize.canonical_form import NormalizeGather

    def break_it(self, ctx, op):
        gather = next(inner for inner in op.walk() if inner.name == "gather.gather")
        gather.detach()

    monkeypatch.setattr(NormalizeGather, "apply", break_it)
    with pytest.raises(InternalError, match="normalize-gather left an invalid module: "):
        run_pipeline(module(), "normalize-gather")


def test_crash_of_a_pass_is_an_internal_error_with_its_module(monkeypatch):
    from gathernest.lowering.passes.canonicalize.canonical_form import NormalizeGather

    def crash(self, ctx, op):
        raise KeyError("x")

    monkeypatch.setattr(NormalizeGather, "apply", crash)
    with pytest.raises(InternalError, match="normalize-gather failed: KeyError: 'x'; please report it with ") as raised:
        run_pipeline(module(), "normalize-gather,cse")
    assert raised.value.source == f"// RUN: gathernest-opt %s -p normalize-gather,cse\n{module()!s}\n"
