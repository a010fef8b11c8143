"""Launching a compiled kernel on threads, so that nothing a caller does with threads or fork does harm.

Kernels share their tiles with a team of threads (`lowering/native/thread_team.py`), which serves one launch at a
time: others meanwhile run serially, which keeps pools of threads that all gather from using more than one thread each,
but for the one that launches. A forked child, which has none of its parent's threads, makes a team of its own.
"""

import contextvars
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..host.cpu import cache_sizes, usable_cores
from ..host.knobs import knobs

SERIAL_BELOW_NS = 10_000
"""Work that one thread does in less is not shared: a launch takes a microsecond, and ten where threads must wake."""

# 64 KiB were enough for LLVM 20; a thread that only gathers what is compiled needs less than 32.
ENOUGH_STACK_BYTES = 1 << 20

_NS_PER_BYTE = 0.035
_NS_PER_ROW = ((64 * 1024, 0.3), (1 << 20, 0.7), (32 << 20, 3.0))
_NS_PER_ROW_BEYOND = 8.0
"""What a row of the table costs besides its bytes: in caches of so many bytes, and beyond them (Zen 4, measured)."""

_launch = threading.Lock()
_team: Any = None
"""The team, made by the first launch that needs one; False where the system has no threads for it."""


def serial_ns(work_bytes: int, rows: int, table_bytes: int) -> float:
    """Return about how long one thread takes.

    Args:
        work_bytes: bytes that the kernel moves.
        rows: how many pieces of the table it reads, each in one place.
        table_bytes: the size of the table that they lie in.
    """
    largest = max(cache_sizes().values(), default=_NS_PER_ROW[-1][0])
    levels = (ns for size, ns in _NS_PER_ROW if table_bytes <= min(size, largest))
    return work_bytes * _NS_PER_BYTE + rows * next(levels, _NS_PER_ROW_BEYOND)


def launch(kernel: Callable[..., int], arguments: tuple[Any, ...], work_ns: float) -> int:
    """Call a compiled kernel, in parallel when the work is worth it.

    Args:
        kernel: takes `arguments` and last the address of the team that shares its tiles, 0 for none.
        work_ns: how long one thread takes.

    Returns:
        What the kernel returns: how many indices are outside.
    """
    if work_ns < SERIAL_BELOW_NS or _launch.locked():
        return kernel(*arguments, 0)
    with _launch:  # no signal comes between taking the lock and the block, nor a fork to another lock
        return kernel(*arguments, _team_of(available_threads()))


def available_threads() -> int:
    """Return how many threads a large gather uses in this process.

    That is: the knob `num_threads`, or else what `numba.set_num_threads` says and `OMP_NUM_THREADS` said when this
    process started; and never more than Numba has, or than `usable_cores` says.
    """
    import numba

    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    pool, wanted = sys.modules.get("numba.np.ufunc.parallel"), knobs.num_threads
    if wanted is None:
        masked = pool._get_num_threads() if pool is not None and pool._is_initialized else most
        wanted = min(masked, _openmp_threads)
    return max(1, min(wanted, most, usable_cores()))


def started_threads() -> int:
    """Start the threads that a large gather uses, and return how many there are: fewer where the system refuses."""
    with _launch:
        _team_of(available_threads())
        return _team.size if _team else 1


def _team_of(threads: int) -> int:
    """Return the address of the team, set to so many threads; 0 where one is enough, or all there can be."""
    global _team
    if threads == 1 or _team is False:
        return 0
    if _team is None:
        import numba

        from ...lowering.native.thread_team import Team

        try:
            _team = with_room(lambda: Team(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
        except OSError:
            _team = False
            return 0
    _team.use(threads)
    return _team.address


def with_room(work: Callable[[], Any]) -> Any:
    """Return `work()`, which imports or compiles: on a thread of its own where this one's stack is too small for LLVM.

    LLVM needs more than the 32 KiB that `threading.stack_size` allows.
    """
    size = threading.stack_size()
    if not 0 < size < ENOUGH_STACK_BYTES or threading.current_thread() is threading.main_thread():
        return work()
    with ThreadPoolExecutor(1) as pool:
        threading.stack_size(ENOUGH_STACK_BYTES)
        try:
            done = pool.submit(contextvars.copy_context().run, work)  # which starts the thread
        finally:
            threading.stack_size(size)
        return done.result()


def _read_openmp_threads() -> int:
    """Return what OMP_NUM_THREADS allows, as pools of workers set it for the libraries that they call."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else sys.maxsize


_openmp_threads = _read_openmp_threads()


def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is gone, and the team's threads are gone."""
    global _launch, _team
    _launch, _team = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
