"""The machine operations of generated kernels, over base addresses.

Array indexing in Numba tests for wraparound and may alias, which keeps loops from being vectorised. These take an
address (int64) and a byte offset instead. Loads say that they do not alias stores, which is the kernel's contract:
`out` overlaps neither `data` nor `indices`. Values that the kernel has written, such as sums, are read by `reload_...`.
Loads and stores need no alignment.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

_DOMAIN = "gathernest"


def mark(builder: Any, instruction: Any, *, is_written: bool) -> Any:
    """Mark a load of data or indices, or a store to out or a load of values that the kernel wrote; return it."""
    module = builder.module
    scope, apart_from = ("written", "read") if is_written else ("read", "written")
    domain = module.add_metadata([_DOMAIN])
    for kind, name in (("alias.scope", scope), ("noalias", apart_from)):
        scopes = module.add_metadata([module.add_metadata([f"{_DOMAIN}.{name}", domain])])
        instruction.set_metadata(kind, scopes)
    return instruction


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


def make(name: str, doc: str, signature: Any, build: Callable) -> Any:
    """Make the intrinsic of a signature; `build(builder, *arguments)` returns its value in LLVM, or None."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> ir.Value:
        result = build(builder, *arguments)
        return context.get_dummy_value() if result is None else result

    parameters = ", ".join(f"a{number}" for number in range(len(signature.args)))
    space: dict[str, Any] = {"signature": signature, "generate": generate}
    exec(f"def operation(typing_context, {parameters}): return signature, generate", space)
    operation = space["operation"]
    operation.__name__ = operation.__qualname__ = name
    operation.__doc__ = doc
    return intrinsic(operation)


def make_load(name: str, kind: Any, llvm: ir.Type, *, again: bool = False) -> Any:
    """Make the load of an element or a vector; `again` is for memory that the kernel itself writes."""

    def build(builder: Any, address: ir.Value, offset: ir.Value) -> ir.Value:
        return mark(builder, builder.load(pointer(builder, address, offset, llvm), align=1), is_written=again)

    doc = f"Load {name} at address + offset{', which the kernel may have written' if again else ''}."
    return make(f"{'reload' if again else 'load'}_{name}", doc, kind(types.int64, types.int64), build)


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


def make_store(name: str, kind: Any, llvm: ir.Type, operation: str = "store", alignment: int = 1) -> Any:
    """Make the store of an element or a vector, a non-temporal one where the operation is a `stream`."""
    streams = operation != "store"

    def build(builder: Any, address: ir.Value, offset: ir.Value, value: Any) -> None:
        value = _streamable(builder, value, llvm) if streams else value
        store = builder.store(value, pointer(builder, address, offset, value.type), align=alignment)
        if streams:
            store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        mark(builder, store, is_written=True)

    where = "address + offset" if alignment == 1 else f"address + offset, a multiple of {alignment}"
    doc = f"Store {name} at {where}{', non-temporal' if streams else ''}."
    return make(f"{operation}_{name}", doc, types.void(types.int64, types.int64, kind), build)


load_i8, load_i16, load_i32, load_i64, load_i128, load_f32, load_f64 = (
    make_load(name, *types_) for name, types_ in _ELEMENTS.items()
)
store_i8, store_i16, store_i32, store_i64, store_i128, store_f32, store_f64 = (
    make_store(name, *types_) for name, types_ in _ELEMENTS.items()
)
stream_i32, stream_i64, stream_i128, stream_f32, stream_f64 = (
    make_store(name, *types_, "stream") for name, types_ in _ELEMENTS.items() if name not in ("i8", "i16")
)
reload_i8, reload_i16, reload_i32, reload_i64, reload_i128, reload_f32, reload_f64 = (
    make_load(name, *types_, again=True) for name, types_ in _ELEMENTS.items()
)


