"""The body of a Loop over a sequence, compared node by node with the patterns of the embedding bags that torch exports.

A padding index makes the body another one: a Loop inside of it appends the places of all other indices to a vector.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ...dialects.graph_op import shape_of_value
from ...errors import ModelError
from ..graph_builder import GraphBuilder, lookup
from ..onnx_tensors import TensorReader

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
# With a padding index, the places of all other indices between two offsets are a vector, whose rows are reduced.
_FIRST, _BEHIND = ("Gather", "offsets", "i"), ("Gather", "offsets", ("Add", "i", 1))
_KEPT_ROWS = ("Gather", "rows", "kept")
_PADDED = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}
_BAGS = [
    *((kind, ("If", ("Equal", _START, _END), "zeros", reduction)) for kind, reduction in _REDUCTIONS.items()),
    *((kind, ("If", ("Equal", ("Size", "kept"), 0), "zeros", (of, _KEPT_ROWS, 0))) for kind, of in _PADDED.items()),
]
_HAS_PLACES = ("Less", _FIRST, _BEHIND)
_NEXT_PLACE = ("Add", "place", 1)
_INDEX = ("Gather", "indices", "place")
_NORMAL_INDEX = ("If", ("Less", _INDEX, 0), ("Add", _INDEX, "table_rows"), _INDEX)
_MORE_PLACES = ("Concat", "places", ("Reshape", "place", -1))
_PLACES = ("If", ("Not", ("Equal", _NORMAL_INDEX, "padding")), _MORE_PLACES, "places")
# Attributes that nodes may have, with the only value that each may have.
_ATTRIBUTES = {
    "ReduceSum": {"keepdims": 1, "noop_with_empty_axes": 0},
    "ReduceMean": {"keepdims": 1, "noop_with_empty_axes": 0},
    "ReduceMax": {"keepdims": 1, "noop_with_empty_axes": 0},
    "Reshape": {"allowzero": 0},
    "Concat": {"axis": 0},
    "Shape": {"start": 0, "end": 1},
}
_Scope = Mapping[str, onnx.NodeProto]


class SequenceBody:
    """A loop, whose body is compared with the patterns from its results back to what it takes from outside."""

    def __init__(
        self,
        loop: onnx.NodeProto,
        place: int,
        name: str,
        values: Mapping[str, SSAValue],
        builder: GraphBuilder,
        reader: TensorReader,
    ):
        self.loop, self.place, self.name = loop, place, name
        self.values, self.builder, self.reader = values, builder, reader
        self.found: dict[str, tuple[str, _Scope]] = {}
        self.zeros: list[np.ndarray] = []

    def _kind(self) -> str:
        """Return which of the three reductions the body is; raises ModelError for another body."""
        self.taken: set[str] = set()
        body, scope = self._body(self.loop, {})
        carried = {"sequence": (body.input[2 + self.place].name, scope), "i": (body.input[3 - self.place].name, scope)}
        on, sequence, number = (body.output[place].name for place in (0, 1 + self.place, 2 - self.place))
        counted = ("Add", "i", 1)
        for kind, bag in _BAGS:
            self.found, self.zeros = {**carried}, []
            whole = [(sequence, ("SequenceInsert", "sequence", bag)), (on, ("Less", counted, "count"))]
            if not all(self._matches(name, pattern, scope) for name, pattern in [*whole, (number, counted)]):
                continue
            self._check("kept" not in self.found or self._leaves_out_padding(), "keeps other places of indices")
            return kind
        raise self._error("computes something else")

    def _body(self, loop: onnx.NodeProto, outer: _Scope) -> tuple[onnx.GraphProto, _Scope]:
        """Return the body of a loop that carries two values, and what makes each value in it."""
        attributes = {attribute.name: attribute for attribute in loop.attribute}
        self._check(len(loop.attribute) == 1 and {*attributes} == {"body"}, "has no body")
        body = attributes["body"].g
        self._check(len(body.input) == 4 and len(body.output) == 3, "carries other values than a sequence and a number")
        scope, taken = self._scope(body, outer), {info.name for info in body.input}
        self._check(len(taken) == 4 and not taken & {*scope, *self.taken, *self.values}, "names a value twice")
        self.taken |= taken
        return body, scope

    def _leaves_out_padding(self) -> bool:
        """Return whether the inner loop appends the places of all indices but the padding index to an empty vector."""
        name, scope = self.found["kept"]
        loop = scope.get(name)
        if loop is None or loop.op_type != "Loop" or len(loop.input) != 4 or loop.input[0]:
            return False
        place = [*loop.output].index(name)  # of the vector, among it and a number
        vector = _passed(loop.input[2 + place], scope)
        if vector in scope or vector not in self.values or shape_of_value(self.values[vector]) != (0,):
            return False
        body, inner = self._body(loop, scope)
        self.found |= {"places": (body.input[2 + place].name, inner), "place": (body.input[3 - place].name, inner)}
        on, places, number = (body.output[at].name for at in (0, 1 + place, 2 - place))
        return (
            self._matches(loop.input[1], _HAS_PLACES, scope)
            and self._matches(loop.input[3 - place], _FIRST, scope)
            and self._matches(on, ("Less", _NEXT_PLACE, _BEHIND), inner)
            and self._matches(places, _PLACES, inner)
            and self._matches(number, _NEXT_PLACE, inner)
        )

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
            outputs = 2 if node.op_type == "Loop" else 1
            self._check(len(node.output) == outputs and node.domain in ("", "ai.onnx"), f"has a {node.op_type}")
            for name in node.output:
                self._check(name not in {*scope, *self.values, *self.taken}, "names a value twice")
                scope[name] = node
        return scope

    def _outer(self, name: str, scope: _Scope) -> SSAValue:
        self._check(name not in scope and name not in self.taken, "computes more than bags")
        return lookup(self.values, name, "input")

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
            "a Loop over a sequence is supported where it is an embedding bag, as torch exports one with "
            f"dynamo=True; this one {what}; gathernest.split leaves it to ONNX Runtime"
        )


def _passed(name: str, scope: _Scope) -> str:
    """Return the value that Identity nodes pass on; a damaged body may have them in a cycle."""
    for _ in scope:
        if name not in scope or scope[name].op_type != "Identity" or len(scope[name].input) != 1:
            break
        name = scope[name].input[0]
    return name
