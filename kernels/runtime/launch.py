"""Launching a compiled kernel on threads, so that nothing a caller does with threads or fork does harm.

Kernels share their tiles with a team of threads (`lowering/native/thread_team.py`), which serves one launch at a
time: others meanwhile run serially, which keeps pools of threads that all gather from using more than one thread each,
but for the one that launches. A forked child, which has none of its parent's threads, makes a team of its own.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from ..host.cpu import cache_sizes, usable_cores
from ..host.knobs import knobs
from ..host.runtime import RUNTIME

SERIAL_BELOW_NS = 10_000
"""Work that one thread does in less is not shared: a launch takes a microsecond, and ten where threads must wake."""

_NS_PER_BYTE = 0.035
_NS_PER_ROW = ((64 * 1024, 0.3), (1 << 20, 0.7), (32 << 20, 3.0))
_NS_PER_ROW_BEYOND = 8.0
"""What a row of the table costs besides its bytes: in caches of so many bytes, and beyond them (Zen 4, measured)."""


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
    if work_ns < SERIAL_BELOW_NS or RUNTIME.launching.locked():
        return kernel(*arguments, 0)
    with RUNTIME.launching:  # no signal comes between taking the lock and the block, nor a fork to another lock
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
    with RUNTIME.launching:
        _team_of(available_threads())
        return RUNTIME.team.size if RUNTIME.team else 1


def _team_of(threads: int) -> int:
    """Return the address of the team, set to so many threads; 0 where one is enough, or all there can be."""
    if threads > 1 and RUNTIME.team is None:
        RUNTIME.team = RUNTIME.make(_made_team)
    if threads == 1 or not RUNTIME.team:
        return 0
    RUNTIME.team.use(threads)
    return RUNTIME.team.address


def _made_team() -> Any:
    import numba

    from ...lowering.native.thread_team import Team

    try:
        return Team(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    except OSError:
        return False


def _read_openmp_threads() -> int:
    """Return what OMP_NUM_THREADS allows, as pools of workers set it for the libraries that they call."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else sys.maxsize


_openmp_threads = _read_openmp_threads()
