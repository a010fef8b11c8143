"""Find the lookups of an ONNX graph: gathers of large constant tables, perhaps with the sum over their indices."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """

    table: str
    indices: str
    result: str
    axis: int
    nodes: tuple[int, ...]
    reduce: Literal["sum", "mean"] | None = None
    keep_dim: bool = False

    def __str__(self) -> str:
        what = f"gather {self.table} by {self.indices}"
        return what if self.reduce is None else f"{what}, {self.reduce} of each bag"


def find_lookups(model: onnx.ModelProto, *, with_sums: bool = False) -> list[Lookup]:
    """Return the lookups of a model whose indices do not depend on one another's results, in the graph's order.

    Args:
        model: whose graph it is.
        with_sums: whether a sum or mean over the indices of a lookup belongs to it.
    """
    graph = model.graph
    tables = {tensor.name: tensor for tensor in graph.initializer if _is_table(tensor)}
    ranks = _ranks(model, tables.values()) if with_sums else {}
    after: set[str] = set()  # values that depend on a lookup
    found: list[Lookup] = []
    for place, node in enumerate(graph.node):
        depends = not after.isdisjoint(read_names(node))
        axis = _integer(node, "axis", 0)
        if not depends and _is_gather(node) and _has_axis(tables.get(node.input[0]), axis):
            depends = True
            lookup = Lookup(node.input[0], node.input[1], node.output[0], axis, (place,))
            reduced = _with_reduction(lookup, graph, tables[lookup.table], ranks) if with_sums else None
            found.append(reduced or lookup)
        if depends:
            after.update(node.output)
    return found


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
    tensors = [tensor for tensor in graph.initializer if tensor.name == name]
    for node in graph.node:
        if name in node.output and node.op_type == "Constant":
            tensors += [attribute.t for attribute in node.attribute if attribute.name == "value"]
            listed = [attribute for attribute in node.attribute if attribute.name in ("value_ints", "value_int")]
            if listed:
                return list(listed[0].ints) or [listed[0].i]
    if not tensors or tensors[0].data_location == onnx.TensorProto.EXTERNAL or math.prod(tensors[0].dims) > 8:
        return None
    try:
        array = onnx.numpy_helper.to_array(tensors[0])
    except (ValueError, TypeError):
        return None
    return [int(element) for element in array.flat] if array.dtype.kind in "iu" else None


def _is_gather(node: onnx.NodeProto) -> bool:
    return node.op_type == "Gather" and node.domain in OWN_DOMAINS and (len(node.input), len(node.output)) == (2, 1)


def _has_axis(table: onnx.TensorProto | None, axis: int) -> bool:
    return table is not None and -len(table.dims) <= axis < len(table.dims)


def _is_table(tensor: onnx.TensorProto) -> bool:
    dtype = element_dtype(tensor.data_type, f"initializer {tensor.name!r}")
    size_bytes = math.prod(tensor.dims) * dtype.itemsize
    return dtype.kind in SHARED_KINDS and len(tensor.dims) >= 2 and size_bytes >= LEAST_TABLE_BYTES


def _with_reduction(
    lookup: Lookup, graph: onnx.GraphProto, table: onnx.TensorProto, ranks: Mapping[str, int]
) -> Lookup | None:
    """Return a lookup with the reduction that alone reads its result, where that is over the last of the indices."""
    readers = [place for place, node in enumerate(graph.node) if lookup.result in read_names(node)]
    if len(readers) != 1 or lookup.result in {info.name for info in graph.output}:
        return None
    if len(table.dims) != 2 or lookup.axis not in (0, -2) or _dtype(table) not in REDUCED_DTYPES:
        return None
    reduction = graph.node[readers[0]]
    if reduction.op_type not in REDUCTIONS or reduction.domain not in OWN_DOMAINS or len(reduction.output) != 1:
        return None
    axes = _reduced_axes(reduction, graph)
    rank = ranks.get(lookup.indices)
    if axes is None or len(axes) != 1 or axes[0] not in (-2, None if rank is None else rank - 1) or rank == 0:
        return None
    return Lookup(
        lookup.table,
        lookup.indices,
        reduction.output[0],
        0,
        (*lookup.nodes, readers[0]),
        REDUCTIONS[reduction.op_type],
        bool(_integer(reduction, "keepdims", 1)),
    )


def _dtype(tensor: onnx.TensorProto) -> np.dtype:
    return element_dtype(tensor.data_type, f"initializer {tensor.name!r}")


def _reduced_axes(node: onnx.NodeProto, graph: onnx.GraphProto) -> Sequence[int] | None:
    if len(node.input) > 1:
        return constant_integers(graph, node.input[1])
    given = [attribute for attribute in node.attribute if attribute.name == "axes"]
    return list(given[0].ints) if given else None


def _integer(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _ranks(model: onnx.ModelProto, tables: Iterable[onnx.TensorProto]) -> dict[str, int]:
    """Return the ranks of values, as far as onnx infers them with tables that are inputs, so that none is copied."""
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
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):  # ranks are of use, but not needed
        graph = known.graph
    described = [*graph.input, *graph.value_info]
    return {
        info.name: len(info.type.tensor_type.shape.dim)
        for info in described
        if info.type.WhichOneof("value") == "tensor_type" and info.type.tensor_type.HasField("shape")
    }
