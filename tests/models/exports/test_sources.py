"""What `gn.load` takes beside paths, and how a model is called."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

import gathernest as gn

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)
TOKENS = np.array([5, 0])


@pytest.fixture
def lookup(make):
    nodes = [make_node("Gather", ["w", "i"], ["rows"]), make_node("Add", ["rows", "x"], ["y"])]
    return make(nodes, {"i": "Nxi64", "x": "Nx4xf32"}, {"y": "Nx4xf32"}, {"w": TABLE})


def test_bytes_and_protos_load_as_files_do(lookup):
    x = np.ones((2, 4), np.float32)
    data = lookup.SerializeToString()
    for source in (data, bytearray(data), memoryview(data), lookup):
        assert gn.load(source)(TOKENS, x)["y"].tobytes() == (TABLE[TOKENS] + x).tobytes()
    assert (gn.load(data).name, gn.load(lookup).name) == ("model", "test")


def test_model_is_called_by_position_by_name_or_both(lookup):
    model, x = gn.load(lookup), np.ones((2, 4), np.float32)
    wanted = model.run({"i": TOKENS, "x": x})["y"].tobytes()
    for outputs in (model(TOKENS, x), model(TOKENS, x=x), model(x=x, i=TOKENS)):
        assert outputs["y"].tobytes() == wanted


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ([1, 2, 3], {}, "the model has 2 inputs, i, x; got 3"),
        ([TOKENS], {"i": TOKENS}, "input 'i' is given by position and by name; give it once"),
        ([TOKENS], {}, r"input 'x' is missing; it is f32\[N, 4\]"),
        ([TOKENS, np.zeros((3, 4), np.float32)], {}, "size 'N' is 2 in input 'i' and 3 in input 'x'; they are one"),
    ],
)
def test_wrong_call_is_named(lookup, arrays, named, message):
    with pytest.raises(gn.ModelError, match=message):
        gn.load(lookup)(*arrays, **named)


class Compiled:
    """Stands for a compiled model of OpenVINO."""


class TorchModule:
    """Stands for a module of torch."""


Compiled.__module__ = "openvino._ov_api"
TorchModule.__module__, TorchModule.__name__ = "torch.nn.modules.module", "Module"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "got builtins.int"),
        (None, "a model is the path of a .onnx or .xml file, the bytes of a .onnx file, an onnx.ModelProto or an"),
        (b"<?xml version='1.0'?>", "these bytes are XML; an OpenVINO IR is loaded by the path of its .xml"),
        (b"", "the model has no graph"),
        (b"\xff" * 9, "the model is not an ONNX model, or damaged"),
        (Compiled(), "got openvino._ov_api.Compiled; load what it was compiled from"),
        (type("Net", (TorchModule,), {})(), "; export it first: torch"),
    ],
    ids=["int", "None", "XML", "empty", "damaged", "compiled", "torch"],
)
def test_other_source_is_named(source, message):
    with pytest.raises(gn.ModelError) as raised:
        gn.load(source)
    assert message in str(raised.value)


def test_bytes_over_the_limit_are_rejected(lookup):
    data = lookup.SerializeToString()
    with pytest.raises(gn.ModelError, match=f"the model has {len(data)} bytes, over the limit max_file_bytes=9"):
        gn.load(data, max_file_bytes=9)


def test_bytes_have_no_folder_of_external_data(lookup):
    tensor = lookup.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    for source in (lookup, lookup.SerializeToString()):
        with pytest.raises(gn.ModelError, match=r"lies in another file, 'w.bin', and this model has no folder"):
            gn.load(source, allow_external_data=True)


def test_openvino_model_is_read_by_way_of_what_it_writes(monkeypatch, tmp_path):
    from pathlib import Path

    stored = Path(__file__).parent / "data" / "split.openvino.dynamic.xml"

    class Model:
        friendly_name = "Model0"

    def serialize(model, xml, weights):
        Path(xml).write_bytes(stored.read_bytes())
        Path(weights).write_bytes(stored.with_suffix(".bin").read_bytes())

    fake = ModuleType("openvino")
    vars(fake).update(vars(SimpleNamespace(Model=Model, serialize=serialize)))
    monkeypatch.setitem(sys.modules, "openvino", fake)
    model, arrays = gn.load(Model()), np.load(stored.with_suffix(".npz"))
    assert model.name == "Model0"
    assert next(iter(model(arrays["tokens"]).values())).tobytes() == arrays["output_0"].tobytes()


def test_result_over_the_limit_is_rejected_before_it_is_made(load, make):
    nodes = [make_node("Range", ["zero", "n", "one"], ["r"]), make_node("Gather", ["w", "r"], ["y"])]
    constants = {"zero": np.array(0), "one": np.array(1), "w": TABLE}
    model = load(make(nodes, {"n": "i64"}, {"y": "?x4xf32"}, constants), max_tensor_bytes=10**6)
    assert model(np.array(3))["y"].tolist() == TABLE[:3].tolist()
    with pytest.raises(gn.ModelError, match=r"node 'r': the result of shape \(1099511627776,\) and int64 has"):
        model(np.array(2**40))


@pytest.mark.parametrize("size", [-1, -(2**63)])
def test_size_that_is_none_is_rejected_when_the_model_runs(make, size):
    model = gn.load(make([make_node("Expand", ["x", "n"], ["y"])], {"x": "4xf32", "n": "2xi64"}, {"y": "?x?xf32"}))
    with pytest.raises(gn.ModelError, match=rf"node 'y': sizes \[{size}, 4\] are 0 or more"):
        model(np.zeros(4, np.float32), np.array([size, 4]))


def test_integers_divided_by_zero_name_the_node(make):
    model = gn.load(make([make_node("Div", ["x", "y"], ["z"])], {"x": "2xi64", "y": "2xi64"}, {"z": "2xi64"}))
    assert model(np.array([-7, 7]), np.array([2, -2]))["z"].tolist() == [-3, -3]
    with pytest.raises(gn.ModelError, match="node 'z': an integer is divided by 0"):
        model(np.array([1, 1]), np.array([1, 0]))
