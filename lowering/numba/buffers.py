"""The memory that a kernel takes for itself: on its stack, and of the heap."""

import functools
import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from .intrinsics import make

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
# Of x86 and of most ARM; what the system calls the advice.
HUGE_PAGE_BYTES, _MADV_HUGEPAGE = 2 << 20, 14


@functools.cache
def stack(count: int, bits: int) -> Any:
    """Return the operation that takes `count` integers of `bits` bits on the stack of its function."""

    def build(builder: Any) -> ir.Value:
        with builder.goto_entry_block():  # numba's alloca_once would clear it, one store an integer
            buffer = builder.alloca(ir.ArrayType(ir.IntType(bits), count))
            buffer.align = 64
        return builder.ptrtoint(buffer, _I64)

    doc = f"Return the address of {count} integers of {bits} bits on the stack, which are not cleared."
    return make(f"stack_{count}xi{bits}", doc, types.int64(), build)


def _called(builder: Any, name: str, result: ir.Type, *arguments: Any) -> Any:
    """Insert the call of a function of C."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@functools.cache
def _take_memory() -> Any:
    def build(builder: Any, size: ir.Value) -> ir.Value:
        memory = _called(builder, "malloc", _BYTES, builder.add(size, _I64(1)))  # of 0 bytes it may return no address
        return builder.ptrtoint(memory, _I64)

    def build_on_linux(builder: Any, size: ir.Value) -> ir.Value:
        """Ask for huge pages where the size is one: sums and lists are at random places, each in another small page."""
        place = cgutils.alloca_once(builder, _I64)
        with builder.if_else(builder.icmp_unsigned("<", size, _I64(HUGE_PAGE_BYTES))) as (is_small, is_large):
            with is_small:
                builder.store(build(builder, size), place)
            with is_large:
                whole = builder.and_(builder.add(size, _I64(HUGE_PAGE_BYTES - 1)), _I64(-HUGE_PAGE_BYTES))
                memory = _called(builder, "aligned_alloc", _BYTES, _I64(HUGE_PAGE_BYTES), whole)
                address = builder.ptrtoint(memory, _I64)
                with builder.if_then(builder.icmp_unsigned("!=", address, _I64(0))):
                    _called(builder, "madvise", _I32, memory, whole, _I32(_MADV_HUGEPAGE))
                builder.store(address, place)
        return builder.load(place)

    doc = "Return the address of so many bytes of the heap, which are not cleared; 0 where it has none."
    return make("take_memory", doc, types.int64(types.int64), build_on_linux if sys.platform == "linux" else build)


@functools.cache
def _give_back_memory() -> Any:
    def build(builder: Any, address: ir.Value) -> None:
        _called(builder, "free", ir.VoidType(), builder.inttoptr(address, _BYTES))

    return make("give_back_memory", "Give back what `take_memory` returned.", types.void(types.int64), build)


HEAP = {"take_memory": _take_memory, "give_back_memory": _give_back_memory}
