"""The gathers of an ONNX model: Gather, GatherElements and GatherND of any table, and their bags (`onnx_bags`).

Element-wise operators that compute a table, such as DequantizeLinear, are moved behind the gather: the elements are
gathered first, and the operators run on the gathered elements, never on the whole table.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
from onnx import helper

from ...ir.element_types import is_movable
from ...ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ...ir.semantics import Bounds, Shape
from ...kernels.gather import gather, gather_elements, gather_nd
from .onnx_bags import SumOrder, find_loop, find_reduction
from .onnx_graph import Graph, integer, is_own
from .runtime import ModelGather

# Leave gathers in the runtime whose results cannot have more bytes than this: they are arithmetic on shapes.
MAX_TINY_BYTES = 4096
# The runtime's time for a gather, in nanoseconds: for each index, for each byte of the result, and for each element of
# a table that an operator such as DequantizeLinear computes whole.
INDEX_NS, BYTE_NS, TABLE_ELEMENT_NS = 2.0, 0.1, 0.3
# Operators that give an element of the result for an element of their first operand, rounded the same way anywhere, and
# read nothing else but constants of one element.
ELEMENTWISE = frozenset(
    ["Cast", "Identity", "Neg", "Abs", "Relu", "Not", "Sqrt", "Add", "Sub", "Mul", "Div", "Min", "Max"]
)


def find_gathers(graph: Graph, order: SumOrder) -> Iterator[ModelGather]:
    """Yield the gathers and bags that can be left out of a model, in the order of its nodes."""
    for node in graph.proto.graph.node:
        found = find_loop(node, graph, order)
        if found is None and is_own(node, *_OPERATORS) and len(node.input) == 2 and len(node.output) == 1:
            found = find_reduction(node, graph, order) if node.op_type == "Gather" else None
            found = found or _gather_of(node, graph)
        if found is not None:
            yield found


_OPERATORS: dict[str, Callable[[onnx.NodeProto], tuple[OperatorSpec, Callable[..., np.ndarray]]]] = {
    "Gather": lambda node: (Gather(integer(node, "axis", 0)), partial(gather, axis=integer(node, "axis", 0))),
    "GatherElements": lambda node: (
        GatherElements(integer(node, "axis", 0)),
        partial(gather_elements, axis=integer(node, "axis", 0)),
    ),
    "GatherND": lambda node: (
        GatherNd(integer(node, "batch_dims", 0)),
        partial(gather_nd, batch_dims=integer(node, "batch_dims", 0)),
    ),
}


def _gather_of(node: onnx.NodeProto, graph: Graph) -> ModelGather | None:
    """Return the gather of a node, from the operand of the element-wise operators that compute its table."""
    (table, indices), result = node.input, node.output[0]
    operator, compute = _OPERATORS[node.op_type](node)
    chain = _elementwise_chain(table, graph) if node.op_type != "GatherND" else []
    rows = result
    if chain and (moved := _moved(chain, node, graph)) is not None:
        table, rows, added = chain[0].input[0], f"{result}/gathered", moved
    else:
        chain, added = [], ()
    specs = graph.spec(table), graph.spec(indices)
    if None in specs or not all(spec.dtype is not None and is_movable(spec.dtype) for spec in specs if spec):
        return None
    table_spec, index_spec = specs
    assert table_spec is not None and index_spec is not None
    if table_spec.dtype is None or table_spec.dtype.kind not in "fiub":
        return None
    names = " ".join(one.op_type for one in chain)
    kind = f"{node.op_type} before {names}" if chain else node.op_type
    is_computed = any(is_own(one, "DequantizeLinear") or not graph.is_constant(table) for one in chain)
    return ModelGather(
        node.name or result,
        kind,
        (table, indices),
        rows,
        operator,
        Bounds.ERROR,
        compute,
        graph.tables_of((table, indices)),
        {table: table_spec, indices: index_spec},
        partial(predict_gather_ns, is_computed=is_computed),
        (result, added),
        _remark(graph, result, indices),
    )


def predict_gather_ns(found: ModelGather, shapes: Mapping[str, Shape], *, is_computed: bool = False) -> float:
    """Return the runtime's time for a gather, in nanoseconds; with the table's, where it is computed by the element."""
    problem = found.problem(shapes, 1)
    itemsize = problem.table.dtype.itemsize
    result, count = math.prod(problem.slices.shape), math.prod(problem.indices.shape)
    computed = math.prod(problem.table.shape) - result if is_computed else 0
    return count * INDEX_NS + result * itemsize * BYTE_NS + computed * TABLE_ELEMENT_NS


def _remark(graph: Graph, result: str, indices: str) -> str:
    """Return why a gather stays in the runtime, whatever the sizes of the inputs are."""
    index, found = graph.spec(indices), graph.spec(result)
    if (
        index is not None
        and index.shape is not None
        and graph.is_constant(indices)
        and all(size == 1 for size in index.shape)
    ):
        return "one constant index selects a slice, which the runtime copies as fast"
    sizes = None if found is None or found.dtype is None else found.shape
    if sizes is None or found is None or found.dtype is None or not all(isinstance(size, int) for size in sizes):
        return ""
    size = math.prod(size for size in sizes if isinstance(size, int)) * found.dtype.itemsize
    return f"its result has {size} bytes, too few to be worth a call" if size <= MAX_TINY_BYTES else ""


def _elementwise_chain(name: str, graph: Graph) -> list[onnx.NodeProto]:
    """Return the nodes that compute a table element by element, the first one first."""
    chain: list[onnx.NodeProto] = []
    while is_own(node := graph.makers.get(name), "DequantizeLinear", *ELEMENTWISE):
        assert node is not None
        others = node.input[1:]
        if node.op_type == "DequantizeLinear":
            is_moved = all(graph.rank(other) in (0, 1) and graph.is_constant(other) for other in others)
            is_moved = is_moved and not integer(node, "block_size", 0)
        else:
            is_moved = all(graph.is_constant(other) and graph.spec(other) is not None for other in others)
            is_moved = is_moved and all(math.prod(_sizes(graph, other)) == 1 for other in others)
            is_moved = is_moved and all(graph.rank(other) == 0 for other in others)
        if not is_moved:
            break
        chain.insert(0, node)
        name = node.input[0]
    return chain


def _sizes(graph: Graph, name: str) -> tuple[int, ...]:
    spec = graph.spec(name)
    return tuple(size if isinstance(size, int) else 2 for size in (spec.shape if spec and spec.shape else ()))


def _moved(
    chain: Sequence[onnx.NodeProto], gathered: onnx.NodeProto, graph: Graph
) -> tuple[onnx.NodeProto, ...] | None:
    """Return the nodes of a chain on gathered elements; None where one of them cannot be moved behind the gather.

    Before: `y = Gather(DequantizeLinear(table, scale), indices)`. After: `rows = Gather(table, indices)` runs here, and
    `y = DequantizeLinear(rows, scale)` in the runtime. A scale for each row of the table is gathered in the runtime.
    """
    result, indices, axis = gathered.output[0], gathered.input[1], integer(gathered, "axis", 0)
    rank, index_rank = graph.rank(chain[0].input[0]), graph.rank(indices)
    if rank is None or index_rank is None or not -rank <= axis < rank:
        return None
    axis %= rank
    added: list[onnx.NodeProto] = []
    name = f"{result}/gathered"
    for place, node in enumerate(chain):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[0], copy.name = name, f"{result}/moved{place}"
        name = copy.output[0] = result if node is chain[-1] else f"{result}/step{place}"
        added.append(copy)
        if not any(graph.rank(other) == 1 for other in node.input[1:]):
            continue
        scaled = integer(node, "axis", 1) % rank
        if gathered.op_type != "Gather":
            return None
        if scaled == axis:
            columns = _sizes(graph, chain[0].input[0])[-1]
            if (axis, rank) != (0, 2):
                return None
            added[-1:] = _scale_rows(copy, indices, columns)
        elif scaled > axis:
            kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
            del copy.attribute[:]
            copy.attribute.extend([*kept, helper.make_attribute("axis", scaled + index_rank - 1)])
    return tuple(added)


def _scale_rows(node: onnx.NodeProto, indices: str, columns: int) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a DequantizeLinear with a scale for each row, on rows that are gathered by indices."""
    rows, result = node.input[0], node.output[0]
    ones, sizes = f"{result}/flat", f"{result}/sizes"
    yield helper.make_node("Constant", [], [ones], value_ints=[-1])
    yield helper.make_node("Constant", [], [f"{result}/columns"], value_ints=[columns])
    yield helper.make_node("Reshape", [indices, ones], [f"{result}/indices"])
    yield helper.make_node("Constant", [], [f"{result}/matrix"], value_ints=[-1, columns])
    yield helper.make_node("Reshape", [rows, f"{result}/matrix"], [f"{result}/rows"])
    node.input[0], node.output[0] = f"{result}/rows", f"{result}/product"
    for number, other in enumerate(node.input[1:], 1):
        node.input[number] = f"{result}/input{number}"
        yield helper.make_node("Gather", [other, f"{result}/indices"], [node.input[number]])
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", 0))
    yield node
    yield helper.make_node("Shape", [indices], [f"{result}/shape"])
    yield helper.make_node("Concat", [f"{result}/shape", f"{result}/columns"], [sizes], axis=0)
    yield helper.make_node("Reshape", [f"{result}/product", sizes], [result])
