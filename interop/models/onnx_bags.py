"""Bags of an ONNX model: sums, means and maxima of gathered rows, which no kernel here stores.

Two forms are found. A ReduceSum or ReduceMean takes the rows of a Gather over the last dimension of its indices,
perhaps after a product with a column (Mul) or with rows that are left out (Where). A Loop is what torch's exporters
write for `nn.EmbeddingBag`: its body is printed as text, and matched with the text of each exporter.
"""

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

from ...ir.errors import ModelError
from ...ir.operator_spec import GatherMax, GatherMean, GatherReduce
from ...ir.semantics import Bounds, Shape
from ...kernels.host.cpu import usable_cores
from ...kernels.reduction.gather_reduce import gather_reduce, grouped_sum
from ...kernels.reduction.operands import Reduction
from .onnx_graph import Graph, bodies, constant_of, integer, is_own
from .runtime import ModelGather, Run

REDUCTIONS: dict[str, Reduction] = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max"}
OPERATORS = {"sum": GatherReduce(), "mean": GatherMean(), "max": GatherMax()}
REDUCED_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
# A Loop whose body reads more values, or values through more operators, is no bag of an exporter.
MAX_VALUES, MAX_DEPTH = 400, 20

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
        self._open_model = open_model
        self._reductions: dict[tuple[str, np.dtype], Run] = {}
        self._groups: dict[tuple[str, np.dtype, Shape], int | None] = {}

    def group(self, reduce: str, dtype: np.dtype, shape: Shape) -> int:
        """Return the number of rows in the groups that the runtime adds first.

        Args:
            reduce: "sum" or "mean".
            dtype: of the rows.
            shape: (bags, bag, columns) of the rows.

        Raises:
            ModelError: none of the known orders gives the bytes of the runtime.
        """
        bags, bag, columns = shape
        key = reduce, dtype, (min(bags, MAX_BAGS_A_CORE * usable_cores()), bag, columns)
        if key not in self._groups:
            tried = (group for group in GROUPS if self._has_order(group, *key))
            self._groups[key] = next(tried, None) if math.prod(shape) else 1
        found = self._groups[key]
        if found is None:
            raise ModelError("the runtime adds rows in an order that is not known here")
        return found

    def _has_order(self, group: int, reduce: str, dtype: np.dtype, shape: Shape) -> bool:
        """Return whether sums of random rows, and of -0.0, have the bytes of groups of this number of rows."""
        random, draws = np.random.default_rng(0), -(-MIN_SUMS_TRIED // (shape[0] * shape[2]))
        for scale in [*[1.0] * draws, -0.0]:
            rows = random.random(shape, dtype)
            rows *= scale
            wanted = _sums_of_groups(rows, group)
            if reduce == "mean":
                wanted /= dtype.type(shape[1])
            if self._reduced(reduce, rows).tobytes() != wanted.tobytes():
                return False
        return True

    def mean_of_nothing(self, dtype: np.dtype) -> float:
        """Return the mean of no rows."""
        return float(self._reduced("mean", np.zeros((1, 0, 1), dtype))[0, 0])

    def _reduced(self, reduce: str, rows: np.ndarray) -> np.ndarray:
        key = reduce, rows.dtype
        if key not in self._reductions:
            self._reductions[key] = self._open_model(_reduction(*key))
        return self._reductions[key]({"rows": rows})[0]


def _sums_of_groups(rows: np.ndarray, group: int) -> np.ndarray:
    """Return (bags, columns): what `grouped_sum` gives for rows (bags, bag, columns), as NumPy adds them."""
    total, start = np.zeros_like(rows[:, 0]), 0
    while start < rows.shape[1]:
        while start + group > rows.shape[1]:
            group //= 2
        total += functools.reduce(np.add, rows[:, start : start + group].swapaxes(0, 1))
        start += group
    return total


def _reduction(reduce: str, dtype: np.dtype) -> onnx.ModelProto:
    """Return a model that reduces the rows of each bag: (bags, bag, columns) to (bags, columns)."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    axes = helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1])
    node = helper.make_node("ReduceSum" if reduce == "sum" else "ReduceMean", ["rows", "axes"], ["sums"], keepdims=0)
    rows = helper.make_tensor_value_info("rows", kind, ["bags", "bag", "columns"])
    sums = helper.make_tensor_value_info("sums", kind, ["bags", "columns"])
    graph = helper.make_graph([node], "reduction", [rows], [sums], [axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


# ---- reductions of gathered rows ----


def find_reduction(node: onnx.NodeProto, graph: Graph, order: SumOrder) -> ModelGather | None:
    """Return the bags of a Gather whose rows are read by a reduction over the last dimension of its indices alone."""
    (table, indices), rows = node.input, node.output[0]
    spec, index_rank = graph.spec(table), graph.rank(indices)
    if spec is None or spec.dtype not in REDUCED_DTYPES or spec.shape is None or len(spec.shape) != 2 or not index_rank:
        return None
    if integer(node, "axis", 0) not in (0, -2):
        return None
    reader, factor, is_mask = graph.only_reader(rows), None, False
    if is_own(reader, "Mul", "Where") and not reader.attribute:  # a Mul of opset 6 has some
        names = list(reader.input)
        is_mask = reader.op_type == "Where"
        if is_mask and (rows in names[:2] or not _is_zero(graph.constant(names[1]))):
            return None
        factor = names[0] if is_mask else next((name for name in names if name != rows), None)
        sizes = graph.spec(factor or "")
        if sizes is None or not sizes.shape or len(sizes.shape) > index_rank + 1 or sizes.shape[-1] != 1:
            return None
        reader = graph.only_reader(reader.output[0])
    if not is_own(reader, "ReduceSum", "ReduceMean") or len(reader.output) != 1:
        return None
    axes = graph.constant(reader.input[1]) if len(reader.input) > 1 else _axes_of(reader)
    if axes is None or axes.tolist() not in ([-2], [index_rank - 1]):
        return None
    reduce, keeps = REDUCTIONS[reader.op_type], bool(integer(reader, "keepdims", 1))
    compute = functools.partial(_reduce_rows, order=order, reduce=reduce, keeps=keeps, is_mask=is_mask)
    operands = (table, indices) if factor is None else (table, indices, factor)
    kind = f"{reader.op_type} of Gather"
    return _bag(graph, node.name or rows, kind, operands, reader.output[0], reduce, compute)


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


def _axes_of(node: onnx.NodeProto) -> np.ndarray | None:
    return next((np.array(attribute.ints) for attribute in node.attribute if attribute.name == "axes"), None)


def _is_zero(array: np.ndarray | None) -> bool:
    return array is not None and array.size == 1 and array.dtype.kind == "f" and not array.any()


def _bag(
    graph: Graph,
    node: str,
    kind: str,
    operands: tuple[str, ...],
    result: str,
    reduce: str,
    compute: Callable[..., np.ndarray],
) -> ModelGather | None:
    specs = {name: spec for name in operands if (spec := graph.spec(name)) is not None and spec.dtype is not None}
    if len(specs) < len({*operands}) or (reduce == "max" and not graph.is_constant(operands[0])):
        return None
    table, indices = (specs[name].dtype for name in operands[:2])
    if table not in REDUCED_DTYPES or indices is None or indices.kind not in "iu":
        return None
    rest = Bounds.ERROR, compute, graph.tables_of(operands), specs, result
    return ModelGather(node, kind, operands, result, OPERATORS[reduce], *rest, is_loop="Loop" in kind)


# ---- the Loops of exporters ----

# The text of a Loop's body: `i` is the iteration, `c` the condition, `s` the sequence, `?name` a value from outside,
# and OP a reduction. Axes and constants stand for themselves, and `zeros` for a row of them.
_PART = "Unsqueeze(Gather(?starts,i),[0]),Unsqueeze(Gather(?ends,i),[0]),[0],[1]"
_SCRIPT_ROWS = f"Gather(?table,Slice(?indices,{_PART}))"
_START = "Slice(?offsets,Reshape(i,[-1]),Add(Reshape(i,[-1]),1))"
_END = "Slice(?offsets,Add(Reshape(i,[-1]),1),Add(Reshape(i,[-1]),2))"
_ROWS = f"Slice(?rows,{_START},{_END})"
_LENGTH = f"Sub(Shape{{end=1}}(?sized),{_START})"
_IS_LAST = "Equal(i,Sub(?count,1))"
SCRIPT_BODIES = (
    f"OP{{keepdims=0}}({_SCRIPT_ROWS},[0])",
    f"OP{{keepdims=0}}(Mul({_SCRIPT_ROWS},Unsqueeze(Slice(?weights,{_PART}),[1])),[0])",
)
# Each of these reduces the rows of a bag; the last bag may end with the indices, or be divided by its length.
DYNAMO_ROWS = (
    f"OP({_ROWS},[0])",
    f"OP(If({_IS_LAST},Slice(?rows,{_START},?size),{_ROWS}),[0])",
    f"If({_IS_LAST},If(Greater({_LENGTH},0),Div(ReduceSum({_ROWS},[0]),Cast{{to=1}}({_LENGTH})),"
    f"ReduceSum({_ROWS},[0])),ReduceMean({_ROWS},[0]))",
)
# With a padding index, a Loop lists the places of a bag whose index is another one: `p` are those before place `v`.
_FROM, _TO, _INDEX = "Gather(?offsets,i)", "Gather(?offsets,Add(i,1))", "Gather(?indices,v)"
_IS_PADDING = f"Equal(If(Less({_INDEX},0),Add({_INDEX},#rows),{_INDEX}),#padding)"
_LISTED = f"If(Not({_IS_PADDING}),Concat(p,Reshape(v,[-1])),p)"
_PLACES = f"Loop(Less({_FROM},{_TO}),[],{_FROM};Less(Add(v,1),{_TO});{_LISTED};Add(v,1))"
DYNAMO_BODIES = (
    *(f"If(Equal({_START},{_END}),zeros,{rows})" for rows in DYNAMO_ROWS),
    f"If(Equal(Size({_PLACES}),0),zeros,OP(Gather(?rows,{_PLACES}),[0]))",
)


def find_loop(node: onnx.NodeProto, graph: Graph, order: SumOrder) -> ModelGather | None:
    """Return the bags of a Loop, or of a ConcatFromSequence of what a Loop appends; None where it is another node."""
    loop = node if is_own(node, "Loop") else None
    if is_own(node, "ConcatFromSequence") and not integer(node, "new_axis", 0) and not integer(node, "axis", 0):
        loop = graph.makers.get(node.input[0])
    if loop is None or not is_own(loop, "Loop") or len(found := list(bodies(loop))) != 1:
        return None
    body, sizes = found[0], [len(loop.input), len(found[0].input), len(found[0].output)]
    matched = None
    if loop is node and sizes == [2, 2, 2]:
        matched = _match_script(loop, body, graph)
    elif loop is not node and sizes == [4, 4, 3]:
        matched = _match_dynamo(loop, body, list(loop.output).index(node.input[0]), graph)
    if matched is None:
        return None
    reduce, operands, compute = matched
    if loop is node:
        compute = functools.partial(compute, order=order)
    compute = functools.partial(compute, reduce=reduce, known={})
    name = loop.name or loop.output[0]
    return _bag(graph, name, "embedding bag (Loop)", operands, node.output[0], reduce, compute)


Matched = tuple[Reduction, tuple[str, ...], Callable[..., np.ndarray]]


def _match_script(loop: onnx.NodeProto, body: onnx.GraphProto, graph: Graph) -> Matched | None:
    """Match a Loop of torch's exporter with `dynamo=False`: each iteration reduces the rows of a slice of indices."""
    text = BodyText(graph, body, ("i", "c"))
    condition, rows = (text.of(info.name) for info in body.output)
    runs_on = not loop.input[1] or _is_number(graph, loop.input[1], 1)
    if not runs_on or re.fullmatch(r"(Cast\{to=9\}\()*(c|True)\)*", condition) is None:
        return None
    for pattern in SCRIPT_BODIES:
        reduce, found = text.match(pattern, rows)
        if found:
            operands = [found[key] for key in ("table", "indices", "starts", "ends")]
            weights = [found["weights"]] if "weights" in found else []
            return reduce, (*operands, loop.input[0], *weights), _reduce_parts
    return None


def _match_dynamo(loop: onnx.NodeProto, body: onnx.GraphProto, place: int, graph: Graph) -> Matched | None:
    """Match a Loop of torch's exporter with `dynamo=True`, which gathers all rows before, and appends to a sequence.

    The exporter writes what a loop carries in any order: the sequence is at `place`.
    """
    if loop.input[0] or not is_own(graph.makers.get(loop.input[2 + place]), "SequenceEmpty"):
        return None
    text = BodyText(graph, body, ("n", "c", *(("s", "i") if place == 0 else ("i", "s"))))
    condition, *carried = (text.of(info.name) for info in body.output)
    whole = ";".join((condition, carried[1 - place], carried[place]))
    for pattern in DYNAMO_BODIES:
        reduce, found = text.match(f"Less(Add(i,1),?count);Add(i,1);SequenceInsert(s,{pattern})", whole)
        if not found:
            continue
        begins, product = graph.makers.get(loop.input[1]), graph.makers.get(found["rows"])
        if not is_own(begins, "Less") or not is_own(product, "Mul") or text.outer(begins.input[1]) != found["count"]:
            return None
        gathered, column = (graph.makers.get(name) for name in product.input)
        if not is_own(gathered, "Gather") or not is_own(column, "Unsqueeze") or integer(gathered, "axis", 0):
            return None
        zeros = (loop.input[3 - place], begins.input[0])
        axes = graph.constant(column.input[1]) if len(column.input) > 1 else _axes_of(column)
        if axes is None or axes.tolist() != [1] or not all(_is_number(graph, zero, 0) for zero in zeros):
            return None
        if text.outer(gathered.input[1]) != found.get("indices", text.outer(gathered.input[1])):
            return None
        sizes = [found[key] for key in ("size", "sized") if key in found]
        operands = (*gathered.input, found["offsets"], found["count"], column.input[0], *sizes)
        padding = int(found["padding"]) if "padding" in found else None
        return reduce, operands, functools.partial(_reduce_sequence, ends_last="size" in found, padding=padding)
    return None


class BodyText:
    """The values of a Loop's body as text, such as `Gather(<0>,i)`, where `<0>` is the first value from outside."""

    def __init__(self, graph: Graph, body: onnx.GraphProto, inputs: Sequence[str]):
        self._graph, self._outer = graph, list[str]()
        self._scope: dict[str, Any] = {info.name: text for info, text in zip(body.input, inputs, strict=True)}
        self._add(body)
        self._left = MAX_VALUES

    def _add(self, body: onnx.GraphProto) -> None:
        """Add the values of a graph, and of the branches of an If in it, whose names differ from all others."""
        for tensor in body.initializer:
            self._scope.setdefault(tensor.name, tensor)
        for node in body.node:
            for name in node.output:
                self._scope[name] = None if name in self._scope else node  # None is in no pattern
            for branch in bodies(node):
                self._add(branch)

    def of(self, name: str, depth: int = 0) -> str:
        """Return the text of a value; `?`, which is in no pattern, where it is made otherwise than in bags."""
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            return "?"
        if name not in self._scope:
            return self._of_outer(name)
        maker = self._scope[name]
        if isinstance(maker, str):
            return maker
        if isinstance(maker, onnx.TensorProto):
            return _text_of_array(onnx.numpy_helper.to_array(maker))
        if is_own(maker, "Loop") and name == maker.output[0] and len(maker.input) > 2 and not maker.input[0]:
            return self._of_loop(maker, depth)
        if maker is None or not is_own(maker, maker.op_type) or len(maker.output) != 1:
            return "?"
        if maker.op_type == "Constant":
            return _text_of_array(constant_of(maker))
        operands = [self.of(operand, depth + 1) for operand in maker.input]
        if maker.op_type == "Identity":
            return operands[0]
        if maker.op_type == "CastLike":  # the numbers of a pattern fit every integer type
            return operands[0] if re.fullmatch(r"\[?-?\d+\]?", operands[0]) else "?"
        operands += ["[1]"] if maker.op_type == "Slice" and len(operands) == 4 else []
        branches = {attribute.name: attribute.g for attribute in maker.attribute}
        operands += [
            self.of(branches[name].output[0].name, depth + 1)
            for name in ("then_branch", "else_branch")
            if name in branches
        ]
        operands += [f"[{','.join(map(str, attribute.ints))}]" for attribute in maker.attribute if attribute.ints]
        given = sorted((one.name, one.i) for one in maker.attribute if one.type == onnx.AttributeProto.INT)
        others = [f"{name}={value}" for name, value in given if value != (name == "keepdims")]
        return f"{maker.op_type}{'{' + ','.join(others) + '}' if others else ''}({','.join(operands)})"

    def _of_loop(self, loop: onnx.NodeProto, depth: int) -> str:
        """Return the text of what a Loop in the body carries first: of its operands, and of its own body."""
        operands = ",".join(self.of(operand, depth + 1) for operand in loop.input[1:])
        carried = list[str]()
        for body in bodies(loop):
            self._scope.update(zip((info.name for info in body.input), ("n", "c", "p", "v"), strict=False))
            carried += (self.of(info.name, depth + 1) for info in body.output)
        return f"Loop({operands};{';'.join(carried)})"

    def _of_outer(self, name: str) -> str:
        array = self._graph.constant(name) if self._graph.is_constant(name) else None
        if array is not None and array.size <= 1:
            return _text_of_array(array)
        name = self.outer(name)
        if name not in self._outer:
            self._outer.append(name)
        return f"<{self._outer.index(name)}>"

    def outer(self, name: str) -> str:
        """Return the name of a value from outside that others are copies of."""
        while is_own(maker := self._graph.makers.get(name), "Identity"):
            name = maker.input[0]
        return name

    def match(self, pattern: str, text: str) -> tuple[Reduction, dict[str, str]]:
        """Return the reduction of a pattern and the names of its values from outside; none where it does not match."""
        known: set[str] = set()

        def group(found: re.Match[str]) -> str:
            name = found[1]
            is_known = name in known
            known.add(name)
            return f"<(?P={name})>" if is_known else rf"<(?P<{name}>\d+)>"

        escaped = re.escape(pattern).replace(r"OP", r"(?P<reduce>Reduce(?:Sum|Mean|Max))", 1)
        escaped = re.sub(r"\\\?(\w+)", group, escaped).replace(r"zeros", r"zeros\(1,\d+\)")
        escaped = escaped.replace(r"\#rows", r"\d+").replace(r"\#padding", r"(?P<padding>\d+)", 1)
        escaped = escaped.replace(r"\#padding", r"(?P=padding)")
        matched = re.fullmatch(escaped, text)
        if matched is None:
            return "sum", {}
        found = matched.groupdict()
        names = {key: self._outer[int(value)] if key in known else value for key, value in found.items()}
        return REDUCTIONS[found.get("reduce", "ReduceMean")], names


def _text_of_array(array: np.ndarray | None) -> str:
    if array is None:
        return "?"
    if array.ndim == 2 and array.dtype.kind == "f" and not array.any() and not np.signbit(array).any():
        return f"zeros({array.shape[0]},{array.shape[1]})"
    return str(array.tolist()).replace(" ", "") if array.size <= 1 and array.dtype.kind in "biu" else "?"


def _is_number(graph: Graph, name: str, number: int) -> bool:
    array = graph.constant(name)
    return array is not None and array.tolist() in (number, [number])


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
        known[id(table)] = _is_ordered(table)
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
) -> np.ndarray:
    """Return the bags between offsets, whose rows are multiplied by factors; the runtime reads all rows before.

    The size is the number of indices, or an array of so many, where the last bag ends with it or is divided by it.
    """
    bags = int(count.reshape(()))
    if offsets.ndim != 1 or indices.ndim != 1 or len(offsets) < bags + (not ends_last) or bags < 1:
        raise ModelError("these bags are no parts of a vector of indices")
    if size is not None and (size.reshape(-1).tolist() if ends_last else [len(size)]) != [len(indices)]:
        raise ModelError("the last bag does not end with the indices")
    offsets = np.append(offsets[:bags], len(indices)) if ends_last else offsets[: bags + 1]
    if offsets[0] != 0 or offsets[-1] != len(indices) or len(factors) != len(indices):
        raise ModelError("some rows are in no bag")
    is_plain = bool((factors == 1).all())
    if not is_plain and reduce != "sum":
        raise ModelError("rows are multiplied before their mean or maximum")
    weights = None if is_plain else factors
    starts, ends = offsets[:-1], offsets[1:]
    count = np.array(bags)
    return _reduce_parts(table, indices, starts, ends, count, weights, reduce=reduce, known=known, padding=padding)


def _is_ordered(table: np.ndarray) -> bool:
    """Return whether maxima of rows are the same in every runtime: without NaN and -0.0."""
    return bool((table == table).all()) and not np.signbit(table[table == 0]).any()
