"""The state that the calls of one process share: a lock, kernels, prepared calls and the thread team.

A fork copies one thread only. Locks that other threads hold, and modules that they have half imported, stay so in the
child. So everything is imported and compiled under one lock, and a fork waits for it.

A signal handler runs in the main thread, and may raise an exception at any step. A module that it interrupts stays half
imported for good. So everything is imported and compiled in a thread of its own, which no handler interrupts, while the
caller waits: the exception leaves the call at once, and the thread completes what it has begun.
"""

from __future__ import annotations

import atexit
import os
import sys
from _contextvars import ContextVar, copy_context
from _thread import RLock, allocate_lock, get_ident, start_new_thread  # `threading` takes as long as all of this
from _weakref import ref

TYPE_CHECKING = False  # `typing` takes longer to import than all else that `import gathernest` does
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, TypeVar

    Made = TypeVar("Made")

# 64 KiB were enough for LLVM 20; a thread that only runs compiled code needs less than 32, the smallest stack there is.
ENOUGH_STACK_BYTES = 1 << 20
# Modules whose hooks take a lock before a fork: an attribute that they have once the hook is registered, and the lock.
_FORK_HOOKS = {"logging": ("LogRecord", "_lock"), "concurrent.futures.thread": ("_WorkItem", "_global_shutdown_lock")}


