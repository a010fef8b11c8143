"""The Loop that torch's script exporter writes for an embedding bag, as `graph.bags`.

Each iteration `i` slices a vector of indices from `starts[i]` to `ends[i]`, gathers the rows of a table there, may
multiply them by weights that it slices so, too, and reduces them. Any other loop is rejected.
"""

from collections.abc import Sequence

import numpy as np
import onnx
from xdsl.ir import SSAValue

from ...dialects.graph.bag_ops import BagsOp
from ...dialects.graph_op import shape_of_value
from ...errors import ModelError
from ...operator_spec import Gather
from ...semantics import Bounds
from .. import operators
from ..graph_builder import GraphBuilder, lookup
from ..onnx_nodes import OnnxNode

_REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max"}


def bags_of_loop(node: OnnxNode, builder: GraphBuilder) -> SSAValue:
    """Add the bags that a Loop computes.

    Raises:
        ModelError: it is another loop, or its operands do not fit.
    """
    return _Loop(node, builder).bags()


class _Loop:
    """A loop, whose body is read from its result back to what it takes from outside."""

    def __init__(self, node: OnnxNode, builder: GraphBuilder):
        self.node, self.builder, self.name = node, builder, node.output
        body = node.required("body")
        self._check(len(node.inputs) == 2 and len(body.input) == 2 and len(body.output) == 2, "carries values")
        self._check(not body.initializer and not body.sparse_initializer, "has initializers of its own")
        self.iteration, self.condition = (info.name for info in body.input)
        self.makers: dict[str, onnx.NodeProto] = {}
        for one in body.node:
            self._check(len(one.output) == 1 and one.domain in ("", "ai.onnx"), f"has a {one.op_type}")
            self._check(one.output[0] not in self.makers, "names a value twice")
            self.makers[one.output[0]] = one
        self.body = body

    def bags(self) -> SSAValue:
        """Add the bags."""
        self._check_runs_on(self.body.output[0].name)
        reduction = self._maker(self.body.output[1].name, *_REDUCTIONS)
        keep, axes = self._integer(reduction, "keepdims", 1), self._integers(reduction, "axes", 1)
        self._check(not keep and axes == [0], "reduces other axes than the first")
        rows, weights = reduction.input[0], None
        if self.makers.get(rows) is not None and self.makers[rows].op_type == "Mul":
            factors = self._maker(rows, "Mul").input
            self._check(len(factors) == 2, "multiplies otherwise than by a column")
            rows, factor = factors
            unsqueezed = self._maker(factor, "Unsqueeze")
            self._check(self._integers(unsqueezed, "axes", 1) == [1], "multiplies rows by no column")
            weights = unsqueezed.input[0]
        gather = self._maker(rows, "Gather")
        self._check(self._integer(gather, "axis", 0) == 0, "gathers along another axis than the first")
        table = self._outer(gather.input[0])
        self._check(len(shape_of_value(table)) == 2, "gathers from no matrix")  # ONNX Runtime adds scalars otherwise
        indices, *part = self._sliced(gather.input[1])
        starts, ends = (self._of_bags(name) for name in part)
        operands = [table, indices, starts, ends]
        if weights is not None:
            values, *other = self._sliced(weights)
            self._check(other == part, "slices weights otherwise than indices")
            operands.append(values)
        reduce = _REDUCTIONS[reduction.op_type]
        return self.builder.shape_operator(BagsOp, operands, self.name, reduce=reduce, bounds="error", group=1)

    def _check_runs_on(self, name: str) -> None:
        """Check that the loop ends with its trip count alone: what it goes on by is a true constant from outside."""
        for _ in self.makers:  # a damaged body may have a value that is made from itself
            if name in self.makers:
                name = self._maker(name, "Cast", "Identity").input[0]
        known = [self.node.input(1)] + ([] if name == self.condition else [self._outer(name)])
        arrays = [self.builder.constants.known(value) for value in known]
        self._check(all(array is not None and array.tolist() in (True, [True]) for array in arrays), "may end early")

    def _sliced(self, name: str) -> tuple[SSAValue, str, str]:
        """Return the vector from outside that a value is a slice of, and the names of its start and its end."""
        found = self._maker(name, "Slice")
        self._check(len(found.input) in (4, 5) and self._known(found.input[3]) == [0], "slices another axis")
        self._check(len(found.input) == 4 or self._known(found.input[4]) == [1], "slices at steps")
        return self._outer(found.input[0]), found.input[1], found.input[2]

    def _of_bags(self, name: str) -> SSAValue:
        """Return the vector of the elements that each iteration takes, where each takes that of its own number."""
        unsqueezed = self._maker(name, "Unsqueeze")
        self._check(self._integers(unsqueezed, "axes", 1) == [0], "slices by no vector")
        gather = self._maker(unsqueezed.input[0], "Gather")
        is_own = gather.input[1] == self.iteration and self._integer(gather, "axis", 0) == 0
        self._check(is_own, "takes other bags than its iterations")
        vector, builder = self._outer(gather.input[0]), self.builder
        if len(shape_of_value(vector)) != 1:
            raise ModelError(f"starts and ends of bags must be vectors, got {vector.type}")
        bounds = [builder.constant(f"{self.name}.number", np.array(number, np.int64)) for number in (0, 1)]
        count = operators.scalar(builder, self.node.input(0), self.name)
        numbers = operators.integers(builder, [bounds[0], count, bounds[1]], self.name)
        return builder.gather(Gather(0), vector, numbers, Bounds.ERROR, "onnx.Gather-13", self.name)

    def _maker(self, name: str, *kinds: str) -> onnx.NodeProto:
        """Return the node of the body that makes a value, of one of some operators with operands."""
        found = self.makers.get(name)
        self._check(found is not None and found.op_type in kinds, f"has no {' or '.join(kinds)} where one is expected")
        assert found is not None
        self._check(len(found.input) >= (2 if kinds in (("Gather",), ("Mul",), ("Slice",)) else 1), "lacks an input")
        return found

    def _outer(self, name: str) -> SSAValue:
        """Return a value from outside."""
        self._check(name not in self.makers and name not in (self.iteration, self.condition), "computes more than bags")
        return lookup(self.node.values, name, "input")

    def _known(self, name: str) -> Sequence[int]:
        """Return the elements of a constant of integers, of the body or from outside."""
        if name not in self.makers:
            return self.builder.known_integers(self._outer(name), "what a loop slices and reduces by")
        given = {attribute.name: attribute for attribute in self.makers[name].attribute}
        self._check(self.makers[name].op_type == "Constant" and {*given} == {"value"}, "has no constant axes")
        array = self.node.reader.array(given["value"].t, "a constant of its body")
        self._check(array.dtype.kind in "iu" and array.size <= 8, "has no constant axes")
        return [int(number) for number in array.flat]

    def _integers(self, node: onnx.NodeProto, name: str, place: int) -> Sequence[int]:
        """Return the integers of an attribute, or of the input at a place."""
        for attribute in node.attribute:
            if attribute.name == name:
                return list(attribute.ints)
        return self._known(node.input[place]) if len(node.input) > place else []

    def _integer(self, node: onnx.NodeProto, name: str, default: int) -> int:
        return next((attribute.i for attribute in node.attribute if attribute.name == name), default)

    def _check(self, holds: bool, what: str) -> None:
        if not holds:
            raise ModelError(
                f"a Loop is supported where it is an embedding bag, as torch exports one with dynamo=False; this one "
                f"{what}; gathernest.split leaves it to ONNX Runtime"
            )
