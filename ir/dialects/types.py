"""NumPy dtypes as types of the IR, and memref layouts as strides."""

from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    Signedness,
    StridedLayoutAttr,
)
from xdsl.ir import Attribute

from ..element_types import element_type_name, parse_element_type
from .gather_dialect import BytesType

_FLOATS: dict[str, type[Attribute]] = {kind.name: kind for kind in get_args(builtin.AnyFloat)}


@lru_cache
def ir_element_type(dtype: np.dtype) -> Attribute:
    """Return the IR's type for an element: a builtin type where MLIR has one, `!gather.bytes` where it has none."""
    name = element_type_name(dtype)
    if name in _FLOATS:
        return _FLOATS[name]()
    if name.startswith("complex<"):
        return builtin.ComplexType(builtin.Float32Type() if "f32" in name else builtin.Float64Type())
    for prefix, signedness in (("ui", Signedness.UNSIGNED), ("i", Signedness.SIGNLESS)):
        if name.startswith(prefix) and name[len(prefix) :].isdigit():
            return IntegerType(int(name[len(prefix) :]), signedness)
    return BytesType(dtype.itemsize, name)


@lru_cache
def numpy_dtype(element_type: Attribute) -> np.dtype:
    """Return the dtype of an element type that `ir_element_type` gave, or that was erased to a width.

    Integers of 128 bits, which NumPy does not have, are void elements of that size.
    """
    if isinstance(element_type, BytesType):
        name, size = element_type.numpy_name.data, element_type.size_bytes.value.data
        return np.dtype((np.void, size)) if name.startswith("void") else parse_element_type(name)
    if isinstance(element_type, IntegerType) and element_type.width.data == 128:
        return np.dtype("V16")
    return parse_element_type(str(element_type))


def dense_array(dense: DenseIntOrFPElementsAttr) -> np.ndarray:
    """Return the value of a dense constant as an array."""
    dtype = numpy_dtype(dense.get_element_type())
    stored = np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")
    return np.frombuffer(dense.data.data, stored).astype(dtype).reshape(dense.get_shape())


def element_size_bytes(element_type: Attribute) -> int:
    """Return the size in bytes of an element in memory."""
    if isinstance(element_type, BytesType):
        return element_type.size_bytes.value.data
    return numpy_dtype(element_type).itemsize


def strides_of(memref: MemRefType) -> tuple[int | None, ...] | None:
    """Return a memref's strides in elements, dynamic ones as None; None as a whole for the contiguous layout."""
    if isinstance(memref.layout, NoneAttr):
        return None
    assert isinstance(memref.layout, StridedLayoutAttr)
    return tuple(memref.layout.get_strides())


def memref_type(shape: Sequence[int], element_type: Attribute, strides: Sequence[int | None] | None) -> MemRefType:
    """Return a memref type; strides in elements, None as a whole for contiguous, as an entry for dynamic."""
    layout = NoneAttr() if strides is None else StridedLayoutAttr(list(strides))
    return MemRefType(element_type, list(shape), layout)
