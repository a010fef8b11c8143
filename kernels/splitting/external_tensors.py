"""Tensors of an ONNX model that lie in other files, checked before ONNX Runtime opens such a file."""

from collections.abc import Iterator
from typing import Any

import onnx

from ...ir.errors import ModelError
from ...ir.importers.file_limits import open_file
from ...ir.importers.onnx_tensors import TensorReader


def check_external_tensors(model: onnx.ModelProto, reader: TensorReader) -> None:
    """Check every tensor of a model that lies in another file.

    Raises:
        ModelError: the file may not be read, or the tensor is in a node or a subgraph. ONNX Runtime looks for those of
            a model without a folder, as parts are, in the current one.
    """
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            with open_file(reader.path(tensor, f"initializer {tensor.name!r}"), reader.limits):
                pass  # it is a file, and nothing else that ONNX Runtime knows by such a name
    graph = model.graph
    for tensor in _tensors([*graph.node, *graph.sparse_initializer, *model.functions, *model.training_info]):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(
                f"tensor {tensor.name!r} lies in another file, which only initializers of the main graph may; "
                "onnx.load the model with its data"
            )


def _tensors(messages: list[Any]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors in messages, at any depth."""
    while messages:
        message = messages.pop()
        if isinstance(message, onnx.TensorProto):
            yield message
            continue
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += value if hasattr(value, "__len__") else [value]
