"""The call cache: prepared calls, which the fast call (`lowering.native.fast_call`) finds with no Python in between.

Calls are found by the identity of three keys and by the shapes, strides and dtypes of their arrays. Only calls with an
unchanging meaning are stored: exact ndarrays, a kernel to run, `out` that cannot overlap itself, and no setting that
changes the kernel. While there is such a setting, every call goes through `prepare`.
"""

import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from ...ir.array_spec import contiguous_strides
from ..host.knobs import Settings, knobs
from ..host.runtime import RUNTIME

if TYPE_CHECKING:
    from .prepare import Prepared

Keys = tuple[Any, Any, Any]

MOST_REMEMBERED = 4096  # calls, or prepared kernels, of one process
NO_KEYS: Keys = (None, None, None)


def _finds_nothing(*arguments: Any) -> None:
    """Replace the native `find` while there is no call to find."""


class _Key:
    """An object that represents a value in the call cache."""

    __slots__ = ("__weakref__",)


_WHOLE_NUMBERS = {number: number for number in range(-64, 65)}
_keys: WeakValueDictionary[Any, _Key] = WeakValueDictionary()


def one_object(value: Any) -> Any:
    """Return one object for all values equal to this one, so that the fast call can compare identities.

    For a small integer it is the object of a caller's literal, and a larger integer is returned unchanged. For other
    values the object lives as long as a caller or a remembered call holds it.
    """
    if type(value) is int:
        return _WHOLE_NUMBERS.get(value, value)
    key = _keys.get(value)
    if key is None:
        with RUNTIME.lock:
            return _keys.setdefault(value, _Key())
    return key


class RememberedCall:
    """One call in the fast call's layout, with the objects that its words point to."""

    def __init__(
        self,
        prepared: "Prepared",
        arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None],
        result_dtype: np.dtype,
        keys: Keys,
        entry: Any,
    ):
        from ...lowering.native.call_layout import Way, call_words, section
        from ..host.recycled_memory import LEAST_BYTES

        data, indices, out = arrays
        self._prepared, self._keys, self._has_out = prepared, keys, out is not None
        result = prepared.plan.problem.result
        self._dtypes = result_dtype, data.dtype, indices.dtype
        self._is_shared = prepared.is_shared
        strides = contiguous_strides(result.shape, result_dtype.itemsize) if out is None else out.strides
        sections = [section(array.dtype, array.shape, array.strides) for array in (data, indices)]
        sections.append(section(result_dtype, result.shape, strides))
        self._guard = np.array([word for words in sections for word in words], np.int64)
        assert prepared.loaded is not None
        is_long_way = prepared.splits_rows or (
            out is None and math.prod(result.shape) * result_dtype.itemsize >= LEAST_BYTES
        )
        way = Way.ALONE if not prepared.is_shared else Way.HANDED_OVER if is_long_way else Way.SHARED
        self._finish = self.finish
        self._call = call_words(prepared.loaded.entry.address, way, self._finish, prepared.numbers).copy()
        self._run = entry.run(self._call)

    def slot(self, hash_: int) -> list[int]:
        """Return the words of the slot that it is put in."""
        from ...lowering.native.call_layout import slot_words

        return slot_words(hash_, self._keys, self._has_out, self._guard, self._call)

    def finish(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray | None) -> np.ndarray:
        """Run calls that the fast call passes on: some parallel work, and failed calls, whose error this raises."""
        from . import launch
        from .prepare import kernel_error

        prepared = self._prepared
        result = prepared.result(self._dtypes[0]) if out is None else out
        target = prepared.target(data, result)
        if found := launch.launch(self._run, (data, indices, target), self._is_shared):
            raise kernel_error(prepared.plan.problem, indices, found)
        if target is not result:
            result[...] = target
        return result


