"""How many times as fast as one thread all threads are, in loops without gathers; a run of the suite says it."""

import itertools
from collections.abc import Callable

import numpy as np
from numba import njit

from ...kernels.host.knobs import knobs
from ...kernels.host.timing import time_interleaved
from ...kernels.machine.probes import STREAMED, aligned, copy_ways, touch
from ...kernels.runtime.array_checks import address
from ...kernels.runtime.launch import launch
from ...lowering.native.parallel_for import share
from ...lowering.numba.intrinsics import store_i64
from ...lowering.schedule.machine_model import LINE_BYTES
from .report import Together

SHARES, STEPS = 16, 5_000
# As much as no last cache of two chiplets holds, in source and target each.
COPIED_BYTES = 64 * 1024**2
ROUNDS = 9


@njit
def _chains(number, sums, steps):
    """Do six chains of shifts, which keep a core's units busy and touch no memory."""
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
def _run(sums, shares, steps, team):
    share(team, shares, _chains, (sums, steps))
    return 0


def threads_together(threads: int) -> Together | None:
    """Return the speed-up of `threads` threads over one, in turn; None for one thread."""
    if threads == 1:
        return None
    sums, memory = np.zeros(SHARES * LINE_BYTES, np.uint8), aligned(2 * COPIED_BYTES + LINE_BYTES)
    with knobs.scope(num_threads=threads):
        touch(memory, threads)
    window = address(memory), 0, address(memory) + COPIED_BYTES, 0, COPIED_BYTES
    calls = {
        "units": lambda: launch(_run, (address(sums), SHARES, STEPS), True),
        "copy": copy_ways(itertools.repeat(window), [memory], threads)[STREAMED],
    }
    timed = {f"{count} {name}": _on(count, call) for name, call in calls.items() for count in (1, threads)}
    timings = time_interleaved(timed, rounds=ROUNDS, settle_s=0.0)
    return Together(*(timings.ratio(f"{threads} {name}", f"1 {name}") for name in calls))


def _on(threads: int, call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with knobs.scope(num_threads=threads):
            return call()

    return run
