"""Reading the graph of a model: its gathers on tensors, and which of their indices are constants."""

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import node_name
from ....ir.errors import ModelError
from ....ir.modules.known_values import AnyGather, constant_array, constant_op
from ....ir.modules.weights import Weights
from ...nest.queries import gathers


def constant_gathers(module: ModuleOp, weights: Weights) -> Iterator[tuple[AnyGather, np.ndarray]]:
    """Yield every gather on tensors whose indices are a constant, with their values, in the order of the module."""
    for _, gather in gathers(module):
        if isinstance(gather, AnyGather) and gather.result is not None and gather.unsigned is None:
            values = constant_array(gather.indices, weights)
            if values is not None:
                yield gather, values


def node_label(op: IRDLOperation) -> str:
    """Return how messages call an operation: by the node it came from, where it came from one."""
    name = node_name(op)
    return op.name if name is None else f"node {name!r}"


def insert_constant(array: np.ndarray, before: IRDLOperation, weights: Weights, name: str) -> SSAValue:
    """Insert a constant before an operation; a weight where it is large, under a name derived from `name`.

    Raises:
        ModelError: the weights are over their limit; names the node.
    """
    try:
        op = constant_op(array, weights, name)
    except ModelError as error:
        raise ModelError(f"{node_label(before)}: {error}") from None
    Rewriter.insert_op(op, InsertPoint.before(before))
    return op.results[0]


def replace_result(op: IRDLOperation, value: SSAValue) -> None:
    """Put a value of the same type in the place of an operation's result, and erase the operation."""
    (result,) = op.results
    assert isinstance(value.type, TensorType) and value.type == result.type
    if value.name_hint is None:
        value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    Rewriter.erase_op(op)
