"""The machine operations of generated kernels, over base addresses.

Array indexing in Numba tests for wraparound and may alias, which keeps loops from being vectorised. These take an
address (int64) and a byte offset instead. Loads say that they do not alias stores, which is the kernel's contract:
`out` overlaps neither `data` nor `indices`. Values that the kernel has written, such as sums, are read by `reload_...`.
Loads and stores need no alignment.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_DOMAIN = "gathernest"


def _scope(builder: Any, name: str) -> ir.MDValue:
    """Return the list of one alias scope: "read" for data and indices, "written" for out."""
    module = builder.module
    domain = module.add_metadata([_DOMAIN])
    return module.add_metadata([module.add_metadata([f"{_DOMAIN}.{name}", domain])])


def _mark(builder: Any, instruction: Any, *, scope: str, apart_from: str) -> None:
    instruction.set_metadata("alias.scope", _scope(builder, scope))
    instruction.set_metadata("noalias", _scope(builder, apart_from))


def mark_read(builder: Any, instruction: Any) -> Any:
    """Mark a load of data or indices, which no store of the kernel changes; return it."""
    _mark(builder, instruction, scope="read", apart_from="written")
    return instruction


def mark_written(builder: Any, instruction: Any) -> Any:
    """Mark a store to out, or a load of values that the kernel wrote; return it."""
    _mark(builder, instruction, scope="written", apart_from="read")
    return instruction


def mark_streamed(builder: Any, instruction: Any) -> None:
    """Mark a store as non-temporal."""
    instruction.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))


def pointer(builder: Any, address: ir.Value, offset: ir.Value, pointee: ir.Type) -> ir.Value:
    """Return address + offset, both of 64 bits, as a pointer."""
    base = builder.inttoptr(address, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [offset]), pointee.as_pointer())


# The Numba and the LLVM type of each element; 16 bytes are two integers of 8.
_ELEMENTS: dict[str, tuple[Any, ir.Type]] = {
    **{f"i{bits}": (types.Integer.from_bitwidth(bits), ir.IntType(bits)) for bits in (8, 16, 32, 64)},
    "i128": (types.UniTuple(types.int64, 2), ir.ArrayType(ir.IntType(64), 2)),
    "f32": (types.float32, ir.FloatType()),
    "f64": (types.float64, ir.DoubleType()),
}


def _make_load(element: str, *, again: bool = False) -> Any:
    """Make the load of an element; `again` is for memory that the kernel itself writes."""
    numba_type, llvm_type = _ELEMENTS[element]
    mark = mark_written if again else mark_read

    def load(typing_context: Any, address: Any, offset: Any) -> tuple[Any, Callable]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            return mark(builder, builder.load(pointer(builder, arguments[0], arguments[1], llvm_type), align=1))

        return numba_type(types.int64, types.int64), generate

    load.__doc__ = f"Load {element} at address + offset{', which the kernel may have written' if again else ''}."
    load.__name__ = load.__qualname__ = f"{'reload' if again else 'load'}_{element}"
    return intrinsic(load)


def _streamable(builder: Any, value: Any, type_: ir.Type) -> Any:
    """Return an element in a type that has a non-temporal store: floats as integers, arrays as vectors."""
    if isinstance(type_, ir.FloatType | ir.DoubleType):
        return builder.bitcast(value, ir.IntType(32 if isinstance(type_, ir.FloatType) else 64))
    if not isinstance(type_, ir.ArrayType):
        return value
    vector = ir.Constant(ir.VectorType(type_.element, type_.count), ir.Undefined)
    for part in range(type_.count):
        vector = builder.insert_element(vector, builder.extract_value(value, part), ir.IntType(32)(part))
    return vector


def _make_store(element: str, *, streams: bool = False) -> Any:
    """Make the store of an element, a non-temporal one where it `streams`."""
    numba_type, llvm_type = _ELEMENTS[element]

    def store(typing_context: Any, address: Any, offset: Any, value: Any) -> tuple[Any, Callable]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            value = _streamable(builder, arguments[2], llvm_type) if streams else arguments[2]
            place = pointer(builder, arguments[0], arguments[1], value.type)
            stored = builder.store(value, place, align=1)
            if streams:
                mark_streamed(builder, stored)
            mark_written(builder, stored)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, numba_type), generate

    store.__doc__ = f"Store {element} at address + offset{', non-temporal' if streams else ''}."
    store.__name__ = store.__qualname__ = f"{'stream' if streams else 'store'}_{element}"
    return intrinsic(store)


load_i8, load_i16, load_i32, load_i64, load_i128, load_f32, load_f64 = map(_make_load, _ELEMENTS)
store_i8, store_i16, store_i32, store_i64, store_i128, store_f32, store_f64 = map(_make_store, _ELEMENTS)
stream_i32, stream_i64, stream_i128, stream_f32, stream_f64 = (
    _make_store(element, streams=True) for element in _ELEMENTS if element not in ("i8", "i16")
)
reload_i8, reload_i16, reload_i32, reload_i64, reload_f32, reload_f64 = (
    _make_load(element, again=True) for element in _ELEMENTS if element != "i128"
)


def _make_compare(name: str, predicate: str) -> Any:
    def compare(typing_context: Any, left: Any, right: Any) -> tuple[Any, Callable]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            return builder.icmp_unsigned(predicate, *arguments)

        return types.boolean(types.int64, types.int64), generate

    compare.__doc__ = f"Compare two 64-bit integers as unsigned: left {predicate} right."
    compare.__name__ = compare.__qualname__ = name
    return intrinsic(compare)


ult, ule, ugt, uge = (
    _make_compare(name, predicate) for name, predicate in (("ult", "<"), ("ule", "<="), ("ugt", ">"), ("uge", ">="))
)


def _make_binary(name: str, doc: str, build: Callable[[Any, ir.Value, ir.Value], ir.Value]) -> Any:
    def binary(typing_context: Any, left: Any, right: Any) -> tuple[Any, Callable]:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
            return build(builder, *arguments)

        return types.int64(types.int64, types.int64), generate

    binary.__doc__ = doc
    binary.__name__ = binary.__qualname__ = name
    return intrinsic(binary)


minui = _make_binary(
    "minui",
    "The smaller of two 64-bit integers, compared as unsigned.",
    lambda builder, left, right: builder.select(builder.icmp_unsigned("<", left, right), left, right),
)
divui = _make_binary(
    "divui", "The quotient of two unsigned 64-bit integers.", lambda builder, left, right: builder.udiv(left, right)
)
remui = _make_binary(
    "remui", "The remainder of two unsigned 64-bit integers.", lambda builder, left, right: builder.urem(left, right)
)
remsi = _make_binary(
    "remsi",
    "The remainder of two signed 64-bit integers, with the sign of the left one as in C.",
    lambda builder, left, right: builder.srem(left, right),
)


@intrinsic
def zext(typing_context: Any, value: Any) -> tuple[Any, Callable]:
    """Extend an integer to 64 bits with zeros."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        return builder.zext(arguments[0], ir.IntType(64))

    return types.int64(value), generate


@intrinsic
def address_of(typing_context: Any, array: Any) -> tuple[Any, Callable]:
    """Return the address of an array's first element."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate
