"""The vector operations of generated kernels: loads, stores, joined elements, prefetches and buffers.

A vector is a Numba type of its own, one LLVM vector. The operations are made when a kernel imports them by name:
`load_v8xi32`, `store_v8xi32`, `stream_v8xi32`, `join_v8xi32`, `prefetch_3`, `stack_256xi32`. Loads and stores need no
alignment, but non-temporal stores do.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.extending import intrinsic

from ..schedule.machine_model import STREAM_BYTES
from .intrinsics import mark_read, mark_streamed, mark_written, pointer

_NAME = re.compile(r"(?P<operation>[a-z_]+)_v(?P<lanes>2|4|8|16|32|64)xi(?P<bits>8|16|32|64|128)")
_I32, _I64 = ir.IntType(32), ir.IntType(64)


class VectorType(types.Type):
    """A vector of `lanes` integers of `bits` bits, in Numba's type system."""

    def __init__(self, lanes: int, bits: int):
        super().__init__(f"v{lanes}xi{bits}")
        self.lanes, self.bits = lanes, bits

    @property
    def llvm(self) -> ir.VectorType:
        """The type of its values in LLVM, where 16 bytes are two integers of 8."""
        parts = max(self.bits // 64, 1)
        return ir.VectorType(ir.IntType(self.bits // parts), self.lanes * parts)


@register_default(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: VectorType):
        super().__init__(manager, type_, type_.llvm)


def __getattr__(name: str) -> Any:
    """Make the operation of that name, such as `load_v8xi32`."""
    if match := re.fullmatch(r"prefetch_([0-3])", name):
        return _prefetch(int(match[1]))
    if match := re.fullmatch(r"stack_([1-9]\d*)xi(8|16|32|64)", name):
        return _stack(int(match[1]), int(match[2]))
    match = _NAME.fullmatch(name)
    if match is None or match["operation"] not in _MAKERS:
        raise AttributeError(f"no vector operation is called {name!r}")
    return _make(match["operation"], VectorType(int(match["lanes"]), int(match["bits"])))


@functools.cache
def _make(operation: str, type_: VectorType) -> Any:
    doc, signature, build = _MAKERS[operation](type_)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        result = build(builder, *arguments)
        return context.get_dummy_value() if result is None else result

    return _named(f"{operation}_{type_.name}", doc, signature, generate)


def _named(name: str, doc: str, signature: Any, generate: Callable) -> Any:
    """Make an intrinsic of a signature."""
    parameters = ", ".join(f"a{number}" for number in range(len(signature.args)))
    space: dict[str, Any] = {"signature": signature, "generate": generate}
    exec(f"def operation(typing_context, {parameters}): return signature, generate", space)
    operation = space["operation"]
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = doc
    return intrinsic(operation)


def _load(type_: VectorType, mark: Callable = mark_read) -> tuple[str, Any, Callable]:
    def build(builder: Any, address: ir.Value, offset: ir.Value) -> ir.Value:
        return mark(builder, builder.load(pointer(builder, address, offset, type_.llvm), align=1))

    return f"Load {type_.name} at address + offset.", type_(types.int64, types.int64), build


def _reload(type_: VectorType) -> tuple[str, Any, Callable]:
    _, signature, build = _load(type_, mark_written)
    return f"Load {type_.name} at address + offset, which the kernel may have written.", signature, build


def _store(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, address: ir.Value, offset: ir.Value, value: ir.Value) -> None:
        mark_written(builder, builder.store(value, pointer(builder, address, offset, type_.llvm), align=1))

    return f"Store {type_.name} at address + offset.", types.void(types.int64, types.int64, type_), build


def _stream(type_: VectorType, *, anywhere: bool = False) -> tuple[str, Any, Callable]:
    size_bytes = type_.lanes * type_.bits // 8
    alignment = 1 if anywhere else min(size_bytes, STREAM_BYTES)

    def build(builder: Any, address: Any, offset: Any, value: ir.Value) -> None:
        store = builder.store(value, pointer(builder, address, offset, type_.llvm), align=alignment)
        mark_streamed(builder, store)
        mark_written(builder, store)

    where = "address + offset" if anywhere else f"address + offset, a multiple of {alignment}"
    return f"Store {type_.name} at {where}, non-temporal.", types.void(types.int64, types.int64, type_), build


def _join(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, *elements: ir.Value) -> ir.Value:
        result = ir.Constant(type_.llvm, ir.Undefined)
        for lane, element in enumerate(elements):
            parts = _parts(builder, type_, element)
            for part, value in enumerate(parts):
                result = builder.insert_element(result, value, _I32(lane * len(parts) + part))
        return result

    return f"Make {type_.name} of its elements.", type_(*[_element(type_)] * type_.lanes), build


def _broadcast(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, element: ir.Value) -> ir.Value:
        first = ir.Constant(type_.llvm, ir.Undefined)
        parts = _parts(builder, type_, element)
        for part, value in enumerate(parts):
            first = builder.insert_element(first, value, _I32(part))
        repeated = list(range(len(parts))) * type_.lanes
        lanes = ir.Constant(ir.VectorType(_I32, len(repeated)), repeated)
        return builder.shuffle_vector(first, ir.Constant(type_.llvm, ir.Undefined), lanes)

    return f"Make {type_.name} with one element in every lane.", type_(_element(type_)), build


def _and(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        return builder.and_(left, right)

    return f"The bits that two {type_.name} share.", type_(type_, type_), build


def _addi(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        return builder.add(left, right)

    return f"The sums of two {type_.name} of integers, modulo their width.", type_(type_, type_), build


def _addf(type_: VectorType) -> tuple[str, Any, Callable]:
    floats = ir.VectorType({32: ir.FloatType(), 64: ir.DoubleType()}[type_.bits], type_.lanes)

    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        total = builder.fadd(builder.bitcast(left, floats), builder.bitcast(right, floats))
        return builder.bitcast(total, type_.llvm)

    return f"The sums of two {type_.name} that hold floats.", type_(type_, type_), build


def _parts(builder: Any, type_: VectorType, element: ir.Value) -> list[ir.Value]:
    """Return the integers that an element is in LLVM: itself, or the two halves of 16 bytes."""
    return [element] if type_.bits <= 64 else [builder.extract_value(element, part) for part in (0, 1)]


def _element(type_: VectorType) -> Any:
    """Return the Numba type of an element; 16 bytes are two integers of 8."""
    return types.UniTuple(types.int64, 2) if type_.bits == 128 else types.Integer.from_bitwidth(type_.bits)


_MAKERS: dict[str, Callable[[VectorType], tuple[str, Any, Callable]]] = {
    "load": _load,
    "reload": _reload,
    "store": _store,
    "stream": _stream,
    "stream_anywhere": functools.partial(_stream, anywhere=True),
    "join": _join,
    "broadcast": _broadcast,
    "and": _and,
    "addi": _addi,
    "addf": _addf,
}


@functools.cache
def _prefetch(locality: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(
            builder.module, kind, "llvm.prefetch.p0"
        )
        place = pointer(builder, arguments[0], arguments[1], ir.IntType(8))
        builder.call(function, [place, _I32(0), _I32(locality), _I32(1)])
        return context.get_dummy_value()

    doc = f"Prefetch the line at address + offset with locality {locality}, from 0 (no cache) to 3 (every cache)."
    return _named(f"prefetch_{locality}", doc, types.void(types.int64, types.int64), generate)


@functools.cache
def _stack(count: int, bits: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        with builder.goto_entry_block():  # numba's alloca_once would clear it, one store an integer
            buffer = builder.alloca(ir.ArrayType(ir.IntType(bits), count))
            buffer.align = 64
        return builder.ptrtoint(buffer, _I64)

    doc = f"Return the address of {count} integers of {bits} bits on the stack, which are not cleared."
    return _named(f"stack_{count}xi{bits}", doc, types.int64(), generate)
