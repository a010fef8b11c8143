"""The fast call for tensors: from the tensors of a library to the fast call for arrays, and its result back.

The library says where a tensor lies, and takes memory as a tensor, by the C functions of its type's
`__dlpack_c_exchange_api__` (DLPack 1). That costs 20 ns a tensor; a view as an array from Python costs 300 to 1200.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from llvmlite import ir

from .bag_rows import return_object, run_bags
from .call_layout import WORD_BYTES, WRITEABLE, Field, Tensor
from .llvm_jit import FASTCALL, I32, I64, NONE, NULL, VOID, Code, Word, address_in, builtin, keep_for_ever, machine_code
from .new_array import NEW_FROM_DESCR, SET_BASE_OBJECT, new_array, numpy_functions
from .tensor_gradient import (
    ARGUMENTS_OF_GRADIENT,
    DESCRIPTION,
    ONE_LANE,
    add_are_distinct,
    add_count,
    attribute,
    differentiate,
    run_and_save,
    run_own,
)

_MAJOR_VERSION = 1
_CPU, _FLOAT, _COMPLEX = 1, 2, 5
_FLOAT32, _DLPACK_FLOAT32 = np.dtype(np.float32), ONE_LANE << 16 | 32 << 8 | _FLOAT
_CODES, _SIZES = 32, 8  # of element types: codes, and powers of two of bytes
_MOST_DIMS = 32  # of an array of NumPy 1


class Api(IntEnum):
    """Offsets in bytes of the fields of a DLPackExchangeAPI."""

    VERSION = 0
    TO_OBJECT = 32
    DESCRIBE = 40


class Managed(IntEnum):
    """Offsets in bytes of the fields of a DLManagedTensorVersioned; the strides of ours follow it."""

    VERSION = 0
    OWNER = 8
    DELETER = 16
    FLAGS = 24
    TENSOR = 32
    BYTES = 80


class Library(IntEnum):
    """The words that describe a library; the dtypes of data and those of indices follow, by code and size."""

    DESCRIBE = 0
    TO_OBJECT = 1
    FORGET = 2
    TYPES = 3  # two types of objects that are tensors
    INDEX_RANK = 5
    DATA_DTYPES = 8
    INDEX_DTYPES = DATA_DTYPES + _CODES * _SIZES
    WORDS = INDEX_DTYPES + _CODES * _SIZES


# What a library calls its element types, `(code, bytes)` in DLPack's numbers, and the dtypes that stand for them.
Dtypes = dict[tuple[int, int], np.dtype]
ANY_RANK = -1


@dataclass(frozen=True, slots=True)
class TensorLibrary:
    """What the tensors of a library are.

    Attributes:
        exchange_api: the capsule that the type of tensors has.
        types: of tensors: objects of other types are none.
        guards: functions without arguments, with the object that each returns unless somebody watches the calls.
        is_grad_enabled: returns whether gradients are wanted of tensors that have `requires_grad`.
        dtypes: those that data and `out` are read as.
        bytes_dtypes: the library's own two dtypes of integers of 8 bits: those of fewer are described as these.
    """

    exchange_api: Any
    types: tuple[type, type]
    guards: Sequence[tuple[Callable[[], Any], Any]]
    is_grad_enabled: Callable[[], bool]
    dtypes: Dtypes
    bytes_dtypes: tuple[Any, Any]


def make_tensor_call(
    library: TensorLibrary, indices: Sequence[tuple[Dtypes, int]]
) -> list[tuple[Callable[..., Any], ...]]:
    """Return, for each way to read indices, three functions that run a remembered call on tensors.

    `function(find, data, indices, out, a, b, c)` gives `find` of the call cache the tensors as arrays, and returns its
    result as a new tensor, or `out`, or None where it found nothing or an argument is no plain tensor on the CPU.
    `function(find, data, indices, out, a, b, c, others, apply, own)` returns None, too, where a gradient of `out` is
    wanted. Where one of data is, it returns `apply(data, (find, indices, a, b, c, (data.shape, *others)))`, or what the
    library's `own` function does: see `tensor_gradient`.

    `forward(ctx, data, (find, indices, a, b, c, kept))` sets `ctx.to_save = (indices,)` and `ctx.kept = kept`, and
    returns what `function` does: as machine code it is the forward of a `torch.autograd.Function`.

    `bags(find, data, a, b, c, rows, indices, offsets, ..., weights)` gives `find` data and what `rows` makes of arrays
    on indices, offsets and weights, which may be None, and of the arguments between them: that of `bag_rows`. It does
    not look whether somebody watches the calls.

    Args:
        library: whose tensors they are.
        indices: for each function, the dtypes that indices are read as, and the rank that they must have.

    Raises:
        NotImplementedError: the library has another version of these functions.
    """
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    api = get(library.exchange_api, b"dlpack_exchange_api")
    describe, to_object = (_word_at(api + field) for field in (Api.DESCRIBE, Api.TO_OBJECT))
    if ctypes.c_uint32.from_address(api + Api.VERSION).value != _MAJOR_VERSION or not describe or not to_object:
        raise NotImplementedError
    keep_for_ever((library, indices))
    module = ir.Module("gathernest_tensor_call")
    for function in (_forget, _is_lazy, _describe):
        function(module)
    _array_of(module, library.bytes_dtypes)
    for function in (_tensor_of, _run):
        function(module)
    run_bags(module, Library.DATA_DTYPES, Library.INDEX_DTYPES)
    for function in (run_and_save, add_count, add_are_distinct, run_own, differentiate):
        function(module)
    _find(module, library)
    address = machine_code(module)
    names = "find_tensors", "run_and_save", "run_bags"
    binders = [builtin(name, address, FASTCALL) for name in names]
    functions = []
    for index_dtypes, rank in indices:
        words = np.zeros(Library.WORDS, np.int64)
        words[: Library.INDEX_RANK + 1] = describe, to_object, address("forget"), *map(id, library.types), rank
        for first, known in ((Library.DATA_DTYPES, library.dtypes), (Library.INDEX_DTYPES, index_dtypes)):
            for (code, size), dtype in known.items():
                words[first + code * _SIZES + size.bit_length() - 1] = id(dtype)
        functions.append(tuple(bind(words) for bind in binders))
    return functions


def _word_at(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _forget(module: ir.Module) -> None:
    """forget(managed): free a result's memory, which the library does on any thread, and after Python is gone."""
    code = Code(module, "forget", 1, "external")
    (managed,) = code.arguments
    is_over = code.same(code.call_python("Py_IsInitialized", result=I32), I32(0))
    with code.if_then(code.not_(is_over)):
        state = code.call_python("PyGILState_Ensure", result=I32)
        code.call_python("Py_DecRef", code.load_at(managed, Managed.OWNER), result=VOID)
        code.call_address(address_in(ctypes.pythonapi, "PyGILState_Release"), state, types=[VOID, I32])
        code.call_python("PyMem_RawFree", managed, result=VOID)
    code.ret(NULL)


