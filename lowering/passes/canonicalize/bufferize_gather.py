"""The pass `bufferize-gather`: from tensors to memrefs."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.dialects.attributes import BYTE_STRIDES
from ....ir.dialects.gather_dialect import OperatorOp
from ....ir.dialects.types import element_size_bytes, memref_type
from ....ir.errors import InvalidGatherError, ScheduleError
from ...nest.builder import made_from, replace_op
from ...nest.queries import functions


@dataclass(frozen=True)
class BufferizeGather(ModulePass):
    """Turn tensors into memrefs, and the result into an argument `%out`.

    Strides that an argument carries in bytes become its memref's layout, in elements: arrays that are not contiguous
    stay views. Constant indices become a global.

    Preconditions: the function returns the result of its gather and nothing else.

    Input:
        func.func @gather(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32>
          %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero
              : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
          func.return %r : tensor<3xi32>
    Output:
        func.func @gather(%data: memref<5xi32>, %indices: memref<3xi64>, %out: memref<3xi32>)
          gather.gather %data, %indices into %out axis 0 batch_dims 0 bounds zero
              : memref<5xi32>, memref<3xi64>, memref<3xi32>
          func.return

    Raises:
        ScheduleError: the function does more than gather.
    """

    name = "bufferize-gather"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            found = [inner for inner in function.walk() if isinstance(inner, OperatorOp) and inner.result is not None]
            if found:
                _bufferize(op, function, found)


def _bufferize(module: ModuleOp, function: func.FuncOp, found: list[OperatorOp]) -> None:
    block, terminator = function.body.block, function.body.block.last_op
    gather = found[0]
    if len(found) > 1 or not isinstance(terminator, func.ReturnOp) or list(terminator.operands) != [gather.result]:
        raise ScheduleError(
            f"bufferize-gather: @{function.sym_name.data} must return the result of one gather and nothing else"
        )
    if any(not isinstance(operand.owner, Block | arith.ConstantOp) for operand in (gather.source, gather.indices)):
        raise ScheduleError("bufferize-gather: data must be an argument, and indices an argument or a constant")
    assert gather.result is not None
    out_type = _buffer(gather.result.type, function.res_attrs, 0)
    for argument in list(block.args):
        Rewriter.replace_value_with_new_type(argument, _buffer(argument.type, function.arg_attrs, argument.index))
    out = block.insert_arg(out_type, len(block.args))
    out.name_hint = "out"
    indices = _global_indices(module, function, gather)
    buffered = made_from(gather, gather.into(gather.source, indices, out))
    constant = gather.indices.owner
    Rewriter.insert_op(buffered, InsertPoint.before(gather))
    replace_op(terminator, func.ReturnOp())
    Rewriter.erase_op(gather)
    if isinstance(constant, arith.ConstantOp) and not constant.result.uses:
        Rewriter.erase_op(constant)
    function.arg_attrs = ArrayAttr([DictionaryAttr({}) for _ in block.args])
    if function.res_attrs is not None:
        del function.properties["res_attrs"]
    function.update_function_type()


def _buffer(type_: Attribute, attributes: ArrayAttr[DictionaryAttr] | None, number: int) -> Attribute:
    if not isinstance(type_, TensorType):
        return type_
    given = attributes.data[number].data.get(BYTE_STRIDES) if attributes is not None else None
    if not isinstance(given, DenseArrayBase):
        return memref_type(type_.get_shape(), type_.element_type, None)
    element = type_.element_type
    if not isinstance(element, IntegerType | AnyFloat):
        raise ScheduleError(
            f"bufferize-gather: elements of a strided array are {element}; run erase-element-type first"
        )
    width = element_size_bytes(element)
    given_strides = [int(stride) for stride in given.get_values()]
    if any(stride % width for stride in given_strides):
        raise InvalidGatherError(
            f"{BYTE_STRIDES} {given_strides} are not multiples of the {width} bytes of an element; copy the array first"
        )
    units = type_.get_num_dims() - len(given_strides)
    if units not in (0, 1):
        raise InvalidGatherError(f"{BYTE_STRIDES} has {len(given_strides)} strides for {type_}; give one a dimension")
    strides = [stride // width for stride in given_strides] + [1] * units
    return memref_type(type_.get_shape(), type_.element_type, strides)


def _global_indices(module: ModuleOp, function: func.FuncOp, gather: OperatorOp) -> SSAValue:
    """Return the indices as a memref: the argument itself, or a global made of a constant."""
    constant = gather.indices.owner
    if not isinstance(constant, arith.ConstantOp):
        return gather.indices
    assert isinstance(constant.value, DenseIntOrFPElementsAttr)
    symbol = f"{function.sym_name.data}_indices"
    tensor = constant.value.type
    memory = memref_type(tensor.get_shape(), tensor.element_type, None)
    module.body.block.insert_op_before(
        memref.GlobalOp.get(StringAttr(symbol), memory, constant.value, StringAttr("private"), UnitAttr()), function
    )
    load = made_from(gather, memref.GetGlobalOp(symbol, memory))
    load.memref.name_hint = "indices"
    Rewriter.insert_op(load, InsertPoint.before(gather))
    return load.memref
