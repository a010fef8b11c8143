"""Constant indices are decided: their values are known, and each is evaluated."""

import re

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_pipeline
from gathernest.lowering.registry import PIPELINES

NEST = "canonical,lower-to-nest,fold-bounds,drop-unit-loops"
STAGED = (
    f"{NEST},tile-loops{{loops=indices sizes=4}},interchange-loops{{order=batch,indices_o,outer,indices_i,inner}}"
    ",hoist-indices{before=outer},hoist-invariants,lower-nest-to-loops"
)
GATHERS = {
    "gather": (Gather(2, 1), "3x4x9x6xf32", (3, 7), "i8"),
    "ranks": (Gather(1), "3x200x6xf32", (2, 3), "ui8"),
    "gather_nd": (GatherNd(0), "9x8x3xf32", (5, 2), "i64"),
    "gather_elements": (GatherElements(1), "3x8x2xf32", (3, 4, 2), "i32"),
}


def module_of(name: str, bounds: str = "zero", *, outside: bool = True, scale: float | None = None):
    spec, data, shape, kind = GATHERS[name]
    array, dtype = ArraySpec.parse(data), ArraySpec.parse(kind).dtype
    size = min(array.shape[axis] for axis in spec.normalized(array.shape, shape).axes(shape))
    low = 0 if kind.startswith("u") or bounds == "unchecked" else -size
    values = np.random.default_rng(3).integers(low, size, shape).astype(dtype)
    if outside and bounds in ("zero", "clip", "wrap"):
        values.flat[1] = np.iinfo(dtype).max
    gradient = None if scale is None else Gradient(scale)
    return operator_module(spec, array, ArraySpec.of(values), bounds=bounds, constant_indices=values, gradient=gradient)


CASES = [("gather", bounds) for bounds in Bounds]
CASES += [(name, bounds) for name in ("ranks", "gather_nd", "gather_elements") for bounds in ("error", "zero")]


@pytest.mark.draw(2)
@pytest.mark.parametrize(("name", "bounds"), CASES)
def test_default_pipeline_is_proved(name, bounds, prove):
    verdicts = prove(module_of(name, bounds), PIPELINES["default"])
    assert [str(each) for each in verdicts if each.status not in ("proved", "unchanged")] == []


@pytest.mark.draw(2)
@pytest.mark.parametrize("scale", [None, 2.0], ids=["staged", "gradient"])
@pytest.mark.parametrize("outside", [True, False])
def test_staged_positions_and_gradients_are_proved(scale, outside, prove):
    pipeline = STAGED if scale is None else PIPELINES["default"]
    verdicts = prove(module_of("gather", outside=outside, scale=scale), pipeline)
    assert [str(each) for each in verdicts if each.status not in ("proved", "unchanged")] == []


@pytest.mark.thorough
def test_data_of_open_sizes_are_proved(prove):
    """Of each kind of value one, inside, outside and negative: each takes z3 seconds."""
    values = np.array([[5, 127], [-6, 5], [127, -6]], np.int8)
    data, indices = ArraySpec.parse("3x4x9x6xf32"), ArraySpec.of(values)
    text = str(operator_module(Gather(2, 1), data, indices, bounds="wrap", constant_indices=values))
    text = text.replace("3x4x9x6xf32", "3x?x?x?xf32").replace("3x4x2x6xf32", "3x?x2x?xf32")
    verdicts = prove(parse_module(text), PIPELINES["default"])
    assert "?" in text and [str(each) for each in verdicts if each.status not in ("proved", "unchanged")] == []


@pytest.mark.parametrize("name", GATHERS)
def test_another_constant_is_refuted(name, verdict_of):
    folded = module_of(name, outside=False)
    run_pipeline(folded, NEST)
    found = re.search(r"dense<\[+(-?\d+)", str(folded))
    assert found is not None
    other = found[0].removesuffix(found[1]) + str((int(found[1]) + 1) % 5)
    verdict = verdict_of(module_of(name, outside=False), NEST, found[0], other)
    assert verdict.status == "refuted"
    assert re.fullmatch(r"constant index .* leads to another position", verdict.reason)
