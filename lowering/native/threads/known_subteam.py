"""The known subteam: the threads of the last parallel launch, for a call that is as it was then.

To ask how many threads a launch may use takes Python 1.5 microseconds, and 2 where a kernel has just left none of its
code in the caches; machine code sees in a tenth of that whether all that decides it is what it was. Plain words, which
Python writes and machine code compares.
"""

import ctypes
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from llvmlite import ir

from ..llvm_jit import I32, I64, VOID, WORD_BYTES, Code, Word, address_in
from .thread_team_ir import MASK_BYTES, libc

# Stands for no subteam where a caller does all alone; 0 says that nothing is known.
ALONE = 1
MOST_VALUES = 4
_MASK_WORDS = MASK_BYTES // WORD_BYTES
_MISSING = object()
_POOL, _IS_STARTED = "numba.np.ufunc.parallel", "_is_initialized"


class Known(IntEnum):
    """The words of what is known."""

    SUBTEAM = 0
    SCOPE = 1  # the value of the context variable, as its address
    VALUES = 2  # the same of the values of dictionaries; 0 of one that is not there
    POOL = VALUES + MOST_VALUES  # the dictionary of Numba's pool of threads; 0 where it is not imported
    MASK = POOL + 1  # the cores that the caller may use, a bit each
    WORDS = MASK + _MASK_WORDS


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """What decides how many threads a launch may use, beside the cores of its caller and Numba's pool.

    Attributes:
        scope: a ContextVar with a default.
        values: (dictionary, key) of settings; a key may be missing.
    """

    scope: Any
    values: tuple[tuple[dict[Any, Any], Any], ...]

    def now(self) -> tuple[Any, ...]:
        """Return the objects that settings are now."""
        return self.scope.get(), *(dictionary.get(key, _MISSING) for dictionary, key in self.values)


class KnownSubteam:
    """Words that machine code compares with what is there when it is called."""

    def __init__(self, settings: ThreadSettings):
        """Know nothing; the words live as long as this."""
        assert len(settings.values) < MOST_VALUES
        self.settings = ThreadSettings(settings.scope, (*settings.values, (sys.modules, _POOL)))
        self._words = array("q", bytes(WORD_BYTES * Known.WORDS))
        self._seen = self._noted = ()

    @property
    def address(self) -> int:
        return self._words.buffer_info()[0]

    def forget(self) -> None:
        """Know nothing."""
        self._words[Known.SUBTEAM] = 0

    def remember(self, subteam: int, settings: tuple[Any, ...]) -> None:
        """Note the subteam of a launch, 0 for none, and the settings that it was found with.

        That is done when the same settings come for the second time: a scope around each call would never come back.
        Where Numba has started its threads, each of which may be set to fewer, nothing is known.
        """
        seen, self._seen = self._seen, settings
        if len(seen) != len(settings) or any(one is not other for one, other in zip(seen, settings, strict=True)):
            return
        scope, *values, pool = settings
        names, mask = getattr(pool, "__dict__", {}), _mask()
        if mask is None or (pool is not _MISSING and names.get(_IS_STARTED) is not False):
            return self.forget()
        found = [0 if value is _MISSING else id(value) for value in (*values, pool)]
        found += [0] * (MOST_VALUES - len(found))
        words = [subteam or ALONE, id(scope), *found, 0 if pool is _MISSING else id(names), *mask]
        self._words[:] = array("q", words)  # one step for other threads
        self._noted = settings  # another object at the address of one that is gone would be taken for it


def _mask() -> Sequence[int] | None:
    """Return the words of the cores that this thread may use: 0 where no system tells, None where it fails to."""
    mask = (ctypes.c_int64 * _MASK_WORDS)()
    if not _tells_cores():
        return list(mask)
    return list(mask) if libc().sched_getaffinity(0, ctypes.c_size_t(MASK_BYTES), mask) >= 0 else None


def _tells_cores() -> bool:
    try:
        return hasattr(libc(), "sched_getaffinity")
    except OSError:
        return False


def build_known_subteam(module: ir.Module, known: KnownSubteam) -> None:
    """Add known_subteam(): the subteam that a call may use, `ALONE`, or 0 where that is not known."""
    code = Code(module, "known_subteam", 0)
    words, unknown = I64(known.address), code.append_basic_block("unknown")
    subteam = code.word(words, Known.SUBTEAM)
    code.need(code.not_(code.same(subteam, I64(0))), unknown)
    holder = code.variable(I64(0))
    code.call_python("PyContextVar_Get", I64(id(known.settings.scope)), I64(0), code.ptrtoint(holder, I64), result=I32)
    code.call_python("Py_DecRef", code.load(holder), result=VOID)
    code.need(code.same(code.load(holder), code.word(words, Known.SCOPE)), unknown)
    for place, (dictionary, key) in enumerate(known.settings.values):
        code.need(code.same(_item(code, I64(id(dictionary)), key), code.word(words, Known.VALUES + place)), unknown)
    pool = code.word(words, Known.POOL)
    with code.if_then(code.not_(code.same(pool, I64(0)))):
        code.need(code.same(_item(code, pool, _IS_STARTED), I64(id(False))), unknown)
    if _tells_cores():
        _need_cores(code, words, unknown)
    code.ret(subteam)
    code.position_at_end(unknown)
    code.ret(I64(0))


def _item(code: Code, dictionary: Word, key: Any) -> Word:
    """Return the address of a dictionary's value, 0 where it has none."""
    return code.call_python("PyDict_GetItemWithError", dictionary, I64(id(key)))


def _need_cores(code: Code, words: Word, unknown: Any) -> None:
    """Continue where the caller may use the cores that are known."""
    mask = code.ptrtoint(code.variable(ir.ArrayType(I64, _MASK_WORDS)(ir.Undefined)), I64)
    get = address_in(libc(), "sched_getaffinity")
    failed = code.call_address(get, I32(0), I64(MASK_BYTES), mask, types=[I32, I32])
    code.need(code.icmp_signed(">=", failed, I32(0)), unknown)
    known = code.after(words, I64(Known.MASK))
    with code.counted(I64(_MASK_WORDS)) as number:
        code.need(code.same(code.element(mask, number), code.element(known, number)), unknown)
