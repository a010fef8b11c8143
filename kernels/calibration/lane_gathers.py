"""A gather instruction for the probes: the lanes of a vector loaded from a table at once. Imports Numba."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ...lowering.numba.intrinsics import make
from ...lowering.numba.vector_intrinsics import VectorType

LANES, WIDTH_BYTES = 8, 4
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_VECTOR = VectorType(LANES, 8 * WIDTH_BYTES)
_WIDE, _MASK = ir.VectorType(_I64, LANES), ir.VectorType(ir.IntType(1), LANES)


def _build(builder: Any, table: ir.Value, places: ir.Value) -> ir.Value:
    undefined = ir.Constant(_WIDE, ir.Undefined)
    first = builder.insert_element(undefined, table, _I32(0))
    base = builder.shuffle_vector(first, undefined, ir.Constant(_VECTOR.llvm, [0] * LANES))
    offsets = builder.mul(builder.sext(places, _WIDE), ir.Constant(_WIDE, [WIDTH_BYTES] * LANES))
    pointers = ir.VectorType(_VECTOR.llvm.element.as_pointer(), LANES)
    kind = ir.FunctionType(_VECTOR.llvm, [pointers, _I32, _MASK, _VECTOR.llvm])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.gather.v{LANES}i32.v{LANES}p0")
    addresses = builder.inttoptr(builder.add(base, offsets), pointers)
    every, nothing = ir.Constant(_MASK, [1] * LANES), ir.Constant(_VECTOR.llvm, ir.Undefined)
    return builder.call(function, [addresses, _I32(WIDTH_BYTES), every, nothing])


gather_v8xi32 = make(
    "gather_v8xi32",
    "Load 8 int32 at int32 positions of the table at an address, by one gather instruction.",
    _VECTOR(types.int64, _VECTOR),
    _build,
)
