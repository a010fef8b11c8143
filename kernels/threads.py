"""Launching a compiled kernel on threads, so that nothing a caller does with threads or fork ends the process.

Numba's `workqueue` layer aborts when two Python threads launch at once, and its `omp` layer ends a forked child whose
parent had launched. So one launch at a time runs in parallel and the others meanwhile run serially; and so does a child
that was forked after the threads of its parent had started.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

from .knobs import knobs

SERIAL_BELOW_BYTES = 64 * 1024
"""Work that moves less runs on one thread: starting the others costs 3 to 4 microseconds."""

_launch = threading.Lock()
_threads_lost = False


def launch(kernel: Callable[..., int], arguments: tuple[Any, ...], work_bytes: int) -> int:
    """Call a compiled kernel, in parallel when the work is worth it and the process allows it.

    Args:
        kernel: takes `arguments` and a last one that says whether to run in parallel.
        work_bytes: bytes that the kernel moves.

    Returns:
        What the kernel returns: how many indices are outside.
    """
    if work_bytes < SERIAL_BELOW_BYTES or _threads_lost or not _launch.acquire(blocking=False):
        return kernel(*arguments, False)
    try:
        return _launch_parallel(kernel, arguments)
    finally:
        _launch.release()


def available_threads() -> int:
    """Return how many threads a large gather uses in this process."""
    import numba

    most = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    wanted = knobs.num_threads
    return 1 if _threads_lost else min(wanted, most) if wanted is not None else numba.get_num_threads()


def _launch_parallel(kernel: Callable[..., int], arguments: tuple[Any, ...]) -> int:
    import numba

    threads = available_threads()
    if threads == 1:
        return kernel(*arguments, False)
    before = numba.get_num_threads()
    if threads == before:
        return kernel(*arguments, True)
    numba.set_num_threads(threads)
    try:
        return kernel(*arguments, True)
    finally:
        numba.set_num_threads(before)


def _after_fork() -> None:
    """In a forked child: the lock may be held by a thread that is gone, and the pool's threads are gone."""
    global _launch, _threads_lost
    import sys

    _launch = threading.Lock()
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    _threads_lost = _threads_lost or bool(getattr(parallel, "_is_initialized", False))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
