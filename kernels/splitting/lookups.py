"""Find the lookups of an ONNX graph: gathers of large constant tables, perhaps with the sum over their indices."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from ...ir.importers.onnx_tensors import element_dtype

OWN_DOMAINS = ("", "ai.onnx")
# Smaller tables are constants of shapes, or lie in a core's first caches, where ONNX Runtime's gather is as fast.
LEAST_TABLE_BYTES = 2**16
# Kinds of dtypes that ONNX Runtime takes from NumPy's memory.
SHARED_KINDS = "fiub"
REDUCTIONS: dict[str, Literal["sum", "mean"]] = {"ReduceSum": "sum", "ReduceMean": "mean"}
# By the name of a value its sizes, None where they are not known.
Shapes = Mapping[str, tuple[int | None, ...]]
REDUCED_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


@dataclass(frozen=True, slots=True)
class Lookup:
    """A gather from a constant table, perhaps with a reduction over the last dimension of its indices.

    Attributes:
        table: the name of the initializer; of rank 2 with `reduce`.
        indices: the name of the value that holds the indices.
        result: the name of the value that it gives.
        axis: the axis of the table.
        nodes: the places of its nodes in the graph.
        reduce: "sum" or "mean", or None.
        keep_dim: whether the reduced dimension stays with size 1.
        weights: the name of the value that rows are multiplied by; its last dimension has size 1.
        left_out: of such a shape, the name of the bools that say which rows are zeros.
    """

    table: str
    indices: str
    result: str
    axis: int
    nodes: tuple[int, ...]
    reduce: Literal["sum", "mean"] | None = None
    keep_dim: bool = False
    weights: str | None = None
    left_out: str | None = None

    def __str__(self) -> str:
        what = f"gather {self.table} by {self.indices}"
        if self.weights is not None:
            what += f", times {self.weights}"
        if self.left_out is not None:
            what += f" but where {self.left_out}"
        return what if self.reduce is None else f"{what}, {self.reduce} of each bag"

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values that it is computed from, but the table."""
        return tuple(name for name in (self.indices, self.weights, self.left_out) if name is not None)


def find_lookups(model: onnx.ModelProto) -> list[Lookup]:
    """Return the lookups of a model whose indices do not depend on one another's results, in the graph's order.

    A sum or mean over the indices of a lookup belongs to it, and so do the weights that its rows are multiplied by.
    """
    graph = model.graph
    tables = {tensor.name: tensor for tensor in graph.initializer if _is_table(tensor)}
    after: set[str] = set()  # values that depend on a lookup
    found: list[Lookup] = []
    for place, node in enumerate(graph.node):
        depends = not after.isdisjoint(read_names(node))
        axis = _integer(node, "axis", 0)
        if not depends and _is_gather(node) and _has_axis(tables.get(node.input[0]), axis):
            depends = True
            found.append(Lookup(node.input[0], node.input[1], node.output[0], axis, (place,)))
        if depends:
            after.update(node.output)
    shapes = _shapes(model, tables.values()) if found else {}
    return [_with_reduction(lookup, graph, tables[lookup.table], shapes, after) for lookup in found]