def _is_lazy(module: ir.Module) -> None:
    """is_lazy(tensor, name): whether the tensor's method of this name says no; an error means yes."""
    code = Code(module, "is_lazy", 2)
    tensor, name = code.arguments
    place = code.ptrtoint(code.variable(tensor), I64)
    found = code.call_python("PyObject_VectorcallMethod", name, place, I64(1), NULL)
    with code.if_then(code.same(found, NULL)):
        code.call_python("PyErr_Clear", result=VOID)
        code.ret(I64(1))
    code.call_python("Py_DecRef", found, result=VOID)
    code.ret(code.zext(code.not_(code.same(found, I64(id(False)))), I64))


def _describe(module: ir.Module) -> None:
    """describe(words, tensor, dl): whether it is a tensor on the CPU; puts its description at `dl`."""
    code = Code(module, "describe", 3)
    words, tensor, dl = code.arguments
    none = code.append_basic_block("none")
    kind = code.load_at(tensor, Field.OB_TYPE)
    is_tensor = [code.same(kind, code.word(words, Library.TYPES + number)) for number in range(2)]
    code.need(code.or_(*is_tensor), none)
    status = code.call_address(code.word(words, Library.DESCRIBE), tensor, dl, types=[I32])
    with code.if_then(code.not_(code.same(status, I32(0)))):
        code.call_python("PyErr_Clear", result=VOID)
        code.branch(none)
    code.ret(code.zext(code.same(code.number(dl, Tensor.DEVICE), I64(_CPU)), I64))
    code.position_at_end(none)
    code.ret(NULL)


