"""The Loop over a sequence that torch's dynamo exporter writes for an embedding bag, as `graph.bags`.

The rows of all indices are gathered and multiplied by a column before the loop. Each iteration slices those between two
offsets, reduces them, and appends the result to a sequence, which ConcatFromSequence makes one tensor. The body must be
one of the patterns of `SequenceBody`; any other loop is rejected. With a padding index, the indices that are not it are
gathered first, and the offsets become those among them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ...dialects.gather_dialect import GatherOp
from ...dialects.graph.bag_ops import BagsOp, CountLessOp
from ...dialects.graph.elementwise_ops import ElementwiseOp
from ...dialects.graph.movement_ops import BroadcastOp
from ...dialects.graph_op import shape_of_value
from ...dialects.graph_ops import ReshapeOp, ShapeOfOp, UnsqueezeOp, WeightOp
from ...operator_spec import Gather
from ...semantics import DYNAMIC, Bounds
from .. import operators
from ..graph_builder import GraphBuilder, lookup
from ..onnx_tensors import TensorReader
from .sequence_body import SequenceBody

# The opset that dynamo exports to at least; in older ones, reductions have their axes otherwise.
LEAST_OPSET = 18


@dataclass(frozen=True, slots=True)
class SequenceLoop:
    """A Loop that carries a sequence and a number.

    Attributes:
        node: the loop.
        place: of the sequence among the two.
        scattered: the ScatterElements whose results nothing reads but the bodies of loops, by these results.
    """

    node: onnx.NodeProto
    place: int
    scattered: Mapping[str, onnx.NodeProto]

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
    scattered: dict[str, onnx.NodeProto] = {}
    loops: dict[str, SequenceLoop] = {}
    found: dict[str, SequenceLoop] = {}
    for node in graph.node if opset >= LEAST_OPSET else ():
        if node.domain not in ("", "ai.onnx") or not node.output:
            continue
        if node.op_type == "SequenceEmpty" and not node.input and len(node.output) == 1:
            empty[node.output[0]] = reads.get(node.output[0], 0)
        if node.op_type == "ScatterElements" and len(node.output) == 1 and node.output[0] not in reads:
            scattered[node.output[0]] = node
        is_loop = node.op_type == "Loop" and [len(node.input), len(node.output)] == [4, 2] and not node.input[0]
        for place in (0, 1) if is_loop else ():  # the exporter writes what a loop carries in any order
            sequence, number = node.output[place], node.output[1 - place]
            if node.input[2 + place] in empty and reads.get(sequence) == 1 and number not in reads:
                loops[sequence] = SequenceLoop(node, place, scattered)
        is_concat = node.op_type == "ConcatFromSequence" and [len(node.input), len(node.output)] == [1, 1]
        if is_concat and node.input[0] in loops:
            given = {attribute.name: attribute.i for attribute in node.attribute}
            if given in ({"axis": 0}, {"axis": 0, "new_axis": 0}):
                found[node.output[0]] = loops[node.input[0]]
    for loop in found.values():
        empty[loop.sequence] -= 1
    left = {name for name, count in empty.items() if count}
    found = {name: loop for name, loop in found.items() if loop.sequence not in left}
    skipped = {name for loop in found.values() for name in (loop.node.output[0], loop.sequence)}
    inside = {name for loop in found.values() for name in _read_inside(loop.node)}
    return skipped | (inside & {*scattered}), found


def _read_inside(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that nodes of the graphs of a node read."""
    for inner in (inner for attribute in node.attribute for inner in attribute.g.node):
        yield from inner.input
        yield from _read_inside(inner)


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


