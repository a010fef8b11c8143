"""Indices that are known while compiling: resolved there, rejected there, and the same bytes at every stage."""

import numpy as np
import pytest

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.operator_module import gather_module
from gathernest.ir.operator_spec import Gather
from gathernest.ir.semantics import Bounds
from gathernest.lowering.numba.compiler import load_text
from gathernest.lowering.numba.emitter import emit
from gathernest.lowering.pipeline import run_pipeline

DATA = np.arange(2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
VALUES = {
    Bounds.ERROR: [[0, -5], [4, -1]],
    Bounds.ZERO: [[0, -6], [4, 5]],
    Bounds.CLIP: [[-9, 99], [4, 127]],
    Bounds.WRAP: [[-9, 99], [4, -128]],
    Bounds.UNCHECKED: [[1, 0], [4, 2]],
}


def constant_module(bounds, values, data=DATA, axis=1):
    specs = ArraySpec.of(data), ArraySpec.of(values)
    return gather_module(*specs, axis=axis, bounds=bounds, constant_indices=values)


def run_compiled(module, data, out):
    gather = load_text(emit(module), "constant")
    return gather(data.ctypes.data, out.ctypes.data, 0)


@pytest.mark.draw(3)
@pytest.mark.parametrize("bounds", list(Bounds))
@pytest.mark.parametrize("dtype", [np.int8, np.int64])
def test_every_stage_and_the_kernel_give_the_bytes_of_the_reference(bounds, dtype):
    values = np.array(VALUES[bounds], dtype)
    expected = reference.run(Gather(1), DATA, values, bounds)
    module = constant_module(bounds, values)
    for stage in run_pipeline(module, "static"):
        out = np.full_like(expected, 99)
        interpret(parse_module(stage.text), DATA, None, out)
        assert out.tobytes() == expected.tobytes(), stage.name
    out = np.full_like(expected, 99)
    assert run_compiled(module, DATA, out) == 0
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("bounds", [Bounds.ERROR, Bounds.CLIP, Bounds.WRAP, Bounds.UNCHECKED])
def test_nothing_is_left_of_the_bounds(bounds):
    module = constant_module(bounds, np.array(VALUES[bounds]))
    text = run_pipeline(module, "static")[-1].text
    assert not any(word in text for word in ("cmpi", "select", "shrsi", "minsi", "maxsi", "rem", "scf.if"))
    positions = [reference.resolve(value, 5, bounds) for row in VALUES[bounds] for value in row]
    assert f"dense<[{positions}]> : tensor<1x4xi64>" in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 5], r"constant index 5 is out of range \[-5, 4\] \(element 1 of the indices\)"),
        ([-6, 0], r"constant index -6 is out of range \[-5, 4\] \(element 0 of the indices\)"),
    ],
)
def test_constant_outside_is_rejected_while_compiling(values, message):
    with pytest.raises(BoundsError, match=message):
        run_pipeline(constant_module(Bounds.ERROR, np.array(values)), "static")
