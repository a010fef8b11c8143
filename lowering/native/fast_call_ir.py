"""The fast call as LLVM IR: it looks a call up in the table, and runs its kernel. Imported only where it is compiled.

It is LLVM IR since Numba takes 300 ms to compile it and LLVM 10, and unboxing an array in Numba costs more than the
whole look-up.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from .call_layout import (
    MASK_BYTES,
    MASK_WORDS,
    MODULE_COUNT,
    NO_SUBTEAM,
    PROBES,
    WORD_BYTES,
    WRITEABLE,
    Call,
    Field,
    Header,
    Known,
    Section,
    Slot,
    Way,
)
from .word_code import I32, I64, NULL, VOID, Code, Word, WordModule, object_of

_MISSED = I64(1)
_MULTIPLIER = 0x9E3779B97F4A7C15


def fast_call_object(words: Sequence[str]) -> bytes:
    """Return the object code of the fast call, whose table has words of these names."""
    module = WordModule("gathernest_entry", words)
    for build in (_hash_call, _is_like, build_known_subteam, _serve, _find, _call, _hash, _run, _known):
        build(module)
    return object_of(module)


def _hash_call(module: ir.Module) -> None:
    """hash_call(args): a hash of the arrays and the three keys."""
    code = Code(module, "hash_call", 1)
    (args,) = code.arguments
    state = code.variable(I64(0))

    def mix(value: Word) -> None:
        code.store(code.mul(code.xor(code.load(state), value), I64(_MULTIPLIER)), state)

    for key in range(3, 6):
        mix(code.word(args, key))
    for number in range(3):
        array = code.word(args, number)
        with code.if_then(code.not_(code.same(array, code.known("None")))):
            mix(code.load_at(array, Field.DESCR))
            sizes, strides = code.load_at(array, Field.SHAPE), code.load_at(array, Field.STRIDES)
            with code.counted(code.number(array, Field.RANK)) as dim:
                mix(code.element(sizes, dim))
                mix(code.element(strides, dim))
    value = code.load(state)
    code.ret(code.xor(value, code.lshr(value, I64(32))))


def _is_like(module: ir.Module) -> None:
    """is_like(array, section): whether an array has the dtype, the sizes and the strides of a section, or is None."""
    code = Code(module, "is_like", 2)
    array, section = code.arguments
    with code.if_then(code.same(array, code.known("None"))):
        code.ret(I64(1))
    no = code.append_basic_block("no")
    rank = code.number(array, Field.RANK)
    code.require(code.same(code.load_at(array, Field.DESCR), code.word(section, Section.DESCR)), no)
    code.require(code.same(rank, code.word(section, Section.RANK)), no)
    wanted = code.add(section, I64(WORD_BYTES * Section.SIZES))
    for field in (Field.SHAPE, Field.STRIDES):
        values = code.load_at(array, field)
        with code.counted(rank) as dim:
            code.require(code.same(code.element(values, dim), code.element(wanted, dim)), no)
        wanted = code.after(wanted, rank)
    code.ret(I64(1))
    code.position_at_end(no)
    code.ret(I64(0))


def _next_section(code: Code, section: Word) -> Word:
    """Return the section after this one."""
    rank = code.word(section, Section.RANK)
    return code.after(section, code.add(code.mul(rank, I64(2)), I64(Section.SIZES)))


def _reach(code: Code, array: Word, section: Word) -> tuple[Word, Word]:
    """Return the addresses of the first byte of an array and of the first one after it."""
    first = code.load_at(array, Field.DATA)
    low, high = code.word(section, Section.LOW), code.word(section, Section.HIGH)
    return code.add(first, low), code.add(first, high)


def _require_guard(code: Code, closed: Any) -> None:
    code.require(code.same(code.load_at(code.known("blocked")), I64(0)), closed)
    code.require(code.same(_context_value(code, code.known("scope")), code.known("None")), closed)
    for name in code.module.words:
        if name.startswith("variable "):
            code.require(code.same(_item(code, code.known("environment"), code.known(name)), I64(0)), closed)


def _context_value(code: Code, variable: Word) -> Word:
    """Return the address of the value of a ContextVar with a default."""
    holder = code.variable(I64(0))
    code.call_known("PyContextVar_Get", variable, I64(0), code.ptrtoint(holder, I64), result=I32)
    code.call_known("Py_DecRef", code.load(holder), result=VOID)
    return code.load(holder)


def _item(code: Code, dictionary: Word, key: Word) -> Word:
    """Return the address of a dictionary's value, 0 where it has none."""
    return code.call_known("PyDict_GetItemWithError", dictionary, key)


