"""ONNX Runtime: a model of one node, bound to the arrays' memory, so that a call copies nothing else."""

from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingImports]
from onnx import helper

from ..cases.case import Case, Inputs
from .peer import Call, Peer, Variants

OPSET = 13
CPU = ("cpu", 0)


class OnnxRuntime(Peer):
    """A session for each case."""

    name = "onnxruntime"
    index_dtypes = ("int32", "int64")

    def rejection(self, case: Case) -> str | None:
        if case.is_gradient:
            return "has no gradients"
        if case.is_reduction:
            return "has no operator for bags"
        if np.dtype(case.dtype).kind == "c":
            return f"has no {case.dtype}"
        if (reason := super().rejection(case)) is not None:
            return reason
        if case.operator == "gather" and case.batch_dims and case.axis != case.batch_dims:
            return "has no batch_dims for an axis after them"
        if _node(case).op_type == "GatherND" and case.index_dtype != "int64":
            return f"has no {case.index_dtype} indices for GatherND"
        return None

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        session = self._session(case)
        picks = [indices[..., None] if _is_batched(case) else indices for indices in inputs.indices]
        name = _node(case).op_type
        if case.into == "out":
            return {name: [_into(session, inputs.data, indices, inputs.out) for indices in picks]}
        return {
            name: [_to_array(session, inputs.data, indices) for indices in picks],
            f"{name}, OrtValue": [_to_value(session, inputs.data, indices) for indices in picks],
        }

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        return returned.numpy() if isinstance(returned, onnxruntime.OrtValue) else super().result(returned, out)

    def _session(self, case: Case) -> Any:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(
            model_of(case).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


def model_of(case: Case) -> onnx.ModelProto:
    """Return a model of one node, with static shapes."""
    indices = (*case.indices, 1) if _is_batched(case) else case.indices
    tensors = {
        "data": (case.dtype, case.data),
        "indices": (case.index_dtype, indices),
        "out": (case.dtype, case.gathered),
    }
    values = {
        name: helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in tensors.items()
    }
    graph = helper.make_graph([_node(case)], case.name, [values["data"], values["indices"]], [values["out"]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def _is_batched(case: Case) -> bool:
    """Return whether a gather along an axis is written as GatherND, as Gather has no batch_dims."""
    return case.operator == "gather" and case.batch_dims > 0


def _node(case: Case) -> onnx.NodeProto:
    names: Any = (["data", "indices"], ["out"])
    if case.operator == "gather_nd" or _is_batched(case):
        return helper.make_node("GatherND", *names, batch_dims=case.batch_dims)
    kind = "GatherElements" if case.operator == "gather_elements" else "Gather"
    return helper.make_node(kind, *names, axis=case.axis)


def _to_array(session: Any, data: np.ndarray, indices: np.ndarray) -> Call:
    return lambda: session.run(None, {"data": data, "indices": indices})[0]


def _to_value(session: Any, data: np.ndarray, indices: np.ndarray) -> Call:
    """Return a call whose result stays where the runtime put it; `run` copies it into an array."""
    inputs = {
        name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in (("data", data), ("indices", indices))
    }
    return lambda: session.run_with_ort_values(["out"], inputs)[0]


def _into(session: Any, data: np.ndarray, indices: np.ndarray, out: np.ndarray) -> Call:
    binding = session.io_binding()
    for name, array in (("data", data), ("indices", indices)):
        binding.bind_input(name, *CPU, array.dtype, array.shape, array.ctypes.data)
    binding.bind_output("out", *CPU, out.dtype, out.shape, out.ctypes.data)
    return partial(session.run_with_iobinding, binding)
