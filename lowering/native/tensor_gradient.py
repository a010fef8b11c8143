"""The gradient of a fast call for tensors, by a `torch.autograd.Function` whose forward is machine code.

Written in Python, a forward that saves its indices and looks a call up takes 0.4 us more. Of few indices it is the
library's own function that runs, which makes no such function: it adds in the same order and with the same roundings.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from .call_layout import WORD_BYTES, Field, Tensor
from .llvm_jit import I32, I64, NONE, NULL, VOID, Code, Word, keep_for_ever

ARGUMENTS_OF_GRADIENT = 10  # of a call of which a gradient may be wanted
MOST_OTHERS = 4
_MOST_TABLE_ELEMENTS = 1 << 18  # of the library's own gradient: new memory costs more than a call is slower
ONE_LANE = 1
DESCRIPTION = ir.ArrayType(I64, Tensor.BYTES // WORD_BYTES)
_SEEN_WORDS = 64  # 4,096 bits: of 128 indices below it
_TUPLE_SIZE, _TUPLE_ITEMS = object.__basicsize__, tuple.__basicsize__  # offsets in bytes


class Own(NamedTuple):
    """The library's own function of the same arguments, for small calls of which a gradient is wanted.

    Attributes:
        function: `function(data, *others)` with the indices put at `place`, 1 or later.
        place: of the indices.
        most: indices of such a call.
        matrix_kinds: of elements, as `kinds` gives them, of which its gradient of a matrix by int64 has our bytes.
        other_kinds: those of a table of another rank, or by indices of 32 bits.
        distinct_kinds: those of which it has them where no index is there twice: it rounds each addition.
        by_int64: the same function, which makes indices of 32 bits int64 first.
        int64_kinds: those of a matrix of which that has our bytes, and `function` has not.
    """

    function: Callable[..., Any]
    place: int
    most: int
    matrix_kinds: int
    other_kinds: int
    distinct_kinds: int
    by_int64: Callable[..., Any] | None
    int64_kinds: int


def kinds(*types: tuple[int, int]) -> int:
    """Return a set of element types, each a code of DLPack and its bytes, as a number."""
    return sum(1 << _KIND_SIZES * code + size.bit_length() - 1 for code, size in types)


_KIND_SIZES = 8  # powers of two of bytes
_INTEGER_KINDS = kinds(*[(code, size) for code in (0, 1) for size in (1, 2, 4, 8)])
_INDEX_KINDS, _WIDE_INDEX_KINDS = kinds((0, 4), (0, 8)), kinds((0, 8))


def differentiate(module: ir.Module) -> None:
    """Call `own` or `apply` with what `find_tensors` got, (words, args); 0 with an exception set."""
    code = Code(module, "differentiate", 2)
    words, args = code.arguments
    failed = code.append_basic_block("failed")
    find, data, indices, _, *keys, others, apply, own = (
        code.word(args, place) for place in range(ARGUMENTS_OF_GRADIENT)
    )
    with code.if_then(code.not_(code.same(own, NONE))):
        found = code.call_function("run_own", words, args)
        with code.if_then(code.not_(code.same(found, NULL))):
            code.ret(found)
    elements = code.call_function("count", words, indices, I64(_INTEGER_KINDS), I64(_INTEGER_KINDS))
    with code.if_then(code.same(elements, I64(-1))):  # no tensor to save: the way with checks says so
        code.call_python("Py_IncRef", NONE, result=VOID)
        code.ret(NONE)
    count = code.load_at(others, _TUPLE_SIZE)
    shape = attribute(code, data, "shape")
    code.need(code.not_(code.same(shape, NULL)), failed)
    kept = code.call_python("PyTuple_New", code.add(count, I64(1)))
    code.need(code.not_(code.same(kept, NULL)), failed)
    code.store_at(shape, kept, _TUPLE_ITEMS)
    with code.counted(count) as number:
        other = code.load_at(code.after(others, number), _TUPLE_ITEMS)
        code.call_python("Py_IncRef", other, result=VOID)
        code.store_at(other, code.after(kept, number), _TUPLE_ITEMS + WORD_BYTES)
    call = code.call_python("PyTuple_New", I64(6))
    code.need(code.not_(code.same(call, NULL)), failed)
    for place, word in enumerate((find, indices, *keys, kept)):
        if word is not kept:
            code.call_python("Py_IncRef", word, result=VOID)
        code.store_at(word, call, _TUPLE_ITEMS + WORD_BYTES * place)
    given = code.ptrtoint(code.variable(ir.ArrayType(I64, 2)(ir.Undefined)), I64)
    code.store_at(data, given)
    code.store_at(call, given, WORD_BYTES)
    result = code.call_python("PyObject_Vectorcall", apply, given, I64(2), NULL)
    code.call_python("Py_DecRef", call, result=VOID)
    code.ret(result)
    code.position_at_end(failed)
    code.ret(NULL)


def add_count(module: ir.Module) -> None:
    """count(words, tensor, matrix_kinds, other_kinds): the elements of a tensor on the CPU of such a kind, else -1."""
    code = Code(module, "count", 4)
    words, tensor, matrix_kinds, other_kinds = code.arguments
    other = code.append_basic_block("other")
    dl = code.ptrtoint(code.variable(DESCRIPTION(ir.Undefined)), I64)
    code.need(code.same(code.call_function("describe", words, tensor, dl), I64(1)), other)
    dtype = code.zext(code.load_at(dl, Tensor.DTYPE, I32), I64)
    number, size = code.and_(dtype, I64(0xFF)), code.and_(code.lshr(dtype, I64(11)), I64(0x1F))
    code.need(code.same(code.lshr(dtype, I64(16)), I64(ONE_LANE)), other)
    code.need(code.icmp_unsigned("<", number, I64(_KIND_SIZES)), other)
    code.need(code.not_(code.same(size, I64(0))), other)
    kind = code.add(code.mul(number, I64(_KIND_SIZES)), code.cttz(size, ir.IntType(1)(1)))
    rank = code.number(dl, Tensor.RANK)
    wanted = code.select(code.same(rank, I64(2)), matrix_kinds, other_kinds)
    code.need(code.same(code.and_(code.lshr(wanted, kind), I64(1)), I64(1)), other)
    elements, sizes = code.variable(I64(1)), code.load_at(dl, Tensor.SHAPE)
    with code.counted(rank) as dim:
        code.store(code.mul(code.load(elements), code.element(sizes, dim)), elements)
    code.ret(code.load(elements))
    code.position_at_end(other)
    code.ret(I64(-1))


def add_are_distinct(module: ir.Module) -> None:
    """are_distinct(words, indices): whether few indices of 32 or 64 bits differ in their lowest 12 bits: 1, else 0.

    Such are different indices, and others may be. Only for indices that lie side by side.
    """
    code = Code(module, "are_distinct", 2)
    words, indices = code.arguments
    none = code.append_basic_block("none")
    dl = code.ptrtoint(code.variable(DESCRIPTION(ir.Undefined)), I64)
    code.need(code.same(code.call_function("describe", words, indices, dl), I64(1)), none)
    elements, rank = code.variable(I64(1)), code.number(dl, Tensor.RANK)
    sizes, strides = code.load_at(dl, Tensor.SHAPE), code.load_at(dl, Tensor.STRIDES)
    with code.counted(rank) as number:
        dim = code.sub(code.sub(rank, number), I64(1))
        code.need(code.same(code.element(strides, dim), code.load(elements)), none)
        code.store(code.mul(code.load(elements), code.element(sizes, dim)), elements)
    data = code.load_at(dl, Tensor.DATA)
    code.need(code.not_(code.same(data, NULL)), none)
    first = code.add(data, code.load_at(dl, Tensor.FIRST_BYTE))
    bits = code.and_(code.lshr(code.zext(code.load_at(dl, Tensor.DTYPE, I32), I64), I64(8)), I64(0xFF))
    size = code.lshr(bits, I64(3))
    seen = code.ptrtoint(code.variable(ir.ArrayType(I64, _SEEN_WORDS)(ir.Undefined)), I64)
    with code.counted(I64(_SEEN_WORDS)) as number:
        code.store_at(I64(0), code.after(seen, number))
    with code.counted(code.load(elements)) as number:
        index = code.zext(code.load_at(code.add(first, code.mul(number, size)), 0, I32), I64)
        place = code.and_(index, I64(64 * _SEEN_WORDS - 1))
        word = code.after(seen, code.lshr(place, I64(6)))
        bit = code.shl(I64(1), code.and_(place, I64(63)))
        before = code.load_at(word)
        code.need(code.same(code.and_(before, bit), I64(0)), none)
        code.store_at(code.or_(before, bit), word)
    code.ret(I64(1))
    code.position_at_end(none)
    code.ret(NULL)


def run_own(module: ir.Module) -> None:
    """Return what an `Own` gives for (words, args), or 0 where it is not for such a call or raises an error."""
    code = Code(module, "run_own", 2)
    words, args = code.arguments
    none = code.append_basic_block("none")
    data, indices, others, own = (code.word(args, place) for place in (1, 2, 7, 9))
    fields = {name: code.load_at(own, _TUPLE_ITEMS + WORD_BYTES * number) for number, name in enumerate(Own._fields)}
    by_int64, function = fields.pop("by_int64"), code.variable(fields.pop("function"))
    place, most, of_matrix, of_others, distinct, of_int64 = (
        code.call_python("PyLong_AsSsize_t", number) for number in fields.values()
    )
    few = code.call_function("count", words, indices, I64(_INDEX_KINDS), I64(_INDEX_KINDS))
    code.need(code.icmp_unsigned("<=", few, most), none)  # -1 is large
    wide = code.call_function("count", words, indices, I64(_WIDE_INDEX_KINDS), I64(_WIDE_INDEX_KINDS))
    of_matrix = code.select(code.same(wide, few), of_matrix, of_others)
    elements = code.variable(code.call_function("count", words, data, of_matrix, of_others))
    with code.if_then(code.same(code.load(elements), I64(-1))):
        code.store(code.call_function("count", words, data, distinct, distinct), elements)
        code.need(code.not_(code.same(code.load(elements), I64(-1))), none)
        with code.if_then(code.same(code.call_function("are_distinct", words, indices), NULL)):
            code.store(code.call_function("count", words, data, of_int64, I64(0)), elements)
            code.store(by_int64, function)
    code.need(code.icmp_unsigned("<=", code.load(elements), I64(_MOST_TABLE_ELEMENTS)), none)
    given = code.ptrtoint(code.variable(ir.ArrayType(I64, 2 + MOST_OTHERS)(ir.Undefined)), I64)
    code.store_at(data, given)
    before, other_count = code.sub(place, I64(1)), code.load_at(others, _TUPLE_SIZE)
    with code.counted(other_count) as number:
        shift = code.zext(code.icmp_signed(">=", number, before), I64)
        other = code.load_at(code.after(others, number), _TUPLE_ITEMS)
        code.store_at(other, code.after(given, code.add(number, shift)), WORD_BYTES)
    code.store_at(indices, code.after(given, before), WORD_BYTES)
    count = code.add(other_count, I64(2))
    result = code.call_python("PyObject_Vectorcall", code.load(function), given, count, NULL)
    with code.if_then(code.same(result, NULL)):
        code.call_python("PyErr_Clear", result=VOID)
    code.ret(result)
    code.position_at_end(none)
    code.ret(NULL)


def run_and_save(module: ir.Module) -> None:
    """Be the `forward` of `make_tensor_call`: (self, args, count)."""
    code = Code(module, "run_and_save", 3, "external")
    self, args, _ = code.arguments
    ctx, data, call = (code.word(args, place) for place in range(3))
    find, indices, *keys, kept = (code.load_at(call, _TUPLE_ITEMS + WORD_BYTES * place) for place in range(6))
    failed = code.append_basic_block("failed")
    saved = code.call_python("PyTuple_New", I64(1))
    code.need(code.not_(code.same(saved, NULL)), failed)
    code.call_python("Py_IncRef", indices, result=VOID)
    code.store_at(indices, saved, _TUPLE_ITEMS)
    status = _set_attribute(code, ctx, "to_save", saved)
    code.call_python("Py_DecRef", saved, result=VOID)
    code.need(code.same(status, I32(0)), failed)
    code.need(code.same(_set_attribute(code, ctx, "kept", kept), I32(0)), failed)
    found_by = code.ptrtoint(code.variable(ir.ArrayType(I64, 7)(ir.Undefined)), I64)
    for place, word in enumerate((find, data, indices, NONE, *keys)):
        code.store_at(word, found_by, WORD_BYTES * place)
    code.ret(code.call_function("run", code.load_at(self, Field.DATA), found_by))
    code.position_at_end(failed)
    code.ret(NULL)


def attribute(code: Code, target: Word, name: str) -> Word:
    """Return an attribute, or 0 with an exception set."""
    return code.call_python("PyObject_GetAttr", target, I64(id(keep_for_ever(sys.intern(name)))))


def _set_attribute(code: Code, target: Word, name: str, value: Word) -> Word:
    """Set an attribute; returns a C int, which is 0 unless an exception is set."""
    return code.call_python("PyObject_SetAttr", target, I64(id(keep_for_ever(sys.intern(name)))), value, result=I32)
