"""The gathers of a module whose indices are constants, as the passes on operators find and replace them."""

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import node_name
from ....ir.dialects.gather_dialect import GatherElementsOp, GatherNdOp, GatherOp
from ....ir.dialects.types import dense_array
from ....ir.modules.operator_module import constant_tensor

AnyGather = GatherOp | GatherNdOp | GatherElementsOp


def constant_gathers(module: ModuleOp) -> list[tuple[AnyGather, np.ndarray]]:
    """Return every gather on tensors whose indices are a constant, with their values, in the order of the module."""
    found: list[tuple[AnyGather, np.ndarray]] = []
    for op in module.walk():
        if isinstance(op, AnyGather) and op.results and op.unsigned is None:
            values = constant_array(op.operands[1])
            found += [] if values is None else [(op, values)]
    return found


def constant_array(value: SSAValue) -> np.ndarray | None:
    """Return the array that a value is, where it is an `arith.constant` of integers; None otherwise."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
        return dense_array(op.value)
    return None


def node_label(op: Operation) -> str:
    """Return how messages call an operation: by the node it came from, where it came from one."""
    name = node_name(op)
    return op.name if name is None else f"node {name!r}"


def insert_constant(array: np.ndarray, before: Operation) -> SSAValue:
    """Insert a constant before an operation."""
    op = constant_tensor(array)
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
