"""OpenVINO: a compiled model of one node, whose tensors share the arrays' memory."""

from typing import Any

import numpy as np
import openvino  # pyright: ignore[reportMissingImports]
from openvino import opset8 as operators  # pyright: ignore[reportMissingImports]

from ..cases.case import Case, Inputs
from .peer import Peer, Variants

# Dtypes whose bytes its CPU plugin keeps: it computes in float32 and int32.
KEPT = ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32", "bool")


class OpenVino(Peer):
    """A compiled model for each case, and an infer request for each set of indices."""

    name = "openvino"
    index_dtypes = ("int32", "int64")

    def rejection(self, case: Case) -> str | None:
        if case.is_gradient:
            return "has no gradients"
        if case.dtype not in KEPT:
            return f"computes in float32 and int32, not in {case.dtype}"
        return super().rejection(case)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        settings = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
        model = model_of(case)
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        out = openvino.Tensor(inputs.out, shared_memory=True) if case.into == "out" else None
        data = openvino.Tensor(inputs.data, shared_memory=True)
        calls = [_call(compiled, data, openvino.Tensor(picks, shared_memory=True), out) for picks in inputs.indices]
        return {type_name(model): calls}

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        return returned if isinstance(returned, np.ndarray) else out  # `infer` returns a table of views


def model_of(case: Case) -> Any:
    """Return a model of one node, with static shapes."""
    data = operators.parameter(list(case.data), np.dtype(case.dtype), name="data")
    indices = operators.parameter(list(case.indices), np.dtype(case.index_dtype), name="indices")
    if case.operator == "gather_nd":
        node = operators.gather_nd(data, indices, case.batch_dims)
    elif case.operator == "gather_elements":
        node = operators.gather_elements(data, indices, case.axis)
    else:
        node = operators.gather(data, indices, operators.constant(np.int64(case.axis)), case.batch_dims)
    return openvino.Model([node], [data, indices], case.name)


def type_name(model: Any) -> str:
    """Return the type of the node that gives a model's result."""
    return model.get_results()[0].input_value(0).get_node().get_type_name()


def _call(compiled: Any, data: Any, indices: Any, out: Any) -> Any:
    request = compiled.create_infer_request()
    request.set_input_tensor(0, data)
    request.set_input_tensor(1, indices)
    if out is not None:
        request.set_output_tensor(0, out)
        return request.infer

    def call() -> np.ndarray:
        request.infer()
        return request.get_output_tensor(0).data.copy()

    return call