class CallTable:
    """A table of calls for the fast call; among calls with one hash, the newest stay.

    Attributes:
        find: `find(data, indices, out, a, b, c)` returns the result of a call remembered under the keys a, b and c, or
            None when there is none. Raises BoundsError, `out` untouched.
    """

    def __init__(self, slots: int = MOST_REMEMBERED):
        """Make an empty table; it holds at most `slots` calls, a power of two."""
        self.find: Any = _finds_nothing
        self._slots = slots
        self._words: np.ndarray | None = None
        self._calls: dict[int, RememberedCall] = {}
        self._hash: Any = None
        self._is_changing = False

    def remember(
        self,
        prepared: "Prepared",
        data: np.ndarray,
        indices: np.ndarray,
        out: np.ndarray | None,
        result_dtype: np.dtype,
        keys: Keys,
        settings: Settings,
    ) -> None:
        """Add a call that has run under some settings, where the fast call can find such calls; else do nothing.

        `out` does not overlap itself, and has the dtype of the result; every call checks whether it overlaps the
        inputs.
        """
        if _is_plain(prepared, out) and self.native() is not None:
            arrays = data, indices, out
            call = RememberedCall(prepared, arrays, result_dtype, keys, native_entry())
            self._change(lambda: self._place(call, call.slot(self._hash(*arrays, *keys)), settings))

    def _change(self, change: Callable[[], None]) -> None:
        """Change the table, or do nothing where this comes between the steps of another change.

        A signal handler or a finalizer may gather at any step, and the next step of the change that it interrupted
        would free the call that it put into a slot.
        """
        with RUNTIME.lock:
            if not self._is_changing:
                self._is_changing = True
                try:
                    change()
                finally:
                    self._is_changing = False

    def _place(self, call: RememberedCall, slot: list[int], settings: Settings) -> None:
        """Put a call into a slot, which is empty while the call before it is freed and this one is kept.

        A call is left out if the settings have changed since it was planned.
        """
        from ...lowering.native.call_layout import place_in_table

        if knobs.settings() != settings:
            return
        words = self._words
        assert words is not None
        place = place_in_table(words, slot)
        words[place + len(slot) - 1] = 0  # a slot without a call is empty, as it must be while it changes
        self._calls[place] = call
        words[place : place + len(slot)] = slot

    def native(self) -> np.ndarray | None:
        """Return the table as the entry reads it; None where there is no entry."""
        return RUNTIME.make(self._native) if self._words is None else self._words

    def _native(self) -> np.ndarray | None:
        if self._words is None and (entry := native_entry()) is not None:
            from ...lowering.native.call_layout import table_words

            words = table_words(self._slots)
            self._hash, self.find, self._words = entry.hash(words), entry.find(words), words
        return self._words

    def forget(self) -> None:
        """Forget every call."""
        self._change(self._clear)

    def _clear(self) -> None:
        """Empty each slot by one store: NumPy gives up the GIL in a larger one, and another thread would read."""
        if self._words is not None:
            from ...lowering.native.call_layout import Slot

            for place in self._calls:
                self._words[place + Slot.CALL] = 0
        self._calls = {}


# The calls of the public functions.
CALLS = CallTable()

RUNTIME.forgetters.append(CALLS.forget)


def native_entry() -> Any:
    """Return the fast call, compiled once in a process; None where this system has none."""
    if RUNTIME.entry is None:
        RUNTIME.entry = RUNTIME.make(_make_entry)
    return RUNTIME.entry or None


def _make_entry() -> Any:
    from ...lowering.native.fast_call import Guard, make_entry
    from ...lowering.native.threads.known_subteam import KnownSubteam, ThreadSettings
    from .disk_cache import native_code

    try:
        known = KnownSubteam(ThreadSettings(*knobs.thread_settings(("NUMBA_NUM_THREADS",))))
        return make_entry(Guard(*knobs.guard()), known, native_code)
    except Exception:  # it only saves time, and memory layouts may change with Python and NumPy
        return False


def _is_plain(prepared: "Prepared", out: np.ndarray | None) -> bool:
    """Return whether a call has an unchanging meaning: no setting decides, and `out` is an exact ndarray."""
    if prepared.loaded is None or knobs.is_scoped() or sys.is_finalizing():  # then nothing can be imported
        return False
    if knobs.schedule is not None or knobs.interpret or knobs.always_compile:
        return False
    return out is None or type(out) is np.ndarray
