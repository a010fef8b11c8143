"""The known subteam: the threads of the last parallel launch, for calls under unchanged settings.

Python takes 1.5 microseconds to find the number of threads of a launch, and 2 where a kernel has just evicted its code
from the caches. Machine code takes a tenth of that to see whether the settings that decide the number, except for the
quota, are unchanged. It compares words that Python wrote.
"""

import ctypes
import functools
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..call_layout import MASK_BYTES, MASK_WORDS, MOST_VALUES, NO_SUBTEAM, WORD_BYTES, Known
from ..llvm_jit import address_in, keep_for_ever
from .thread_team import libc

_MISSING = object()
# Modules of Numba, which need not be imported, and the attribute of each that matters: whether Numba has started its
# threads, whose number each Python thread may lower; and their number.
_POOL, _CONFIG = ("numba.np.ufunc.parallel", "_is_initialized"), ("numba.core.config", "NUMBA_NUM_THREADS")
_ATTRIBUTES = _POOL, _CONFIG


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """The settings that decide how many threads a launch may use, beside the cores of its caller and Numba.

    Attributes:
        scope: a ContextVar with a default.
        values: (dictionary, key) of settings; a key may be missing.
    """

    scope: Any
    values: tuple[tuple[dict[Any, Any], Any], ...]

    def now(self) -> tuple[Any, ...]:
        """Return the present objects of the settings: of the scope, of the values, and the modules of Numba."""
        values = (dictionary.get(key, _MISSING) for dictionary, key in self.values)
        return self.scope.get(), *values, *(sys.modules.get(name, _MISSING) for name, _ in _ATTRIBUTES)


class KnownSubteam:
    """Words that machine code compares with the present settings."""

    def __init__(self, settings: ThreadSettings):
        """Know nothing; the words live as long as this."""
        assert len(settings.values) <= MOST_VALUES
        self.settings = settings
        self._words = array("q", bytes(WORD_BYTES * Known.WORDS))
        self._seen: tuple[Any, ...] = ()
        self._noted: tuple[Any, ...] = ()

    @property
    def address(self) -> int:
        """The address of the words."""
        return self._words.buffer_info()[0]

    def forget(self) -> None:
        """Know nothing."""
        self._words[Known.SUBTEAM], self._seen = 0, ()

    def remember(self, subteam: int, settings: tuple[Any, ...]) -> None:
        """Note the subteam of a launch, 0 for none, and the settings that it was found with, where they still hold.

        They are noted when they come for the second time in a row, since a new scope around each call never comes back.
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
        self._noted = settings  # keeps the objects alive: a new one at the address of an old one would pass for it


def known_words(known: KnownSubteam) -> dict[str, int]:
    """Return the words of the code that compares, by their names; the objects that they point to are kept for ever."""
    keep_for_ever((known, sys.modules, _ATTRIBUTES))
    words = {"known": known.address, "known scope": id(known.settings.scope), "sys.modules": id(sys.modules)}
    for number, (dictionary, key) in enumerate(known.settings.values):
        words |= {f"settings {number}": id(dictionary), f"setting {number}": id(key)}
    for number, (name, attribute) in enumerate(_ATTRIBUTES):
        words |= {f"module {number}": id(name), f"attribute {number}": id(attribute)}
    names = "PyContextVar_Get", "Py_DecRef", "PyDict_GetItemWithError"
    words |= {name: address_in(ctypes.pythonapi, name) for name in names}
    if _affinity_function() is not None:
        words["sched_getaffinity"] = address_in(libc(), "sched_getaffinity")
    return words


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(left is right for left, right in zip(one, other, strict=True))


def _address(value: Any) -> int:
    return 0 if value is _MISSING else id(value)


def _mask() -> Sequence[int] | None:
    """Return the mask of the cores that this thread may use: zeros where no function tells, None where it fails."""
    mask, get = (ctypes.c_int64 * MASK_WORDS)(), _affinity_function()
    return list(mask) if get is None or get(0, ctypes.c_size_t(MASK_BYTES), mask) >= 0 else None


@functools.cache
def _affinity_function() -> Any:
    """Return the function of the C library that tells the cores of a thread; None where there is none."""
    try:
        return getattr(libc(), "sched_getaffinity", None)
    except OSError:
        return None
