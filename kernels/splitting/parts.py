"""Cut an ONNX model at its lookups: what computes their indices, and what reads their results, as models."""

from collections.abc import Collection, Sequence

import onnx
import onnx.helper
import onnx.numpy_helper

from ...ir.importers.onnx_tensors import TensorReader
from .lookups import Lookup, read_names


def indices_part(model: onnx.ModelProto, lookups: Sequence[Lookup], reader: TensorReader) -> onnx.ModelProto | None:
    """Return the model that computes what the lookups read; None where all are inputs of the model."""
    inputs = {info.name for info in model.graph.input}
    wanted = list(dict.fromkeys(name for lookup in lookups for name in lookup.reads if name not in inputs))
    if not wanted:
        return None
    known = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    outputs = [known.get(name) or onnx.ValueInfoProto(name=name) for name in wanted]
    return _part(model, range(len(model.graph.node)), outputs, [], reader)


def sources(part: onnx.ModelProto | None, name: str) -> set[str]:
    """Return the names of the inputs that a value of the indices' model comes from; its own name where that is none."""
    nodes = [] if part is None else part.graph.node
    makers = {output: node for node in nodes for output in node.output}
    found, stack = set[str](), [name]
    while stack:
        one = stack.pop()
        if one not in found:
            found.add(one)
            stack += read_names(makers[one]) if one in makers else []
    return found - makers.keys()


def rest_part(model: onnx.ModelProto, lookups: Sequence[Lookup], reader: TensorReader) -> onnx.ModelProto | None:
    """Return the model without its lookups, whose results are inputs of it; None where nothing else gives an output."""
    tables = {tensor.name: tensor for tensor in model.graph.initializer}
    results = {lookup.result: tables[lookup.table].data_type for lookup in lookups}
    outputs = [info for info in model.graph.output if info.name not in results]
    if not outputs:
        return None
    taken = {place for lookup in lookups for place in lookup.nodes}
    places = [place for place in range(len(model.graph.node)) if place not in taken]
    added = [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in results.items()]
    return _part(model, places, outputs, added, reader)


def _part(
    model: onnx.ModelProto,
    places: Collection[int],
    outputs: Sequence[onnx.ValueInfoProto],
    added: Sequence[onnx.ValueInfoProto],
    reader: TensorReader,
) -> onnx.ModelProto:
    """Return the model of the nodes, of those at some places, that outputs need; with inputs that are added.

    Tensors of other files are read into it.
    """
    graph, needed, nodes = model.graph, {info.name for info in outputs}, list[onnx.NodeProto]()
    for place in sorted(places, reverse=True):
        node = graph.node[place]
        if not needed.isdisjoint(node.output):
            needed.update(read_names(node))
            nodes.append(node)
    part = onnx.ModelProto(ir_version=model.ir_version, producer_name="gathernest")
    part.opset_import.extend(model.opset_import)
    part.functions.extend(model.functions)
    part.graph.name = "part"
    part.graph.node.extend(reversed(nodes))
    part.graph.output.extend(outputs)
    part.graph.input.extend(info for info in (*graph.input, *added) if info.name in needed)
    part.graph.value_info.extend(info for info in graph.value_info if info.name in needed)
    for tensor in graph.initializer:
        if tensor.name in needed:
            part.graph.initializer.append(_stored(tensor, reader))
    return part


def _stored(tensor: onnx.TensorProto, reader: TensorReader) -> onnx.TensorProto:
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return tensor
    return onnx.numpy_helper.from_array(reader.array(tensor, f"initializer {tensor.name!r}"), tensor.name)