def _make_compare(name: str, predicate: str) -> Any:
    doc = f"Compare two 64-bit integers as unsigned: left {predicate} right."
    signature = types.boolean(types.int64, types.int64)
    return make(name, doc, signature, lambda builder, *sides: builder.icmp_unsigned(predicate, *sides))


ult, ule, ugt, uge = map(_make_compare, ("ult", "ule", "ugt", "uge"), ("<", "<=", ">", ">="))
minsi, maxsi, minui, divui, remui, remsi = (
    make(name, f"The {doc}.", types.int64(types.int64, types.int64), build)
    for name, doc, build in (
        (
            "minsi",
            "smaller of two signed 64-bit integers",
            lambda builder, left, right: builder.select(builder.icmp_signed("<", right, left), right, left),
        ),
        (
            "maxsi",
            "larger of two signed 64-bit integers",
            lambda builder, left, right: builder.select(builder.icmp_signed(">", right, left), right, left),
        ),
        (
            "minui",
            "smaller of two 64-bit integers, compared as unsigned",
            lambda builder, left, right: builder.select(builder.icmp_unsigned("<", left, right), left, right),
        ),
        ("divui", "quotient of two unsigned 64-bit integers", ir.IRBuilder.udiv),
        ("remui", "remainder of two unsigned 64-bit integers", ir.IRBuilder.urem),
        ("remsi", "remainder of two signed 64-bit integers, with the sign of the left one as in C", ir.IRBuilder.srem),
    )
)


def _trip_count(builder: Any, lower: ir.Value, upper: ir.Value) -> ir.Value:
    """Freeze the difference, so that LLVM does not see how it is computed.

    LLVM unrolls no loop whose trip count is expensive to compute, and takes the difference to a minimum for expensive.
    """
    difference = builder.sub(upper, lower)
    frozen = ir.instructions.Instruction(builder.block, difference.type, "freeze", [difference])
    builder._insert(frozen)  # llvmlite's builder has no method for it
    return frozen


trip_count = make(
    "trip_count", "upper - lower, for the bounds of a loop.", types.int64(types.int64, types.int64), _trip_count
)


def _wrap(builder: Any, index: ir.Value, size: ir.Value) -> ir.Value:
    """Select by the carry of the addition, written as a comparison with the size.

    LLVM vectorises it, and makes an addition and a conditional move of it for one index. A minimum compares once more.
    """
    shifted = builder.add(index, size)
    return builder.select(builder.icmp_unsigned("<", shifted, size), shifted, index)


wrap = make(
    "wrap", "The smaller of index and index + size as unsigned integers.", types.int64(types.int64, types.int64), _wrap
)


def _clamp(builder: Any, position: ir.Value, size: ir.Value) -> ir.Value:
    """Select by a condition that is marked as nearly always true: LLVM makes a branch, which delays no address."""
    is_inside = builder.icmp_unsigned("<", position, size)
    clamped = builder.select(is_inside, position, builder.sub(size, ir.IntType(64)(1)))
    weights = [ir.MetaDataString(builder.module, "branch_weights"), ir.IntType(32)(2**20), ir.IntType(32)(1)]
    clamped.set_metadata("prof", builder.module.add_metadata(weights))
    return clamped


clamp = make(
    "clamp", "The position, or size - 1 where it is not below size.", types.int64(types.int64, types.int64), _clamp
)


def _wide(kind: ir.Type, lanes: int) -> ir.Type:
    """Return a scalar type, or its vector type where there are lanes."""
    return ir.VectorType(kind, lanes) if lanes else kind


def _extend_half(builder: Any, value: ir.Value, lanes: int) -> ir.Value:
    return builder.fpext(builder.bitcast(value, _wide(ir.HalfType(), lanes)), _wide(ir.FloatType(), lanes))


def _extend_bfloat(builder: Any, value: ir.Value, lanes: int) -> ir.Value:
    wide = _wide(ir.IntType(32), lanes)
    shift = ir.Constant(wide, [16] * lanes if lanes else 16)
    return builder.bitcast(builder.shl(builder.zext(value, wide), shift), _wide(ir.FloatType(), lanes))


