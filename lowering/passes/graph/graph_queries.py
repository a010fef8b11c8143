"""Reading the graph of a model: its gathers on tensors, and which of their indices are constants."""

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import node_name
from ....ir.errors import ModelError
from ....ir.modules.known_values import AnyGather, constant_array, constant_op, is_constant
from ....ir.modules.weights import Weights
from ....ir.semantics import Bounds
from ...nest.queries import functions

# A pass stops where it would make more new bytes of constants than that; the rest is computed when the model runs.
MOST_ADDED_BYTES = 2**28


def constant_gathers(module: ModuleOp, weights: Weights) -> Iterator[tuple[AnyGather, np.ndarray]]:
    """Yield every gather on tensors whose indices are a constant, with their values, in the order of the module."""
    inside = operations(module)
    by_constants = {use.operation for op in inside if is_constant(op) for use in op.results[0].uses if use.index == 1}
    for gather in inside if by_constants else ():
        if gather not in by_constants or not isinstance(gather, AnyGather):
            continue
        if not gather.results or gather.unsigned is not None:
            continue
        if (values := constant_array(gather.operands[1], weights)) is not None:
            yield gather, values


def last_positions(gather: AnyGather, weights: Weights) -> tuple[tuple[int, int], ...]:
    """Return each axis with the largest of its constant indices; empty where nothing is left to check.

    Where an axis turns out to be longer than that, every index is a position, whatever the bounds mode. Empty, too,
    where the indices are no constants, or one is negative.
    """
    is_open = gather.bounds.data is not Bounds.UNCHECKED and gather.unsigned is None
    values = constant_array(gather.operands[1], weights) if is_open else None
    if values is None or not values.size or values.min() < 0:
        return ()
    axes = gather.normalized().axes(values.shape)
    return tuple(zip(axes, values.reshape(-1, len(axes)).max(axis=0).tolist(), strict=True))


def operations(module: ModuleOp) -> list[Operation]:
    """Return every operation of the functions in order."""
    outer = [op for function in functions(module) for block in function.body.blocks for op in block.ops]
    return [inner for op in outer for inner in (op.walk() if op.regions else (op,))]


def node_label(op: Operation) -> str:
    """Return how messages call an operation: by the node it came from, where it came from one."""
    name = node_name(op)
    return op.name if name is None else f"node {name!r}"


def insert_constant(array: np.ndarray, before: Operation, weights: Weights, name: str) -> SSAValue:
    """Insert a constant before an operation; a weight where it is large, under a name derived from `name`."""
    try:
        op = constant_op(array, weights, name)
    except ModelError as error:
        raise ModelError(f"{node_label(before)}: {error}") from None
    Rewriter.insert_op(op, InsertPoint.before(before))
    return op.results[0]


def replace_result(op: Operation, value: SSAValue) -> None:
    """Put a value of the same type in the place of an operation's result, and erase the operation."""
    (result,) = op.results
    assert isinstance(value.type, TensorType) and value.type == result.type
    if value.name_hint is None:
        value.name_hint = result.name_hint
    result.replace_all_uses_with(value)
    Rewriter.erase_op(op)
