"""Read an ONNX model: a graph of gathers and of the shape operators around them.

`import_onnx` takes the model's file, `import_onnx_model` a `ModelProto`; both give one module. Nodes are converted in
`onnx_nodes`, tensors read in `onnx_tensors`. Only what the model says is read: nothing is run, and no file but the
model's own, unless external data is allowed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from xdsl.ir import SSAValue

from ..dialects.graph_op import shape_of_value, tensor_type
from ..dialects.types import numpy_dtype
from ..errors import ModelError
from ..semantics import DYNAMIC, Shape, shapes_agree
from .bags.onnx_sequences import bags_of_sequence, loops_over_sequences
from .file_limits import FileLimits, read_file
from .graph_builder import GraphBuilder, ImportedModel, lookup, unsupported
from .onnx_nodes import read_node
from .onnx_operators import CONVERTERS, SUPPORTED
from .onnx_tensors import TensorReader, element_dtype

OWN_DOMAINS = ("", "ai.onnx")


def import_onnx(path: Path, *, allow_external_data: bool = False, limits: FileLimits | None = None) -> ImportedModel:
    """Read a `.onnx` file.

    Args:
        path: the file.
        allow_external_data: whether weights may be read from other files in its folder.
        limits: of the model's memory.

    Raises:
        ModelError: the file is damaged, or the model holds what is not supported; names the node.
    """
    limits = limits or FileLimits()
    return import_onnx_model(
        read_model(path, limits), TensorReader(limits, path.parent, allow_external_data), str(path)
    )


def read_model(path: Path, limits: FileLimits) -> onnx.ModelProto:
    """Return what a `.onnx` file holds; raises ModelError where it is damaged."""
    return parse_model(read_file(path, limits), str(path))


def parse_model(data: bytes, name: str) -> onnx.ModelProto:
    """Return what the bytes of a `.onnx` file hold; raises ModelError, which calls them `name`."""
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{name} is not an ONNX model, or damaged: {error}") from None
    return model


def import_onnx_model(model: onnx.ModelProto, reader: TensorReader, name: str = "the model") -> ImportedModel:
    """Read a model that is in memory.

    Args:
        model: the model.
        reader: reads its tensors.
        name: how messages call it.

    Raises:
        ModelError: the model is damaged, or holds what is not supported; names the node.
    """
    check_model(model, name)
    try:
        return _import_graph(model, GraphBuilder(reader.limits), reader)
    except UnicodeDecodeError as error:
        raise ModelError(f"{name} is damaged: a string in it is not UTF-8 ({error.reason})") from None


def check_model(model: onnx.ModelProto, name: str) -> None:
    """Check that a model has a graph, and names that are text; raises ModelError."""
    if not model.HasField("graph"):
        raise ModelError(f"{name} has no graph; it is not an ONNX model, or damaged")
    if not {*map(type, _texts(model))} <= {str}:
        raise ModelError(f"{name} is damaged: a name in it is not UTF-8")


def _texts(model: onnx.ModelProto) -> Iterator[Any]:
    """Yield every string of a model that is read; protobuf gives bytes where one is not UTF-8."""
    graph = model.graph
    yield from (entry.domain for entry in model.opset_import)
    tensors = [*graph.initializer]
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("t"):
                tensors.append(attribute.t)
    for info in (*graph.input, *graph.output):
        yield info.name
        yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
    for tensor in tensors:
        yield tensor.name
        yield from (text for entry in tensor.external_data for text in (entry.key, entry.value))


def _import_graph(model: onnx.ModelProto, builder: GraphBuilder, reader: TensorReader) -> ImportedModel:
    graph, opset = model.graph, _opset(model)
    if graph.sparse_initializer:
        raise ModelError("the model has sparse initializers, which are not supported; store them dense")
    skipped, loops = loops_over_sequences(graph, opset)
    _check_supported(graph, {*skipped, *loops})
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    values: dict[str, SSAValue] = {}
    for info in graph.input:
        if info.name not in initializers:
            _define(values, info.name, builder.argument(info.name, *input_type(info, "input")), "input")
    for tensor in graph.initializer:
        array = reader.array(tensor, f"initializer {tensor.name!r}")
        _define(values, tensor.name, builder.constant(tensor.name, array), "initializer")
    with builder.naming_nodes():
        for number, proto in enumerate(graph.node):
            builder.kind, builder.node = proto.op_type, _name_of(proto, number)
            first = proto.output[0] if proto.output else ""
            if first in skipped:
                continue
            if first in loops:
                builder.kind, builder.node = "Loop", _name_of(loops[first].node, number)
                _define(values, first, bags_of_sequence(loops[first], first, values, builder, reader), "output")
                continue
            node = read_node(proto, opset, values, reader)
            given = CONVERTERS[node.op_type](node, builder)
            for name, value in zip(node.outputs, [given] if isinstance(given, SSAValue) else given, strict=True):
                if name or len(node.outputs) == 1:
                    _define(values, name, value, "output")
    _add_results(graph, builder, values)
    return builder.finish()


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of ai.onnx that a model is written in.

    Raises:
        ModelError: it names none, several, or one that the installed onnx does not know.
    """
    found = [entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS]
    if not found and model.ir_version < 3 and not model.opset_import:
        found = [1]
    if not found:
        raise ModelError("the model names no version of the operators of ai.onnx (opset_import); it may be damaged")
    if len({*found}) > 1:
        raise ModelError(
            f"the model names several versions of ai.onnx, {', '.join(map(str, found))}; it may be damaged"
        )
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= found[0] <= newest:
        raise ModelError(
            f"the model is written in opset {found[0]}, and onnx {onnx.__version__} knows 1 to {newest}; "
            "a newer onnx may know it: pip install --upgrade onnx"
        )
    return found[0]