def _array_of(module: ir.Module, bytes_dtypes: tuple[Any, Any]) -> None:
    """array_of(words, tensor, dtypes, dtype): a new array on a tensor's memory, or 0; puts its dtype at `dtype`."""
    code = Code(module, "array_of", 4)
    words, tensor, dtypes, dtype_place = code.arguments
    none, failed = map(code.append_basic_block, ("none", "failed"))
    dl = code.ptrtoint(code.variable(DESCRIPTION(ir.Undefined)), I64)
    code.need(code.same(code.call_function("describe", words, tensor, dl), I64(1)), none)
    rank = code.number(dl, Tensor.RANK)
    code.need(code.icmp_unsigned("<=", rank, I64(_MOST_DIMS)), none)
    dtype = code.load_at(dl, Tensor.DTYPE, I32)
    code.store_at(dtype, dtype_place)
    wide = code.zext(dtype, I64)
    number, size = code.and_(wide, I64(0xFF)), code.and_(code.lshr(wide, I64(11)), I64(0x1F))
    code.need(code.same(code.lshr(wide, I64(16)), I64(ONE_LANE)), none)
    code.need(code.icmp_unsigned("<", number, I64(_CODES)), none)
    code.need(code.not_(code.same(size, I64(0))), none)
    shift = code.cttz(size, ir.IntType(1)(1))
    descr = code.element(dtypes, code.add(code.mul(number, I64(_SIZES)), shift))
    code.need(code.not_(code.same(descr, I64(0))), none)
    with code.if_then(code.and_(code.same(size, I64(1)), code.icmp_unsigned("<", number, I64(_FLOAT)))):
        own = attribute(code, tensor, "dtype")
        with code.if_then(code.same(own, NULL)):
            code.branch(failed)
        code.call_python("Py_DecRef", own, result=VOID)  # the library has another reference
        code.need(code.or_(*[code.same(own, I64(id(dtype))) for dtype in bytes_dtypes]), none)
    with code.if_then(code.icmp_unsigned(">=", number, I64(_FLOAT))):  # a view of integers is never negated
        _need_not_lazy(code, tensor, "is_neg", none)
    with code.if_then(code.same(number, I64(_COMPLEX))):
        _need_not_lazy(code, tensor, "is_conj", none)
    strides = code.ptrtoint(code.variable(ir.ArrayType(I64, _MOST_DIMS)(ir.Undefined)), I64)
    given = code.load_at(dl, Tensor.STRIDES)
    with code.counted(rank) as dim:
        code.store_at(code.shl(code.element(given, dim), shift), code.after(strides, dim))
    data = code.load_at(dl, Tensor.DATA)
    code.need(code.not_(code.same(data, NULL)), none)
    first = code.add(data, code.load_at(dl, Tensor.FIRST_BYTE))
    new_from_descr, sizes = numpy_functions()[NEW_FROM_DESCR], code.load_at(dl, Tensor.SHAPE)
    array = new_array(code, new_from_descr, descr, rank, sizes, strides, first, WRITEABLE)
    code.need(code.not_(code.same(array, NULL)), failed)
    code.call_python("Py_IncRef", tensor, result=VOID)  # the array takes this reference
    code.call_address(I64(numpy_functions()[SET_BASE_OBJECT]), array, tensor, types=[I32])
    code.ret(array)
    code.position_at_end(failed)
    code.call_python("PyErr_Clear", result=VOID)
    code.branch(none)
    code.position_at_end(none)
    code.ret(NULL)


def _need_not_lazy(code: Code, tensor: Word, method: str, otherwise: Any) -> None:
    """Continue where a tensor's values are those in its memory."""
    is_lazy = code.call_function("is_lazy", tensor, I64(id(keep_for_ever(method))))
    code.need(code.same(is_lazy, NULL), otherwise)


def _tensor_of(module: ir.Module) -> None:
    """tensor_of(words, array, dtype): a tensor on a C-contiguous array's memory, which owns it; 0 is an exception.

    Of a dtype, unless the array is of float32, as sums of narrow floats are.
    """
    code = Code(module, "tensor_of", 3)
    words, array, dtype = code.arguments
    dtype = code.select(code.same(code.load_at(array, Field.DESCR), I64(id(_FLOAT32))), I64(_DLPACK_FLOAT32), dtype)
    rank = code.number(array, Field.RANK)
    managed = code.call_python("PyMem_RawMalloc", code.after(I64(Managed.BYTES), rank))
    with code.if_then(code.same(managed, NULL)):
        code.call_python("Py_DecRef", array, result=VOID)
        code.ret(code.call_python("PyErr_NoMemory"))
    strides = code.add(managed, I64(Managed.BYTES))
    for value, place in (
        (I64(_MAJOR_VERSION), Managed.VERSION),
        (array, Managed.OWNER),
        (code.word(words, Library.FORGET), Managed.DELETER),
        (NULL, Managed.FLAGS),
        (code.load_at(array, Field.DATA), Managed.TENSOR + Tensor.DATA),
        (I64(_CPU), Managed.TENSOR + Tensor.DEVICE),
        (code.trunc(rank, I32), Managed.TENSOR + Tensor.RANK),
        (code.trunc(dtype, I32), Managed.TENSOR + Tensor.DTYPE),
        (code.load_at(array, Field.SHAPE), Managed.TENSOR + Tensor.SHAPE),
        (strides, Managed.TENSOR + Tensor.STRIDES),
        (NULL, Managed.TENSOR + Tensor.FIRST_BYTE),
    ):
        code.store_at(value, managed, place)
    sizes, step = code.load_at(array, Field.SHAPE), code.variable(I64(1))
    with code.counted(rank) as number:  # NumPy's strides are 0 where there are no elements
        dim = code.sub(code.sub(rank, number), I64(1))
        code.store_at(code.load(step), code.after(strides, dim))
        size = code.element(sizes, dim)
        code.store(code.mul(code.load(step), code.add(size, code.zext(code.same(size, I64(0)), I64))), step)
    holder = code.variable(NULL)
    code.call_address(code.word(words, Library.TO_OBJECT), managed, code.ptrtoint(holder, I64), types=[I32])
    code.ret(code.load(holder))


