"""The gathers of an ONNX model: Gather, GatherElements and GatherND of any table, and their bags (`onnx_bags`).

Element-wise operators that compute a table, such as DequantizeLinear, are moved behind the gather: the elements are
gathered first, and the operators run on the gathered elements, never on the whole table.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import onnx
from onnx import helper

from ...ir.element_types import is_movable
from ...ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from ...ir.semantics import Bounds
from ...kernels.runtime.dispatch import run_gather
from .onnx_bags import SumOrder, find_loop, find_reduction
from .onnx_graph import Graph, integer, is_own
from .runtime import ModelGather

# Leave gathers in the runtime whose results cannot have more bytes than this: they are arithmetic on shapes.
MAX_TINY_BYTES = 4096
# Operators that give an element of the result for an element of their first operand, rounded the same way anywhere, and
# read nothing else but constants of one element.
ELEMENTWISE = frozenset(
    ["Cast", "Identity", "Neg", "Abs", "Relu", "Not", "Sqrt", "Add", "Sub", "Mul", "Div", "Min", "Max"]
)
OPERATORS: dict[str, Callable[[onnx.NodeProto], OperatorSpec]] = {
    "Gather": lambda node: Gather(integer(node, "axis", 0)),
    "GatherElements": lambda node: GatherElements(integer(node, "axis", 0)),
    "GatherND": lambda node: GatherNd(integer(node, "batch_dims", 0)),
}


def find_gathers(graph: Graph, order: SumOrder) -> Iterator[ModelGather]:
    """Yield the gathers and bags that can be left out of a model, in the order of its nodes."""
    for node in graph.proto.graph.node:
        found = find_loop(node, graph, order)
        if found is None and is_own(node, *OPERATORS) and len(node.input) == 2 and len(node.output) == 1:
            found = find_reduction(node, graph, order) if node.op_type == "Gather" else None
            found = found or _gather_of(node, graph)
        if found is not None:
            yield found


def _gather_of(node: onnx.NodeProto, graph: Graph) -> ModelGather | None:
    """Return the gather of a node, from the operand of the element-wise operators that compute its table."""
    (table, indices), result = node.input, node.output[0]
    operator, kind = OPERATORS[node.op_type](node), node.op_type
    chain, rows, added, is_computed = _elementwise_chain(table, graph), result, (), False
    prefix = graph.make_prefix(result) if chain else result
    if chain and (moved := _moved(chain, node, graph, prefix)) is not None:
        table, rows, added = chain[0].input[0], f"{prefix}/gathered", moved
        kind += f" before {' '.join(one.op_type for one in chain)}"
        is_computed = not graph.is_constant(table) or any(is_own(one, "DequantizeLinear") for one in chain)
    specs = {name: spec for name in (table, indices) if (spec := graph.spec(name)) is not None}
    if table not in specs or indices not in specs:
        return None
    dtypes = [spec.dtype for spec in specs.values()]
    if (
        dtypes[0] is None
        or dtypes[0].kind not in "fiub"
        or any(each is None or not is_movable(each) for each in dtypes)
    ):
        return None
    compute, tables = partial(run_gather, operator, bounds=Bounds.ERROR), graph.tables_of((table, indices))
    rest = Bounds.ERROR, compute, tables, specs, result, added, is_computed
    remark = _remark(graph, result, indices)
    return ModelGather(node.name or result, kind, (table, indices), rows, operator, *rest, remark=remark)


def _remark(graph: Graph, result: str, indices: str) -> str:
    """Return why a gather stays in the runtime, whatever the sizes of the inputs are."""
    found, constant = graph.spec(result), graph.constant(indices)
    if constant is not None and constant.size == 1:
        return "one constant index selects a slice, which the runtime copies as fast"
    sizes = [size for size in (found.shape if found else None) or () if isinstance(size, int)]
    if found is None or found.dtype is None or found.shape is None or len(sizes) < len(found.shape):
        return ""
    size = math.prod(sizes) * found.dtype.itemsize
    return f"its result has {size} bytes, too few to be worth a call" if size <= MAX_TINY_BYTES else ""


def _elementwise_chain(name: str, graph: Graph) -> list[onnx.NodeProto]:
    """Return the nodes that compute a table element by element, the first one first."""
    chain: list[onnx.NodeProto] = []
    while is_own(node := graph.makers.get(name), "DequantizeLinear", *ELEMENTWISE):
        assert node is not None
        is_scaled = node.op_type == "DequantizeLinear" and not integer(node, "block_size", 0)
        if not all(graph.is_constant(each) and graph.rank(each) in (0, 1)[: 1 + is_scaled] for each in node.input[1:]):
            break
        chain.insert(0, node)
        name = node.input[0]
    return chain


def _moved(
    chain: Sequence[onnx.NodeProto], gathered: onnx.NodeProto, graph: Graph, prefix: str
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
    name = f"{prefix}/gathered"
    for place, node in enumerate(chain):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[0], copy.name = name, f"{prefix}/moved{place}"
        name = copy.output[0] = result if node is chain[-1] else f"{prefix}/step{place}"
        added.append(copy)
        if not any(graph.rank(other) == 1 for other in node.input[1:]):
            continue
        scaled = integer(node, "axis", 1) % rank
        if gathered.op_type != "Gather":
            return None
        if scaled == axis:
            spec = graph.spec(chain[0].input[0])
            columns = spec.shape[-1] if spec is not None and spec.shape else None
            if (axis, rank) != (0, 2) or not isinstance(columns, int):
                return None
            added[-1:] = _scale_rows(copy, indices, columns, f"{prefix}/{place}")
        elif scaled > axis:
            kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
            del copy.attribute[:]
            copy.attribute.extend([*kept, helper.make_attribute("axis", scaled + index_rank - 1)])
    return tuple(added)


def _scale_rows(node: onnx.NodeProto, indices: str, columns: int, prefix: str) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a DequantizeLinear with a scale for each row, on rows that are gathered by indices."""
    rows, result = node.input[0], node.output[0]
    names = {name: f"{prefix}/{name}" for name in ("flat", "columns", "matrix", "indices", "rows", "product", "shape")}
    yield helper.make_node("Constant", [], [names["flat"]], value_ints=[-1])
    yield helper.make_node("Constant", [], [names["columns"]], value_ints=[columns])
    yield helper.make_node("Constant", [], [names["matrix"]], value_ints=[-1, columns])
    yield helper.make_node("Reshape", [indices, names["flat"]], [names["indices"]])
    yield helper.make_node("Reshape", [rows, names["matrix"]], [names["rows"]])
    node.input[0], node.output[0] = names["rows"], names["product"]
    for number, other in enumerate(node.input[1:], 1):
        node.input[number] = f"{prefix}/input{number}"
        yield helper.make_node("Gather", [other, names["indices"]], [node.input[number]])
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("axis", 0))
    yield node
    yield helper.make_node("Shape", [indices], [names["shape"]])
    yield helper.make_node("Concat", [names["shape"], names["columns"]], [f"{prefix}/sizes"], axis=0)
    yield helper.make_node("Reshape", [names["product"], f"{prefix}/sizes"], [result])
