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


def test_an_unknown_name_is_rejected_with_the_closest_one():
    with pytest.raises(gn.InvalidGatherError) as caught:
        gn.ops["openvino.Gather8"]
    assert str(caught.value).startswith("there is no operator 'openvino.Gather8'; there are openvino.Gather-7, ")
    assert str(caught.value).endswith("; did you mean 'openvino.Gather-8'?")


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


def test_gather_7_rejects_a_negative_index_and_names_gather_8():
    with pytest.raises(gn.BoundsError) as caught:
        gn.ops["openvino.Gather-7"](DATA, [[0, 1], [2, -1]], 0)
    assert str(caught.value) == (
        "index -1 at position (1, 1) of indices is negative, and openvino.Gather-7 allows none; "
        "use openvino.Gather-8, where negative indices count from the end"
    )


def test_gather_7_rejects_an_index_past_the_end_with_the_range_of_its_document():
    with pytest.raises(gn.BoundsError) as caught:
        gn.ops["openvino.Gather-7"](DATA, [0, 3], 0)
    assert str(caught.value) == "index 3 at position (1,) of indices is out of range [0, 2] for axis 0 of size 3"


@pytest.mark.parametrize("index_dtype", ["int8", "uint8", "int64", "uint64"])
def test_gather_8_gives_zeros_for_what_is_outside(index_dtype):
    highest = np.iinfo(index_dtype).max
    got = gn.ops["openvino.Gather-8"](DATA, np.array([1, highest, 3], index_dtype), 0)
    assert got.tolist() == [DATA[1].tolist(), [0] * 4, [0] * 4]
    assert gn.ops["openvino.Gather-8"](np.zeros((0, 2)), [0, -1], 0).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("name", ONNX)
def test_onnx_accepts_negative_indices_and_rejects_what_is_outside_without_a_word_of_bounds(name):
    assert gn.ops[name](DATA, [-3]).tolist() == DATA[:1].tolist()
    with pytest.raises(gn.BoundsError) as caught:
        gn.ops[name](DATA, [-4])
    assert str(caught.value) == "index -4 at position (0,) of indices is out of range [-3, 2] for axis 0 of size 3"


@pytest.mark.parametrize("name", ["openvino.Gather-7", *ONNX])
def test_an_empty_axis_is_rejected_where_indices_are_present(name):
    with pytest.raises(gn.BoundsError, match="axis 0 of data has size 0, so none of the 2 indices is valid"):
        gn.ops[name](np.zeros((0, 4)), [0, 0], 0)


@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.parametrize("indices", [[0.5], [True], ["1"], [None]])
def test_every_version_rejects_indices_that_are_no_integers(name, indices):
    with pytest.raises(gn.IndexTypeError, match="indices must be integers, got dtype"):
        gn.ops[name](DATA, indices, 0)


@pytest.mark.parametrize("name", GATHERS)
def test_every_version_rejects_an_axis_outside(name):
    with pytest.raises(gn.InvalidGatherError, match=r"axis 2 is out of range \[-2, 1\] for data of rank 2"):
        gn.ops[name](DATA, [0], 2)
