"""The Loop over a sequence that torch's dynamo exporter writes for an embedding bag, as `graph.bags`.

The rows of all indices are gathered and multiplied by a column before the loop. Each iteration slices those between two
offsets, reduces them, and appends the result to a sequence, which ConcatFromSequence makes one tensor. The body must be
one of three patterns, node by node; any other loop is rejected.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ...dialects.gather_dialect import GatherOp
from ...dialects.graph.bag_ops import BagsOp
from ...dialects.graph.elementwise_ops import ElementwiseOp
from ...dialects.graph.movement_ops import BroadcastOp
from ...dialects.graph_op import shape_of_value
from ...dialects.graph_ops import ReshapeOp, ShapeOfOp, UnsqueezeOp, WeightOp
from ...errors import ModelError
from ...operator_spec import Gather
from ...semantics import DYNAMIC, Bounds
from .. import operators
from ..graph_builder import GraphBuilder, lookup
from ..onnx_tensors import TensorReader

# The opset that dynamo exports to at least; in older ones, reductions have their axes otherwise.
LEAST_OPSET = 18

# A pattern is a name, which stands for one value wherever it is; a number, which is a constant; or an operator with
# patterns of its inputs, and of both results for If.
_PLACE = ("Reshape", "i", -1)
_NEXT = ("Add", _PLACE, 1)
_START = ("Slice", "offsets", _PLACE, _NEXT)
_END = ("Slice", "offsets", _NEXT, ("Add", _PLACE, 2))
_ROWS = ("Slice", "rows", _START, _END)
_IS_LAST = ("Equal", "i", "last")
_SUM = ("ReduceSum", _ROWS, 0)
_COUNT = ("Sub", "size", _START)
_LAST_MEAN = ("If", ("Greater", _COUNT, 0), ("Div", _SUM, ("Cast", _COUNT)), _SUM)
_REDUCTIONS = {
    "sum": _SUM,
    "mean": ("If", _IS_LAST, _LAST_MEAN, ("ReduceMean", _ROWS, 0)),
    "max": ("ReduceMax", ("If", _IS_LAST, ("Slice", "rows", _START, "size"), _ROWS), 0),
}
# Attributes that nodes may have, with the only value that each may have.
_ATTRIBUTES = {
    "ReduceSum": {"keepdims": 1, "noop_with_empty_axes": 0},
    "ReduceMean": {"keepdims": 1, "noop_with_empty_axes": 0},
    "ReduceMax": {"keepdims": 1, "noop_with_empty_axes": 0},
    "Reshape": {"allowzero": 0},
    "Shape": {"start": 0, "end": 1},
}
_Scope = Mapping[str, onnx.NodeProto]


@dataclass(frozen=True, slots=True)
class SequenceLoop:
    """A Loop that carries a sequence and a number; `place` is that of the sequence among the two."""

    node: onnx.NodeProto
    place: int

    @property
    def sequence(self) -> str:
        """The name of the sequence that it begins with."""
        return self.node.input[2 + self.place]


def loops_over_sequences(graph: onnx.GraphProto, opset: int) -> tuple[set[str], dict[str, SequenceLoop]]:
    """Find loops that append to an empty sequence, which is then concatenated and not read otherwise.

    Returns:
        The first outputs of the nodes that the loops stand for, and each loop by the result of its ConcatFromSequence.
    """
    reads: dict[str, int] = {}
    for name in (*(name for node in graph.node for name in node.input), *(info.name for info in graph.output)):
        reads[name] = reads.get(name, 0) + 1
    empty: dict[str, int] = {}
    loops: dict[str, SequenceLoop] = {}
    found: dict[str, SequenceLoop] = {}
    for node in graph.node if opset >= LEAST_OPSET else ():
        if node.domain not in ("", "ai.onnx") or not node.output:
            continue
        if node.op_type == "SequenceEmpty" and not node.input and len(node.output) == 1:
            empty[node.output[0]] = reads.get(node.output[0], 0)
        is_loop = node.op_type == "Loop" and [len(node.input), len(node.output)] == [4, 2] and not node.input[0]
        for place in (0, 1) if is_loop else ():  # the exporter writes what a loop carries in any order
            if node.input[2 + place] in empty and [reads.get(node.output[at], 0) for at in (place, 1 - place)] == [
                1,
                0,
            ]:
                loops[node.output[place]] = SequenceLoop(node, place)
        if node.op_type == "ConcatFromSequence" and len(node.output) == 1 and [*node.input] and node.input[0] in loops:
            given = {attribute.name: attribute.i for attribute in node.attribute}
            if len(node.input) == 1 and given in ({"axis": 0}, {"axis": 0, "new_axis": 0}):
                found[node.output[0]] = loops[node.input[0]]
    for loop in found.values():
        empty[loop.sequence] -= 1
    left = {name for name, count in empty.items() if count}
    found = {name: loop for name, loop in found.items() if loop.sequence not in left}
    return {name for loop in found.values() for name in (loop.node.output[0], loop.sequence)}, found


def bags_of_sequence(
    loop: SequenceLoop, name: str, values: Mapping[str, SSAValue], builder: GraphBuilder, reader: TensorReader
) -> SSAValue:
    """Add the bags that a loop appends to a sequence.

    Args:
        loop: one that `loops_over_sequences` found.
        name: of the concatenated result.
        values: what is defined before it, by name.
        builder: where to.
        reader: reads the tensors of its body.

    Raises:
        ModelError: it is another loop, or its operands do not fit.
    """
    return _Sequence(loop, name, values, builder, reader).bags()


class _Sequence:
    """A loop, whose body is compared with the patterns from its results back to what it takes from outside."""

    def __init__(
        self, loop: SequenceLoop, name: str, values: Mapping[str, SSAValue], builder: GraphBuilder, reader: TensorReader
    ):
        self.loop, self.place, self.name = loop.node, loop.place, name
        self.values, self.builder, self.reader = values, builder, reader
        self.found: dict[str, tuple[str, _Scope]] = {}
        self.zeros: list[np.ndarray] = []

    def bags(self) -> SSAValue:
        """Add the bags."""
        builder, name = self.builder, self.name
        kind = self._kind()
        offsets, rows, count = (self._outer(*self.found[key]) for key in ("offsets", "rows", "count"))
        self._check_trips(count)
        self._check(builder.dtype(offsets) == builder.dtype(count) == operators.INT64, "has other integers than int64")
        self._check(len(shape_of_value(offsets)) == 1, "has no vector of offsets")
        table, indices, column = self._factors(rows)
        dtype, columns = builder.dtype(table), shape_of_value(table)[-1]
        self._check(all(zero.dtype == dtype and zero.shape == (1, columns) for zero in self.zeros), "has other zeros")
        zero, one = (builder.constant(f"{name}.number", np.array(number, np.int64)) for number in (0, 1))
        numbers = operators.integers(builder, [zero, operators.scalar(builder, count, name), one], name)
        following = operators.elementwise(builder, "add", [numbers, one], name)
        starts, ends = (
            builder.gather(Gather(0), offsets, places, Bounds.ERROR, "onnx.Gather-13", name)
            for places in (numbers, following)
        )
        last_ends = ends
        if kind != "sum":
            is_last = operators.elementwise(builder, "equal", [numbers, self._last(count, one)], name)
            last_ends = operators.elementwise(builder, "select", [is_last, self._size(), ends], name)
        operands = [table, indices, starts, last_ends if kind == "max" else ends]
        self._check(kind != "max" or column is None, "multiplies rows before their maximum")
        operands += [] if column is None else [builder.squeeze(column, [1], name)]
        reduce = "max" if kind == "max" else "sum"
        result = builder.shape_operator(BagsOp, operands, name, reduce=reduce, bounds="error", group=1)
        if kind == "mean":
            lengths = operators.elementwise(builder, "subtract", [last_ends, starts], name)
            lengths = operators.elementwise(builder, "maximum", [lengths, one], name)
            lengths = builder.unsqueeze(builder.cast(lengths, dtype, name), [1], name)
            return operators.elementwise(builder, "divide", [result, lengths], name)
        if kind == "max":  # zeros for empty bags, where graph.bags has the least value
            is_empty = operators.elementwise(builder, "equal", [starts, ends], name)
            nothing = builder.constant(f"{name}.nothing", np.zeros((), dtype))
            return operators.elementwise(
                builder, "select", [builder.unsqueeze(is_empty, [1], name), nothing, result], name
            )
        return result

    def _kind(self) -> str:
        """Return which of the three reductions the body is; raises ModelError for another body."""
        attributes = {attribute.name: attribute for attribute in self.loop.attribute}
        self._check(len(self.loop.attribute) == 1 and {*attributes} == {"body"}, "has no body")
        body = attributes["body"].g
        self._check(len(body.input) == 4 and len(body.output) == 3, "carries other values than a sequence and a number")
        scope = self._scope(body, {})
        self.taken = {info.name for info in body.input}
        self._check(len(self.taken) == 4 and not self.taken & {*scope}, "names a value twice")
        carried = {"sequence": (body.input[2 + self.place].name, scope), "i": (body.input[3 - self.place].name, scope)}
        on, sequence, number = (body.output[place].name for place in (0, 1 + self.place, 2 - self.place))
        counted = ("Add", "i", 1)
        for kind, reduction in _REDUCTIONS.items():
            self.found, self.zeros = {**carried}, []
            bag = ("If", ("Equal", _START, _END), "zeros", reduction)
            whole = [(sequence, ("SequenceInsert", "sequence", bag)), (on, ("Less", counted, "count"))]
            if all(self._matches(name, pattern, scope) for name, pattern in [*whole, (number, counted)]):
                return kind
        raise self._error("computes something else")

    def _matches(self, name: str, pattern: Any, scope: _Scope) -> bool:
        name = _passed(name, scope)
        node = scope.get(name)
        if isinstance(pattern, int):
            if node is not None and node.op_type == "CastLike" and len(node.input) == 2:
                name = _passed(node.input[0], scope)
            return name not in scope and name in self.values and self._known(self.values[name]) == [pattern]
        if isinstance(pattern, str):
            return self.found.setdefault(pattern, (name, scope))[0] == name
        kind, *parts = pattern
        if node is None or node.op_type != kind:
            return False
        if kind == "If":
            return (
                len(node.input) == 1
                and self._matches(node.input[0], parts[0], scope)
                and self._branches(node, parts[1:], scope)
            )
        if len(node.input) != len(parts) or not self._has_attributes(node):
            return False
        return all(self._matches(one, part, scope) for one, part in zip(node.input, parts, strict=True))

    def _branches(self, node: onnx.NodeProto, patterns: Sequence[Any], scope: _Scope) -> bool:
        graphs = {attribute.name: attribute.g for attribute in node.attribute}
        if len(node.attribute) != 2 or {*graphs} != {"then_branch", "else_branch"}:
            return False
        for graph, pattern in zip((graphs["then_branch"], graphs["else_branch"]), patterns, strict=True):
            if graph.input or len(graph.output) != 1:
                return False
            if pattern == "zeros":
                if graph.node or [tensor.name for tensor in graph.initializer] != [graph.output[0].name]:
                    return False
                array = self.reader.array(graph.initializer[0], "a constant of a loop")
                if any(array.tobytes()):
                    return False
                self.zeros.append(array)
            elif not self._matches(graph.output[0].name, pattern, self._scope(graph, scope)):
                return False
        return True

    def _has_attributes(self, node: onnx.NodeProto) -> bool:
        given = {attribute.name: attribute.i for attribute in node.attribute}
        if node.op_type == "Cast":
            rows = lookup(self.values, self.found["rows"][0], "input") if "rows" in self.found else None
            kinds = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE}
            return rows is not None and given == {"to": kinds.get(self.builder.dtype(rows).name)}
        return given.items() <= _ATTRIBUTES.get(node.op_type, {}).items()

    def _scope(self, graph: onnx.GraphProto, outer: _Scope) -> _Scope:
        """Return what makes each value that a graph can read."""
        self._check(not graph.initializer and not graph.sparse_initializer, "has initializers of its own")
        scope = {**outer}
        for node in graph.node:
            self._check(len(node.output) == 1 and node.domain in ("", "ai.onnx"), f"has a {node.op_type}")
            self._check(node.output[0] not in scope and node.output[0] not in self.values, "names a value twice")
            scope[node.output[0]] = node
        return scope

    def _outer(self, name: str, scope: _Scope) -> SSAValue:
        self._check(name not in scope and name not in self.taken, "computes more than bags")
        return lookup(self.values, name, "input")

    def _last(self, count: SSAValue, one: SSAValue) -> SSAValue:
        """Return the number of the last bag, which the body may compute."""
        name, scope = self.found["last"]
        if name not in scope:
            return operators.scalar(self.builder, self._outer(name, scope), self.name)
        self._check(self._matches(name, ("Sub", "count", 1), scope), "has another last bag")
        return operators.elementwise(
            self.builder, "subtract", [operators.scalar(self.builder, count, self.name), one], self.name
        )

    def _size(self) -> SSAValue:
        """Return the end of the last bag, which the body may compute."""
        name, scope = self.found["size"]
        if name not in scope:
            return operators.scalar(self.builder, self._outer(name, scope), self.name)
        is_size = self._matches(name, ("Shape", "sized"), scope) and len(scope[name].attribute) == 2
        self._check(is_size, "ends its last bag otherwise")
        size = operators.shape_of(self.builder, self._outer(*self.found["sized"]), 0, 1, self.name)
        return operators.scalar(self.builder, size, self.name)

    def _check_trips(self, count: SSAValue) -> None:
        """Check that the loop makes as many iterations as it compares its number with."""
        self._check(
            self._known(lookup(self.values, self.loop.input[3 - self.place], "input")) == [0],
            "begins behind the first bag",
        )
        runs, trips = lookup(self.values, self.loop.input[1], "input"), self._known(count)
        less = runs.owner
        if isinstance(less, ElementwiseOp) and less.function.data == "less" and less.operands[1] is count:
            self._check(self._known(less.operands[0]) == [0], "begins behind the first bag")
            return
        array = self.builder.constants.known(runs)
        is_true = array is not None and array.tolist() in (True, [True])
        self._check(is_true and trips is not None and trips[0] >= 1, "may make other iterations than bags")

    def _factors(self, rows: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue | None]:
        """Return the table, the indices and the column that rows are multiplied by, None for one of ones."""
        product = rows.owner
        is_product = isinstance(product, ElementwiseOp) and product.function.data == "multiply"
        gather = product.operands[0].owner if isinstance(product, ElementwiseOp) else None
        is_rows = isinstance(gather, GatherOp) and gather.normalized() == Gather(0, 0)
        self._check(is_product and is_rows, "slices no rows that are gathered and multiplied by a column")
        assert isinstance(product, ElementwiseOp) and isinstance(gather, GatherOp)
        (table, indices), column = gather.operands, product.operands[1]
        ranks = [len(shape_of_value(value)) for value in (table, indices, column)]
        self._check(ranks == [2, 1, 2] and shape_of_value(column)[1] == 1, "multiplies rows by no column")
        self._check(self.builder.dtype(table).name in ("float32", "float64"), "adds other than float32 or float64")
        self.builder.replaced(product)
        self.builder.replaced(gather)
        return table, indices, None if self._is_ones(column, indices) else column

    def _is_ones(self, column: SSAValue, indices: SSAValue) -> bool:
        """Return whether a column is known to be ones, as many as indices."""
        (length,), (rows, _) = shape_of_value(indices), shape_of_value(column)
        source, is_long = column.owner, length == rows != DYNAMIC
        if isinstance(source, UnsqueezeOp):
            source = source.operands[0].owner
        if isinstance(source, BroadcastOp):
            sizes = source.operands[1].owner
            vectors = {value for value in _reshaped(indices) if len(shape_of_value(value)) == 1}
            is_long = is_long or (isinstance(sizes, ShapeOfOp) and sizes.operands[0] in vectors)
            source = source.operands[0].owner
        return is_long and isinstance(source, WeightOp) and bool((self.builder.weights[source.weight.data] == 1).all())

    def _known(self, value: SSAValue) -> list[int] | None:
        """Return a single integer that is known before the model runs, in a list; None for other values."""
        known = self.builder.constants.known(value)
        is_one = known is not None and known.size == 1 and known.ndim < 2 and known.flat[0] is not None
        if not is_one or self.builder.dtype(value).kind not in "iu":
            return None
        assert known is not None
        return [int(known.flat[0])]

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise self._error(what)

    def _error(self, what: str) -> ModelError:
        return ModelError(
            "a Loop over a sequence is supported where it is an embedding bag without a padding index, as torch "
            f"exports one with dynamo=True; this one {what}; gathernest.split leaves it to ONNX Runtime"
        )


def _passed(name: str, scope: _Scope) -> str:
    """Return the value that Identity nodes pass on; a damaged body may have them in a cycle."""
    for _ in scope:
        if name not in scope or scope[name].op_type != "Identity" or len(scope[name].input) != 1:
            break
        name = scope[name].input[0]
    return name


def _reshaped(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value, and what it is a Reshape of."""
    while isinstance(value.owner, ReshapeOp):
        yield value
        value = value.owner.operands[0]
    yield value
