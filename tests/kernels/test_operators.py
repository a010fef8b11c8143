"""The operator versions by name."""

from collections.abc import Mapping

import numpy as np
import pytest

import gathernest as gn

pytestmark = pytest.mark.usefixtures("serial")

GATHERS = ["openvino.Gather-7", "openvino.Gather-8", "onnx.Gather-1", "onnx.Gather-11", "onnx.Gather-13"]
OPENVINO, ONNX = GATHERS[:2], GATHERS[2:]
DATA = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("name", GATHERS)
def test_every_version_is_there_with_its_name_and_document(name):
    assert name in gn.ops
    assert gn.ops[name].__name__ == name
    assert "Spec: " in gn.ops[name].__doc__


def test_ops_is_a_mapping():
    assert isinstance(gn.ops, Mapping)
    assert set(GATHERS) <= set(gn.ops)
    assert len(list(gn.ops)) == len(gn.ops)
    assert dict(gn.ops.items())["onnx.Gather-13"] is gn.ops["onnx.Gather-13"]


@pytest.mark.parametrize("name", GATHERS)
def test_every_version_equals_take_inside_the_axis(name):
    out, wanted = np.zeros((3, 2), np.float32), DATA.take([2, 0], axis=1).tobytes()
    for axis in (1, -1):
        assert gn.ops[name](DATA, [2, 0], axis).tobytes() == wanted
    assert gn.ops[name](DATA, [2, 0], 1, out=out) is out
    assert out.tobytes() == wanted


@pytest.mark.parametrize("name", ONNX)
def test_onnx_gathers_along_axis_0_by_default_and_has_no_batch_dims(name):
    assert gn.ops[name](DATA, [2, 0]).tobytes() == DATA[[2, 0]].tobytes()
    with pytest.raises(TypeError, match="batch_dims"):
        gn.ops[name](DATA, [2, 0], 0, batch_dims=0)


@pytest.mark.parametrize("name", OPENVINO)
def test_openvino_needs_an_axis(name):
    with pytest.raises(TypeError, match="axis"):
        gn.ops[name](DATA, [2, 0])
