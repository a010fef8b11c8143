"""The vector operations of generated kernels: loads, stores, lane gathers and prefetches over base addresses.

A vector is a Numba type of its own, one LLVM vector. The operations are made when a kernel imports them by name:
`load_v8xi32`, `store_v8xi32`, `stream_v8xi32`, `gather_v8xi32`, `prefetch_3`. Loads and stores need no alignment, but
for streaming stores, which go past the caches.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.extending import intrinsic

from .intrinsics import mark_read, mark_written, pointer

_NAME = re.compile(r"(?P<operation>[a-z]+)_v(?P<lanes>\d+)xi(?P<bits>\d+)")
_I32, _I64 = ir.IntType(32), ir.IntType(64)


class VectorType(types.Type):
    """A vector of `lanes` integers of `bits` bits, in Numba's type system."""

    def __init__(self, lanes: int, bits: int):
        super().__init__(f"v{lanes}xi{bits}")
        self.lanes, self.bits = lanes, bits

    @property
    def llvm(self) -> ir.VectorType:
        """The type of its values in LLVM."""
        return ir.VectorType(ir.IntType(self.bits), self.lanes)


@register_default(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: VectorType):
        super().__init__(manager, type_, type_.llvm)


def __getattr__(name: str) -> Any:
    """Make the operation of that name, such as `load_v8xi32`."""
    if match := re.fullmatch(r"prefetch_([0-3])", name):
        return _prefetch(int(match[1]))
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
    """Make an intrinsic that takes what the signature says."""
    parameters = ", ".join(f"a{number}" for number in range(len(signature.args)))
    space: dict[str, Any] = {"signature": signature, "generate": generate}
    exec(f"def operation(typing_context, {parameters}): return signature, generate", space)
    operation = space["operation"]
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = doc
    return intrinsic(operation)


def _load(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, address: ir.Value, offset: ir.Value) -> ir.Value:
        return mark_read(builder, builder.load(pointer(builder, address, offset, type_.llvm), align=1))

    return f"Load {type_.name} at address + offset.", type_(types.int64, types.int64), build


def _store(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, address: ir.Value, offset: ir.Value, value: ir.Value) -> None:
        mark_written(builder, builder.store(value, pointer(builder, address, offset, type_.llvm), align=1))

    return f"Store {type_.name} at address + offset.", types.void(types.int64, types.int64, type_), build


def _stream(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, address: ir.Value, offset: ir.Value, value: ir.Value) -> None:
        place = pointer(builder, address, offset, type_.llvm)
        store = builder.store(value, place, align=type_.lanes * type_.bits // 8)
        store.set_metadata("nontemporal", builder.module.add_metadata([_I32(1)]))
        mark_written(builder, store)

    doc = f"Store {type_.name} past the caches at address + offset, which is a multiple of its size."
    return doc, types.void(types.int64, types.int64, type_), build


def _gather(type_: VectorType) -> tuple[str, Any, Callable]:
    positions = VectorType(type_.lanes, 64)

    def build(builder: Any, address: ir.Value, places: ir.Value) -> ir.Value:
        base = _splat(builder, address, type_.lanes)
        width = ir.Constant(positions.llvm, [type_.bits // 8] * type_.lanes)
        element = ir.IntType(type_.bits).as_pointer()
        pointers = builder.inttoptr(builder.add(base, builder.mul(places, width)), ir.VectorType(element, type_.lanes))
        mask = ir.Constant(ir.VectorType(ir.IntType(1), type_.lanes), [1] * type_.lanes)
        name = f"llvm.masked.gather.v{type_.lanes}i{type_.bits}.v{type_.lanes}p0"
        kind = ir.FunctionType(type_.llvm, [pointers.type, _I32, mask.type, type_.llvm])
        function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        undefined = ir.Constant(type_.llvm, ir.Undefined)
        call = builder.call(function, [pointers, _I32(1), mask, undefined])
        return mark_read(builder, call)

    return f"Load {type_.name}, each lane at address + its position.", type_(types.int64, positions), build


_MAKERS: dict[str, Callable[[VectorType], tuple[str, Any, Callable]]] = {
    "load": _load,
    "store": _store,
    "stream": _stream,
    "gather": _gather,
}


def _splat(builder: Any, value: ir.Value, lanes: int) -> ir.Value:
    """Return a vector with the value in every lane."""
    vector = ir.VectorType(value.type, lanes)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, _I32(0))
    return builder.shuffle_vector(
        first, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes)
    )


@functools.cache
def _prefetch(locality: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = builder.module.globals.get("llvm.prefetch.p0") or ir.Function(
            builder.module, kind, "llvm.prefetch.p0"
        )
        builder.call(function, [pointer(builder, *arguments, ir.IntType(8)), _I32(0), _I32(locality), _I32(1)])
        return context.get_dummy_value()

    doc = f"Ask for the line at address + offset to be read soon; locality 0 (gone after use) to 3 (kept): {locality}."
    return _named(f"prefetch_{locality}", doc, types.void(types.int64, types.int64), generate)
