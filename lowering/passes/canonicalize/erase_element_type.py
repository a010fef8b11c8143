"""The pass `erase-element-type`: operator level in and out."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    Signedness,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from ....ir.dialects.attributes import BYTE_STRIDES
from ....ir.dialects.gather_dialect import AnyShaped, GradientOp, OperatorOp, WeightedOp
from ....ir.dialects.types import element_size_bytes, memref_type, strides_of
from ....ir.element_types import machine_width
from ....ir.errors import InvalidGatherError
from ...nest.queries import argument_number, gathers


@dataclass(frozen=True)
class EraseElementType(ModulePass):
    """Replace element types by integers of their width in bytes.

    A gather moves bytes, so one kernel serves every type of a width. The width is the largest power of two, at most
    16 bytes, that divides the element and every stride it is reached by; an element of several widths (a string of
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
    """Make the elements of a sum what they are added as: signless integers, and the two parts of a complex."""
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
    """Return the byte strides that an operand is known to have; none where they are multiples of the element."""
    strides = None if attributes is None else attributes.data[number].data.get(BYTE_STRIDES)
    return list(strides.get_values()) if isinstance(strides, DenseArrayBase) else []  # type: ignore[arg-type]
