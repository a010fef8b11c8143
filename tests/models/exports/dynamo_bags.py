"""Embedding bags that torch's dynamo exporter wrote, how to damage them, and how damaged ones are rejected."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import gathernest as gn

DATA = Path(__file__).parent / "data"
ONLY = "a Loop over a sequence is supported where it is an embedding bag, as torch exports one"


def export(name):
    return onnx.load(DATA / f"{name}.dynamo.dynamic.onnx")


def loop_of(model):
    return next(node for node in model.graph.node if node.op_type == "Loop")


def graphs(graph):
    """Yield a graph, and the graphs in it."""
    yield graph
    for attribute in (attribute for node in graph.node for attribute in node.attribute if attribute.HasField("g")):
        yield from graphs(attribute.g)


def tensor(model, name):
    return next(tensor for tensor in model.graph.initializer if tensor.name == name)


def put(model, name, array):
    tensor(model, name).CopyFrom(numpy_helper.from_array(np.asarray(array), name))


def check_damaged(name, damage, message):
    """Check that an export is rejected in one line that ends with the message and the way out."""
    model = export(name)
    damage(model)
    with pytest.raises(gn.ModelError) as raised:
        gn.load(model)
    text = str(raised.value)
    assert text.startswith("node ") and ONLY in text and f"; this one {message}; gathernest.split" in text
