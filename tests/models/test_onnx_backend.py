"""ONNX's own backend suite, driven through the backend: every gather, and every other supported operator."""

import re
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper

import gathernest as gn
from gathernest.ir.importers.onnx_operators import SUPPORTED
from gathernest.kernels.onnx_backend import GathernestBackend

GATHERS = ("Gather", "GatherND", "GatherElements")
OTHERS = set(SUPPORTED) - {*GATHERS, "Loop"}


@pytest.fixture(scope="module")
def cases():
    from onnx.backend.test import loader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            case.name: case for kind in ("node", "pytorch-converted") for case in loader.load_model_tests(kind=kind)
        }


def single(cases, operators):
    return [
        case
        for case in cases.values()
        if case.model is not None and len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in operators
    ]


def array_of(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def same(got, wanted):
    wanted = np.asarray(wanted)
    if wanted.dtype.kind == "U":
        wanted = wanted.astype(object)
    if wanted.dtype.hasobject:
        return got.tolist() == wanted.tolist()
    return (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())


@pytest.mark.thorough
def test_every_gather_of_the_suite_gives_its_bytes(cases):
    ran = []
    for case in single(cases, GATHERS):
        for inputs, outputs in case.data_sets:
            results = GathernestBackend.run_model(case.model, inputs)
            assert all(map(same, results, outputs)), case.name
            ran.append(case.name)
    assert len(ran) == 10


@pytest.mark.parametrize("name", ["test_Embedding", "test_Embedding_sparse"])
def test_embedding_models_of_the_suite_give_their_bytes(cases, name):
    folder = Path(cases[name].model_dir)
    prepared = GathernestBackend.prepare(onnx.load(folder / "model.onnx"))
    values = {}
    for kind in ("input", "output"):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((folder / "test_data_set_0" / f"{kind}_0.pb").read_bytes())
        values[kind] = onnx.numpy_helper.to_array(tensor)
    (result,) = prepared.run([values["input"]])
    assert same(result, values["output"])


@pytest.mark.thorough
def test_every_other_node_of_the_suite_runs_or_is_rejected_for_a_named_reason(cases):
    ran, rejected = [], {}
    for case in single(cases, OTHERS):
        inputs, outputs = ([array_of(value) for value in values] for values in case.data_sets[0])
        if len(inputs) != len(case.model.graph.node[0].input):
            continue
        try:
            results = GathernestBackend.run_node(
                case.model.graph.node[0], inputs, opset_version=case.model.opset_import[0].version
            )
        except gn.ModelError as error:
            rejected[case.name] = str(error)
            continue
        assert all(map(same, results, outputs)), case.name
        ran.append(case.name)
    assert len(ran) >= 319
    for name, message in rejected.items():
        reasons = "must be known before|are not converted|input 'sequence' is|only tensors|optional"
        more = "depends on their order|of no elements|a range is of integers|equal is of bool"
        assert re.search(f"{reasons}|{more}", message), (name, message)


@pytest.mark.parametrize("device", ["CUDA", "CPU:0"])
def test_devices(device):
    assert GathernestBackend.supports_device(device) == device.startswith("CPU")


def test_other_device_is_rejected(cases):
    with pytest.raises(gn.ModelError, match="gathernest runs on the CPU, not on 'CUDA'"):
        GathernestBackend.prepare(cases["test_gather_0"].model, "CUDA")


def test_node_runs_on_arrays():
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=1)
    (y,) = GathernestBackend.run_node(node, [np.arange(6).reshape(2, 3), np.array([2, -3])])
    assert y.tolist() == [[2, 0], [5, 3]]


def test_node_with_an_operator_of_its_own_is_rejected():
    node = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(gn.ModelError, match="not supported: Relu \\(1 node 'y'\\); supported are Gather, GatherND"):
        GathernestBackend.run_node(node, [np.zeros(3, np.float32)])


def test_inputs_may_come_by_name_or_alone(cases):
    case = cases["test_gather_0"]
    inputs, outputs = case.data_sets[0]
    prepared = GathernestBackend.prepare(case.model)
    names = [info.name for info in case.model.graph.input]
    assert same(prepared.run(dict(zip(names, inputs, strict=True)))[0], outputs[0])
    node = helper.make_node("Identity", ["x"], ["y"])
    assert GathernestBackend.run_node(node, [np.arange(3)]).y.tolist() == [0, 1, 2]


def test_wrong_number_of_inputs_is_named(cases):
    prepared = GathernestBackend.prepare(cases["test_gather_0"].model)
    with pytest.raises(gn.ModelError, match="input 'indices' is missing; it is"):
        prepared.run([np.zeros(3)])
    with pytest.raises(gn.ModelError, match="the model has 2 inputs, data, indices; got 3"):
        prepared.run([np.zeros(3)] * 3)
