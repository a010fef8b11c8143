"""Launching a compiled kernel on threads, safely for callers that use threads or fork.

The thread team (`lowering/native/thread_team.py`) serves one launch at a time. Other launches run serially meanwhile,
so that pools of threads that all gather use one thread each. A forked child makes a team of its own.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from ..host.cpu import affine_cores, usable_cores
from ..host.knobs import ENVIRONMENT, environment_key, knobs
from ..host.runtime import RUNTIME

_NUMBA_NUM_THREADS = environment_key("NUMBA_NUM_THREADS")


def launch(kernel: Callable[..., int], arguments: tuple[Any, ...], is_shared: bool) -> int:
    """Call a compiled kernel.

    Args:
        kernel: takes `arguments` and last the address of the team that shares its tiles, 0 for none.
        is_shared: whether the work is worth several threads.

    Returns:
        The kernel's result: how many indices are out of range.
    """
    threads = available_threads() if is_shared else 1
    if threads == 1 or RUNTIME.launching.locked():
        return kernel(*arguments, 0)
    with RUNTIME.launching:  # no signal comes between taking the lock and the block, nor a fork to another lock
        return kernel(*arguments, _team_of(threads))


def available_threads() -> int:
    """Return how many threads a large gather uses in this process.

    That is: the knob `num_threads`, or else what `numba.set_num_threads` says and `OMP_NUM_THREADS` said when this
    process started; and never more than Numba has, or than `usable_cores` says. Every large call asks: it takes 0.2
    microseconds with `num_threads` 1, and 1.5 otherwise.
    """
    wanted = knobs.num_threads
    if wanted == 1:
        return 1
    cores = usable_cores()
    most = _numba_threads(cores)
    if wanted is None:
        pool = sys.modules.get("numba.np.ufunc.parallel")
        masked = pool._get_num_threads() if pool and getattr(pool, "_is_initialized", False) else most
        wanted = min(masked, _openmp_threads)
    return min(wanted, most, cores)


def _numba_threads(cores: int) -> int:
    """Return how many threads Numba has, or would have on so many cores if it were imported."""
    imported = getattr(sys.modules.get("numba.core.config"), "NUMBA_NUM_THREADS", None)  # or half imported
    if imported is not None:
        return imported
    text = os.environ["NUMBA_NUM_THREADS"] if ENVIRONMENT.get(_NUMBA_NUM_THREADS) else ""
    return int(text) if text.isdecimal() and int(text) > 0 else cores


def started_threads() -> int:
    """Start the threads of a large gather, and return how many there are: fewer where the system starts no more."""
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
    from ...lowering.native.thread_team import Team

    try:
        return Team(_numba_threads(affine_cores()))
    except OSError:
        return False


def _read_openmp_threads() -> int:
    """Return what OMP_NUM_THREADS allows, as pools of workers set it for the libraries that they call."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else sys.maxsize


_openmp_threads = _read_openmp_threads()
