"""A model from a file: a tiny ONNX model, a run, and where its gathers run. Needs the extra `onnx`."""

import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import gathernest as gn

table = np.arange(20, dtype=np.float32).reshape(5, 4)
graph = helper.make_graph(
    [
        helper.make_node("Gather", ["table", "tokens"], ["rows"], name="embedding"),
        helper.make_node("Gather", ["rows", "columns"], ["picked"], name="pick", axis=2),
    ],
    "lookup",
    [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", 3])],
    [helper.make_tensor_value_info("picked", TensorProto.FLOAT, ["batch", 3, 2])],
    [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([-1, 1]), "columns")],
)
proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "lookup.onnx"
    onnx.save(proto, path)
    model = gn.load(path)

print(repr(model), "\n")
print(model(tokens=np.array([[0, 4, -1]]))["picked"], "\n")
print(model.plan, "\n")
for node, problem in model.gathers(size=64).items():
    print(f"{node} can be studied alone: {problem.name} {problem.table} {problem.indices} {problem.options}")
