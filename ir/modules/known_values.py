"""The known values of a model before it runs: constants, and static sizes."""

import math
from collections.abc import Mapping

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation

from .. import reference
from ..dialects.gather_dialect import GatherElementsOp, GatherNdOp, GatherOp
from ..dialects.graph_op import GraphOp, shape_of_value
from ..dialects.graph_ops import CastOp, ShapeOfOp, WeightOp
from ..dialects.types import dense_array, ir_element_type, numpy_dtype
from ..errors import GathernestError
from ..semantics import DYNAMIC, NO_NEGATIVE_INDICES, Bounds
from .operator_module import constant_tensor
from .weights import MOST_DENSE_ELEMENTS, Weights

# What the graph of a model gathers with; gradients are no part of one.
AnyGather = GatherOp | GatherNdOp | GatherElementsOp
# Vectors of sizes are followed element by element up to this many elements.
MOST_FOLLOWED = 1024


class Constants:
    """Answers what is known of a value. One serves one module, for as long as nobody rewrites it."""

    def __init__(self, weights: Mapping[str, np.ndarray]):
        self.weights = weights
        self._known: dict[SSAValue, np.ndarray | None] = {}

    def known(self, value: SSAValue) -> np.ndarray | None:
        """Return the elements of a small integer tensor as far as they are known.

        Returns:
            An object array of the tensor's shape, of ints, with None for an element that is not known; None as a whole
            for a tensor of which nothing can be said.
        """
        if value not in self._known:
            self._known[value] = self._follow(value)
        return self._known[value]

    def _follow(self, value: SSAValue) -> np.ndarray | None:
        op, type_ = value.owner, value.type
        if not isinstance(type_, TensorType) or not isinstance(type_.element_type, IntegerType):
            return None
        shape = type_.get_shape()
        if DYNAMIC in shape or math.prod(shape) > MOST_FOLLOWED or numpy_dtype(type_.element_type).kind == "b":
            return None
        if not isinstance(op, Operation):
            return None
        if (array := constant_array(value, self.weights)) is not None:
            return array.astype(object)
        if isinstance(op, ShapeOfOp):
            sizes = shape_of_value(op.inputs[0])[slice(op.fields()["start"], op.fields()["end"])]
            return np.array([None if size == DYNAMIC else size for size in sizes], object)
        operands = [self.known(operand) for operand in op.operands]
        if any(operand is None for operand in operands):
            return None
        return self._carried(op, [operand for operand in operands if operand is not None])

    def _carried(self, op: Operation, operands: list[np.ndarray]) -> np.ndarray | None:
        """Carry known and unknown elements through an operation that moves them; None where it does not."""
        try:
            if isinstance(op, CastOp):
                dtype = numpy_dtype(op.result.type.element_type)  # type: ignore[attr-defined]
                limits = np.iinfo(dtype)
                return (
                    operands[0] if all(e is None or limits.min <= e <= limits.max for e in operands[0].flat) else None
                )
            if isinstance(op, AnyGather):
                return None if any(element is None for element in operands[1].flat) else _gathered(op, *operands)
            if isinstance(op, GraphOp):
                if op.name == "graph.reshape" and any(element is None for element in operands[1].flat):
                    return None
                return type(op).compute(op.fields(), np.dtype(object), operands)
        except (GathernestError, OverflowError):
            return None
        return None


def _gathered(op: AnyGather, data: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """Return the elements of data that a gather takes, 0 where it gives zeros; raises BoundsError."""
    version = op.version.data if op.version else None
    if version in NO_NEGATIVE_INDICES and op.bounds.data is Bounds.ERROR and any(index < 0 for index in indices.flat):
        return None
    places = np.arange(1, data.size + 1).reshape(data.shape)  # so that 0, which an index outside gives, is no place
    picked = reference.run(op.normalized(), places, indices.astype(np.int64), op.bounds.data)
    return np.asarray(np.array([0, *data.flat], object)[picked], object)


def constant_array(value: SSAValue, weights: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the array that a value is, when it is an `arith.constant` or a weight of the table itself."""
    op = value.owner
    if isinstance(op, WeightOp):
        return weights.get(op.fields()["name"])
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
        return dense_array(op.value)
    return None


def constant_op(array: np.ndarray, weights: Weights, name: str) -> IRDLOperation:
    """Return the operation that stands for a constant: dense for few integers, a weight for everything else.

    Args:
        array: the values.
        weights: the table a weight is put in, under `name` or a name derived from it.
    """
    if array.dtype.kind in "iu" and array.size <= MOST_DENSE_ELEMENTS:
        return constant_tensor(array)
    return WeightOp([], TensorType(ir_element_type(array.dtype), array.shape), name=weights.add(name, array))
