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
from ..dialects.graph_op import GraphOp, shape_of_value, tensor_of
from ..dialects.graph_ops import CastOp, ShapeOfOp, WeightOp
from ..dialects.types import dense_array, ir_element_type, numpy_dtype
from ..errors import GathernestError
from ..operator_spec import Gather
from ..positions import NOWHERE, resolve
from ..semantics import DYNAMIC, NO_NEGATIVE_INDICES, Bounds
from .operator_module import constant_tensor
from .weights import MOST_DENSE_ELEMENTS, Weights

# What the graph of a model gathers with; gradients are no part of one.
AnyGather = GatherOp | GatherNdOp | GatherElementsOp
# Vectors of sizes are followed element by element up to this many elements.
MOST_FOLLOWED = 1024


class Constants:
    """Answers what is known of the values of one module; passes that keep what a value is may rewrite the module."""

    def __init__(self, weights: Mapping[str, np.ndarray], answers: dict[SSAValue, np.ndarray | None] | None = None):
        self.weights = weights
        self.answers = {} if answers is None else answers

    def known(self, value: SSAValue) -> np.ndarray | None:
        """Return the elements of a small integer tensor as far as they are known.

        They are ints in an object array, with None for one that is not known; None as a whole where nothing is known.
        """
        if value not in self.answers:
            self.answers[value] = self._follow(value)
        return self.answers[value]

    def _follow(self, value: SSAValue) -> np.ndarray | None:
        op, type_ = value.owner, value.type
        if not isinstance(type_, TensorType) or not isinstance(type_.element_type, IntegerType):
            return None
        shape = type_.get_shape()
        if DYNAMIC in shape or math.prod(shape) > MOST_FOLLOWED:
            return None
        if not isinstance(op, Operation):
            return None
        if (array := constant_array(value, self.weights)) is not None:
            return array.astype(object)
        if isinstance(op, ShapeOfOp):
            fields = op.fields()
            sizes = shape_of_value(op.inputs[0])[fields["start"] : fields["end"]]
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
                return _cast(operands[0], dtype)
            if isinstance(op, AnyGather):
                return None if None in operands[1].flat else _gathered(op, *operands)
            if isinstance(op, GraphOp):
                if op.name == "graph.reshape" and None in operands[1].flat:
                    return None
                return op.carried(operands)
        except (GathernestError, OverflowError):
            return None
        return None


def _cast(given: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return known elements as those of a dtype; None where one is not in its range."""
    kind, least, most = bool, -(2**63), 2**64
    if dtype.kind != "b":
        kind, least, most = int, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if not all(element is None or least <= element <= most for element in given.flat):
        return None
    cast = [None if element is None else kind(element) for element in given.flat]
    return np.array(cast, object).reshape(given.shape)


def _gathered(op: AnyGather, data: np.ndarray, indices: np.ndarray) -> np.ndarray | None:
    """Return the elements of data that a gather takes, 0 where it gives zeros; raises BoundsError."""
    version, bounds, operator = op.version.data if op.version else None, op.bounds.data, op.normalized()
    if version in NO_NEGATIVE_INDICES and bounds is Bounds.ERROR and any(index < 0 for index in indices.flat):
        return None
    if isinstance(operator, Gather) and not operator.batch_dims:  # sizes are picked so, by the thousand in large models
        positions = resolve(indices.astype(np.int64), data.shape[operator.axis], bounds)
        if (positions != NOWHERE).all():
            return np.asarray(np.take(data, positions, operator.axis), object)
    places = np.arange(1, data.size + 1).reshape(data.shape)  # so that 0, which an index outside gives, is no place
    picked = reference.run(operator, places, indices.astype(np.int64), bounds)
    return np.asarray(np.array([0, *data.flat], object)[picked], object)


def constant_array(value: SSAValue, weights: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the array that a value is, when it is an `arith.constant` or a weight of the table itself."""
    op = value.owner
    if type(op) is WeightOp:  # `isinstance` takes ten times as long where it is false
        return weights.get(op.weight.data)
    if type(op) is arith.ConstantOp and isinstance(dense := op.properties.get("value"), DenseIntOrFPElementsAttr):
        return dense_array(dense)
    return None


def is_constant(op: Operation) -> bool:
    """Return whether `constant_array` may know what an operation gives."""
    return type(op) in (WeightOp, arith.ConstantOp)


def is_dense(array: np.ndarray) -> bool:
    """Return whether a constant is part of the text: few integers are."""
    return array.dtype.kind in "iu" and array.size <= MOST_DENSE_ELEMENTS


def constant_op(array: np.ndarray, weights: Weights, name: str) -> IRDLOperation:
    """Return the operation that stands for a constant: dense for few integers, else a weight, put into the table."""
    if is_dense(array):
        return constant_tensor(array)
    return WeightOp([], tensor_of(ir_element_type(array.dtype), array.shape), name=weights.add(name, array))
