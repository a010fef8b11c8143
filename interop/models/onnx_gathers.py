"""The gathers of an ONNX model: Gather, GatherElements and GatherND of any table, and bags of gathered rows.

Element-wise operators that compute a table, such as DequantizeLinear, are moved behind the gather: the elements are
gathered first, and the operators run on the gathered elements, never on the whole table.

Two forms of bags are found, whose rows no kernel here stores. A ReduceSum or ReduceMean takes the rows of a Gather over
the last dimension of its indices, perhaps after a product with a column (Mul) or with rows that are left out (Where). A
Loop is what torch's exporters write for `nn.EmbeddingBag`.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import helper

from ...ir.element_types import is_movable
from ...ir.errors import ModelError
from ...ir.operator_spec import Gather, GatherElements, GatherMax, GatherMean, GatherNd, GatherReduce, OperatorSpec
from ...ir.semantics import Bounds, Shape
from ...kernels.host.cpu import usable_cores
from ...kernels.reduction.gather_reduce import gather_reduce, grouped_sum
from ...kernels.reduction.operands import Reduction
from ...kernels.runtime.dispatch import run_gather
from .onnx_graph import REDUCTIONS, Graph, Pattern, integer, is_own
from .runtime import ModelGather, Run, TensorSpec

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
BAGS = {"sum": GatherReduce(), "mean": GatherMean(), "max": GatherMax()}
REDUCED_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


# ---- the order of additions ----

# ONNX Runtime reduces a dimension in the middle as a product with ones. On x86-64 that adds four rows of float32 from
# the first to the last, and then their sum to the others; of what is left two rows, and one. It adds rows of float64,
# and of a single bag, one by one.
GROUPS = (4, 1)
# ONNX Runtime has another order where there are fewer bags than threads, or than four times as many on some CPUs.
MAX_BAGS_A_CORE = 4
# A sum in another order may have the same bytes by chance; this number of sums never has.
MIN_SUMS_TRIED = 128


class SumOrder:
    """The order in which a runtime adds the rows of bags, found by a trial on random rows for each size of a bag."""

    def __init__(self, open_model: Callable[[onnx.ModelProto], Run]):
        self._reduction = functools.cache(lambda *key: open_model(_reduction(*key)))
        self._find_group = functools.cache(
            lambda *key: next((group for group in GROUPS if self._has_order(group, *key)), None)
        )

    def group(self, reduce: str, dtype: np.dtype, shape: Shape) -> int:
        """Return the number of rows in the groups that the runtime adds first.

        Args:
            reduce: "sum" or "mean".
            dtype: of the rows.
            shape: (bags, bag, columns) of the rows.

        Raises:
            ModelError: none of the known orders gives the bytes of the runtime.
        """
        bags, *sizes = shape
        found = self._find_group(reduce, dtype, (min(bags, MAX_BAGS_A_CORE * usable_cores()), *sizes))
        if found is None:
            raise ModelError("the runtime adds rows in an order that is not known here")
        return found

    def _has_order(self, group: int, reduce: str, dtype: np.dtype, shape: Shape) -> bool:
        """Return whether sums of random rows, and of -0.0, have the bytes of groups of this number of rows."""
        random, draws = np.random.default_rng(0), -(-MIN_SUMS_TRIED // max(shape[0] * shape[2], 1))
        for scale in [*[1.0] * draws, -0.0]:
            rows = random.random(shape, dtype)
            rows *= scale
            wanted = grouped_sum(rows.reshape(-1, shape[2]), np.arange(math.prod(shape[:2])).reshape(shape[:2]), group)
            if reduce == "mean":
                wanted /= dtype.type(shape[1])
            if self._reduction(reduce, dtype)({"rows": rows})[0].tobytes() != wanted.tobytes():
                return False
        return True

    def mean_of_nothing(self, dtype: np.dtype) -> float:
        """Return the mean of no rows."""
        return float(self._reduction("mean", dtype)({"rows": np.zeros((1, 0, 1), dtype)})[0][0, 0])


def _reduction(reduce: str, dtype: np.dtype) -> onnx.ModelProto:
    """Return a model that reduces the rows of each bag: (bags, bag, columns) to (bags, columns)."""
    kind, operator = {4: "float", 8: "double"}[dtype.itemsize], "ReduceSum" if reduce == "sum" else "ReduceMean"
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> reduction ({kind}[b, n, c] rows) => ({kind}[b, c] sums)'
        f"<int64[1] axes = {{1}}> {{ sums = {operator} <keepdims = 0> (rows, axes) }}"
    )


# ---- gathers ----


def find_gathers(graph: Graph, order: SumOrder) -> Iterator[ModelGather]:
    """Yield the gathers and bags that can be left out of a model, in the order of its nodes."""
    for node in graph.proto.graph.node:
        found = find_loop(node, graph, order)
        if found is None and is_own(node, *OPERATORS) and len(node.input) == 2 and len(node.output) == 1:
            found = plain = _gather_of(node, graph)
            if node.op_type != "GatherElements" and not (plain and plain.added):  # no bag here takes narrow rows
                found = find_reduction(node, graph, order) or plain
        if found is not None:
            yield found


def _gather_of(node: onnx.NodeProto, graph: Graph) -> ModelGather | None:
    """Return the gather of a node, from the operand of the element-wise operators that compute its table."""
    (table, indices), result = node.input, node.output[0]
    operator, kind = OPERATORS[node.op_type](node), node.op_type
    chain, rows, added, is_computed = _elementwise_chain(table, graph), result, (), False
    prefix = f"gathernest/{result}"  # a model that has such names is left whole
    if chain and (moved := _moved(chain, node, graph, prefix)) is not None:
        table, rows, added = chain[0].input[0], f"{prefix}/gathered", moved
        kind += f" before {' '.join(one.op_type for one in chain)}"
        is_computed = graph.constant(table) is None or any(is_own(one, "DequantizeLinear") for one in chain)
    spec = graph.spec(table)
    if spec is None or spec.dtype is None or spec.dtype.kind not in "fiub":
        return None
    compute, remark = partial(run_gather, operator, bounds=Bounds.ERROR), _remark(graph, result, indices)
    rest = {"replaced": result, "added": added, "is_table_computed": is_computed, "remark": remark}
    return _found(graph, node.name or result, kind, (table, indices), rows, operator, compute, **rest)


def _found(
    graph: Graph, node: str, kind: str, operands: tuple[str, ...], result: str, operator: OperatorSpec,
    compute: Callable[..., np.ndarray], **options: Any,
) -> ModelGather | None:  # fmt: skip
    """Return a gather or a bag; None where the type of an operand is not known, or no kernel moves it."""
    specs, tables = dict[str, TensorSpec](), dict[str, np.ndarray]()
    for name in operands:
        spec, array = graph.spec(name), graph.constant(name)
        if spec is None or spec.dtype is None or not is_movable(spec.dtype):
            return None
        specs[name] = spec
        tables |= {} if array is None else {name: array}
    options = {"replaced": result} | options
    return ModelGather(node, kind, operands, result, operator, Bounds.ERROR, compute, tables, specs, **options)


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
        constants = [graph.constant(each) for each in node.input[1:]]
        if not all(array is not None and array.ndim <= is_scaled for array in constants):
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
            spec = graph.spec(node.input[1])
            is_plain = axis < rank - 1 and not integer(node, "output_dtype", 0)
            if not is_plain or spec is None or spec.dtype != np.float32:
                return None
            added[-1:] = _scale_rows(copy, indices, rank - 1 - axis, f"{prefix}/{place}")
        elif scaled > axis:
            kept = [attribute for attribute in node.attribute if attribute.name != "axis"]
            del copy.attribute[:]
            copy.attribute.extend([*kept, helper.make_attribute("axis", scaled + index_rank - 1)])
    return tuple(added)


def _scale_rows(node: onnx.NodeProto, indices: str, depth: int, prefix: str) -> Iterator[onnx.NodeProto]:
    """Yield `(rows - points) * scales`: a DequantizeLinear with a scale for each row, of rows gathered by indices.

    Rows have `depth` dimensions behind the dimensions of the indices.
    """
    last, others = f"{prefix}/floats", [f"{prefix}/input{number}" for number in range(1, len(node.input))]
    yield helper.make_node("Constant", [], [f"{prefix}/axes"], value_ints=[*range(-depth, 0)])
    yield helper.make_node("Cast", [node.input[0]], [last], to=onnx.TensorProto.FLOAT)
    for name, other in zip(node.input[1:], others, strict=True):
        yield helper.make_node("Gather", [name, indices], [f"{other}/gathered"])
        yield helper.make_node("Cast", [f"{other}/gathered"], [f"{other}/floats"], to=onnx.TensorProto.FLOAT)
        yield helper.make_node("Unsqueeze", [f"{other}/floats", f"{prefix}/axes"], [other])
    if len(others) > 1:
        yield helper.make_node("Sub", [last, others[1]], [f"{prefix}/differences"])
        last = f"{prefix}/differences"
    yield helper.make_node("Mul", [last, others[0]], [node.output[0]])


# ---- reductions of gathered rows ----


_PRODUCTS = "rows | Mul(rows, factor) | Mul(factor, rows) | Where(mask, nothing, rows)"
REDUCTION = f"OP({_PRODUCTS}, axes) | OP({_PRODUCTS}, axes, keepdims=0)"


def find_reduction(node: onnx.NodeProto, graph: Graph, order: SumOrder) -> ModelGather | None:
    """Return the bags of a Gather whose rows are read by a reduction over the last dimension of its indices alone."""
    (table, indices), rows = node.input, node.output[0]
    if node.op_type == "GatherND":  # which torch's exporter writes for table[indices]
        pattern = Pattern(graph)
        is_rows = not integer(node, "batch_dims", 0) and pattern.match("Unsqueeze(indices, [-1])", indices)
        indices = pattern.bound["indices"] if is_rows else ""
    spec, index_rank = graph.spec(table), graph.rank(indices)
    if spec is None or spec.dtype not in REDUCED_DTYPES or spec.shape is None or len(spec.shape) != 2 or not index_rank:
        return None
    reader = graph.only_reader(rows)
    if is_own(reader, "Mul", "Where"):
        reader = graph.only_reader(reader.output[0])
    pattern = Pattern(graph, rows=rows)
    if integer(node, "axis", 0) not in (0, -2) or not is_own(reader, "ReduceSum", "ReduceMean"):
        return None
    if not pattern.match(REDUCTION, reader.output[0]):
        return None
    found = pattern.bound
    nothing = graph.constant(found["nothing"]) if "nothing" in found else np.zeros(1)
    if nothing is None or nothing.size != 1 or nothing.dtype.kind != "f" or nothing.any():
        return None
    operands = (table, indices, *(found[key] for key in ("factor", "mask") if key in found))
    for sizes in map(graph.spec, operands[2:]):
        if sizes is None or not sizes.shape or len(sizes.shape) > index_rank + 1 or sizes.shape[-1] != 1:
            return None
    axes = graph.constant(found["axes"]) if isinstance(found["axes"], str) else found["axes"]
    if axes is None or list(axes) not in ([-2], [index_rank - 1]):
        return None
    reduce, keeps = REDUCTIONS[reader.op_type], bool(integer(reader, "keepdims", 1))
    compute = partial(_reduce_rows, order=order, reduce=reduce, keeps=keeps, is_mask="mask" in found)
    kind = f"{reader.op_type} of {node.op_type}"
    return _found(graph, node.name or rows, kind, operands, reader.output[0], BAGS[reduce], compute)


def _reduce_rows(
    table: np.ndarray,
    indices: np.ndarray,
    factor: np.ndarray | None = None,
    *,
    order: SumOrder,
    reduce: str,
    keeps: bool,
    is_mask: bool,
) -> np.ndarray:
    """Return the sums or means of rows, which a factor multiplies, or leaves out where it is true."""
    bounds = "error"
    if factor is not None:
        indices, factor = np.broadcast_arrays(indices, factor[..., 0])
    shape, bag, columns = indices.shape[:-1], indices.shape[-1], table.shape[1]
    flat = indices.reshape(math.prod(shape), bag)
    weights = None if factor is None else factor.reshape(flat.shape)
    if is_mask and weights is not None:
        outside = (flat < -len(table)) | (flat >= len(table))
        if outside.any():
            raise ModelError("an index is out of range")
        flat, weights, bounds = np.where(weights, len(table), flat), None, "zero"
    if not flat.size:
        raise ModelError("bags without an index are reduced by the runtime")
    sums = grouped_sum(table, flat, order.group(reduce, table.dtype, (*flat.shape, columns)), weights, bounds)
    if reduce == "mean":
        sums /= table.dtype.type(bag)
    return sums.reshape((*shape, 1, columns) if keeps else (*shape, columns))


# ---- the Loops of exporters ----

# What torch.onnx.export(dynamo=False) writes: each iteration `i` reduces the rows of a slice of indices.
_PART = "Unsqueeze(Gather(starts, i), [0]), Unsqueeze(Gather(ends, i), [0]), [0], [1]"
_SCRIPT_ROWS = f"Gather(table, Slice(indices, {_PART}))"
_GOES_ON = "c | True | Cast(c | True | Cast(c | True, to=9), to=9)"
SCRIPT_LOOP = (
    f"Loop(count, '' | True, {_GOES_ON}, OP({_SCRIPT_ROWS}, [0], keepdims=0) |"
    f"OP(Mul({_SCRIPT_ROWS}, Unsqueeze(Slice(weights, {_PART}), [1])), [0], keepdims=0), inputs='i c')"
)
# What torch.onnx.export(dynamo=True) writes: all rows are gathered and multiplied before, and each iteration appends
# the reduced rows of a bag to a sequence. The last bag may end with the indices, or be divided by its length. Where the
# sizes are known, counts and factors are constants.
_ALL_ROWS = "Mul(Gather(table, indices), Unsqueeze(factors, [1]) | column)"
_AT, _NEXT = "Reshape(i, [-1])", "Add(Reshape(i, [-1]), 1)"
_START, _END = f"Slice(offsets, {_AT}, {_NEXT})", f"Slice(offsets, {_NEXT}, Add({_AT}, 2))"
_ROWS = f"Slice({_ALL_ROWS}, {_START}, {_END})"
_LENGTH = f"Sub(Shape(sized, end=1) | LENGTH, {_START})"
_IS_LAST = "Equal(i, Sub(count, 1) | LAST)"
_REDUCED = (
    f"OP({_ROWS}, [0]) | OP(If({_IS_LAST}, Slice({_ALL_ROWS}, {_START}, size), {_ROWS}), [0]) |"
    f"If({_IS_LAST}, If(Greater({_LENGTH}, 0), Div(ReduceSum({_ROWS}, [0]), Cast({_LENGTH}, to=1)),"
    f"ReduceSum({_ROWS}, [0])), ReduceMean({_ROWS}, [0]))"
)
# With a padding index, a Loop lists the places of a bag whose index is another one: `p` are those before place `v`.
_FROM, _TO, _INDEX = "Gather(offsets, i)", "Gather(offsets, Add(i, 1))", "Gather(indices, v)"
_IS_PADDING = f"Equal(If(Less({_INDEX}, 0), Add({_INDEX}, ROWS), {_INDEX}), PADDING)"
_LISTED = f"If(Not({_IS_PADDING}), Concat(p, Reshape(v, [-1])), p)"
_SOME, _MORE, _LATER = f"Less({_FROM}, {_TO})", f"Less(Add(v, 1), {_TO})", "Add(v, 1)"
_PLACES = (  # the exporter writes the two values that a loop carries in any order
    f"Loop('', {_SOME}, [], {_FROM}, {_MORE}, {_LISTED}, {_LATER}, inputs='m d p v') | "
    f"Loop('', {_SOME}, {_FROM}, [], {_MORE}, {_LATER}, {_LISTED}, inputs='m d v p', output=1)"
)
_BAG = (
    f"If(Equal({_START}, {_END}), ZEROS, {_REDUCED}) |"
    f"If(Equal(Size({_PLACES}), 0), ZEROS, OP(Gather({_ALL_ROWS}, {_PLACES}), [0]))"
)
_APPENDED = f"SequenceInsert(s, {_BAG})"
DYNAMO_LOOP = (
    "ConcatFromSequence("
    f"Loop('', Less(0 | [0], count) | True, 0 | [0], SequenceEmpty(), Less(Add(i, 1), count), Add(i, 1), {_APPENDED}, "
    "inputs='n c i s', output=1) | "
    f"Loop('', Less(0 | [0], count) | True, SequenceEmpty(), 0 | [0], Less(Add(i, 1), count), {_APPENDED}, Add(i, 1), "
    "inputs='n c s i'))"
)


def find_loop(node: onnx.NodeProto, graph: Graph, order: SumOrder) -> ModelGather | None:
    """Return the bags of a Loop, or of a ConcatFromSequence of what a Loop appends; None where it is another node."""
    if not is_own(node, "Loop", "ConcatFromSequence"):
        return None
    pattern, loop = Pattern(graph), node
    if node.op_type == "Loop":
        is_found = pattern.match(SCRIPT_LOOP, node.output[0])
    else:
        is_found, loop = pattern.match(DYNAMO_LOOP, node.output[0]), graph.makers.get(node.input[0], node)
    found = pattern.bound
    zeros = found.get("ZEROS", [[0.0]])
    if not is_found or len(zeros) != 1 or any(map(np.signbit, zeros[0])) or any(zeros[0]):
        return None
    reduce = REDUCTIONS[found.get("OP", "ReduceMean")]
    if loop is node:
        compute: Callable[..., np.ndarray] = partial(_reduce_parts, order=order)
        keys = ["table", "indices", "starts", "ends", "count", "weights"]
    else:
        known = found.get("LENGTH"), found.get("LAST")
        compute = partial(_reduce_sequence, ends_last="size" in found, padding=found.get("PADDING"), constants=known)
        keys = ["table", "indices", "offsets", "count", "factors", "column", "size", "sized"]
    operands = tuple(found[key] for key in keys if key in found)
    spec, compute = graph.spec(operands[0]), partial(compute, reduce=reduce, known={})
    if spec is None or spec.dtype not in REDUCED_DTYPES or (reduce == "max" and graph.constant(operands[0]) is None):
        return None
    name, kind = loop.name or loop.output[0], "embedding bag (Loop)"
    return _found(graph, name, kind, operands, node.output[0], BAGS[reduce], compute, is_loop=True)


def _reduce_parts(
    table: np.ndarray,
    indices: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    count: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    reduce: Reduction,
    known: dict[int, bool],
    order: SumOrder | None = None,
    padding: int | None = None,
) -> np.ndarray:
    """Return the bags of a vector of indices: those from `starts[k]` to `ends[k]`, for each `k` below the count.

    An empty bag gives zeros without an order, and otherwise what the runtime gives. `known` says of tables that were
    checked, by their `id`, whether their maxima are the same everywhere.
    """
    bags = int(count.reshape(()))
    if table.ndim != 2 or indices.ndim != 1 or starts.ndim != 1 or ends.ndim != 1 or bags < 1:
        raise ModelError("these bags are no parts of a vector of indices")
    if len(starts) < bags or len(ends) < bags:
        raise ModelError("there are fewer bags than iterations")
    starts, ends = starts[:bags], ends[:bags]
    lengths = ends - starts
    is_row = starts[0] >= 0 and ends[-1] <= len(indices) and bool((lengths >= 0).all())
    if not is_row or not np.array_equal(starts[1:], ends[:-1]):
        raise ModelError("these bags are not one after the other")
    indices = indices[starts[0] : ends[-1]]
    weights = None if weights is None else weights[starts[0] : ends[-1]]
    if reduce == "max" and id(table) not in known:
        known[id(table)] = bool((table == table).all()) and not np.signbit(table[table == 0]).any()
    if reduce == "max" and not known[id(table)]:
        raise ModelError("a maximum of NaN or -0.0 is taken by the runtime")
    options: dict[str, Any] = {"reduce": reduce, "padding_index": padding, "lengths": lengths}
    if (lengths == lengths[0]).all():
        options["lengths"], indices = None, indices.reshape(bags, int(lengths[0]))
        weights = None if weights is None else weights.reshape(indices.shape)
    result = gather_reduce(table, indices, weights=weights, **options)
    if order is not None and reduce != "sum" and not lengths.all():
        result[lengths == 0] = -np.inf if reduce == "max" else order.mean_of_nothing(table.dtype)
    return result


def _reduce_sequence(
    table: np.ndarray,
    indices: np.ndarray,
    offsets: np.ndarray,
    count: np.ndarray,
    factors: np.ndarray,
    size: np.ndarray | None = None,
    *,
    reduce: Reduction,
    known: dict[int, bool],
    ends_last: bool,
    padding: int | None,
    constants: tuple[list[int] | None, int | None],
) -> np.ndarray:
    """Return the bags between offsets, whose rows are multiplied by factors; the runtime reads all rows before.

    The size is the number of indices, or an array of that length, where the last bag ends with it or is divided by it.
    `constants` are the number of indices and the number of the last bag, where the model has these as constants.
    """
    bags = int(count.reshape(()))
    if constants[0] not in (None, [len(indices)]) or constants[1] not in (None, bags - 1):
        raise ModelError("the constants belong to other bags")
    factors = factors.reshape(-1) if factors.shape == (len(indices), 1) else factors
    if offsets.ndim != 1 or indices.ndim != 1 or len(offsets) < bags + (not ends_last) or bags < 1:
        raise ModelError("these bags are no parts of a vector of indices")
    if size is not None and (size.reshape(-1).tolist() if ends_last else [len(size)]) != [len(indices)]:
        raise ModelError("the last bag does not end with the indices")
    offsets = np.append(offsets[:bags], len(indices)) if ends_last else offsets[: bags + 1]
    if offsets[0] != 0 or offsets[-1] != len(indices) or factors.shape != indices.shape:
        raise ModelError("some rows are in no bag")
    is_plain = bool((factors == 1).all())
    if not is_plain and reduce != "sum":
        raise ModelError("rows are multiplied before their mean or maximum")
    weights = None if is_plain else factors
    starts, ends = offsets[:-1], offsets[1:]
    count = np.array(bags)
    return _reduce_parts(table, indices, starts, ends, count, weights, reduce=reduce, known=known, padding=padding)
