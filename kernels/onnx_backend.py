"""gathernest as an ONNX backend: what `onnx.backend.test` and other users of `onnx.backend.base` drive.

    from gathernest.kernels.onnx_backend import GathernestBackend

    prepared = GathernestBackend.prepare(onnx.load("model.onnx"))
    (y,) = prepared.run([tokens])

Needs the extra `onnx`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from ..ir.errors import ModelError
from .model import Model, load

# The first of the inputs of an operator that must be known before a model runs.
_FIRST_CONSTANT = {
    **dict.fromkeys(("Squeeze", "Unsqueeze", "Reshape", "Split", "CumSum", "Tile"), 1),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMin", "ReduceMax"), 1),
    **dict.fromkeys(("Slice", "Pad"), 3),
}


class GathernestRep(BackendRep):
    """A prepared model.

    Attributes:
        model: the model.
    """

    def __init__(self, model: Model):
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model.

        Args:
            inputs: an array for every input, in the model's order or by name; a single array where there is one.
            kwargs: none is known.

        Returns:
            The outputs in the model's order, a named tuple.

        Raises:
            ModelError: an input is missing, unknown, or of the wrong dtype, rank or sizes.
            BoundsError: an index is not valid.
        """
        if isinstance(inputs, np.ndarray):
            inputs = [inputs]
        outputs = self.model.run(inputs) if isinstance(inputs, Mapping) else self.model(*inputs)
        return namedtupledict("Outputs", list(outputs))(*outputs.values())


class GathernestBackend(Backend):
    """Runs ONNX models of gathers and their shape operators on the CPU."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> GathernestRep:
        """Return a model that is ready to run.

        Args:
            model: the model; weights in other files are rejected, since it has no folder.
            device: CPU.
            kwargs: none is known.

        Raises:
            ModelError: the model is damaged, holds what is not supported, or the device is not the CPU.
        """
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
        """Run one node on arrays.

        Args:
            node: the node.
            inputs: an array for each of its inputs that is not left out. What must be known before a model runs, such
                as the axes of Squeeze, is taken as a constant.
            device: CPU.
            outputs_info: not needed.
            kwargs: `opset_version` picks the version of the operators; the newest if omitted.

        Returns:
            Its outputs, a named tuple.

        Raises:
            ModelError: the operator is not supported, or the arrays do not fit it.
            BoundsError: an index is not valid.
        """
        names = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        if len(arrays) != len(names):
            raise ModelError(f"node {node.op_type} has {len(names)} inputs, got {len(arrays)}")
        constant = [name for name in node.input[_FIRST_CONSTANT.get(node.op_type, len(node.input)) :] if name]
        given = dict(zip(names, arrays, strict=True))
        graph = helper.make_graph(
            [node],
            node.op_type,
            [_info(name, array) for name, array in given.items() if name not in constant],
            [onnx.ValueInfoProto(name=name) for name in node.output],
            [onnx.numpy_helper.from_array(given[name], name) for name in constant],
        )
        opset = int(kwargs.get("opset_version", onnx.defs.onnx_opset_version()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        return cls.prepare(model, device).run({name: given[name] for name in given if name not in constant})

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device is the CPU."""
        return device.partition(":")[0] == "CPU"


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    kind = onnx.TensorProto.STRING if array.dtype.kind in "UO" else helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


prepare = GathernestBackend.prepare
run_model = GathernestBackend.run_model
run_node = GathernestBackend.run_node
supports_device = GathernestBackend.supports_device