def _run_kernel(code: Code, call: Word, arrays: Sequence[Word], team: Word, without_gil: Word) -> Word:
    """Run a kernel and return its result; with or without the GIL."""
    addresses = [code.load_at(array, Field.DATA) for array in arrays]
    arguments = *addresses, code.add(call, I64(WORD_BYTES * Call.NUMBERS)), team
    kernel, holder = code.word(call, Call.KERNEL), code.variable(I64(0))
    with code.if_else(without_gil) as (long, short):
        with long:
            state = code.call_known("PyEval_SaveThread")
            code.store(code.call_address(kernel, *arguments), holder)
            code.call_known("PyEval_RestoreThread", state, result=VOID)
        with short:
            code.store(code.call_address(kernel, *arguments), holder)
    return code.load(holder)


def _look_up(code: Code, table: Word, args: Word, missed: Any) -> Word:
    """Return the slot of the call with these arguments."""
    arrays, keys = [code.word(args, place) for place in range(3)], [code.word(args, place) for place in range(3, 6)]
    hash_ = code.call_function("hash_call", args)
    mask = code.word(table, Header.MASK)
    has_out = code.zext(code.not_(code.same(arrays[2], code.known("None"))), I64)
    found, holder = code.append_basic_block("found"), code.variable(I64(0))
    with code.counted(I64(PROBES)) as step:
        other = code.append_basic_block("other")
        place = code.and_(code.add(hash_, step), mask)
        slot = code.after(table, code.add(code.mul(place, I64(Slot.WORDS)), I64(Header.WORDS)))
        code.require(code.same(code.word(slot, Slot.HASH), hash_), other)
        code.require(code.not_(code.same(code.word(slot, Slot.CALL), I64(0))), other)
        for number, key in enumerate(keys):
            code.require(code.same(code.word(slot, Slot.KEYS + number), key), other)
        code.require(code.same(code.word(slot, Slot.HAS_OUT), has_out), other)
        section = code.word(slot, Slot.GUARD)
        for array in arrays:
            code.require(code.same(code.call_function("is_like", array, section), I64(1)), other)
            section = _next_section(code, section)
        code.store(slot, holder)
        code.branch(found)
        code.position_at_end(other)
    code.branch(missed)
    code.position_at_end(found)
    return code.load(holder)


def _serve(module: ir.Module) -> None:
    """serve(table, args): the result of the call with these six arguments; _MISSED; or 0 with an exception set."""
    code = Code(module, "serve", 2)
    table, args = code.arguments
    missed, finish, end, failed = map(code.append_basic_block, ("missed", "finish", "end", "failed"))
    data, indices, out = (code.word(args, place) for place in range(3))
    has_none = code.same(out, code.known("None"))
    for array in (data, indices):
        code.require(code.same(code.load_at(array, Field.OB_TYPE), code.known("ndarray")), missed)
    is_array = code.same(code.load_at(out, Field.OB_TYPE), code.known("ndarray"))
    code.require(code.or_(has_none, is_array), missed)
    _require_guard(code, missed)
    slot = _look_up(code, table, args, missed)
    guard, call = code.word(slot, Slot.GUARD), code.word(slot, Slot.CALL)
    guard_indices = _next_section(code, guard)
    guard_out = _next_section(code, guard_indices)
    with code.if_then(code.not_(has_none)):
        flags = code.and_(code.number(out, Field.FLAGS), I64(WRITEABLE))
        code.require(code.not_(code.same(flags, I64(0))), missed)
        _require_apart(code, (out, guard_out), (data, guard), missed)
        _require_apart(code, (out, guard_out), (indices, guard_indices), missed)
    way, function = code.word(call, Call.WAY), code.word(call, Call.FINISH)
    is_shared, team = code.same(way, I64(Way.SHARED)), code.variable(I64(0))
    code.require(code.not_(code.same(way, I64(Way.HANDED_OVER))), finish)
    with code.if_then(is_shared):
        subteam = code.call_function("known_subteam")
        code.require(code.not_(code.same(subteam, I64(0))), finish)
        code.store(code.select(code.same(subteam, I64(NO_SUBTEAM)), I64(0), subteam), team)
    holder = code.variable(out)
    with code.if_else(has_none) as (make, take):
        with make:
            made = _new_array(code, guard_out)
            code.require(code.not_(code.same(made, I64(0))), failed)
            code.store(made, holder)
        with take:
            code.call_known("Py_IncRef", out, result=VOID)
    result = code.load(holder)
    code.call_known("Py_IncRef", function, result=VOID)  # another thread may forget the call meanwhile
    outside = _run_kernel(code, call, (data, indices, result), code.load(team), is_shared)
    with code.if_then(code.same(outside, I64(0))):
        code.call_known("Py_DecRef", function, result=VOID)
        code.ret(result)
    code.call_known("Py_DecRef", result, result=VOID)
    code.branch(end)
    code.position_at_end(finish)
    code.call_known("Py_IncRef", function, result=VOID)
    code.branch(end)
    code.position_at_end(end)
    finished = code.call_known("PyObject_Vectorcall", function, args, I64(3), I64(0))
    code.call_known("Py_DecRef", function, result=VOID)
    code.ret(finished)
    code.position_at_end(missed)
    code.ret(_MISSED)
    code.position_at_end(failed)
    code.ret(I64(0))


