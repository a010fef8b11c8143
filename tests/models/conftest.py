"""Models made in memory, and the oracles that a loaded model is held against at every stage."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import gathernest as gn
from gathernest.ir.interpreters.graph import interpret_graph
from gathernest.ir.modules.context import parse_module
from gathernest.kernels.model import Model


def tensor_info(name: str, spec: str) -> onnx.ValueInfoProto:
    """Return an input or output: `Nx?x4xf32`."""
    *sizes, element = spec.split("x")
    shape = [int(size) if size.isdigit() else (None if size == "?" else size) for size in sizes]
    return helper.make_tensor_value_info(name, ELEMENTS[element], shape)


ELEMENTS = {
    "f32": onnx.TensorProto.FLOAT,
    "f64": onnx.TensorProto.DOUBLE,
    "f16": onnx.TensorProto.FLOAT16,
    "bf16": onnx.TensorProto.BFLOAT16,
    "f8": onnx.TensorProto.FLOAT8E4M3FN,
    "i4": onnx.TensorProto.INT4,
    "i8": onnx.TensorProto.INT8,
    "u8": onnx.TensorProto.UINT8,
    "i32": onnx.TensorProto.INT32,
    "i64": onnx.TensorProto.INT64,
    "bool": onnx.TensorProto.BOOL,
    "c64": onnx.TensorProto.COMPLEX64,
    "str": onnx.TensorProto.STRING,
}


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, str],
    outputs: dict[str, str],
    weights: dict[str, np.ndarray] | None = None,
    *,
    opset: int = 21,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(nodes),
        "test",
        [tensor_info(*entry) for entry in inputs.items()],
        [tensor_info(*entry) for entry in outputs.items()],
        [onnx.numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def same_bytes(got: np.ndarray, wanted: np.ndarray) -> bool:
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        return False
    return got.tolist() == wanted.tolist() if got.dtype.hasobject else got.tobytes() == wanted.tobytes()


class Loader:
    """Writes models to files and loads them."""

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, model: onnx.ModelProto | bytes, name: str = "model.onnx") -> Path:
        path = self.folder / name
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def __call__(self, model: onnx.ModelProto | bytes, **settings: Any) -> Model:
        return gn.load(self.write(model), **settings)

    def checked(self, proto: onnx.ModelProto, inputs: dict[str, np.ndarray], **settings: Any) -> Model:
        """Load a model, run it on `inputs`, and assert that every oracle gives the same bytes."""
        model = self(proto, **settings)
        check_stages(model, inputs)
        reference = ReferenceEvaluator(proto).run(None, inputs)
        for name, wanted in zip(model.outputs, reference, strict=True):
            got = model.run(inputs)[name]
            wanted = np.asarray(wanted)
            wanted = wanted.astype(object) if wanted.dtype.kind == "U" else wanted
            assert same_bytes(got, wanted), (name, got, wanted)
        return model


def check_stages(model: Model, inputs: dict[str, np.ndarray]) -> None:
    """Assert that the interpreter gives at every stage, read back from its text, what the model gives."""
    outputs = model.run(inputs)
    for stage, text in model.stages.items():
        module = parse_module(text)
        assert str(module) + "\n" == text
        interpreted = interpret_graph(module, [inputs[name] for name in model.inputs], model.weights)
        for (name, got), wanted in zip(outputs.items(), interpreted, strict=True):
            assert same_bytes(got, wanted), (stage, name)


@pytest.fixture
def load(tmp_path: Path) -> Loader:
    return Loader(tmp_path)


@pytest.fixture
def make() -> Callable[..., onnx.ModelProto]:
    return make_model


@pytest.fixture(name="check_stages")
def fixture_check_stages() -> Callable[[Model, dict[str, np.ndarray]], None]:
    return check_stages


TYPES = {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "boolean"}


class Writer:
    """Writes an OpenVINO IR layer by layer."""

    def __init__(self, folder, version=11):
        self.folder, self.version = folder, version
        self.layers, self.edges, self.data = [], [], b""

    def layer(self, kind, inputs=(), *, opset="opset1", name=None, data="", dims=None, names="", outputs=1):
        number = len(self.layers)
        ports = "".join(f'<port id="{place}"/>' for place in range(len(inputs)))
        shape = "".join(f"<dim>{dim}</dim>" for dim in dims or ())
        out = len(inputs)
        output = f'<output><port id="{out}" names="{names}">{shape}</port></output>' if outputs else ""
        self.layers.append(
            f'<layer id="{number}" name="{name or f"{kind}_{number}"}" type="{kind}" version="{opset}">'
            f"<data {data}/><input>{ports}</input>{output}</layer>"
        )
        for place, (source, port) in enumerate(inputs):
            self.edge(source, port, number, place)
        return number, out

    def edge(self, source, port, target, place):
        self.edges.append(f'<edge from-layer="{source}" from-port="{port}" to-layer="{target}" to-port="{place}"/>')

    def parameter(self, name, shape, element="f32"):
        dims = [-1 if word.strip() in ("?", "-1") or ".." in word else word for word in shape.split(",") if word]
        return self.layer(
            "Parameter", name=name, names=name, data=f'shape="{shape}" element_type="{element}"', dims=dims
        )

    def const(self, array, **changes):
        array = np.asarray(array)
        facts = {
            "element_type": TYPES[array.dtype.name],
            "shape": ", ".join(map(str, array.shape)),
            "offset": len(self.data),
            "size": array.nbytes,
        } | changes
        self.data += array.tobytes()
        text = " ".join(f'{key}="{value}"' for key, value in facts.items())
        return self.layer("Const", data=text, dims=array.shape)

    def result(self, source, name="y"):
        return self.layer("Result", [source], name=name, outputs=0)

    def write(self, text=None):
        path = self.folder / "model.xml"
        path.with_suffix(".bin").write_bytes(self.data)
        body = f"<layers>{''.join(self.layers)}</layers><edges>{''.join(self.edges)}</edges>"
        path.write_text(text or f'<?xml version="1.0"?><net name="n" version="{self.version}">{body}</net>')
        return path


@pytest.fixture
def ir(tmp_path):
    return Writer(tmp_path)