# `convert(builder, value, lanes)` makes float32 of a vector of other numbers, or of one number where `lanes` is 0.
CONVERSIONS: dict[str, Callable[[Any, ir.Value, int], ir.Value]] = {
    "extend_half": _extend_half,
    "extend_bfloat": _extend_bfloat,
    "to_float": lambda builder, value, lanes: builder.sitofp(value, _wide(ir.FloatType(), lanes)),
    "to_float_unsigned": lambda builder, value, lanes: builder.uitofp(value, _wide(ir.FloatType(), lanes)),
}


def _make_conversion(operation: str, kind: Any) -> Any:
    convert = CONVERSIONS[operation]
    name, doc = f"{operation}_i{kind.bitwidth}", f"The float of 32 bits that an integer of {kind.bitwidth} holds."
    return make(name, doc, types.float32(kind), lambda builder, value: convert(builder, value, 0))


extend_half_i16, extend_bfloat_i16 = (_make_conversion(f"extend_{name}", types.int16) for name in ("half", "bfloat"))
to_float_i8, to_float_unsigned_i8 = (_make_conversion(f"to_float{name}", types.int8) for name in ("", "_unsigned"))
float_of_i32, float_of_i64 = (
    make(
        f"float_of_i{bits}",
        "The float whose bits an integer has.",
        number(types.Integer.from_bitwidth(bits)),
        lambda builder, value, llvm=llvm: builder.bitcast(value, llvm),
    )
    for bits, number, llvm in ((32, types.float32, ir.FloatType()), (64, types.float64, ir.DoubleType()))
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


_I32, _I64 = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
# The size of huge pages on x86 and most ARM, and the number by which Linux knows the advice.
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


def _call_c(builder: Any, name: str, result: ir.Type, *arguments: Any) -> Any:
    """Insert the call of a function of C."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


@functools.cache
def _take_memory() -> Any:
    def build(builder: Any, size: ir.Value) -> ir.Value:
        memory = _call_c(builder, "malloc", _BYTES, builder.add(size, _I64(1)))  # of 0 bytes it may return no address
        return builder.ptrtoint(memory, _I64)

    def build_on_linux(builder: Any, size: ir.Value) -> ir.Value:
        """Ask for huge pages from their size on: accesses to sums and lists are random, each in another small page."""
        place = cgutils.alloca_once(builder, _I64)
        with builder.if_else(builder.icmp_unsigned("<", size, _I64(HUGE_PAGE_BYTES))) as (is_small, is_large):
            with is_small:
                builder.store(build(builder, size), place)
            with is_large:
                whole = builder.and_(builder.add(size, _I64(HUGE_PAGE_BYTES - 1)), _I64(-HUGE_PAGE_BYTES))
                memory = _call_c(builder, "aligned_alloc", _BYTES, _I64(HUGE_PAGE_BYTES), whole)
                address = builder.ptrtoint(memory, _I64)
                with builder.if_then(builder.icmp_unsigned("!=", address, _I64(0))):
                    _call_c(builder, "madvise", _I32, memory, whole, _I32(_MADV_HUGEPAGE))
                builder.store(address, place)
        return builder.load(place)

    doc = "Return the address of bytes of the heap, which are not cleared; 0 where there is no memory."
    return make("take_memory", doc, types.int64(types.int64), build_on_linux if sys.platform == "linux" else build)


@functools.cache
def _give_back_memory() -> Any:
    def build(builder: Any, address: ir.Value) -> None:
        _call_c(builder, "free", ir.VoidType(), builder.inttoptr(address, _BYTES))

    return make("give_back_memory", "Give back the memory of `take_memory`.", types.void(types.int64), build)


HEAP = {"take_memory": _take_memory, "give_back_memory": _give_back_memory}