def _require_apart(code: Code, out: tuple[Word, Word], other: tuple[Word, Word], otherwise: Any) -> None:
    """Continue where two arrays, each with its section, share no byte."""
    (begin, end), (other_begin, other_end) = _reach(code, *out), _reach(code, *other)
    is_below, is_above = code.icmp_unsigned("<=", end, other_begin), code.icmp_unsigned(">=", begin, other_end)
    code.require(code.or_(is_below, is_above), otherwise)


def _new_array(code: Code, section: Word) -> Word:
    """Return a new C-contiguous ndarray of the dtype and the sizes of a section, or 0 with an exception set."""
    sizes, descr = code.add(section, I64(WORD_BYTES * Section.SIZES)), code.word(section, Section.DESCR)
    code.call_known("Py_IncRef", descr, result=VOID)  # NumPy takes this reference
    return code.call_address(
        *(
            code.known("PyArray_NewFromDescr"),
            code.known("ndarray"),
            descr,
            code.trunc(code.word(section, Section.RANK), I32),
        ),
        *(sizes, NULL, NULL, I32(0), NULL),
        types=[I64, I64, I64, I32, I64, I64, I64, I32],
    )


def _find(module: ir.Module) -> None:
    """find(table, args, count): as `Entry.find`."""
    code = Code(module, "find", 3, "external")
    self, args, count = code.arguments
    missed = code.append_basic_block("missed")
    code.require(code.same(count, I64(6)), missed)
    result = code.call_function("serve", code.load_at(self, Field.DATA), args)
    code.require(code.not_(code.same(result, _MISSED)), missed)
    code.ret(result)
    code.position_at_end(missed)
    code.call_known("Py_IncRef", code.known("None"), result=VOID)
    code.ret(code.known("None"))


def _call(module: ir.Module) -> None:
    """call((table, otherwise), args, count, names): as `Entry.call`."""
    code = Code(module, "call", 4, "external")
    self, args, count, names = code.arguments
    missed, known = code.append_basic_block("missed"), code.append_basic_block("known")
    table, otherwise = (code.call_known("PyTuple_GetItem", self, I64(place)) for place in range(2))
    has_names = code.not_(code.same(names, I64(0)))
    has_out = code.or_(has_names, code.same(code.sub(count, I64(2)), I64(1)))
    with code.if_then(has_names):
        code.require(code.same(code.call_known("PyTuple_Size", names), I64(1)), missed)
        code.require(code.same(code.call_known("PyTuple_GetItem", names, I64(0)), code.known("out")), missed)
        code.require(code.same(count, I64(2)), missed)
        code.branch(known)
    code.require(code.or_(code.same(count, I64(2)), code.same(count, I64(3))), missed)
    code.branch(known)
    code.position_at_end(known)
    whole = code.variable(ir.ArrayType(I64, 6)(ir.Undefined))
    base = code.ptrtoint(whole, I64)
    holder = code.variable(code.known("None"))
    with code.if_then(has_out):
        code.store(code.word(args, 2), holder)
    values = [code.word(args, 0), code.word(args, 1), code.load(holder), *[code.known("None")] * 3]
    for place, value in enumerate(values):
        code.store(value, code.inttoptr(code.add(base, I64(WORD_BYTES * place)), I64.as_pointer()))
    result = code.call_function("serve", code.load_at(table, Field.DATA), base)
    code.require(code.not_(code.same(result, _MISSED)), missed)
    code.ret(result)
    code.position_at_end(missed)
    code.ret(code.call_known("PyObject_Vectorcall", otherwise, args, count, names))


