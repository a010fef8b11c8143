"""The known subteam: the threads of the last parallel launch, for a call that is as it was then.

To ask how many threads a launch may use takes Python 1.5 microseconds, and 2 where a kernel has just left none of its
code in the caches. Machine code sees in a tenth of that whether all that decides it, but the quota, is what it was. It
compares words that Python wrote.
"""

import ctypes
import functools
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from llvmlite import ir

from ..llvm_jit import I32, I64, VOID, WORD_BYTES, Code, Word, address_in, keep_for_ever
from .thread_team_ir import MASK_BYTES, libc

# Stands for no subteam where a caller does all alone; 0 says that nothing is known.
NO_SUBTEAM = 1
MOST_VALUES = 4
_MASK_WORDS = MASK_BYTES // WORD_BYTES
_MISSING = object()
# Modules of Numba, which need not be imported, and the attribute of each that counts: whether it has started threads,
# each of which may be set to fewer; and how many it has.
_POOL, _CONFIG = ("numba.np.ufunc.parallel", "_is_initialized"), ("numba.core.config", "NUMBA_NUM_THREADS")
_ATTRIBUTES = _POOL, _CONFIG


class Known(IntEnum):
    """The words of what is known; objects stand there as their addresses."""

    SUBTEAM = 0
    SCOPE = 1  # the value of the context variable
    VALUES = 2  # those of dictionaries; 0 of one that is not there
    MODULES = VALUES + MOST_VALUES  # of each the module, its dictionary and the value of its attribute
    MASK = MODULES + 3 * len(_ATTRIBUTES)  # the cores that the caller may use, a bit each
    WORDS = MASK + _MASK_WORDS


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """What decides how many threads a launch may use, beside the cores of its caller and Numba.

    Attributes:
        scope: a ContextVar with a default.
        values: (dictionary, key) of settings; a key may be missing.
    """

    scope: Any
    values: tuple[tuple[dict[Any, Any], Any], ...]

    def now(self) -> tuple[Any, ...]:
        """Return the objects that settings are now: of the scope, of the values, and the modules of Numba."""
        values = (dictionary.get(key, _MISSING) for dictionary, key in self.values)
        return self.scope.get(), *values, *(sys.modules.get(name, _MISSING) for name, _ in _ATTRIBUTES)


class KnownSubteam:
    """Words that machine code compares with what is there when it is called."""

    def __init__(self, settings: ThreadSettings):
        """Know nothing; the words live as long as this."""
        assert len(settings.values) <= MOST_VALUES
        self.settings = settings
        self._words = array("q", bytes(WORD_BYTES * Known.WORDS))
        self._seen: tuple[Any, ...] = ()
        self._noted: tuple[Any, ...] = ()

    @property
    def address(self) -> int:
        """Where the words are."""
        return self._words.buffer_info()[0]

    def forget(self) -> None:
        """Know nothing."""
        self._words[Known.SUBTEAM], self._seen = 0, ()

    def remember(self, subteam: int, settings: tuple[Any, ...]) -> None:
        """Note the subteam of a launch, 0 for none, and the settings that it was found with, where they still hold.

        That is done when the same settings come for the second time: a scope around each call would never come back.
        Where Numba has started its threads, each of which may be set to fewer, nothing is known.
        """
        seen, self._seen = self._seen, settings
        if not _same(seen, settings) or not _same(settings, self.settings.now()):
            return
        scope, *rest = settings
        values, modules = rest[: len(self.settings.values)], rest[len(self.settings.values) :]
        if modules[0] is not _MISSING and getattr(modules[0], _POOL[1], None) is not False:
            return self.forget()
        mask = _mask()
        if mask is None:
            return self.forget()
        found = [_address(value) for value in values]
        found += [0] * (MOST_VALUES - len(found))
        for module, (_, attribute) in zip(modules, _ATTRIBUTES, strict=True):
            names = getattr(module, "__dict__", {})
            is_there = type(names) is dict and module is not _MISSING
            found += [_address(module), id(names) if is_there else 0, _address(names.get(attribute, _MISSING))]
        words = [subteam or NO_SUBTEAM, id(scope), *found, *mask]
        self._words[:] = array("q", words)  # one step for other threads
        self._noted = settings  # another object at the address of one that is gone would be taken for it


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))


def _address(value: Any) -> int:
    return 0 if value is _MISSING else id(value)


def _mask() -> Sequence[int] | None:
    """Return the words of the cores that this thread may use: 0 where no system tells, None where it fails to."""
    mask, get = (ctypes.c_int64 * _MASK_WORDS)(), _affinity_function()
    return list(mask) if get is None or get(0, ctypes.c_size_t(MASK_BYTES), mask) >= 0 else None


@functools.cache
def _affinity_function() -> Any:
    """Return the function of the C library that tells the cores of a thread; None where there is none."""
    try:
        return getattr(libc(), "sched_getaffinity", None)
    except OSError:
        return None


def build_known_subteam(module: ir.Module, known: KnownSubteam) -> None:
    """Add known_subteam(): the subteam that a call may use, `NO_SUBTEAM`, or 0 where that is not known."""
    code = Code(module, "known_subteam", 0)
    words, unknown = I64(known.address), code.append_basic_block("unknown")
    subteam = code.word(words, Known.SUBTEAM)
    code.need(code.not_(code.same(subteam, I64(0))), unknown)
    holder = code.variable(I64(0))
    place = code.ptrtoint(holder, I64)
    code.call_python("PyContextVar_Get", I64(id(known.settings.scope)), I64(0), place, result=I32)
    code.call_python("Py_DecRef", code.load(holder), result=VOID)
    code.need(code.same(code.load(holder), code.word(words, Known.SCOPE)), unknown)
    for number, (dictionary, key) in enumerate(known.settings.values):
        found = _item(code, I64(id(dictionary)), key)
        code.need(code.same(found, code.word(words, Known.VALUES + number)), unknown)
    for number, (name, attribute) in enumerate(_ATTRIBUTES):
        noted, names, value = (code.word(words, Known.MODULES + 3 * number + at) for at in range(3))
        code.need(code.same(_item(code, I64(id(keep_for_ever(sys.modules))), name), noted), unknown)
        with code.if_then(code.not_(code.same(names, I64(0)))):
            code.need(code.same(_item(code, names, attribute), value), unknown)
    if _affinity_function() is not None:
        _need_cores(code, words, unknown)
    code.ret(subteam)
    code.position_at_end(unknown)
    code.ret(I64(0))


def _item(code: Code, dictionary: Word, key: Any) -> Word:
    """Return the address of a dictionary's value, 0 where it has none."""
    return code.call_python("PyDict_GetItemWithError", dictionary, I64(id(keep_for_ever(key))))


def _need_cores(code: Code, words: Word, unknown: Any) -> None:
    """Continue where the caller may use the cores that are known."""
    mask = code.ptrtoint(code.variable(ir.ArrayType(I64, _MASK_WORDS)(ir.Undefined)), I64)
    get = address_in(libc(), "sched_getaffinity")
    failed = code.call_address(get, I32(0), I64(MASK_BYTES), mask, types=[I32, I32])
    code.need(code.icmp_signed(">=", failed, I32(0)), unknown)
    known = code.after(words, I64(Known.MASK))
    with code.counted(I64(_MASK_WORDS)) as number:
        code.need(code.same(code.element(mask, number), code.element(known, number)), unknown)
