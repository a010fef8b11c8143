"""The passes on operators: they normalise attributes, erase element types, make memrefs and collapse dimensions."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from ....ir.canonical import Strided, canonical_gather
from ....ir.dialects.attributes import BYTE_STRIDES, VIEW
from ....ir.dialects.gather_dialect import I64, AnyShaped, GradientOp, OperatorOp, ViewAttr, WeightedOp
from ....ir.dialects.types import element_size_bytes, memref_type, strides_of
from ....ir.element_types import machine_width
from ....ir.errors import InvalidGatherError, ScheduleError
from ...nest.builder import made_from, replace_op, rewrite_ops
from ...nest.constant_indices import find_global
from ...nest.queries import argument_number, functions, gathers


@dataclass(frozen=True)
class NormalizeGather(ModulePass):
    """Make axis and batch_dims of every gather non-negative.

    A negative axis counts from the rank of data, a negative batch_dims from the rank of indices. Their ranges, and the
    sizes of the batch dimensions, are checked; errors use the names of the operator's document.

    Preconditions: none.

    Input:
        %r = gather.gather %data, %indices axis -1 batch_dims -1 bounds error
            : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>
    Output:
        %r = gather.gather %data, %indices axis 1 batch_dims 1 bounds error
            : tensor<2x5xf32>, tensor<2x3xi64> -> tensor<2x3xf32>

    Raises:
        InvalidGatherError: an attribute is out of its range, or batch sizes differ.
    """

    name = "normalize-gather"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite_ops(op, _NormalizeOperator())


class _NormalizeOperator(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: OperatorOp, rewriter: PatternRewriter) -> None:
        op.normalize()
        rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class EraseElementType(ModulePass):
    """Replace element types by integers of their width in bytes.

    A gather moves bytes, so one kernel serves every type of a width. The width is the largest power of two, at most
    16 bytes, that divides the element and the strides; an element of several widths (a string of
    10 bytes is five of two) gets one more dimension. The elements of a gradient or a reduction are added, so they stay
    numbers: floats, signless integers, and complex numbers as two floats. Unsigned indices become signless, and the op
    says `unsigned`.

    Preconditions: data and out are arguments of the function (or its result); indices an argument or a constant.

    Input:
        %r = gather.gather %d, %i axis 0 batch_dims 0 bounds zero : tensor<5xf32>, tensor<3xui8> -> tensor<3xf32>
    Output:
        %r = gather.gather %d, %i axis 0 batch_dims 0 bounds zero unsigned
            : tensor<5xi32>, tensor<3xi8> -> tensor<3xi32>

    Raises:
        InvalidGatherError: elements of that type are not plain bytes (object, StringDType).
    """

    name = "erase-element-type"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function, gather in gathers(op):
            gather.normalize()
            if isinstance(gather, GradientOp) or gather.SPEC.adds:
                _erase_to_number(gather)
            else:
                _erase_data(function, gather)
            _erase_indices(gather)
            function.update_function_type()


def _erase_data(function: func.FuncOp, gather: OperatorOp) -> None:
    data = gather.source.type
    assert isinstance(data, AnyShaped)
    size_bytes = element_size_bytes(data.element_type)
    if size_bytes == 0:
        raise InvalidGatherError(f"elements of type {data.element_type} have no bytes to move")
    number = argument_number(gather.source, function)
    strides = [] if number is None else _byte_strides(function.arg_attrs, number)
    if gather.result is not None:
        strides += _byte_strides(function.res_attrs, 0)
    width = machine_width(size_bytes, strides)
    for value in (gather.source, gather.out, gather.result):
        if value is not None:
            erased = _with_units(value.type, IntegerType(8 * width), size_bytes // width)
            Rewriter.replace_value_with_new_type(value, erased)


def _erase_to_number(gather: OperatorOp) -> None:
    """Give the elements of a sum the type in which they are added: signless integers, or the two parts of a complex."""
    if isinstance(gather, WeightedOp) and _is_unsigned(gather.source.type):
        gather.unsigned_data = UnitAttr()
    for value in (gather.source, gather.target):
        assert isinstance(value.type, AnyShaped)
        element = value.type.element_type
        units = 2 if isinstance(element, ComplexType) else 1
        number = element.element_type if isinstance(element, ComplexType) else element
        if isinstance(number, IntegerType):
            number = IntegerType(number.width.data)
        Rewriter.replace_value_with_new_type(value, _with_units(value.type, number, units))


def _is_unsigned(type_: Attribute) -> bool:
    element = type_.element_type if isinstance(type_, AnyShaped) else None
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def _with_units(type_: Attribute, element: Attribute, units: int) -> TensorType | MemRefType:
    assert isinstance(type_, AnyShaped)
    shape = [*type_.get_shape(), units] if units > 1 else list(type_.get_shape())
    if isinstance(type_, TensorType):
        return TensorType(element, shape)
    strides = strides_of(type_)
    if strides is not None and units > 1:
        strides = (*(None if stride is None else stride * units for stride in strides), 1)
    return memref_type(shape, element, strides)


def _erase_indices(gather: OperatorOp) -> None:
    type_ = gather.indices.type
    assert isinstance(type_, AnyShaped) and isinstance(type_.element_type, IntegerType)
    element = type_.element_type
    if element.signedness.data is Signedness.SIGNLESS:
        return
    if element.signedness.data is Signedness.UNSIGNED:
        gather.unsigned = UnitAttr()
    signless = IntegerType(element.width.data)
    if isinstance(type_, TensorType):
        erased = TensorType(signless, type_.get_shape())
        if isinstance(constant := gather.indices.owner, arith.ConstantOp):
            assert isinstance(constant.value, DenseIntOrFPElementsAttr)
            constant.value = DenseIntOrFPElementsAttr(erased, constant.value.data)
    else:
        erased = memref_type(type_.get_shape(), signless, strides_of(type_))
    Rewriter.replace_value_with_new_type(gather.indices, erased)


def _byte_strides(attributes: ArrayAttr[DictionaryAttr] | None, number: int) -> list[int]:
    """Return the byte strides that an operand carries; none where it is contiguous."""
    strides = None if attributes is None else attributes.data[number].data.get(BYTE_STRIDES)
    return list(strides.get_values()) if isinstance(strides, DenseArrayBase) else []  # type: ignore[arg-type]


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


@dataclass(frozen=True)
class CollapseDims(ModulePass):
    """Merge dimensions until data is (batch, outer, axis, inner).

    One kernel then serves every rank and axis. Dimensions merge where the strides of all arrays that have them allow
    it; elsewhere a role keeps several (`outer_0`, `outer_1`), so that strided arrays stay views. Each argument carries
    `#gather.view`, from which the run time and the interpreter make its view of the caller's array.

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
        return  # merged already: the views are of the caller's own arrays
    arrays = gather.table, gather.indices, gather.slices
    if len(set(arrays)) != 3:
        raise ScheduleError("collapse-dims: data, indices and out must be three different memrefs")
    types = [SSAValue.get(array, type=MemRefType).type for array in arrays]
    table, indices, slices = (Strided(tuple(type_.get_shape()), strides_of(type_)) for type_ in types)
    is_gradient = isinstance(gather, GradientOp)
    canonical = canonical_gather(table, indices, slices, gather.roles(), covers_data=is_gradient)
    views: dict[int, ViewAttr] = {}
    for value, old, operand in zip(arrays, types, (canonical.data, canonical.indices, canonical.out), strict=True):
        type_ = memref_type(operand.shape, old.element_type, operand.strides)
        number = argument_number(value, function)
        if number is not None:
            views[number] = ViewAttr.of(operand)
        elif isinstance(value.owner, memref.GetGlobalOp):
            holder = find_global(module, value.owner)
            dense = holder.initial_value
            assert isinstance(dense, DenseIntOrFPElementsAttr)
            tensor = TensorType(dense.get_element_type(), operand.shape)
            holder.initial_value = DenseIntOrFPElementsAttr(tensor, dense.data)
            holder.properties["type"] = memref_type(operand.shape, old.element_type, None)
        else:
            raise ScheduleError("collapse-dims: data, indices and out must be arguments of the function")
        Rewriter.replace_value_with_new_type(value, type_)
    places = {"axis": canonical.data.place_of("axis"), "batch_dims": canonical.data.count_of("batch")}
    for name in gather.INTEGERS:
        gather.properties[name] = IntegerAttr(places[name], I64)
    given = [{VIEW: views[number]} if number in views else {} for number in range(len(function.body.block.args))]
    function.arg_attrs = ArrayAttr(list(map(DictionaryAttr, given)))
