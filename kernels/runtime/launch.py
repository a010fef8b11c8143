"""Launching a compiled kernel on threads, safely for callers that use threads or fork.

The thread team (`lowering/native/threads`) runs one parallel loop at a time. Other callers run theirs alone meanwhile,
so that pools of threads that all gather use one thread each. A forked child makes a team of its own.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from ...ir.numbers import parse_whole
from ..host.cpu import affine_cores, usable_cores
from ..host.knobs import ENVIRONMENT, environment_key, knobs
from ..host.runtime import RUNTIME
from .disk_cache import native_code

# Largest size of a team of threads, relative to the number of cores.
MAX_TEAM_FACTOR = 4
_NUMBA_NUM_THREADS = environment_key("NUMBA_NUM_THREADS")


def launch(kernel: Callable[..., int], arguments: tuple[Any, ...], is_shared: bool) -> int:
    """Call a compiled kernel.

    Args:
        kernel: takes `arguments`, and last the address of the subteam that shares its tiles, 0 for none.
        is_shared: whether the work is worth several threads.

    Returns:
        The kernel's result: the number of indices out of range.
    """
    return kernel(*arguments, current_subteam() if is_shared else 0)


def available_threads() -> int:
    """Return the number of threads that a large gather uses in this process.

    It is the knob `num_threads`, or else the lower of `numba.set_num_threads` and of `OMP_NUM_THREADS` at the start of
    the process; and at most the number of Numba's threads and `usable_cores`. It takes 1.5 microseconds, so large
    calls ask only where something that it depends on has changed.
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
    """Return the number of Numba's threads, or the number that it would start on `cores` cores."""
    imported = getattr(sys.modules.get("numba.core.config"), "NUMBA_NUM_THREADS", None)  # or half imported
    if imported is not None:
        return imported
    return _parse_threads(os.environ["NUMBA_NUM_THREADS"], cores) if ENVIRONMENT.get(_NUMBA_NUM_THREADS) else cores


def started_threads() -> int:
    """Start the threads of a large gather, and return their number, which is lower where the system starts no more."""
    _subteam(available_threads())
    return RUNTIME.team.size if RUNTIME.team else 1


def current_subteam() -> int:
    """Return the address of the subteam that a launch of this thread may use, and tell it the fast call."""
    entry = RUNTIME.entry
    if not entry:
        return _subteam(available_threads())
    subteam = entry.known_subteam()
    if subteam is None:
        settings = entry.known.settings.now()
        subteam = _subteam(available_threads())
        entry.known.remember(subteam, settings)  # where they are still the same
    return subteam


def _subteam(threads: int) -> int:
    """Return the address of the subteam of `threads` threads; 0 for one thread, or where no more can be started."""
    if threads <= 1:
        return 0
    if RUNTIME.team is None:
        RUNTIME.make(_make_team)
    team = RUNTIME.team
    if not team:
        return 0
    return RUNTIME.apart(lambda: team.of(threads)) if team.is_too_small(threads) else team.of(threads)


def _make_team() -> None:
    """Make the team of this process, unless another thread has."""
    from ...lowering.native.threads.thread_team import Team

    if RUNTIME.team is None:
        try:
            most = MAX_TEAM_FACTOR * (os.cpu_count() or 1)  # a member takes memory from the start
            RUNTIME.team = Team(min(_numba_threads(affine_cores()), most), native_code)
        except OSError:
            RUNTIME.team = False


def _read_openmp_threads() -> int:
    """Return the limit of OMP_NUM_THREADS, which pools of workers set for the libraries that they call."""
    return _parse_threads(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip(), sys.maxsize)


def _parse_threads(text: str, otherwise: int) -> int:
    """Return the number of threads in a text; `otherwise` where it has none."""
    try:
        return parse_whole(text, 1)
    except ValueError:
        return otherwise


_openmp_threads = _read_openmp_threads()
