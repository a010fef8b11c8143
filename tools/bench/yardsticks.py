"""Two loops that touch no memory, shared among threads as a gather is: what a second thread can bring at best.

Where two cores of a virtual machine are one of the real one, with two threads of execution, the loop that keeps a core
busy gains little by the second, and the loop that mostly waits for itself gains nearly all. Imports Numba.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from ...kernels.arguments import address
from ...kernels.threads import launch
from ...lowering.numba.intrinsics import store_i64
from ...lowering.numba.sharing import share

SHARES, STEPS = 16, 20_000
LINE_BYTES = 64


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


@njit(nogil=True)
def _run_chain(sums, shares, steps, team):
    if team:
        share(team, shares, _chain, (sums, steps))
    else:
        for number in range(shares):
            _chain(number, sums, steps)
    return 0


@njit(nogil=True)
def _run_chains(sums, shares, steps, team):
    if team:
        share(team, shares, _chains, (sums, steps))
    else:
        for number in range(shares):
            _chains(number, sums, steps)
    return 0


def yardsticks() -> dict[str, Callable[[], object]]:
    """Return the loops, by what they are bound by; a call takes some hundred microseconds on one thread."""
    sums = np.zeros(SHARES * LINE_BYTES, np.uint8)

    def call(loop: Callable[..., int], steps: int) -> Callable[[], object]:
        return lambda: launch(loop, (address(sums), SHARES, steps), float("inf"))

    return {
        "a core's units: 6 chains of shifts": call(_run_chains, STEPS // 4),
        "latency: 1 chain of shifts": call(_run_chain, STEPS // 4),
    }
