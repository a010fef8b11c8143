"""gathernest as an ONNX backend, for what drives `onnx.backend.base`: models run as `gathernest.load` runs them.

from gathernest.interop.models.onnx_backend import GathernestBackend

prepared = GathernestBackend.prepare(onnx.load("model.onnx"))
(y,) = prepared.run([tokens])
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ...ir.errors import ModelError
from .model import Model, load


class GathernestRep(BackendRep):
    """A prepared model: `run` takes an array for each input, in order or by name, and gives a named tuple."""

    def __init__(self, model: Model):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model; raises ModelError as `Model.run` does."""
        given = [inputs] if isinstance(inputs, np.ndarray) else inputs
        outputs = self.model.run(given) if isinstance(given, Mapping) else self.model(*given)
        return namedtupledict("Outputs", list(outputs))(*outputs.values())


class GathernestBackend(Backend):
    """Runs ONNX models on the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> GathernestRep:
        """Return a model that is ready to run; raises ModelError as `load` does, and for another device."""
        if not cls.supports_device(device):
            raise ModelError(f"gathernest runs on the CPU, not on {device!r}")
        return GathernestRep(load(model))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one node on arrays, one for each input that is not left out; `opset_version` picks its version."""
        names, arrays = [name for name in node.input if name], [np.asarray(array) for array in inputs]
        if len(arrays) != len(names):
            raise ModelError(f"node {node.op_type} has {len(names)} inputs, got {len(arrays)}")
        given = dict(zip(names, arrays, strict=True))
        kinds = [
            onnx.TensorProto.STRING if array.dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(array.dtype)
            for array in given.values()
        ]
        infos = [
            helper.make_tensor_value_info(name, kind, array.shape)
            for (name, array), kind in zip(given.items(), kinds, strict=True)
        ]
        graph = helper.make_graph([node], node.op_type, infos, [onnx.ValueInfoProto(name=name) for name in node.output])
        opset = int(kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        return cls.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), device).run(given)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device is the CPU."""
        return device.partition(":")[0] == "CPU"