def _hash(module: ir.Module) -> None:
    """hash(table, args, count): the hash of a call, as `find` computes it."""
    code = Code(module, "hash", 3, "external")
    code.ret(code.call_known("PyLong_FromLongLong", code.call_function("hash_call", code.arguments[1])))


def _run(module: ir.Module) -> None:
    """run(call, args, count): run a kernel on data, indices and out, with the team at the fourth argument, or 0."""
    code = Code(module, "run", 3, "external")
    self, args, _ = code.arguments
    arrays = [code.word(args, place) for place in range(3)]
    team = code.call_known("PyLong_AsLongLong", code.word(args, 3))
    call = code.load_at(self, Field.DATA)
    without_gil = code.not_(code.same(code.word(call, Call.WAY), I64(Way.ALONE)))
    outside = _run_kernel(code, call, arrays, team, without_gil)
    code.ret(code.call_known("PyLong_FromLongLong", outside))


def _known(module: ir.Module) -> None:
    """known(None, args, count): as `Entry.known_subteam`."""
    code = Code(module, "known", 3, "external")
    subteam = code.call_function("known_subteam")
    with code.if_then(code.same(subteam, I64(0))):
        code.call_known("Py_IncRef", code.known("None"), result=VOID)
        code.ret(code.known("None"))
    address = code.select(code.same(subteam, I64(NO_SUBTEAM)), I64(0), subteam)
    code.ret(code.call_known("PyLong_FromLongLong", address))


# The known subteam


def build_known_subteam(module: ir.Module) -> None:
    """Add known_subteam(): the subteam that a call may use, `NO_SUBTEAM`, or 0 where that is not known."""
    code = Code(module, "known_subteam", 0)
    names: list[str] = code.module.words
    words, unknown = code.known("known"), code.append_basic_block("unknown")
    subteam = code.word(words, Known.SUBTEAM)
    code.require(code.not_(code.same(subteam, I64(0))), unknown)
    scope = _context_value(code, code.known("known scope"))
    code.require(code.same(scope, code.word(words, Known.SCOPE)), unknown)
    for number in range(sum(name.startswith("setting ") for name in names)):
        found = _item(code, code.known(f"settings {number}"), code.known(f"setting {number}"))
        code.require(code.same(found, code.word(words, Known.VALUES + number)), unknown)
    for number in range(MODULE_COUNT):
        noted, attributes, value = (code.word(words, Known.MODULES + 3 * number + at) for at in range(3))
        module_now = _item(code, code.known("sys.modules"), code.known(f"module {number}"))
        code.require(code.same(module_now, noted), unknown)
        with code.if_then(code.not_(code.same(attributes, I64(0)))):
            code.require(code.same(_item(code, attributes, code.known(f"attribute {number}")), value), unknown)
    if "sched_getaffinity" in names:
        _require_cores(code, words, unknown)
    code.ret(subteam)
    code.position_at_end(unknown)
    code.ret(I64(0))


def _require_cores(code: Code, words: Word, unknown: Any) -> None:
    """Continue where the caller may use the cores that are known."""
    mask = code.ptrtoint(code.variable(ir.ArrayType(I64, MASK_WORDS)(ir.Undefined)), I64)
    arguments = I32(0), I64(MASK_BYTES), mask
    failed = code.call_address(code.known("sched_getaffinity"), *arguments, types=[I32, I32])
    code.require(code.icmp_signed(">=", failed, I32(0)), unknown)
    known = code.after(words, I64(Known.MASK))
    with code.counted(I64(MASK_WORDS)) as number:
        code.require(code.same(code.element(mask, number), code.element(known, number)), unknown)