def read_names(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names of the values that a node reads, those of its subgraphs included."""
    stack: list[onnx.NodeProto] = [node]
    while stack:
        one = stack.pop()
        yield from one.input
        for attribute in one.attribute:
            for body in (attribute.g, *attribute.graphs):
                stack += body.node
                yield from (info.name for info in body.output)


def constant_integers(graph: onnx.GraphProto, name: str) -> Sequence[int] | None:
    """Return the elements of a small constant of integers; None where the value is no constant."""
    for node in graph.node:
        listed = [attribute for attribute in node.attribute if attribute.name in ("value_ints", "value_int")]
        if name in node.output and node.op_type == "Constant" and listed:
            return list(listed[0].ints) or [listed[0].i]
    array = _small_constant(graph, name)
    return None if array is None or array.dtype.kind not in "iu" else [int(element) for element in array.flat]


def _is_zero(name: str, graph: onnx.GraphProto) -> bool:
    """Return whether a value is the constant 0.0 of one element."""
    array = _small_constant(graph, name)
    return array is not None and array.size == 1 and array.dtype.kind == "f" and not array.any()


def _small_constant(graph: onnx.GraphProto, name: str) -> np.ndarray | None:
    """Return a constant of up to 8 elements that is a tensor; None where the value is none."""
    tensors = [tensor for tensor in graph.initializer if tensor.name == name]
    for node in graph.node:
        if name in node.output and node.op_type == "Constant":
            tensors += [attribute.t for attribute in node.attribute if attribute.name == "value"]
    if not tensors or tensors[0].data_location == onnx.TensorProto.EXTERNAL or math.prod(tensors[0].dims) > 8:
        return None
    try:
        return onnx.numpy_helper.to_array(tensors[0])
    except (ValueError, TypeError):
        return None


def _is_gather(node: onnx.NodeProto) -> bool:
    return node.op_type == "Gather" and node.domain in OWN_DOMAINS and (len(node.input), len(node.output)) == (2, 1)


def _has_axis(table: onnx.TensorProto | None, axis: int) -> bool:
    return table is not None and -len(table.dims) <= axis < len(table.dims)


def _is_table(tensor: onnx.TensorProto) -> bool:
    dtype = element_dtype(tensor.data_type, f"initializer {tensor.name!r}")
    size_bytes = math.prod(tensor.dims) * dtype.itemsize
    return dtype.kind in SHARED_KINDS and len(tensor.dims) >= 2 and size_bytes >= LEAST_TABLE_BYTES


def _with_reduction(
    lookup: Lookup, graph: onnx.GraphProto, table: onnx.TensorProto, shapes: Shapes, after: Container[str]
) -> Lookup:
    """Return a lookup with the reduction over the last of its indices, where that alone reads its rows."""
    if len(table.dims) != 2 or lookup.axis not in (0, -2) or _dtype(table) not in REDUCED_DTYPES:
        return lookup
    indices = shapes.get(lookup.indices)
    place = _only_reader(lookup.result, graph)
    nodes, weights, left_out = lookup.nodes, None, None
    if place is not None and indices is not None and graph.node[place].op_type in ("Mul", "Where"):
        weights, left_out = _factors(graph.node[place], lookup.result, graph)
        factor = weights or left_out or ""
        sizes = shapes.get(factor)
        if factor in after or not sizes or len(sizes) > len(indices) + 1 or sizes[-1] != 1:
            return lookup
        nodes, place = (*nodes, place), _only_reader(graph.node[place].output[0], graph)
    if place is None:
        return lookup
    reduction = graph.node[place]
    if reduction.op_type not in REDUCTIONS or reduction.domain not in OWN_DOMAINS or len(reduction.output) != 1:
        return lookup
    axes = _reduced_axes(reduction, graph)
    if axes is None or len(axes) != 1 or axes[0] not in (-2, None if indices is None else len(indices) - 1):
        return lookup
    if indices == ():
        return lookup
    return Lookup(
        lookup.table,
        lookup.indices,
        reduction.output[0],
        0,
        (*nodes, place),
        REDUCTIONS[reduction.op_type],
        bool(_integer(reduction, "keepdims", 1)),
        weights,
        left_out,
    )


def _factors(node: onnx.NodeProto, rows: str, graph: onnx.GraphProto) -> tuple[str | None, str | None]:
    """Return what rows are multiplied by in a node, or the bools that say where it has zeros in their place."""
    if node.domain not in OWN_DOMAINS or node.attribute:  # a Mul of opset 6 has some
        return None, None
    names = tuple(node.input)
    if node.op_type == "Mul":
        return next((name for name in names if name != rows), None), None
    if len(names) != 3 or rows in names[:2] or not _is_zero(names[1], graph):
        return None, None
    return None, names[0]


def _only_reader(name: str, graph: onnx.GraphProto) -> int | None:
    """Return the place of the one node that reads a value; None where several do, or it is an output."""
    readers = [place for place, node in enumerate(graph.node) if name in read_names(node)]
    is_output = name in {info.name for info in graph.output}
    return readers[0] if len(readers) == 1 and not is_output else None


def _dtype(tensor: onnx.TensorProto) -> np.dtype:
    return element_dtype(tensor.data_type, f"initializer {tensor.name!r}")


def _reduced_axes(node: onnx.NodeProto, graph: onnx.GraphProto) -> Sequence[int] | None:
    if len(node.input) > 1:
        return constant_integers(graph, node.input[1])
    given = [attribute for attribute in node.attribute if attribute.name == "axes"]
    return list(given[0].ints) if given else None


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _shapes(model: onnx.ModelProto, tables: Iterable[onnx.TensorProto]) -> Shapes:
    """Return the shapes of values, as far as onnx infers them with tables that are inputs, so that none is copied."""
    large = {tensor.name: tensor for tensor in tables}
    known = onnx.ModelProto(ir_version=model.ir_version)
    known.opset_import.extend(model.opset_import)
    known.graph.node.extend(model.graph.node)
    known.graph.input.extend(info for info in model.graph.input if info.name not in large)
    known.graph.input.extend(
        onnx.helper.make_tensor_value_info(name, tensor.data_type, tensor.dims) for name, tensor in large.items()
    )
    known.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name not in large)
    known.graph.value_info.extend(model.graph.value_info)
    try:
        graph = onnx.shape_inference.infer_shapes(known).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):  # shapes are of use, but not needed
        graph = known.graph
    described = [*graph.input, *graph.value_info]
    return {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer} | {
        info.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim
        )
        for info in described
        if info.type.WhichOneof("value") == "tensor_type" and info.type.tensor_type.HasField("shape")
    }