def _find(module: ir.Module, library: TensorLibrary) -> None:
    """find_tensors(self, args, count): `function` of `make_tensor_call`."""
    code = Code(module, "find_tensors", 3, "external")
    self, args, count = code.arguments
    missed, run = map(code.append_basic_block, ("missed", "run"))
    data, out = code.word(args, 1), code.word(args, 3)
    for guard, wanted in library.guards:
        said = code.call_python("PyObject_CallNoArgs", I64(id(guard)))
        code.need(_is_object(code, said, wanted, missed), missed)
    code.need(code.same(count, I64(ARGUMENTS_OF_GRADIENT)), run)
    with code.if_then(code.not_(code.same(out, NONE))):
        is_derived = _is_object(code, attribute(code, out, "requires_grad"), True, missed)
        code.need(code.not_(is_derived), missed)
    code.need(_is_object(code, attribute(code, data, "requires_grad"), True, missed), run)
    is_enabled = code.call_python("PyObject_CallNoArgs", I64(id(library.is_grad_enabled)))
    code.need(_is_object(code, is_enabled, True, missed), run)
    code.need(code.same(out, NONE), missed)
    code.ret(code.call_function("differentiate", code.load_at(self, Field.DATA), args))
    code.position_at_end(run)
    code.ret(code.call_function("run", code.load_at(self, Field.DATA), args))
    code.position_at_end(missed)
    code.call_python("Py_IncRef", NONE, result=VOID)
    code.ret(NONE)


def _is_object(code: Code, found: Word, wanted: Any, missed: Any) -> Word:
    """Return whether an object is one that lives on, and give it up; where it is an error, clear that and miss."""
    with code.if_then(code.same(found, NULL)):
        code.call_python("PyErr_Clear", result=VOID)
        code.branch(missed)
    code.call_python("Py_DecRef", found, result=VOID)
    return code.same(found, I64(id(wanted)))


def _run(module: ir.Module) -> None:
    """run(words, args): the result of `find`, or None; 0 with an exception set."""
    code = Code(module, "run", 2)
    words, args = code.arguments
    missed, done = map(code.append_basic_block, ("missed", "done"))
    result = code.variable(NONE)
    arrays = [code.variable(NULL) for _ in range(3)]
    dtypes = [code.ptrtoint(code.variable(NULL), I64) for _ in range(3)]
    call = code.ptrtoint(code.variable(ir.ArrayType(I64, 6)(ir.Undefined)), I64)
    out, rank = code.word(args, 3), code.word(words, Library.INDEX_RANK)
    for place, first in enumerate((Library.DATA_DTYPES, Library.INDEX_DTYPES, Library.DATA_DTYPES)):
        following, tensor = code.append_basic_block("following"), code.word(args, 1 + place)
        if place == 2:
            code.store_at(NONE, call, WORD_BYTES * place)
            code.need(code.not_(code.same(tensor, NONE)), following)
        array = code.call_function("array_of", words, tensor, code.after(words, I64(first)), dtypes[place])
        code.need(code.not_(code.same(array, NULL)), missed)
        code.store(array, arrays[place])
        code.store_at(array, call, WORD_BYTES * place)
        if place == 1:
            is_fit = code.same(code.number(array, Field.RANK), rank)
            code.need(code.or_(is_fit, code.same(rank, I64(ANY_RANK))), missed)
        code.branch(following)
        code.position_at_end(following)
    for key in range(3, 6):
        code.store_at(code.word(args, key + 1), call, WORD_BYTES * key)
    found = code.call_python("PyObject_Vectorcall", code.word(args, 0), call, I64(6), NULL)
    code.store(found, result)
    is_found = code.and_(code.not_(code.same(found, NULL)), code.not_(code.same(found, NONE)))
    code.need(is_found, done)
    with code.if_else(code.same(out, NONE)) as (make, take):
        with make:
            code.store(code.call_function("tensor_of", words, found, code.load_at(dtypes[0])), result)
        with take:
            code.call_python("Py_IncRef", out, result=VOID)
            code.call_python("Py_DecRef", found, result=VOID)
            code.store(out, result)
    code.branch(done)
    return_object(code, missed, done, result, arrays)
