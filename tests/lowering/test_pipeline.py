"""Pipelines as text, and the recorder."""

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import InternalError
from gathernest.ir.modules.operator_module import gather_module
from gathernest.lowering.pipeline import parse_passes, run_pipeline
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.schedule.schedule import Schedule


def module():
    return gather_module(ArraySpec.parse("5x4xf32"), ArraySpec.parse("3xi64"))


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
