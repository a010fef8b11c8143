"""The pass `fold-graph-constants`: what a model computes from constants and static sizes, computed once."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.graph.bag_ops import BagsOp
from ....ir.dialects.graph_op import GraphOp, shape_of_value, tensor_type
from ....ir.dialects.graph_ops import ReshapeOp, SliceOp, SqueezeOp, UnsqueezeOp, WeightOp
from ....ir.dialects.types import numpy_dtype
from ....ir.errors import ModelError
from ....ir.modules.known_values import AnyGather, Constants, constant_array, is_dense
from ....ir.modules.weights import ModelContext, Weights, weights_of
from ....ir.semantics import DYNAMIC
from .graph_queries import MOST_ADDED_BYTES, insert_constant, node_label, operations, replace_result


@dataclass(frozen=True)
class FoldGraphConstants(ModulePass):
    """Compute what depends on constants and static sizes only.

    An operation of the `graph` dialect whose operands are constants becomes a constant. So does a small integer tensor
    of which every element is known because sizes are: `graph.shape_of` of static dimensions, and what casts, joins,
    reshapes and gathers such sizes. Views of weights (reshape, squeeze, unsqueeze, slice) share their memory.

    Preconditions: tensors. Values of weights are folded where the model's table is at hand.

    Input:
        %s = graph.shape_of %x start 1 end 3 : tensor<?x4x5xf32> -> tensor<2xi64>
        %r = arith.constant dense<-1> : tensor<1xi64>
        %c = graph.concat %r, %s axis 0 : tensor<1xi64>, tensor<2xi64> -> tensor<3xi64>
    Output:
        %c = arith.constant dense<[-1, 4, 5]> : tensor<3xi64>

    What it does not do: make types more static than the importer found them, fold bags or large gathers, or make more
    than 256 MiB of new constants.

    Raises:
        ModelError: constants do not fit an operation; names the node.
    """

    name = "fold-graph-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        constants = Constants(weights, ctx.known if isinstance(ctx, ModelContext) else None)
        added_bytes = 0
        folded: dict[Operation, np.ndarray] = {}  # few integers each: constants where something else uses them
        for inner in operations(op):
            if not isinstance(inner, AnyGather | GraphOp) or isinstance(inner, WeightOp) or not inner.results:
                continue
            array = _value(inner, constants, folded, MOST_ADDED_BYTES - added_bytes)
            if array is None:
                continue
            added_bytes += array.nbytes
            if is_dense(array):
                folded[inner] = array
            else:
                _replace(inner, array, weights)
        for inner, array in reversed(folded.items()):
            if inner.results[0].first_use is None:
                Rewriter.erase_op(inner)
            else:
                _replace(inner, array, weights)


def _replace(op: Operation, array: np.ndarray, weights: Weights) -> None:
    replace_result(op, insert_constant(array, op, weights, op.results[0].name_hint or op.name))


def _value(
    op: GraphOp | AnyGather, constants: Constants, folded: Mapping[Any, np.ndarray], budget_bytes: int
) -> np.ndarray | None:
    """Return what an operation gives, when that is known and does not take too many bytes."""
    result = op.results[0]
    known, dtype = constants.known(result), numpy_dtype(tensor_type(result).element_type)
    if known is not None and None not in known.flat:
        return known.astype(dtype)
    if isinstance(op, AnyGather | BagsOp) or DYNAMIC in (shape := shape_of_value(result)):
        return None
    operands: list[np.ndarray] = []
    for operand in op.operands:
        array = folded.get(operand.owner)
        array = constant_array(operand, constants.weights) if array is None else array
        if array is None:
            return None
        operands.append(array)
    is_view = isinstance(op, ReshapeOp | SqueezeOp | UnsqueezeOp | SliceOp)
    if not is_view and np.prod(shape, dtype=object) * dtype.itemsize > budget_bytes:
        return None
    try:
        return type(op).compute(op.fields(), dtype, operands)
    except ModelError as error:
        raise ModelError(f"{node_label(op)}: {error}") from None
