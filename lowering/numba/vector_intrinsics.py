"""The vector operations of generated kernels: loads, stores, joined elements, prefetches and buffers.

A vector is a Numba type of its own, one LLVM vector. The operations are made when a kernel imports them by name:
`load_v8xi32`, `store_v8xi32`, `stream_v8xi32`, `join_v8xi32`, `prefetch_3`, `stack_256xi32`. Loads and stores need no
alignment, but non-temporal stores do: 16 bytes for `stream`, the size of the vector for `stream_whole`.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir.instructions import GEPInstr, LoadInstr
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

from ..schedule.machine_model import PART_BYTES, STREAM_BYTES
from .intrinsics import CONVERSIONS, HEAP, make, make_load, make_store, mark, pointer, stack

_NAME = re.compile(r"(?P<operation>[a-z_]+)_v(?P<lanes>2|4|8|16|32|64)xi(?P<bits>1|8|16|32|64|128)")
_I32, _I64 = ir.IntType(32), ir.IntType(64)
PERMUTED_LANES = 4  # vectors of this number of lanes are packed by a table


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


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: VectorType):
        super().__init__(manager, type_, type_.llvm)


def __getattr__(name: str) -> Any:
    """Make the operation of that name, such as `load_v8xi32`."""
    if match := re.fullmatch(r"prefetch_([0-3])", name):
        return _prefetch(int(match[1]))
    if match := re.fullmatch(r"stack_([1-9]\d*)xi(8|16|32|64)", name):
        return stack(int(match[1]), int(match[2]))
    if name in HEAP:
        return HEAP[name]()
    match = _NAME.fullmatch(name)
    if match is None or match["operation"] not in _OPERATIONS:
        raise AttributeError(f"no vector operation is called {name!r}")
    return _make(match["operation"], VectorType(int(match["lanes"]), int(match["bits"])))


@functools.cache
def _make(operation: str, type_: VectorType) -> Any:
    if operation in ("load", "reload"):
        return make_load(type_.name, type_, type_.llvm, again=operation == "reload")
    if operation not in _MAKERS:
        size = type_.lanes * type_.bits // 8
        alignment = {"stream": min(size, STREAM_BYTES), "stream_whole": size}.get(operation, 1)
        return make_store(type_.name, type_, type_.llvm, operation, alignment)
    return make(f"{operation}_{type_.name}", *_MAKERS[operation](type_))


def _join(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, *elements: ir.Value) -> ir.Value:
        result = ir.Constant(type_.llvm, ir.Undefined)
        for lane, element in enumerate(elements):
            parts = _parts(builder, type_, element)
            for part, value in enumerate(parts):
                result = builder.insert_element(result, value, _I32(lane * len(parts) + part))
        return result

    return f"Make {type_.name} of its elements.", type_(*[_element(type_)] * type_.lanes), build


def _insert(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, vector: ir.Value, element: ir.Value, lane: ir.Value) -> ir.Value:
        return builder.insert_element(vector, element, lane)

    return f"A {type_.name} with another element in one lane.", type_(type_, _element(type_), types.int64), build


def _concat(type_: VectorType) -> tuple[str, Any, Callable]:
    part = VectorType(PART_BYTES * 8 // type_.bits, type_.bits)

    def build(builder: Any, *parts: ir.Value) -> ir.Value:
        joined, count = list(parts), part.lanes
        while len(joined) > 1:
            count *= 2
            lanes = ir.Constant(ir.VectorType(_I32, count), list(range(count)))
            pairs = zip(joined[::2], joined[1::2], strict=True)
            joined = [builder.shuffle_vector(low, high, lanes) for low, high in pairs]
        return joined[0]

    return f"Make {type_.name} of its parts of {PART_BYTES} bytes.", type_(*[part] * (type_.lanes // part.lanes)), build


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


def _broadcastf(type_: VectorType) -> tuple[str, Any, Callable]:
    number = types.float32 if type_.bits == 32 else types.float64

    def build(builder: Any, element: ir.Value) -> ir.Value:
        return _repeat(builder, builder.bitcast(element, type_.llvm.element), type_)

    return f"Make {type_.name} with the bits of one float in every lane.", type_(number), build


def _floats(type_: VectorType) -> ir.VectorType:
    return ir.VectorType({32: ir.FloatType(), 64: ir.DoubleType()}[type_.bits], type_.lanes)


def _larger(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        sides = builder.bitcast(left, _floats(type_)), builder.bitcast(right, _floats(type_))
        return builder.bitcast(builder.select(builder.fcmp_ordered(">", *sides), *sides), type_.llvm)

    return (
        f"The left lanes of two {type_.name} of floats where they are larger, or the right.",
        type_(type_, type_),
        build,
    )


def _of_floats(type_: VectorType, what: str, operation: Callable) -> tuple[str, Any, Callable]:
    floats = _floats(type_)

    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        total = operation(builder, builder.bitcast(left, floats), builder.bitcast(right, floats))
        return builder.bitcast(total, type_.llvm)

    return f"The {what} of two {type_.name} that hold floats.", type_(type_, type_), build


def _to_floats(type_: VectorType, convert: Callable) -> tuple[str, Any, Callable]:
    wide = VectorType(type_.lanes, 32)

    def build(builder: Any, vector: ir.Value) -> ir.Value:
        return builder.bitcast(convert(builder, vector, type_.lanes), wide.llvm)

    return f"The floats of 32 bits that the lanes of {type_.name} are.", wide(type_), build


def _parts(builder: Any, type_: VectorType, element: ir.Value) -> list[ir.Value]:
    """Return an element as integers of LLVM: one, or the two halves of 16 bytes."""
    return [element] if type_.bits <= 64 else [builder.extract_value(element, part) for part in (0, 1)]


def _element(type_: VectorType) -> Any:
    """Return the Numba type of an element; 16 bytes are two integers of 8."""
    return types.UniTuple(types.int64, 2) if type_.bits == 128 else types.Integer.from_bitwidth(type_.bits)


def _choose(type_: VectorType, predicate: str, which: str, *, unsigned: bool = False) -> tuple[str, Any, Callable]:
    compare = ir.IRBuilder.icmp_unsigned if unsigned else ir.IRBuilder.icmp_signed

    def build(builder: Any, left: ir.Value, right: ir.Value) -> ir.Value:
        return builder.select(compare(builder, predicate, left, right), left, right)

    doc = f"The {which} of each two lanes of {type_.name}, as {'un' if unsigned else ''}signed integers."
    return doc, type_(type_, type_), build


def _steps(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, first: ir.Value) -> ir.Value:
        return builder.add(_repeat(builder, first, type_), ir.Constant(type_.llvm, list(range(type_.lanes))))

    return f"Make {type_.name} of a number and its successors.", type_(_element(type_)), build


def _extend(type_: VectorType, *, unsigned: bool) -> tuple[str, Any, Callable]:
    wide = VectorType(type_.lanes, 64)
    extension = ir.IRBuilder.zext if unsigned else ir.IRBuilder.sext
    doc = f"Extend each lane of {type_.name} to 64 bits{' with zeros' if unsigned else ''}."
    return doc, wide(type_), lambda builder, vector: extension(builder, vector, wide.llvm)


def _narrow(type_: VectorType) -> tuple[str, Any, Callable]:
    """Put the low bits of some words side by side, and order them: LLVM's own code has more instructions of AVX2."""
    wide, words = VectorType(type_.lanes, 64), type_.lanes // 8

    def build(builder: Any, vector: ir.Value) -> ir.Value:
        halves, packed = builder.bitcast(vector, ir.VectorType(_I32, 2 * type_.lanes)), None
        for word in range(words):
            low = ir.Constant(ir.VectorType(_I32, 8), [16 * word + 2 * lane for lane in range(8)])
            part = builder.shuffle_vector(halves, halves, low)
            part = builder.and_(part, _all(_I32((1 << type_.bits) - 1), 8))
            part = builder.shl(part, _all(_I32(type_.bits * word), 8)) if word else part
            packed = part if packed is None else builder.or_(packed, part)
        each = 32 // type_.bits
        parts = builder.bitcast(packed, ir.VectorType(type_.llvm.element, 8 * each))
        order = [each * (lane % 8) + lane // 8 for lane in range(type_.lanes)]
        return builder.shuffle_vector(parts, parts, ir.Constant(ir.VectorType(_I32, type_.lanes), order))

    return f"Narrow each of {type_.lanes} numbers of 64 bits to {type_.bits}.", type_(wide), build


def _all(value: ir.Constant, lanes: int) -> ir.Constant:
    return ir.Constant(ir.VectorType(value.type, lanes), [value] * lanes)


def _wrap(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, index: ir.Value, size: ir.Value) -> ir.Value:
        is_negative = builder.icmp_signed("<", index, ir.Constant(type_.llvm, [0] * type_.lanes))
        return builder.select(is_negative, builder.add(index, size), index)

    return f"The lanes of {type_.name}, with a size added to lanes below 0.", type_(type_, type_), build


def _gather(type_: VectorType, *, is_masked: bool = False) -> tuple[str, Any, Callable]:
    lanes, element = type_.lanes, type_.llvm.element
    pointers, mask = ir.VectorType(element.as_pointer(), lanes), ir.VectorType(ir.IntType(1), lanes)

    def build(builder: Any, address: ir.Value, places: ir.Value, *inside: ir.Value) -> ir.Value:
        base = builder.inttoptr(address, element.as_pointer())
        bases = _repeat(builder, base, pointers)
        gep = GEPInstr(builder.block, bases, [places], False, "", source_etype=element)
        builder._insert(gep)
        kind = ir.FunctionType(type_.llvm, [pointers, _I32, mask, type_.llvm])
        name = f"llvm.masked.gather.v{lanes}i{type_.bits}.v{lanes}p0"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        masks = inside or [ir.Constant(mask, [1] * lanes)]
        nothing = ir.Constant(type_.llvm, [0] * lanes if is_masked else ir.Undefined)
        return mark(builder, builder.call(function, [gep, _I32(1), *masks, nothing]), is_written=False)

    doc = f"Load {type_.name} by a gather instruction: the elements at places behind an address."
    doc += " Lanes that are not inside are 0, and load nothing." if is_masked else ""
    return doc, type_(types.int64, VectorType(lanes, 64), *([VectorType(lanes, 1)] if is_masked else [])), build


def _compress(type_: VectorType) -> tuple[str, Any, Callable]:
    mask = VectorType(type_.lanes, 1)
    wide = VectorType(type_.lanes, max(type_.bits, 32))  # LLVM 22 has no packing of narrower lanes

    def build(builder: Any, address: ir.Value, offset: ir.Value, chosen: ir.Value, value: ir.Value) -> None:
        value = value if wide.bits == type_.bits else builder.zext(value, wide.llvm)
        if type_.lanes == PERMUTED_LANES:
            packed = _permute(builder, value, chosen, wide)
        else:
            kind = ir.FunctionType(wide.llvm, [wide.llvm, mask.llvm, wide.llvm])
            name = f"llvm.experimental.vector.compress.v{wide.lanes}i{wide.bits}"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            packed = builder.call(function, [value, chosen, ir.Constant(wide.llvm, ir.Undefined)])
        packed = packed if wide.bits == type_.bits else builder.trunc(packed, type_.llvm)
        mark(builder, builder.store(packed, pointer(builder, address, offset, type_.llvm), align=1), is_written=True)

    doc = f"Store the lanes of {type_.name} that a mask chooses side by side, and anything in the places of the others."
    return doc, types.void(types.int64, types.int64, mask, type_), build


class _WholeLoad(LoadInstr):
    """A volatile load, which LLVM does not split into a load for each lane."""

    def descr(self, buf: list[str]) -> None:
        lines: list[str] = []
        super().descr(lines)
        buf.extend(line.replace("load ", "load volatile ", 1) for line in lines)


def _permute(builder: Any, value: ir.Value, chosen: ir.Value, type_: VectorType) -> ir.Value:
    """Pack the lanes that a mask chooses by a permutation from a table of all masks.

    This is for processors without an instruction that packs lanes: LLVM would store each lane by itself. Lanes are
    permuted as words of 32 bits by an instruction of AVX and AVX2, which LLVM finds in the extracts and inserts.
    """
    words = type_.bits // 32
    count = words * type_.lanes
    vector, bits = ir.VectorType(_I32, count), ir.IntType(type_.lanes)
    rows = []
    for number in range(2**type_.lanes):
        lanes = [lane for lane in range(type_.lanes) if number >> lane & 1]
        row = [words * lane + word for lane in lanes for word in range(words)]
        rows.append(ir.Constant(vector, row + [0] * (count - len(row))))
    table_type = ir.ArrayType(vector, len(rows))
    table = cgutils.global_constant(builder, f"packed_{type_.name}", ir.Constant(table_type, rows), linkage="private")
    row = builder.zext(builder.bitcast(chosen, bits), _I64)
    places = _WholeLoad(builder.block, builder.gep(table, [_I64(0), row], source_etype=table_type), typ=vector)
    builder._insert(places)
    source = builder.bitcast(value, vector)
    result = ir.Constant(vector, ir.Undefined)
    for word in range(count):
        place = builder.extract_element(places, _I32(word))
        result = builder.insert_element(result, builder.extract_element(source, place), _I32(word))
    return builder.bitcast(result, type_.llvm)


def _sum(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, lanes: ir.Value) -> ir.Value:
        kind = ir.FunctionType(type_.llvm.element, [type_.llvm])
        name = f"llvm.vector.reduce.add.v{type_.lanes}i{type_.bits}"
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [lanes])

    return f"The sum of the lanes of {type_.name}, modulo their width.", _element(type_)(type_), build