class Thread:
    """A thread at work, and how others see that it has ended.

    `threading.Thread.start` waits until the thread says that it runs. A thread that finds no memory for its first step
    never does, nor does one in a child that a signal handler forks meanwhile: here nobody waits for a word of it.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        """Start it; raises RuntimeError or MemoryError where the system has no more threads."""
        ended = allocate_lock()
        ended.acquire()

        def run() -> None:
            try:
                work()
            finally:
                ended.release()

        self._ended, self._run, self._forks = ended, ref(run), RUNTIME.forks
        start_new_thread(run, ())

    def is_alive(self) -> bool:
        """Return whether it runs: it has not ended, still has its function, and is a thread of this process."""
        return self._ended.locked() and self._run() is not None and self._forks == RUNTIME.forks

    def join(self) -> None:
        """Wait until it has ended, or an exception of a signal handler ends the wait."""
        while self.is_alive():
            if self._ended.acquire(timeout=0.01):
                self._ended.release()


class Runtime:
    """The shared state of one process.

    Attributes:
        caller: in a thread that works for a caller, the caller's frame.
        team: the threads that share a kernel's tiles, made by the first launch that needs them; False where the system
            has none.
        entry: the fast call, made by the first call that repeats; False where this system has none.
        loaded: the kernels by their keys.
        prepared: the prepared calls, by everything that decides them.
        tuned: the tuned schedules of each file that was read.
        forgetters: what empties the tables of the call cache.
        fork_locks: locks of others, which a fork takes after this one's: they may be taken under it, and not the other
            way round.
        in_child: what begins anew in a forked child.
        forks: how many forks lie between this process and the one that imported this module.
    """

    def __init__(self) -> None:
        self.caller: ContextVar[FrameType | None] = ContextVar("caller", default=None)
        self._lock = RLock()
        self.team: Any = None
        self.entry: Any = None
        self.loaded: dict[str, Any] = {}
        self.prepared: dict[Any, Any] = {}
        self.tuned: dict[Any, Any] = {}
        self.forgetters: list[Callable[[], None]] = []
        self.fork_locks: list[RLock] = []
        self.in_child: list[Callable[[], None]] = []
        self.forks = 0
        self._stack_size, self._taken = allocate_lock(), list[list[RLock]]()
        self._threads: list[Thread] = []
        self._kinds: set[object] = set()
        self._is_last = self._ends = False
        self._register()
        atexit.register(self._end)

    def make(self, work: Callable[[], Made], *, is_ours: bool = False, kind: object = None) -> Made:
        """Return `work()`, which imports or compiles: under the lock, and apart from its caller.

        `is_ours` says that it imports modules of ours alone, none of which imports `logging`. Work of a kind that was
        done before has nothing left to import: the caller does it, without the lock, since a new thread takes 150 us.
        """
        if kind in self._kinds and not _has_small_stacks():
            return work()
        if sys.is_finalizing() or _has_locks(self._lock):
            return self._make_here(work, is_ours)
        made = self.apart(lambda: self._make_here(work, is_ours))
        if kind is not None:
            self._kinds.add(kind)
        return made

    def apart(self, work: Callable[[], Made]) -> Made:
        """Return `work()`, run by a new thread that has a stack large enough for LLVM and takes no signals.

        An exception of a signal handler ends the wait, and the work goes on. Where no thread can be started, and while
        Python ends, the caller does the work.
        """
        if sys.is_finalizing():
            return work()
        outcome: list[Any] = []

        def run() -> None:
            try:
                outcome[:] = context.run(work), None
            except BaseException as error:
                outcome[:] = None, error

        context = copy_context()
        context.run(self.caller.set, self.caller.get() or sys._getframe(1))
        thread = self._start(run)
        if thread is not None:
            thread.join()
        if not outcome:  # there was no such thread, or no memory for it, or this is a forked child, which has none
            return work()
        made, error = outcome
        if error is None:
            return made
        try:
            raise error
        finally:
            outcome.clear()  # the error has this frame, and would live until the garbage collector runs
            del error

    def begin(self, work: Callable[[], object]) -> Thread | None:
        """Have a thread do `work()` under the lock, and do not wait for it; None where none can be started.

        An error of the work is lost.
        """
        from contextlib import suppress

        def run() -> None:
            with suppress(Exception):
                context.run(self._make_here, work, False)

        context = copy_context()
        return None if sys.is_finalizing() or self._ends else self._start(run)

    def _end(self) -> None:
        """Wait for threads that functions of `atexit` have started, and have no more: Python would end them anywhere.

        One that ends while it imports keeps the lock of imports, and an import in a later `__del__` waits for ever.
        """
        self._ends = True
        self.finish()

    def finish(self) -> None:
        """Wait for the threads, as Python does for `threading`'s: LLVM must not run while the process ends."""
        for thread in tuple(self._threads):
            thread.join()

    def _start(self, work: Callable[[], object]) -> Thread | None:
        """Start a thread with a stack that is large enough, whatever size the process has chosen for new threads.

        Another thread changes that size and restores it: a signal handler could interrupt this one in between.

        Returns:
            The thread; None where the system has no more threads.
        """
        import threading  # which takes the thread that imports it for the main one
        from contextlib import suppress

        started: list[Thread] = []
        with suppress(Exception):  # of the comparison with a function that somebody else has registered
            atexit.unregister(self.finish)
        atexit.register(self.finish)  # the function registered last runs first, before Numba's and llvmlite's

        def start() -> None:
            with suppress(RuntimeError, MemoryError):
                started.append(Thread(work))
                self._threads += started
            for thread in tuple(self._threads):
                if not thread.is_alive():
                    with suppress(ValueError):  # another caller has removed it
                        self._threads.remove(thread)

        def start_with_stack() -> None:
            with self._stack_size:  # two threads that change it at once would not restore it
                size = threading.stack_size(ENOUGH_STACK_BYTES)
                try:
                    start()
                finally:
                    threading.stack_size(size)

        if not _has_small_stacks():
            start()
        else:
            with suppress(RuntimeError, MemoryError):
                Thread(start_with_stack).join()
        return started[0] if started else None

    @property
    def lock(self) -> RLock:
        """The lock that is held while something is imported, compiled or cached.

        While Python ends, no other thread runs, and one may have died with the lock: then it is a new one each time.
        """
        return RLock() if sys.is_finalizing() else self._lock

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
        if sys.is_finalizing() and not self._lock.acquire(blocking=False):
            raise RuntimeError("Python ends, and has ended a thread that was compiling; nothing can be compiled now")
        with self.lock:
            if not is_ours:
                self._be_last()
            return work()

    def _be_last(self) -> None:
        """Make a fork take our lock before the lock of `logging`, which is taken under it.

        The hook that was registered last runs first, and `logging` registers its own on import. A fork between the two
        registrations would hold one lock and wait for the other: so no other thread runs meanwhile.
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
        self._lock.acquire()
        taken = [*self.fork_locks, self._lock]
        for lock in taken[:-1]:
            lock.acquire()
        self._taken.append(taken)
        for name, lock in _hooked_locks().items():
            if name not in had:  # it was imported while the fork waited: its hook only releases, and would complain
                lock.acquire()

    def _after_fork(self) -> None:
        """Release the locks that a hook took, once for each hook that took them before the fork."""
        if self._taken:
            for lock in self._taken.pop():
                lock.release()

    def _begin_child(self) -> None:
        """In a forked child the team's threads are gone, and so are the threads that ran kernels on them."""
        self.team, self._stack_size = None, allocate_lock()
        self.forks += 1
        self._threads.clear()
        if self.entry:
            self.entry.known.forget()
        for begin in self.in_child:
            begin()
        self._after_fork()


def _hooked_locks() -> dict[str, Any]:
    """Return the locks that forks take for other modules that have registered their hooks."""
    return {
        name: getattr(module, lock)
        for name, (later, lock) in _FORK_HOOKS.items()
        if hasattr(module := sys.modules.get(name), later)
    }


def _has_small_stacks() -> bool:
    """Return whether this process has chosen a stack for new threads that is too small for LLVM."""
    import ctypes

    return 0 < ctypes.pythonapi.PyThread_get_stacksize() < ENOUGH_STACK_BYTES


def _has_locks(own: Any) -> bool:
    """Return whether this thread has a lock that a thread which works for it might need, and would never get.

    These are our own lock, Numba's lock, and the locks of the modules that the thread is importing.
    """
    compiler_lock: Any = getattr(sys.modules.get("numba.core.compiler_lock"), "global_compiler_lock", None)
    if own._is_owned() or (compiler_lock is not None and compiler_lock.is_locked()):
        return True
    imports: dict[str, Any] = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
    return any(getattr(lock(), "owner", None) == get_ident() for lock in list(imports.values()))


RUNTIME = Runtime()
