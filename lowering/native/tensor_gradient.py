"""The gradient of a fast call for tensors, by a `torch.autograd.Function` whose forward is machine code.

Written in Python, a forward that saves its indices and looks a call up takes 0.4 us more. Of few indices it is the
library's own function that runs, which makes no such function: it adds in the same order, so its bytes are the same.
"""

import sys

from llvmlite import ir

from .call_layout import WORD_BYTES, Field
from .llvm_jit import I32, I64, IMMORTAL, NONE, NULL, VOID, Code, Word

ARGUMENTS_OF_GRADIENT = 10  # of a call of which a gradient may be wanted
MOST_OTHERS = 4
_MOST_TABLE_ELEMENTS = 1 << 18  # of the library's own gradient: new memory costs more than a call is slower
_INTEGER, _FLOAT = 0, 2  # codes of element types
_TUPLE_SIZE, _TUPLE_ITEMS = object.__basicsize__, tuple.__basicsize__  # offsets in bytes


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


def run_own(module: ir.Module) -> None:
    """Return what `own` gives for (words, args), or 0 where it is not for such a call or raises an error.

    `own = (function, place, most)` is for at most `most` indices of 32 or 64 bits and tables of few float32 or float64:
    `function(data, *others)` with the indices put at `place`, 1 or later.
    """
    code = Code(module, "run_own", 2)
    words, args = code.arguments
    none = code.append_basic_block("none")
    data, indices, others, own = (code.word(args, place) for place in (1, 2, 7, 9))
    function, place, most = (code.load_at(own, _TUPLE_ITEMS + WORD_BYTES * number) for number in range(3))
    for tensor, kind, limit in (
        (indices, _INTEGER, code.call_python("PyLong_AsSsize_t", most)),
        (data, _FLOAT, I64(_MOST_TABLE_ELEMENTS)),
    ):
        count = code.call_function("count", words, tensor, I64(kind))
        code.need(code.icmp_unsigned("<=", count, limit), none)  # -1 is large
    given = code.ptrtoint(code.variable(ir.ArrayType(I64, 2 + MOST_OTHERS)(ir.Undefined)), I64)
    code.store_at(data, given)
    before, count = code.sub(code.call_python("PyLong_AsSsize_t", place), I64(1)), code.load_at(others, _TUPLE_SIZE)
    with code.counted(count) as number:
        shift = code.zext(code.icmp_signed(">=", number, before), I64)
        other = code.load_at(code.after(others, number), _TUPLE_ITEMS)
        code.store_at(other, code.after(given, code.add(number, shift)), WORD_BYTES)
    code.store_at(indices, code.after(given, before), WORD_BYTES)
    result = code.call_python("PyObject_Vectorcall", function, given, code.add(count, I64(2)), NULL)
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
    IMMORTAL.append(sys.intern(name))
    return code.call_python("PyObject_GetAttr", target, I64(id(IMMORTAL[-1])))


def _set_attribute(code: Code, target: Word, name: str, value: Word) -> Word:
    """Set an attribute; returns a C int, which is 0 unless an exception is set."""
    IMMORTAL.append(sys.intern(name))
    return code.call_python("PyObject_SetAttr", target, I64(id(IMMORTAL[-1])), value, result=I32)
