"""The arithmetic of the reference interpreter: integers are Python's own, signed; floats are their bytes."""

import operator
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute

from ..dialects.types import numpy_dtype


def number(value: float, type_: Attribute) -> Any:
    """Return a number as a value of a type: integers as Python's own, floats as their bytes."""
    if isinstance(type_, IntegerType | IndexType):
        return wrap(int(value), bits_of(type_))
    dtype = numpy_dtype(type_)
    return dtype.type(value).view(f"V{dtype.itemsize}")


def is_larger(type_: Attribute, left: Any, right: Any) -> int:
    """Return 1 where one number is larger than another; of a NaN nothing is."""
    if isinstance(type_, IntegerType):
        return int(left > right)
    dtype = numpy_dtype(type_)
    return int(left.view(dtype) > right.view(dtype))


def bits_of(type_: Attribute) -> int:
    """Return how many bits a value of a type has."""
    if isinstance(type_, IndexType):
        return 64
    assert isinstance(type_, IntegerType)
    return type_.width.data


def wrap(value: int, bits: int) -> int:
    """Return `value` as a signed integer of that many bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) and bits > 1 else value


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _truncated_remainder(left: int, right: int) -> int:
    return left % abs(right) if left >= 0 else -(-left % abs(right))


FLOAT_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addf": operator.add,
    "arith.mulf": operator.mul,
    "arith.divf": operator.truediv,
}

ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": lambda bits, a, b: a + b,
    "arith.subi": lambda bits, a, b: a - b,
    "arith.muli": lambda bits, a, b: a * b,
    "arith.andi": lambda bits, a, b: a & b,
    "arith.ori": lambda bits, a, b: a | b,
    "arith.shrsi": lambda bits, a, b: a >> b,
    "arith.remsi": lambda bits, a, b: _truncated_remainder(a, b),
    "arith.divui": lambda bits, a, b: _unsigned(a, bits) // _unsigned(b, bits),
    "arith.remui": lambda bits, a, b: _unsigned(a, bits) % _unsigned(b, bits),
    "arith.minsi": lambda bits, a, b: min(a, b),
    "arith.maxsi": lambda bits, a, b: max(a, b),
    "arith.minui": lambda bits, a, b: min(_unsigned(a, bits), _unsigned(b, bits)),
    "arith.extsi": lambda bits, a: -(a & 1) if bits == 1 else a,
    "arith.extui": lambda bits, a: _unsigned(a, bits),
    "arith.index_cast": lambda bits, a: a,
    "arith.trunci": lambda bits, a: a,
}