def _count(type_: VectorType) -> tuple[str, Any, Callable]:
    def build(builder: Any, mask: ir.Value) -> ir.Value:
        return builder.zext(builder.ctpop(builder.bitcast(mask, ir.IntType(type_.lanes))), _I64)

    return f"The number of lanes of {type_.name} that are true.", types.int64(type_), build


def _compare(type_: VectorType, predicate: str, *, unsigned: bool) -> tuple[str, Any, Callable]:
    compare = ir.IRBuilder.icmp_unsigned if unsigned else ir.IRBuilder.icmp_signed
    doc = f"Compare the lanes of two {type_.name} as {'un' if unsigned else ''}signed: left {predicate} right."
    kind = VectorType(type_.lanes, 1)(type_, type_)
    return doc, kind, lambda builder, left, right: compare(builder, predicate, left, right)


def _repeat(builder: Any, value: ir.Value, type_: Any) -> ir.Value:
    """Insert a vector with one value in every lane; `type_` is a `VectorType` or one of LLVM."""
    llvm = type_.llvm if isinstance(type_, VectorType) else type_
    undefined = ir.Constant(llvm, ir.Undefined)
    first = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, llvm.count), [0] * llvm.count))


_MAKERS: dict[str, Callable[[VectorType], tuple[str, Any, Callable]]] = {
    "join": _join,
    "insert": _insert,
    "concat": _concat,
    "broadcast": _broadcast,
    "broadcastf": _broadcastf,
    "and": lambda v: (f"The bits that two {v.name} share.", v(v, v), ir.IRBuilder.and_),
    "addi": lambda v: (f"The sums of two {v.name} of integers, modulo their width.", v(v, v), ir.IRBuilder.add),
    "subi": lambda v: (f"The differences of two {v.name} of integers, modulo their width.", v(v, v), ir.IRBuilder.sub),
    "muli": lambda v: (f"The products of two {v.name} of integers, modulo their width.", v(v, v), ir.IRBuilder.mul),
    "shrsi": lambda v: (f"The lanes of a {v.name}, shifted right by another's.", v(v, v), ir.IRBuilder.ashr),
    "minsi": lambda v: _choose(v, "<", "smaller"),
    "maxsi": lambda v: _choose(v, ">", "larger"),
    "minui": lambda v: _choose(v, "<", "smaller", unsigned=True),
    "remsi": lambda v: (f"The remainders of two {v.name}, with the sign of the left one.", v(v, v), ir.IRBuilder.srem),
    "remui": lambda v: (f"The remainders of two {v.name} of unsigned integers.", v(v, v), ir.IRBuilder.urem),
    "addf": lambda v: _of_floats(v, "sums", ir.IRBuilder.fadd),
    "mulf": lambda v: _of_floats(v, "products", ir.IRBuilder.fmul),
    "divf": lambda v: _of_floats(v, "quotients", ir.IRBuilder.fdiv),
    **{name: lambda v, how=how: _to_floats(v, how) for name, how in CONVERSIONS.items()},
    "larger": _larger,
    "steps": _steps,
    "extend": lambda v: _extend(v, unsigned=False),
    "extend_unsigned": lambda v: _extend(v, unsigned=True),
    "narrow": _narrow,
    "gather": _gather,
    "gather_inside": lambda v: _gather(v, is_masked=True),
    "wrap": _wrap,
    "compress": _compress,
    "count": _count,
    "sum": _sum,
    **{
        f"{sign}{name}": functools.partial(_compare, predicate=predicate, unsigned=sign == "u")
        for name, predicate in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="))
        for sign in "su"
    },
}
_OPERATIONS = (*_MAKERS, "load", "reload", "store", "stream", "stream_anywhere", "stream_whole")


@functools.cache
def _prefetch(locality: int) -> Any:
    def build(builder: Any, address: ir.Value, offset: ir.Value) -> None:
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [pointer(builder, address, offset, ir.IntType(8)), _I32(0), _I32(locality), _I32(1)])

    doc = f"Prefetch the line at address + offset with locality {locality}, from 0 (no cache) to 3 (every cache)."
    return make(f"prefetch_{locality}", doc, types.void(types.int64, types.int64), build)
