"""Build the operator-level module (level 0) of a gather from the specs of its arrays."""

from typing import Any

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint

from ..array_spec import ArraySpec
from ..dialects.attributes import BYTE_STRIDES, NODE, OUTPUTS
from ..dialects.gather_dialect import Gather as GatherDialect
from ..dialects.gather_dialect import GradientOp, OperatorOp
from ..dialects.types import ir_element_type
from ..operator_spec import Gather, Gradient, Node, OperatorSpec
from ..semantics import Bounds, BoundsMode, integer_argument, parse_bounds

_OPERATORS = [op for op in GatherDialect.operations if issubclass(op, OperatorOp)]
# The operations of each operator and of its gradient, by the name of the operator.
OPERATIONS = {op.SPEC.name: op for op in _OPERATORS if not issubclass(op, GradientOp)}
GRADIENTS = {op.SPEC.name: op for op in _OPERATORS if issubclass(op, GradientOp)}


def operator_module(
    operator: OperatorSpec,
    data: ArraySpec,
    indices: ArraySpec,
    *,
    bounds: BoundsMode = Bounds.ERROR,
    version: str | None = None,
    out: ArraySpec | None = None,
    constant_indices: np.ndarray | None = None,
    gradient: Gradient | None = None,
    node: Node | None = None,
) -> ModuleOp:
    """Return a module with one function, `@gather`, that carries out a gather on tensors, or its gradient.

    Args:
        operator: the operator, with its attributes as the caller wrote them.
        data, indices: the inputs. Arrays that are not contiguous carry their strides as `gather.byte_strides`.
        bounds: the rule for an index outside; a `Bounds`, or its name.
        version: the operator version it came from.
        out: the array it will be written into; contiguous if omitted.
        constant_indices: when given, the indices are this constant and not an argument.
        node: the node of a graph that it came from.
        gradient: when given, `out` is read, as the gradient of the gather's result, and `data` is written.

    Raises:
        InvalidGatherError: the attributes do not fit the shapes.
    """
    shape = operator.normalized(data.shape, indices.shape).result_shape(data.shape, indices.shape)
    out = out or ArraySpec(shape, operator.result_dtype(data.dtype))
    source, target = (data, out) if gradient is None else (out, data)
    result_type = _tensor(target)
    inputs = {"data" if gradient is None else "grad": source}
    inputs |= {"indices": indices} if constant_indices is None else {}
    function = func.FuncOp(
        "gather",
        ([_tensor(spec) for spec in inputs.values()], [result_type]),
        arg_attrs=ArrayAttr([_layout(spec) for spec in inputs.values()]),
        res_attrs=None if target.is_contiguous else ArrayAttr([_layout(target)]),
    )
    block = function.body.block
    builder = Builder(InsertPoint.at_end(block))
    for argument, name in zip(block.args, inputs, strict=True):
        argument.name_hint = name
    if constant_indices is not None:
        index_values = builder.insert(constant_tensor(constant_indices)).result
        index_values.name_hint = "indices"
    else:
        index_values = block.args[1]
    operations = OPERATIONS if gradient is None else GRADIENTS
    op = operations[operator.name](
        block.args[0],
        index_values,
        bounds=parse_bounds(bounds),
        version=version,
        result_type=result_type,
        integers=operator.attributes(),
    )
    op.attributes |= {} if node is None else _node_attributes(node)
    if gradient is not None and gradient.scale != 1:
        op.properties["scale"] = FloatAttr(gradient.scale, f64)
    result = builder.insert(op).result
    assert result is not None
    result.name_hint = "result"
    builder.insert(func.ReturnOp(result))
    return ModuleOp([function])


def gather_module(data: Any, indices: Any, *, axis: int = 0, batch_dims: int = 0, **rest: Any) -> ModuleOp:
    """Return the module of a plain gather; `ArraySpec.of` reads data and indices. See `operator_module`."""
    operator = Gather(integer_argument(axis, "axis"), integer_argument(batch_dims, "batch_dims"))
    return operator_module(operator, ArraySpec.of(data), ArraySpec.of(indices), **rest)


def _node_attributes(node: Node) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {NODE: StringAttr(node.name)} if node.name else {}
    if node.outputs:
        attributes[OUTPUTS] = ArrayAttr([StringAttr(name) for name in node.outputs])
    return attributes


def constant_tensor(values: np.ndarray) -> arith.ConstantOp:
    """Return `arith.constant dense<...>` of an integer array."""
    kind: Any = TensorType(ir_element_type(values.dtype), values.shape)
    stored = values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()
    dense = DenseIntOrFPElementsAttr(kind, BytesAttr(stored))
    return arith.ConstantOp.create(properties={"value": dense}, result_types=[kind])


def _tensor(spec: ArraySpec) -> TensorType:
    return TensorType(ir_element_type(spec.dtype), spec.shape)


def _layout(spec: ArraySpec) -> DictionaryAttr:
    strides = spec.layout_strides
    return DictionaryAttr({BYTE_STRIDES: DenseArrayBase.from_list(i64, list(strides))} if strides else {})
