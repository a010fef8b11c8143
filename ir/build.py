"""Build the operator-level module (level 0) of a gather from what is known of its arrays."""

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint

from .array_spec import ArraySpec
from .dialect import GatherOp
from .semantics import Bounds, gather_shape, normalize_gather
from .types import ir_element_type

BYTE_STRIDES = "gather.byte_strides"


def gather_module(
    data: ArraySpec,
    indices: ArraySpec,
    *,
    axis: int = 0,
    batch_dims: int = 0,
    bounds: Bounds = Bounds.ERROR,
    version: str | None = None,
    out: ArraySpec | None = None,
    constant_indices: np.ndarray | None = None,
) -> ModuleOp:
    """Return a module with one function, `@gather`, that gathers on tensors.

    Args:
        data, indices: the inputs. Arrays that are not contiguous carry their strides as `gather.byte_strides`.
        axis, batch_dims: as the caller wrote them, negative or not.
        bounds: what an index outside means.
        version: the operator version it came from.
        out: the array it will be written into; contiguous if omitted.
        constant_indices: when given, the indices are this constant and not an argument.

    Raises:
        InvalidGatherError: the attributes do not fit the shapes.
    """
    normal_axis, normal_batch_dims = normalize_gather(data.shape, indices.shape, axis, batch_dims)
    shape = gather_shape(data.shape, indices.shape, normal_axis, normal_batch_dims)
    result_type = TensorType(ir_element_type(data.dtype), shape)
    inputs = {"data": data} if constant_indices is not None else {"data": data, "indices": indices}
    function = func.FuncOp(
        "gather",
        ([_tensor(spec) for spec in inputs.values()], [result_type]),
        arg_attrs=ArrayAttr([_layout(spec) for spec in inputs.values()]),
        res_attrs=None if out is None or out.is_contiguous else ArrayAttr([_layout(out)]),
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
    gather = builder.insert(
        GatherOp(
            block.args[0],
            index_values,
            axis=axis,
            batch_dims=batch_dims,
            bounds=bounds,
            version=version,
            result_type=result_type,
        )
    )
    assert gather.result is not None
    gather.result.name_hint = "result"
    builder.insert(func.ReturnOp(gather.result))
    return ModuleOp([function])


def constant_tensor(values: np.ndarray) -> arith.ConstantOp:
    """Return `arith.constant dense<...>` of an integer array."""
    element = ir_element_type(values.dtype)
    assert isinstance(element, IntegerType)
    tensor = TensorType(element, values.shape)
    return arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(tensor, [int(value) for value in values.flat]))


def _tensor(spec: ArraySpec) -> TensorType:
    return TensorType(ir_element_type(spec.dtype), spec.shape)


def _layout(spec: ArraySpec) -> DictionaryAttr:
    entries: dict[str, Attribute] = {}
    if spec.layout_strides:
        entries[BYTE_STRIDES] = DenseArrayBase.from_list(i64, list(spec.layout_strides))
    return DictionaryAttr(entries)
