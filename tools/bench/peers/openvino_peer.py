"""OpenVINO: a compiled model of one node, whose tensors share the arrays' memory."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import openvino  # pyright: ignore[reportMissingImports]
from openvino import opset8 as operators  # pyright: ignore[reportMissingImports]

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants

# Dtypes whose bytes its CPU plugin keeps: it computes in float32 and int32.
KEPT = ("int8", "uint8", "int16", "uint16", "int32", "float16", "float32", "bool")


class OpenVino(Peer):
    """A compiled model for each case, and an infer request for each set of indices."""

    name = "openvino"
    index_dtypes = ("int32", "int64")

    def rejection(self, case: Case) -> str | None:
        if case.is_gradient:
            return "has no gradients"
        if case.operator == "gather_max":
            return "has no maxima of bags"
        if case.dtype not in KEPT:
            return f"computes in float32 and int32, not in {case.dtype}"
        return super().rejection(case)

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        settings = {"INFERENCE_NUM_THREADS": self.threads, "PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
        model = model_of(case)
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        name = type_name(model)

        def calls(of_request: Callable[[Any], Call]) -> list[Call]:
            return [of_request(_request(compiled, inputs.data, picks)) for picks in inputs.indices]

        if case.into == "out":
            return {name: calls(partial(_into, inputs.out))}
        return {name: calls(partial(_to_tensor, case)), f"{name}, copied": calls(_copied)}


def model_of(case: Case) -> Any:
    """Return a model of one node, with static shapes."""
    data = operators.parameter(list(case.data), np.dtype(case.dtype), name="data")
    indices = operators.parameter(list(case.indices), np.dtype(case.index_dtype), name="indices")
    if case.operator == "gather_nd":
        node = operators.gather_nd(data, indices, case.batch_dims)
    elif case.operator == "gather_elements":
        node = operators.gather_elements(data, indices, case.axis)
    elif case.is_reduction:
        node = operators.embedding_bag_packed_sum(data, indices)
    else:
        node = operators.gather(data, indices, operators.constant(np.int64(case.axis)), case.batch_dims)
    return openvino.Model([node], [data, indices], case.name)


def type_name(model: Any) -> str:
    """Return the type of the node that gives a model's result."""
    return model.get_results()[0].input_value(0).get_node().get_type_name()


def _request(compiled: Any, data: np.ndarray, picks: np.ndarray) -> Any:
    request = compiled.create_infer_request()
    for number, array in enumerate((data, picks)):
        request.set_input_tensor(number, openvino.Tensor(array, shared_memory=True))
    return request


def _into(out: np.ndarray, request: Any) -> Call:
    """Return a call that writes into `out`; without `share_outputs` it would be copied as well."""
    request.set_output_tensor(0, openvino.Tensor(out, shared_memory=True))

    def call() -> None:
        request.infer(share_outputs=True)

    return call


def _to_tensor(case: Case, request: Any) -> Call:
    """Return a call that gives the request a new tensor for its result each time."""

    def call() -> np.ndarray:
        out = np.empty(case.gathered, case.dtype)
        request.set_output_tensor(0, openvino.Tensor(out, shared_memory=True))
        request.infer(share_outputs=True)
        return out

    return call


def _copied(request: Any) -> Call:
    """Return a call whose result is copied from the request's own tensor, as `infer` does."""
    return lambda: request.infer()[0]
