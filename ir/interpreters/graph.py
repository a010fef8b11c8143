"""Run the module of a model at any of its stages, one operation at a time on ndarrays: the oracle of graph passes."""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from .. import reference
from ..dialects.graph_op import GraphOp
from ..dialects.graph_ops import WeightOp
from ..dialects.types import numpy_dtype
from ..errors import InternalError
from ..modules.known_values import AnyGather, constant_array
from ..positions import reject_negative
from ..semantics import NO_NEGATIVE_INDICES, Bounds, shapes_agree


def find_function(module: ModuleOp, name: str) -> func.FuncOp:
    """Return a function of a module; its absence is an InternalError."""
    for op in module.ops:
        if isinstance(op, func.FuncOp) and op.sym_name.data == name:
            return op
    raise InternalError(f"the module has no function @{name}")


def interpret_graph(
    module: ModuleOp, arrays: Sequence[np.ndarray], weights: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Run `@main` of a model's module, whose gathers are operators on tensors, on an array for each argument.

    Returns:
        Its results; they may share memory with `arrays` and `weights`.

    Raises:
        BoundsError: an index is not valid under its gather's bounds mode.
        ModelError: sizes that are only known now do not fit.
        InternalError: an operation gives what its type does not say.
    """
    function = find_function(module, "main")
    values: dict[SSAValue, np.ndarray] = dict(zip(function.body.block.args, arrays, strict=True))
    for op in function.body.block.ops:
        operands = [values[operand] for operand in op.operands]
        if isinstance(op, func.ReturnOp):
            return operands
        (result,) = op.results
        values[result] = _checked(op, result, _run(op, operands, weights))
    raise InternalError("@main does not return")


def _run(op: Operation, operands: list[np.ndarray], weights: Mapping[str, np.ndarray]) -> np.ndarray:
    if isinstance(op, WeightOp | arith.ConstantOp):
        array = constant_array(op.results[0], weights)
        if array is None:
            raise InternalError(f"{op} has no values")
        return array
    if isinstance(op, GraphOp):
        assert isinstance(op.result.type, TensorType)
        return type(op).compute(op.fields(), numpy_dtype(op.result.type.element_type), operands)
    if isinstance(op, AnyGather):
        data, indices = operands
        reject_negative_indices(op, indices)
        return reference.run(op.spec(), data, indices, op.bounds.data)
    raise InternalError(f"the interpreter of models does not know {op.name}")


def reject_negative_indices(op: AnyGather, indices: np.ndarray) -> None:
    """Raise BoundsError for a negative index where the operator's version allows none."""
    if op.version is not None and op.version.data in NO_NEGATIVE_INDICES and op.bounds.data is Bounds.ERROR:
        reject_negative(indices, op.version.data)


def _checked(op: Operation, result: SSAValue, array: np.ndarray) -> np.ndarray:
    assert isinstance(result.type, TensorType)
    dtype = numpy_dtype(result.type.element_type)
    if array.dtype != dtype or not shapes_agree(result.type.get_shape(), array.shape):
        raise InternalError(f"{op.name} gave {array.dtype} of shape {array.shape} and promised {result.type}")
    return array
