"""The pass `collapse-dims`: to the canonical form, level 1."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.canonical import Operand, Strided, canonical_gather
from ....ir.dialects.attributes import VIEW
from ....ir.dialects.gather_dialect import I64, GradientOp, OperatorOp, ViewAttr
from ....ir.dialects.types import memref_type, strides_of
from ....ir.errors import ScheduleError
from ...nest.constant_indices import find_global
from ...nest.queries import argument_number, gathers


@dataclass(frozen=True)
class CollapseDims(ModulePass):
    """Merge dimensions until data is (batch, outer, axis, inner).

    One kernel then serves every rank and axis. Dimensions merge where the strides of every array they occur in allow
    it; where they do not, a role keeps several (`outer_0`, `outer_1`), so that strided arrays stay views. Each argument
    carries the view as `#gather.view`, from which the run time and the interpreter make it.

    Preconditions: gather on memrefs that are arguments, normalised axis and batch_dims.

    Input:
        gather.gather %d, %i into %o axis 1 batch_dims 0 bounds error
            : memref<2x5x3x4xi32>, memref<6x7xi64>, memref<2x6x7x3x4xi32>
    Output:
        gather.gather %d, %i into %o axis 2 batch_dims 1 bounds error
            : memref<1x2x5x12xi32>, memref<1x42xi64>, memref<1x2x42x12xi32>

    Raises:
        ScheduleError: data or out is not an argument of the function.
    """

    name = "collapse-dims"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, gather in gathers(op):
            if gather.out is None:
                raise ScheduleError("collapse-dims: expected gather on memrefs; run bufferize-gather first")
            _collapse(op, function, gather)
            function.update_function_type()


def _collapse(module: ModuleOp, function: func.FuncOp, gather: OperatorOp) -> None:
    if any(VIEW in entries.data for entries in (function.arg_attrs.data if function.arg_attrs is not None else ())):
        return  # merged already: the views say how the caller's own arrays are seen
    arrays = gather.table, gather.indices, gather.slices
    if len(set(arrays)) != 3:
        raise ScheduleError("collapse-dims: data, indices and out must be three different memrefs")
    table, indices, slices = map(_strided, arrays)
    is_gradient = isinstance(gather, GradientOp)
    canonical = canonical_gather(table, indices, slices, gather.roles(), covers_data=is_gradient)
    views: dict[int, ViewAttr] = {}
    for value, operand in zip(arrays, (canonical.data, canonical.indices, canonical.out), strict=True):
        element = SSAValue.get(value, type=MemRefType).type.element_type
        type_ = memref_type(operand.shape, element, operand.strides)
        number = argument_number(value, function)
        if number is not None:
            views[number] = ViewAttr.of(operand)
        elif isinstance(value.owner, memref.GetGlobalOp):
            _reshape_global(module, value.owner, operand)
        else:
            raise ScheduleError("collapse-dims: data, indices and out must be arguments of the function")
        Rewriter.replace_value_with_new_type(value, type_)
    places = {"axis": canonical.data.place_of("axis"), "batch_dims": canonical.data.count_of("batch")}
    for name in gather.INTEGERS:
        gather.properties[name] = IntegerAttr(places[name], I64)
    function.arg_attrs = ArrayAttr(
        [
            DictionaryAttr({VIEW: views[number]} if number in views else {})
            for number in range(len(function.body.block.args))
        ]
    )


def _strided(value: SSAValue) -> Strided:
    type_ = SSAValue.get(value, type=MemRefType).type
    return Strided(tuple(type_.get_shape()), strides_of(type_))


def _reshape_global(module: ModuleOp, load: memref.GetGlobalOp, operand: Operand) -> None:
    holder = find_global(module, load)
    values = holder.initial_value
    assert isinstance(values, DenseIntOrFPElementsAttr)
    element = values.get_element_type()
    holder.initial_value = DenseIntOrFPElementsAttr(TensorType(element, operand.shape), values.data)
    holder.properties["type"] = memref_type(operand.shape, element, None)
