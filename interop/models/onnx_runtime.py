"""An ONNX model in ONNX Runtime, or in `onnx.reference` where that is not installed.

Models are untrusted. All of their tensors are read here, within limits, and ONNX Runtime opens no file. Large tensors
leave the model and are handed to every session as memory, so that the parts of a cut model share them.
"""

import ctypes
import importlib
import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import external_data_helper, helper, numpy_helper

from ...ir.errors import GathernestError, ModelError
from ...kernels.host.runtime import RUNTIME
from .onnx_gathers import SumOrder, find_gathers
from .onnx_graph import Graph, dtype_of, inlined, integer, make_part, read_names, spec_of_type
from .runtime import FileLimits, Item, ModelGather, Run, Runtime, Stage, Values, read_file, with_errors

# Tensors of at least this number of bytes leave the model and are shared between sessions.
MIN_SHARED_BYTES = 1024
SHARED_KINDS = "fiub"
# Where a shared tensor lies in a model that is handed to ONNX Runtime: there is no such file, and none is opened.
SHARED_LOCATION = "gathernest-shared"
# The large tensors of a model by name.
Arrays = Mapping[str, np.ndarray]


class OnnxModel(Runtime):
    """A `Runtime` of an ONNX model."""

    def __init__(self, proto: onnx.ModelProto, arrays: Arrays):
        self._arrays, graph = arrays, proto.graph
        read = {name for node in graph.node for name in read_names(node)}
        read.update(info.name for info in (*graph.input, *graph.output))
        for tensor in [tensor for tensor in graph.initializer if tensor.name not in read]:
            graph.initializer.remove(tensor)  # ONNX Runtime leaves it out, and then misses it
        self.title, self.run = _open_session(proto, arrays)
        stored = {tensor.name for tensor in proto.graph.initializer}
        self.inputs = {info.name: spec_of_type(info.type) for info in proto.graph.input if info.name not in stored}
        self.optional = frozenset(info.name for info in proto.graph.input if info.name in stored)
        self.outputs = self._results = tuple(info.name for info in proto.graph.output)
        self._input_names = {name: name for name in self.inputs}
        self._graph = graph = Graph(proto, arrays)
        order = SumOrder(lambda model: _open_session(model, {}, is_part=True)[1])
        self.gathers: Sequence[ModelGather] = tuple(find_gathers(graph, order))
        for found in self.gathers:  # which are inputs of the parts that read them
            dtype = found.specs[found.operands[0]].dtype
            assert dtype is not None
            kind = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(dtype), None)
            graph.types.setdefault(found.result, kind)

    def _items(self, chosen: Sequence[ModelGather]) -> Iterator[Item]:
        if any(name in self._graph.initializers for name in self.outputs):
            raise ModelError("an output of the model is a constant")
        at = {found.replaced: found for found in chosen}
        for node in self._graph.proto.graph.node:
            found = at.get(node.output[0]) if node.output else None
            if found is not None:
                yield found.operands, (found.result,), found
            for made in (node,) if found is None else found.added:
                reads = [name for name in read_names(made) if name not in self._graph.initializers]
                yield reads, [name for name in made.output if name], made

    def _open_part(self, stage: Stage) -> Run:
        part = make_part(self._graph, stage.nodes, stage.inputs, stage.outputs)
        _, run = _open_session(part, self._arrays, is_part=True)
        return lambda values: run({name: values[name] for name in stage.inputs})


# ---- sessions ----


def _open_session(proto: onnx.ModelProto, arrays: Arrays, *, is_part: bool = False) -> tuple[str, Run]:
    """Return the name of the runtime that has loaded a model, and a function that runs it there.

    Sessions read the arrays where they lie, so the function holds them.
    """
    try:
        runtime = RUNTIME.make(lambda: importlib.import_module("onnxruntime"), kind="onnxruntime")
    except ImportError:
        title, open_model = f"onnx.reference {onnx.__version__}", _open_reference
    else:
        title, open_model = f"ONNX Runtime {runtime.__version__}", partial(_open_onnxruntime, runtime, is_part)
    run = with_errors(title, with_errors(title, open_model)(proto, arrays))
    return title, lambda inputs, held=arrays: run(inputs)


