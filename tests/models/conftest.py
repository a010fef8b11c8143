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