def _name_of(node: onnx.NodeProto, number: int) -> str:
    return node.name or (node.output[0] if node.output else "") or f"#{number}"


def _check_supported(graph: onnx.GraphProto, others: set[str]) -> None:
    """Check the operator of every node but those that make `others`; raises ModelError, which names all that fail."""
    found: dict[str, list[str]] = {}
    for number, node in enumerate(graph.node):
        if node.output and node.output[0] in others:
            continue
        if node.domain not in OWN_DOMAINS or node.op_type not in CONVERTERS:
            operator = node.op_type if node.domain in OWN_DOMAINS else f"{node.domain}.{node.op_type}"
            found.setdefault(operator, []).append(_name_of(node, number))
    if found:
        raise unsupported(found, f"{', '.join(SUPPORTED)}; gathernest.split leaves all others to ONNX Runtime")


def _define(values: dict[str, SSAValue], name: str, value: SSAValue, what: str) -> None:
    if not name:
        raise ModelError(f"an {what} of the model has no name; the model may be damaged")
    if name in values:
        raise ModelError(f"{what} {name!r} is defined a second time; the model may be damaged")
    values[name] = value


def input_type(info: onnx.ValueInfoProto, what: str) -> tuple[Any, Shape, Sequence[str]]:
    """Return dtype, shape and names of sizes of an input or output.

    Raises:
        ModelError: it is no tensor, or its rank is not known.
    """
    if not info.HasField("type") or info.type.WhichOneof("value") != "tensor_type":
        kind = info.type.WhichOneof("value") or "of no type"
        raise ModelError(f"{what} {info.name!r} is {kind.replace('_', ' ')}, and only tensors are supported")
    tensor = info.type.tensor_type
    dtype = element_dtype(tensor.elem_type, f"{what} {info.name!r}")
    if not tensor.HasField("shape"):
        raise ModelError(f"{what} {info.name!r} has no shape, and its rank must be known; export the model with shapes")
    if any(dim.dim_value < 0 for dim in tensor.shape.dim):
        shown = [dim.dim_value for dim in tensor.shape.dim]
        raise ModelError(f"{what} {info.name!r} has shape {shown}, and sizes are 0 or more")
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") else DYNAMIC for dim in tensor.shape.dim)
    return dtype, sizes, [dim.dim_param if dim.HasField("dim_param") else "" for dim in tensor.shape.dim]


def _add_results(graph: onnx.GraphProto, builder: GraphBuilder, values: Mapping[str, SSAValue]) -> None:
    """Add the outputs, and hold them against what the model declares of them."""
    names = [info.name for info in graph.output]
    if not names:
        raise ModelError("the model has no outputs; it may be damaged")
    if len(set(names)) != len(names):
        raise ModelError(f"an output is there twice: {', '.join(names)}")
    for info in graph.output:
        value = lookup(values, info.name, "output")
        dims: Sequence[str] = ()
        if info.type.WhichOneof("value") == "tensor_type" and info.type.tensor_type.elem_type:
            tensor = info.type.tensor_type
            dtype, got = element_dtype(tensor.elem_type, f"output {info.name!r}"), tensor_type(value)
            if numpy_dtype(got.element_type) != dtype:
                raise ModelError(f"output {info.name!r} is declared as {dtype}, and the graph gives {got}")
            if tensor.HasField("shape"):
                _, shape, dims = input_type(info, "output")
                if not shapes_agree(shape, shape_of_value(value)):
                    raise ModelError(f"output {info.name!r} is declared with shape {shape}, and the graph gives {got}")
        builder.result(info.name, value, dims)