class _Sequence(SequenceBody):
    """A loop, as operations that compute the same."""

    def __init__(
        self, loop: SequenceLoop, name: str, values: Mapping[str, SSAValue], builder: GraphBuilder, reader: TensorReader
    ):
        super().__init__(loop.node, loop.place, name, values, builder, reader)
        self.scattered = loop.scattered

    def bags(self) -> SSAValue:
        """Add the bags."""
        builder, name = self.builder, self.name
        kind = self._kind()
        offsets, rows, count = self._offsets(), *(self._outer(*self.found[key]) for key in ("rows", "count"))
        self._check_trips(count)
        self._check(builder.dtype(offsets) == builder.dtype(count) == operators.INT64, "has other integers than int64")
        self._check(len(shape_of_value(offsets)) == 1, "has no vector of offsets")
        table, indices, column = self._factors(rows)
        dtype, columns = builder.dtype(table), shape_of_value(table)[-1]
        self._check(all(zero.dtype == dtype and zero.shape == (1, columns) for zero in self.zeros), "has other zeros")
        zero, one = (builder.constant(f"{name}.number", np.array(number, np.int64)) for number in (0, 1))
        numbers = operators.integers(builder, [zero, operators.scalar(builder, count, name), one], name)
        following = operators.elementwise(builder, "add", [numbers, one], name)
        starts, ends = (self._rows(offsets, places) for places in (numbers, following))
        is_padded = "kept" in self.found
        if is_padded:
            indices, column, starts, ends = self._without_padding(table, indices, column, starts, ends)
        last_ends = ends
        if kind != "sum" and not is_padded:
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

    def _offsets(self) -> SSAValue:
        """Return the offsets, whose last one a ScatterElements may replace by the number of indices."""
        name, scope = self.found["offsets"]
        if name in scope or name not in self.scattered:
            return self._outer(name, scope)
        node = self.scattered[name]
        given = {(attribute.name, attribute.i, attribute.s) for attribute in node.attribute}
        is_plain = given <= {("axis", 0, b""), ("reduction", 0, b"none")}
        self._check(is_plain and len(node.input) == 3, "replaces other offsets than the last one")
        offsets, place, last = (lookup(self.values, part, "input") for part in node.input)
        ranks = [len(shape_of_value(value)) for value in (offsets, place, last)]
        is_last = ranks == [1, 1, 1] and self._known(place) == [-1] and self.builder.dtype(offsets) == operators.INT64
        self._check(is_last and shape_of_value(last) == (1,), "replaces other offsets than the last one")
        first, end = (operators.numbers(self.builder, [number], f"{name}.at") for number in (0, -1))
        kept = operators.strided_slice(self.builder, offsets, (first, end, None), [0], name)
        return self.builder.concat([kept, last], 0, name)

    def _without_padding(
        self, table: SSAValue, indices: SSAValue, column: SSAValue | None, starts: SSAValue, ends: SSAValue
    ) -> tuple[SSAValue, SSAValue | None, SSAValue, SSAValue]:
        """Return the indices that are not the padding index, their column, and the starts and ends of bags among them.

        A bag that ends where it starts, or before, is empty wherever that is.
        """
        builder, name, rows = self.builder, self.name, shape_of_value(table)[0]
        self._check(self._outer(*self.found["indices"]) is indices, "has the padding of other indices")
        padding, known_rows = (self._known(self._outer(*self.found[key])) for key in ("padding", "table_rows"))
        is_row = padding is not None and known_rows == [rows] and 0 <= padding[0] < rows
        self._check(is_row, "has a padding index that is no row of the table")
        assert padding is not None
        dtype = builder.dtype(indices)
        zero, one, last = (builder.constant(f"{name}.number", np.array(value, np.int64)) for value in (0, 1, -1))
        are_padding = [
            operators.elementwise(
                builder, "equal", [indices, builder.constant(f"{name}.padding", np.array(value, dtype))], name
            )
            for value in (padding[0], padding[0] - rows)
        ]
        is_kept = operators.elementwise(builder, "not", [operators.elementwise(builder, "or", are_padding, name)], name)
        counts = builder.cast(is_kept, operators.INT64, name)
        counts = operators.cumsum(builder, counts, 0, name, exclusive=False, reverse=False)
        before = builder.concat([operators.numbers(builder, [0], name), counts], 0, name)
        total = self._rows(before, last)
        behind = operators.elementwise(builder, "add", [total, one], name)
        numbers = operators.integers(builder, [one, behind, one], name)
        places = builder.shape_operator(CountLessOp, [counts, numbers], name)
        limits = zero, operators.element_count(builder, indices, name)
        has_places = operators.elementwise(builder, "less", [starts, ends], name)
        starts, ends = (
            operators.elementwise(builder, "select", [has_places, offsets, zero], name) for offsets in (starts, ends)
        )
        starts, ends = (self._among_kept(offsets, limits, before) for offsets in (starts, ends))
        return self._rows(indices, places), None if column is None else self._rows(column, places), starts, ends

    def _among_kept(self, offsets: SSAValue, limits: tuple[SSAValue, SSAValue], counts: SSAValue) -> SSAValue:
        """Return how many indices before each offset are kept; an offset outside stays, which `graph.bags` rejects."""
        inside = operators.clip(self.builder, offsets, *limits, self.name)
        is_inside = operators.elementwise(self.builder, "equal", [offsets, inside], self.name)
        choices = [is_inside, self._rows(counts, inside), offsets]
        return operators.elementwise(self.builder, "select", choices, self.name)

    def _rows(self, data: SSAValue, places: SSAValue) -> SSAValue:
        return self.builder.gather(Gather(0), data, places, Bounds.ERROR, "onnx.Gather-13", self.name)

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


def _reshaped(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value, and what it is a Reshape of."""
    while isinstance(value.owner, ReshapeOp):
        yield value
        value = value.owner.operands[0]
    yield value