def _open_onnxruntime(runtime: Any, is_part: bool, proto: onnx.ModelProto, arrays: Arrays) -> Run:
    """Load a model in ONNX Runtime on the CPU.

    Threads of a session wait in a loop for more work after a run. Those of a part do not: they would hold the cores
    that the gathers after it need, which made a recommender 1.2 to 1.4 times as slow.
    """
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    if is_part:
        options.add_session_config_entry("session.force_spinning_stop", "1")
    shared = [tensor.name for tensor in proto.graph.initializer if tensor.name in arrays]
    values = [runtime.OrtValue.ortvalue_from_numpy(arrays[name]) for name in shared]
    options.add_external_initializers(shared, values)
    for name, value in zip(shared, values, strict=True):
        options.add_initializer(name, value)  # as memory of the session, not as a copy of it
    session = runtime.InferenceSession(
        proto.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        enable_fallback=0,  # which prints errors whose text cannot be decoded, and tries this provider again
    )
    types = {info.name: info.type.tensor_type.elem_type for info in (*proto.graph.input, *proto.graph.output)}
    dtypes = {
        name: dtype for name, kind in types.items() if (dtype := dtype_of(kind)) is not None and dtype.kind == "V"
    }
    # The session in C++ takes what `InferenceSession.run` does, which costs 1 µs more.
    outputs, run = [info.name for info in proto.graph.output], getattr(session, "_sess", session).run
    if not dtypes:
        return lambda inputs: run(outputs, inputs, None)

    def run_exotic(inputs: Values) -> list[Any]:
        """Run a model with inputs or outputs of element types that NumPy does not have, such as bfloat16."""
        make, given = runtime.OrtValue, {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        found = session.run_with_ort_values(
            None,
            {
                name: make.ortvalue_from_numpy_with_onnx_type(array, types[name])
                if name in dtypes
                else make.ortvalue_from_numpy(array)
                for name, array in given.items()
            },
        )
        results = list[Any]()
        for name, value in zip(outputs, found, strict=True):
            if name not in dtypes:
                results.append(value.numpy())
                continue
            shape = tuple(value.shape())
            data = ctypes.string_at(value.data_ptr(), math.prod(shape) * dtypes[name].itemsize)
            results.append(np.frombuffer(data, dtypes[name]).reshape(shape).copy())
        return results

    return run_exotic


def _open_reference(proto: onnx.ModelProto, arrays: Arrays) -> Run:
    """Load a model in the evaluator that the onnx package has."""
    from onnx.reference import ReferenceEvaluator

    whole = onnx.ModelProto()
    whole.CopyFrom(proto)
    for tensor in whole.graph.initializer:
        if tensor.name in arrays:
            tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
    evaluator = ReferenceEvaluator(whole)
    return lambda inputs: list(evaluator.run(None, dict(inputs)))


# ---- reading ----


def open_onnx(source: Any, limits: FileLimits, *, allow_external_data: bool) -> tuple[OnnxModel, str]:
    """Return an ONNX model in its runtime, and its name; raises as `load` does."""
    name, folder = "model", None
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        name, folder, source = path.name, path.parent, read_file(path, limits)
    if isinstance(source, bytes | bytearray | memoryview):
        limits.check("the model", len(source), "max_file_bytes")
        proto = onnx.ModelProto()
        try:
            proto.ParseFromString(bytes(source))
        except DecodeError as error:
            raise ModelError(f"{name} is not an ONNX model, or damaged: {error}") from None
    else:
        proto = onnx.ModelProto()
        proto.CopyFrom(source)
        name = source.graph.name or name
    if not proto.HasField("graph"):
        raise ModelError(f"{name} has no graph; it is not an ONNX model, or damaged")
    try:
        arrays = _take_tensors(proto, limits, folder, allow_external_data=allow_external_data)
        _check_batch_dims(proto)
        small = onnx.ModelProto()  # the message that was read keeps the memory of what left it
        small.CopyFrom(proto)
        del proto
        return OnnxModel(small, arrays), name
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is damaged: a string in it is not UTF-8 ({error.reason})") from None


def _take_tensors(
    proto: onnx.ModelProto, limits: FileLimits, folder: Path | None, *, allow_external_data: bool
) -> dict[str, np.ndarray]:
    """Return the large tensors of a model, which leave it; read tensors that lie in other files.

    Raises:
        ModelError: a tensor is over a limit, does not fit its sizes, or lies where it may not be read.
    """
    arrays: dict[str, np.ndarray] = {}
    graph, total = proto.graph, 0
    beside = [*graph.node, *graph.sparse_initializer, *proto.functions, *proto.training_info]
    others = _messages(onnx.TensorProto, beside)
    initializers = len(graph.initializer)
    for number, tensor in enumerate(itertools.chain(graph.initializer, others)):
        what = f"tensor {tensor.name!r}"
        dtype = dtype_of(tensor.data_type)
        if dtype is None:
            raise ModelError(f"{what} has element type {tensor.data_type}, which this onnx does not know")
        size = limits.check_tensor(what, list(tensor.dims), dtype)
        total += size
        limits.check("all tensors of the model together", total, "max_total_bytes")
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _load_beside(tensor, what, limits, folder, allow_external_data=allow_external_data)
        if number < initializers and size >= MIN_SHARED_BYTES and dtype.isbuiltin == 1 and dtype.kind in SHARED_KINDS:
            arrays[tensor.name] = _array_of(tensor, what, dtype)
            kept = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            kept.data_location = onnx.TensorProto.EXTERNAL
            kept.external_data.add(key="location", value=SHARED_LOCATION)
            tensor.CopyFrom(kept)
    return arrays


def _array_of(tensor: onnx.TensorProto, what: str, dtype: np.dtype) -> np.ndarray:
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(f"{what} of shape {tuple(tensor.dims)} and {dtype} cannot be read: {reason}") from None
    if array.shape != tuple(tensor.dims) or array.dtype != dtype:
        raise ModelError(f"{what} of shape {tuple(tensor.dims)} and {dtype} holds {array.dtype} of {array.shape}")
    return array


def _check_batch_dims(proto: onnx.ModelProto) -> None:
    """Reject a GatherND of negative batch_dims, for which onnx and ONNX Runtime read outside of their memory."""
    for node in _messages(onnx.NodeProto, [inlined(proto).graph]):
        if node.op_type == "GatherND" and (batch_dims := integer(node, "batch_dims", 0)) < 0:
            made = ", ".join(node.output)
            raise ModelError(f"the GatherND that makes {made} has batch_dims {batch_dims}; ONNX allows 0 or more")


def _messages(kind: type[Any], messages: list[Any]) -> Iterator[Any]:
    """Yield the messages of a kind in messages, at any depth."""
    while messages:
        message = messages.pop()
        if isinstance(message, kind):
            yield message
        for field, value in message.ListFields():
            if field.message_type is not None:
                messages += value if hasattr(value, "__len__") else [value]


def _load_beside(
    tensor: onnx.TensorProto, what: str, limits: FileLimits, folder: Path | None, *, allow_external_data: bool
) -> None:
    """Read a tensor that lies in another file, which onnx takes only from the folder, and only if it is no link."""
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    where = f"{what} lies in another file, {location!r}"
    if folder is None:
        raise ModelError(f"{where}, and this model has no folder; load it by its path, or onnx.load it with its data")
    if not allow_external_data:
        raise ModelError(
            f"{where}; allow_external_data=True (--allow-external-data) reads it, from the model's own folder only"
        )
    if tensor.data_type == onnx.TensorProto.STRING:
        raise ModelError(f"{what} is of strings, which cannot lie in another file")
    try:
        limits.check(location, os.stat(folder / location, follow_symlinks=False).st_size, "max_file_bytes")
        external_data_helper.load_external_data_for_tensor(tensor, str(folder))
    except GathernestError:
        raise
    except Exception as error:  # the checker of onnx has errors of its own
        raise ModelError(f"{where}, which is not read: {error}") from None
