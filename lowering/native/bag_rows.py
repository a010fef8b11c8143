"""Bags of different lengths as rows of one length, by machine code: 0.3 us for 8 bags, where NumPy takes 20."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir

from .call_layout import WORD_BYTES, Field
from .llvm_jit import FASTCALL, I32, I64, NONE, NULL, VOID, Code, Word, builtin, keep_for_ever, machine_code
from .new_array import NEW_FROM_DESCR, new_array, numpy_functions

_ARGUMENTS = 8  # of the function that makes rows
_NARROW = np.dtype(np.int32)
_WIDE = np.dtype(np.int64)
_INDEX_DTYPES = _WIDE, np.dtype(np.uint64), _NARROW
_WEIGHT_DTYPES = np.dtype(np.float32), np.dtype(np.float64)
_NARROW_BYTES = 4


@functools.cache
def bag_rows() -> Callable[..., np.ndarray | None]:
    """Return `rows(indices, offsets, has_last, size, padding, repeats_first, most_places, weights)`: rows of bags.

    It returns a new array (bags, longest) int64: the indices of a bag, filled up with `size`, or with its first index
    where `repeats_first` and there is one. It returns None where an index is outside [0, size), where the rows
    have more than `most_places` places for each index and bag, and for arrays that are not these:

    * indices: (indices) int64, uint64 or int32, side by side.
    * offsets: (bags) of these dtypes: where each bag begins; with `has_last` also where the last one ends.
    * weights: None, or (indices) float32 or float64, side by side. Then `size` is below 2**31, and the array is
      (bags, longest, 2) int32 or int64: each position, and the bits of its weight.

    `padding` is an index that becomes `size`; -1 for none. Where another thread writes to indices or offsets meanwhile,
    the rows have other positions, all in [0, size].
    """
    try:
        new = numpy_functions()[NEW_FROM_DESCR]
    except NotImplementedError:
        return lambda *arguments: None
    if sys.byteorder != "little":
        return lambda *arguments: None
    module = ir.Module("gathernest_bag_rows")
    _numbers_of(module, "indices_of", _INDEX_DTYPES)
    _numbers_of(module, "weights_of", _WEIGHT_DTYPES)
    _rows(module, new)
    keep_for_ever((_INDEX_DTYPES, _WEIGHT_DTYPES))
    return builtin("rows", machine_code(module), FASTCALL)(None)


def _numbers_of(module: ir.Module, name: str, dtypes: tuple[np.dtype, ...]) -> None:
    """name(array): the address of its numbers, or 0 where they do not lie side by side or are of no such dtype."""
    code = Code(module, name, 1)
    (array,) = code.arguments
    other = code.append_basic_block("other")
    code.need(code.same(code.load_at(array, Field.OB_TYPE), I64(id(np.ndarray))), other)
    descr = code.load_at(array, Field.DESCR)
    code.need(functools.reduce(code.or_, [code.same(descr, I64(id(dtype))) for dtype in dtypes]), other)
    code.need(code.same(code.number(array, Field.RANK), I64(1)), other)
    narrow = [dtype for dtype in dtypes if dtype.itemsize == _NARROW_BYTES]
    are_narrow = code.same(descr, I64(id(narrow[0])))
    size = code.select(are_narrow, I64(_NARROW_BYTES), I64(WORD_BYTES))
    are_side_by_side = code.same(code.load_at(code.load_at(array, Field.STRIDES)), size)
    are_few = code.icmp_signed("<", code.load_at(code.load_at(array, Field.SHAPE)), I64(2))
    code.need(code.or_(are_side_by_side, are_few), other)
    code.ret(code.load_at(array, Field.DATA))
    code.position_at_end(other)
    code.ret(NULL)


class _Numbers:
    """Integers of 32 or 64 bits from an address on, each as a word."""

    def __init__(self, code: Code, first: Word, are_narrow: Word):
        self._code, self._first, self._are_narrow = code, first, are_narrow
        self._size = code.select(are_narrow, I64(_NARROW_BYTES), I64(WORD_BYTES))

    def __getitem__(self, place: Word) -> Word:
        code, size = self._code, self._size
        address = code.add(self._first, code.mul(place, size))
        low = code.zext(code.load_at(address, 0, I32), I64)
        high = code.sext(code.load_at(code.sub(code.add(address, size), I64(_NARROW_BYTES)), 0, I32), I64)
        return code.select(self._are_narrow, high, code.or_(low, code.shl(high, I64(32))))


def _rows(module: ir.Module, new_from_descr: int) -> None:
    """rows(self, args, count): see `bag_rows`."""
    code = Code(module, "rows", 3, "external")
    _, args, _ = code.arguments
    none = code.append_basic_block("none")
    first_index, first_offset = (code.call_function("indices_of", code.word(args, place)) for place in range(2))
    for numbers in (first_index, first_offset):
        code.need(code.not_(code.same(numbers, NULL)), none)
    indices, offsets = (
        _Numbers(code, first, code.same(code.load_at(code.word(args, place), Field.DESCR), I64(id(_NARROW))))
        for place, first in enumerate((first_index, first_offset))
    )
    shapes = [code.load_at(code.load_at(code.word(args, place), Field.SHAPE)) for place in range(2)]
    has_last, repeats_first = (code.zext(code.same(code.word(args, place), I64(id(True))), I64) for place in (2, 5))
    size, padding, most_places = (code.call_python("PyLong_AsSsize_t", code.word(args, place)) for place in (3, 4, 6))
    bags = code.sub(shapes[1], has_last)
    code.need(code.icmp_signed(">", bags, I64(0)), none)
    last = code.select(code.same(has_last, I64(1)), offsets[code.sub(shapes[1], I64(1))], shapes[0])
    code.need(code.icmp_unsigned("<=", last, shapes[0]), none)
    code.need(code.same(offsets[I64(0)], I64(0)), none)
    weights, words = code.variable(NULL), code.variable(I64(1))
    with code.if_then(code.not_(code.same(code.word(args, 7), NONE))):
        found = code.call_function("weights_of", code.word(args, 7))
        code.need(code.not_(code.same(found, NULL)), none)
        count = code.load_at(code.load_at(code.word(args, 7), Field.SHAPE))
        code.need(code.icmp_unsigned("<=", last, count), none)
        code.store(found, weights)
        with code.if_then(code.same(code.load_at(code.word(args, 7), Field.DESCR), I64(id(_WEIGHT_DTYPES[1])))):
            code.store(I64(2), words)
    longest = code.variable(I64(0))
    with code.counted(bags) as bag:
        length = code.sub(_end(code, offsets, bag, bags, last), offsets[bag])
        code.need(code.icmp_unsigned("<=", length, last), none)  # a negative one is large
        code.store(_larger(code, length, code.load(longest)), longest)
    width = code.load(longest)
    most = code.mul(code.add(last, bags), most_places)
    code.need(code.icmp_signed("<=", code.mul(width, bags), most), none)
    with code.counted(last) as number:
        code.need(code.icmp_unsigned("<", indices[number], size), none)
    shape = code.ptrtoint(code.variable(ir.ArrayType(I64, 3)(ir.Undefined)), I64)
    for place, size_of in enumerate((bags, width, I64(2))):
        code.store_at(size_of, shape, WORD_BYTES * place)
    is_bare, words_a_place = code.same(code.load(weights), NULL), code.load(words)
    are_wide = code.same(words_a_place, I64(2))
    dtype = code.select(code.or_(is_bare, are_wide), I64(id(_WIDE)), I64(id(_NARROW)))
    array = new_array(code, new_from_descr, dtype, code.select(is_bare, I64(2), I64(3)), shape)
    with code.if_then(code.not_(code.same(array, NULL))):
        target = code.load_at(array, Field.DATA)
        with code.counted(bags) as bag:
            start = _smaller(code, offsets[bag], last)
            length = code.sub(_end(code, offsets, bag, bags, last), start)
            length = _smaller(code, length, _smaller(code, width, code.sub(last, start)))
            row = code.after(target, code.mul(code.mul(bag, width), words_a_place))
            with code.counted(length) as number:
                index = _smaller(code, indices[code.add(start, number)], size)
                position = code.select(code.same(index, padding), size, index)
                code.store_at(position, code.after(row, code.mul(number, words_a_place)))
            with code.if_then(are_wide), code.counted(length) as number:
                bits = code.element(code.load(weights), code.add(start, number))
                code.store_at(bits, code.after(row, code.mul(number, words_a_place)), WORD_BYTES)
            with code.if_then(code.not_(code.or_(is_bare, are_wide))), code.counted(length) as number:
                weight = code.add(code.load(weights), code.mul(code.add(start, number), I64(_NARROW_BYTES)))
                bits = code.shl(code.zext(code.load_at(weight, 0, I32), I64), I64(32))
                place = code.after(row, number)
                code.store_at(code.or_(code.load_at(place), bits), place)
            filling = code.variable(size)
            code.store(size, filling)
            with code.if_then(code.and_(code.same(repeats_first, I64(1)), code.icmp_signed(">", length, I64(0)))):
                code.store(_smaller(code, indices[start], size), filling)
            with code.counted(code.sub(width, length)) as number:
                place = code.after(row, code.mul(code.add(length, number), words_a_place))
                code.store_at(code.load(filling), place)
                with code.if_then(are_wide):
                    code.store_at(I64(0), place, WORD_BYTES)
    code.ret(array)
    code.position_at_end(none)
    code.call_python("Py_IncRef", NONE, result=VOID)
    code.ret(NONE)


def _end(code: Code, offsets: _Numbers, bag: Word, bags: Word, last: Word) -> Word:
    """Return where a bag ends: where the next one begins, or at the end."""
    following = code.add(bag, I64(1))
    is_last = code.same(following, bags)
    return code.select(is_last, last, offsets[code.select(is_last, bag, following)])


def _larger(code: Code, left: Word, right: Word) -> Word:
    return code.select(code.icmp_unsigned(">", left, right), left, right)


def _smaller(code: Code, left: Word, right: Word) -> Word:
    return code.select(code.icmp_unsigned("<", left, right), left, right)


def run_bags(module: ir.Module, data_dtypes: int, index_dtypes: int) -> None:
    """Be `bags` of `make_tensor_call`, (self, args, count); its words have dtypes from these numbers on."""
    code = Code(module, "run_bags", 3, "external")
    self, args, _ = code.arguments
    words = code.load_at(self, Field.DATA)
    missed, bare, made, done = map(code.append_basic_block, ("missed", "bare", "made", "done"))
    result, *arrays, rows = (code.variable(NULL) for _ in range(6))
    dtype, other = (code.ptrtoint(code.variable(NULL), I64) for _ in range(2))
    given = code.ptrtoint(code.variable(ir.ArrayType(I64, _ARGUMENTS)(ir.Undefined)), I64)
    for place in range(_ARGUMENTS):
        code.store_at(code.word(args, 6 + place), given, WORD_BYTES * place)
    weights = _ARGUMENTS - 1
    tensors = (
        (1, data_dtypes, dtype),
        (6, index_dtypes, other),
        (7, index_dtypes, other),
        (6 + weights, data_dtypes, other),
    )
    for array, (place, first, dtype_place) in zip(arrays, tensors, strict=True):
        tensor = code.word(args, place)
        if place == 6 + weights:
            code.need(code.not_(code.same(tensor, NONE)), bare)
        found = code.call_function("array_of", words, tensor, code.after(words, I64(first)), dtype_place)
        code.need(code.not_(code.same(found, NULL)), missed)
        code.store(found, array)
        if place >= 6:
            code.store_at(found, given, WORD_BYTES * (place - 6))
    code.branch(bare)
    code.position_at_end(bare)
    found = code.call_python("PyObject_Vectorcall", code.word(args, 5), given, I64(_ARGUMENTS), NULL)
    code.store(found, result)
    code.cbranch(code.or_(code.same(found, NULL), code.same(found, NONE)), done, made)
    code.position_at_end(made)
    code.store(found, rows)
    call = code.ptrtoint(code.variable(ir.ArrayType(I64, 6)(ir.Undefined)), I64)
    for place, word in enumerate((code.load(arrays[0]), found, NONE, *[code.word(args, key) for key in (2, 3, 4)])):
        code.store_at(word, call, WORD_BYTES * place)
    found = code.call_python("PyObject_Vectorcall", code.word(args, 0), call, I64(6), NULL)
    code.store(found, result)
    code.need(code.and_(code.not_(code.same(found, NULL)), code.not_(code.same(found, NONE))), done)
    code.store(code.call_function("tensor_of", words, found, code.load_at(dtype)), result)
    code.branch(done)
    return_object(code, missed, done, result, [*arrays, rows])


def return_object(code: Code, missed: Any, done: Any, result: Word, objects: Sequence[Word]) -> None:
    """Return the object in `result`, from the block `missed` None, and give up the objects in some variables."""
    code.position_at_end(missed)
    code.call_python("Py_IncRef", NONE, result=VOID)
    code.store(NONE, result)
    code.branch(done)
    code.position_at_end(done)
    for each in objects:
        code.call_python("Py_DecRef", code.load(each), result=VOID)
    code.ret(code.load(result))
