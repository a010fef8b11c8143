"""The state that the calls of one process share: a lock, kernels, prepared calls and the thread team.

A fork copies one thread only. Locks that other threads hold, and modules that they have half imported, stay so in the
child. So everything is imported and compiled under one lock, and a fork waits for it.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock, allocate_lock  # `threading` takes as long to import as all of this

TYPE_CHECKING = False  # `typing` takes longer to import than all else that `import gathernest` does
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Made = TypeVar("Made")

# 64 KiB were enough for LLVM 20; a thread that only runs what is compiled needs less than 32, the least there can be.
ENOUGH_STACK_BYTES = 1 << 20
# Modules whose hooks take a lock before a fork: what they have once these are registered, and the lock.
_FORK_HOOKS = {"logging": ("LogRecord", "_lock"), "concurrent.futures.thread": ("_WorkItem", "_global_shutdown_lock")}


class Runtime:
    """The shared state of one process.

    Attributes:
        lock: held while something is imported, compiled or cached.
        team: the threads that share a kernel's tiles, made by the first launch that needs them; False where the system
            has none.
        entry: the fast call, made by the first call that repeats; False where this system has none.
        loaded: the kernels by their keys.
        prepared: the prepared calls, by everything that decides them.
        tuned: the tuned schedules of each file that was read.
        forgetters: what empties the tables of the call cache.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.team: Any = None
        self.entry: Any = None
        self.loaded: dict[str, Any] = {}
        self.prepared: dict[Any, Any] = {}
        self.tuned: dict[Any, Any] = {}
        self.forgetters: list[Callable[[], None]] = []
        self._stack_size, self._taken = allocate_lock(), 0
        self._is_last = False
        self._register()

    def make(self, work: Callable[[], Made], *, is_ours: bool = False) -> Made:
        """Return `work()`, which imports or compiles: under the lock, with a stack that is large enough for LLVM.

        The main thread has one; another thread may have been started with any, so the work gets a thread of its own.
        `is_ours` says that it imports modules of ours alone, none of which imports `logging`.
        """
        import contextvars
        import threading

        if threading.current_thread() is threading.main_thread() or self.lock._is_owned():  # type: ignore[attr-defined]
            return self._make_here(work, is_ours)
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome[:] = context.run(self._make_here, work, is_ours), None
            except BaseException as error:
                outcome[:] = None, error

        context, thread = contextvars.copy_context(), threading.Thread(target=run)
        with self._stack_size:  # which is the process's: two threads that change it at once would not restore it
            size = threading.stack_size(ENOUGH_STACK_BYTES)  # without an argument it would set the default
            try:
                if not 0 < size < ENOUGH_STACK_BYTES:
                    threading.stack_size(size)
                thread.start()
            finally:
                threading.stack_size(size)
        thread.join()
        made, error = outcome
        if error is not None:
            raise error
        return made

    def forget(self) -> None:
        """Plan every gather anew when it is called next."""
        self.tuned.clear()
        self.forget_calls()

    def forget_calls(self) -> None:
        """Plan every gather anew when it is called next, by the tuned schedules that have been read."""
        self.prepared.clear()
        for forget in self.forgetters:
            forget()

    def _make_here(self, work: Callable[[], Made], is_ours: bool) -> Made:
        with self.lock:
            if not is_ours:
                self._be_last()
            return work()

    def _be_last(self) -> None:
        """Have a fork take the lock before that of `logging`, which is taken under it.

        What was registered last runs first, and `logging` registers its own hook when it is imported. A fork between
        that and ours would hold the one lock and wait for the other: so no other thread runs meanwhile.
        """
        if not self._is_last:
            interval = sys.getswitchinterval()
            sys.setswitchinterval(10.0)
            try:
                import logging  # noqa: F401

                self._register()
            finally:
                sys.setswitchinterval(interval)
            self._is_last = True

    def _register(self) -> None:
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before_fork, after_in_parent=self._after_fork, after_in_child=self._begin_child
            )

    def _before_fork(self) -> None:
        had = _hooked_locks()
        self.lock.acquire()
        self._taken += 1
        for name, lock in _hooked_locks().items():
            if name not in had:  # it was imported while the fork waited: its hook only releases, and would complain
                lock.acquire()

    def _after_fork(self) -> None:
        """Release the lock once for each hook that took it; one that was registered meanwhile did not."""
        if self._taken:
            self._taken -= 1
            self.lock.release()

    def _begin_child(self) -> None:
        """In a forked child the team's threads are gone, as is whoever ran a kernel on them."""
        self.team, self._stack_size = None, allocate_lock()
        if self.entry:
            self.entry.known.forget()
        self._after_fork()


def _hooked_locks() -> dict[str, Any]:
    """Return the locks that forks take, of modules that are imported so far that they have registered their hooks."""
    return {
        name: getattr(module, lock)
        for name, (later, lock) in _FORK_HOOKS.items()
        if hasattr(module := sys.modules.get(name), later)
    }


RUNTIME = Runtime()
