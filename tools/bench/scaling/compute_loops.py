"""Two compute-bound loops, shared among threads as a gather is: the largest gain of a second thread. Imports Numba.

Where two cores of a virtual machine are two hardware threads of one core, the loop that fills the core's units gains
little from the second, and the loop that is bound by latency gains nearly all.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from ....kernels.runtime.array_checks import address
from ....kernels.runtime.launch import launch
from ....lowering.native.parallel_for import share
from ....lowering.numba.intrinsics import store_i64
from ....lowering.schedule.machine_model import LINE_BYTES

SHARES, STEPS = 16, 5_000
UNITS, LATENCY = "a core's units: 6 chains of shifts", "latency: 1 chain of shifts"


@njit
def _chain(number, sums, steps):
    one = np.uint64(number + 1)
    for _ in range(steps):
        one ^= one << np.uint64(13)
        one ^= one >> np.uint64(7)
    store_i64(sums, number * LINE_BYTES, np.int64(one))


@njit
def _chains(number, sums, steps):
    one, two, three = np.uint64(number + 1), np.uint64(number + 2), np.uint64(number + 3)
    four, five, six = np.uint64(number + 4), np.uint64(number + 5), np.uint64(number + 6)
    for _ in range(steps):
        one ^= one << np.uint64(13)
        two ^= two << np.uint64(13)
        three ^= three << np.uint64(13)
        four ^= four << np.uint64(13)
        five ^= five << np.uint64(13)
        six ^= six << np.uint64(13)
        one ^= one >> np.uint64(7)
        two ^= two >> np.uint64(7)
        three ^= three >> np.uint64(7)
        four ^= four >> np.uint64(7)
        five ^= five >> np.uint64(7)
        six ^= six >> np.uint64(7)
    store_i64(sums, number * LINE_BYTES, np.int64(one ^ two ^ three ^ four ^ five ^ six))


@njit
def _share(number, chains, sums, steps):
    """Do one share; one function calls both loops, so that Numba makes code for threads once."""
    if chains == 1:
        _chain(number, sums, steps)
    else:
        _chains(number, sums, steps)


@njit(nogil=True)
def _run(chains, sums, shares, steps, team):
    share(team, shares, _share, (chains, sums, steps))
    return 0


def compute_loops() -> dict[str, Callable[[], object]]:
    """Return the loops, by what they are bound by; a call takes some hundred microseconds on one thread."""
    sums = np.zeros(SHARES * LINE_BYTES, np.uint8)

    def call(chains: int) -> Callable[[], object]:
        return lambda: launch(_run, (chains, address(sums), SHARES, STEPS), True)

    return {UNITS: call(6), LATENCY: call(1)}
