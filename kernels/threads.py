"""Launching a compiled kernel on threads, so that nothing a caller does with threads or fork ends the process.

Numba's `workqueue` layer aborts when two Python threads launch at once, and its `omp` layer ends a forked child whose
parent had launched. So one launch at a time runs in parallel and the others meanwhile run serially; and so does a child
that was forked after the threads of its parent had started. The same keeps pools of threads that all gather from
using more than one thread each, but for the one that launches.
"""

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from .knobs import knobs
from .machine import cache_sizes, usable_cores

SERIAL_BELOW_NS = 20_000
"""Work that one thread does in less is not shared: a launch takes 10 microseconds on two threads that are warm."""

_NS_PER_BYTE = 0.035
_NS_PER_ROW = ((64 * 1024, 0.3), (1 << 20, 0.7), (32 << 20, 3.0))
_NS_PER_ROW_BEYOND = 8.0
"""What a row of the table costs besides its bytes: in caches of so many bytes, and beyond them (Zen 4, measured)."""

_launch = threading.Lock()
_threads_lost = False


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
    """Call a compiled kernel, in parallel when the work is worth it and the process allows it.

    Args:
        kernel: takes `arguments` and a last one that says whether to run in parallel.
        work_ns: how long one thread takes.

    Returns:
        What the kernel returns: how many indices are outside.
    """
    if work_ns < SERIAL_BELOW_NS or _threads_lost or not _launch.acquire(blocking=False):
        return kernel(*arguments, False)
    try:
        return _launch_parallel(kernel, arguments)
    finally:
        _launch.release()


def available_threads() -> int:
    """Return how many threads a large gather uses in this process.

    That is: the knob `num_threads`, or else what `numba.set_num_threads` says and `OMP_NUM_THREADS` said when this
    process started; and never more than Numba has, or than `usable_cores` says.
    """
    import numba

    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return 1 if _threads_lost else _thread_limit(most, numba.get_num_threads())


def _thread_limit(most: int, masked: int) -> int:
    """Return how many threads to use of the `most` that Numba has, `masked` of which it would use by itself."""
    wanted = knobs.num_threads
    chosen = min(masked, _openmp_threads) if wanted is None else min(wanted, most)
    return max(1, min(chosen, usable_cores()))


def _launch_parallel(kernel: Callable[..., int], arguments: tuple[Any, ...]) -> int:
    pool = sys.modules.get("numba.np.ufunc.parallel")
    if pool is None or not pool._is_initialized:
        return _first_launch(kernel, arguments)
    before = pool._get_num_threads()
    threads = _thread_limit(pool.NUM_THREADS, before)
    if threads == 1:
        return kernel(*arguments, False)
    if threads == before:
        return kernel(*arguments, True)
    pool._set_num_threads(threads)
    try:
        return kernel(*arguments, True)
    finally:
        pool._set_num_threads(before)


def _first_launch(kernel: Callable[..., int], arguments: tuple[Any, ...]) -> int:
    """Start Numba's threads, unless one is enough."""
    import numba

    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    if _thread_limit(most, most) == 1:
        return kernel(*arguments, False)
    numba.get_num_threads()
    return _launch_parallel(kernel, arguments)


def _read_openmp_threads() -> int:
    """Return what OMP_NUM_THREADS allows, as pools of workers set it for the libraries that they call."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else sys.maxsize


_openmp_threads = _read_openmp_threads()


def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is gone, and the pool's threads are gone."""
    global _launch, _threads_lost
    _launch = threading.Lock()
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    _threads_lost = _threads_lost or bool(getattr(parallel, "_is_initialized", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
