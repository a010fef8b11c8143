"""An ONNX model in ONNX Runtime, or in `onnx.reference` where that is not installed."""

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...ir.errors import ModelError
from ...ir.semantics import Shape
from ...kernels.host.dependencies import require
from .files import FileLimits, read_file
from .runtime import ModelGather, Run, TensorSpec, Values, wrap_error


class OnnxModel:
    """A `Runtime` of an ONNX model."""

    def __init__(self, proto: Any):
        import onnx

        self._proto = proto
        self._session = _make_session(proto)
        self.title = self._session.title
        stored = {tensor.name for tensor in proto.graph.initializer}
        self.inputs: Mapping[str, TensorSpec] = {
            info.name: _spec_of(info, onnx) for info in proto.graph.input if info.name not in stored
        }
        self.optional = frozenset(info.name for info in proto.graph.input if info.name in stored)
        self.outputs = tuple(info.name for info in proto.graph.output)
        self.gathers: Sequence[ModelGather] = ()
        self.run: Run = self._session.run

    def measure(self, inputs: Values) -> Mapping[str, Shape]:
        """Return the shapes of all operands of the gathers, for these inputs."""
        return {}

    def cut(self, chosen: Sequence[ModelGather]) -> Run:
        """Return a function that runs the model with the chosen gathers computed here."""
        raise ModelError("no gather can be left out")


class _OnnxRuntimeSession:
    def __init__(self, runtime: Any, proto: Any):
        self.title = f"ONNX Runtime {runtime.__version__}"
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors are raised
        try:
            self._session = runtime.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime has errors of its own
            raise wrap_error(self.title, error) from None
        self._run = self._session.run

    def run(self, inputs: Values) -> list[Any]:
        try:
            return self._run(None, inputs)
        except Exception as error:
            raise wrap_error(self.title, error) from None


class _ReferenceSession:
    def __init__(self, proto: Any):
        import onnx
        from onnx.reference import ReferenceEvaluator

        self.title = f"onnx.reference {onnx.__version__}"
        try:
            self._session = ReferenceEvaluator(proto)
        except Exception as error:
            raise wrap_error(self.title, error) from None

    def run(self, inputs: Values) -> list[Any]:
        try:
            return self._session.run(None, dict(inputs))
        except Exception as error:
            raise wrap_error(self.title, error) from None


def _make_session(proto: Any) -> Any:
    try:
        runtime = importlib.import_module("onnxruntime")
    except ImportError:
        return _ReferenceSession(proto)
    return _OnnxRuntimeSession(runtime, proto)


def _spec_of(info: Any, onnx: Any) -> TensorSpec:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorSpec(None, None, kind or "?")
    tensor = info.type.tensor_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if not tensor.HasField("shape"):
        return TensorSpec(None, dtype)
    sizes = (dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim)
    return TensorSpec(tuple(sizes), dtype)


def open_onnx(source: Any, limits: FileLimits, *, allow_external_data: bool) -> tuple[OnnxModel, str]:
    """Return an ONNX model in its runtime, and its name."""
    require("onnx")
    import onnx

    name = "model"
    if isinstance(source, str | os.PathLike):
        name = Path(source).name
        source = bytes(read_file(Path(source), limits))
    if isinstance(source, bytes | bytearray | memoryview):
        source = onnx.ModelProto.FromString(bytes(source))
    return OnnxModel(source), name
