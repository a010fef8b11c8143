"""What follows from a machine model, and what the built-in ones say."""

from dataclasses import fields

import pytest

from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel


@pytest.mark.parametrize("model", BUILT_IN.values(), ids=BUILT_IN)
def test_a_built_in_model_has_larger_and_slower_caches_outwards(model: MachineModel):
    assert model.l1_bytes < model.l2_bytes < model.l3_bytes
    for line_ns in (model.line_ns, model.near_line_ns, model.alone_line_ns):
        assert list(line_ns) == sorted(line_ns)
    assert sorted(model.copy_bytes_per_ns, reverse=True) == list(model.copy_bytes_per_ns)
    assert all(getattr(model, field.name) for field in fields(model) if field.name != "strayed_lines")
