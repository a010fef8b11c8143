"""One thread against several: gathers and loops without memory, timed here or predicted for a larger machine."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numba import njit

from ...kernels.host.knobs import knobs
from ...kernels.host.timing import Timings, time_interleaved
from ...kernels.machine.probes import STREAMED, aligned, copy_ways, touch
from ...kernels.runtime.array_checks import address
from ...kernels.runtime.launch import launch
from ...lowering.native.parallel_for import share
from ...lowering.numba.intrinsics import store_i64
from ...lowering.schedule.machine_model import LINE_BYTES
from .cases import Case, describe
from .measure import in_turn
from .peers import compile_case
from .report import Together, markdown_table

# What bounds a gather stands for its family.
CASES = (
    Case("scalars from a line", "instructions", (16,), (200_000,)),
    Case("scalars from the first cache", "instructions", (4096,), (400_000,)),
    Case("last axis in the caches", "instructions", (512, 1024), (512,), axis=1),
    Case("scalars", "latency", (64_000_000,), (400_000,)),
    Case("rows of 64 B", "latency", (4_000_000, 16), (100_000,)),
    Case("rows of 256 B", "latency", (1_000_000, 64), (100_000,)),
    Case("rows of 64 KB", "bandwidth", (2000, 16384), (150,)),
    Case("last axis", "bandwidth", (8192, 1024), (512,), axis=1),
)

NO_MEMORY = "no memory"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A gather, or a loop that touches no memory, and its bottleneck.

    Attributes:
        one_us, all_us: medians over the rounds, microseconds a call on one thread and on all.
        gains: how many times as fast all are as one, in each round.
    """

    name: str
    bound: str
    one_us: float
    all_us: float
    gains: tuple[float, ...]


def scale(cases: Sequence[Case], *, rounds: int, threads: int, advance: Callable[[int], None]) -> list[Scaled]:
    """Time gathers and the loops without memory on one thread and on 2 or more, all of them in turn.

    `advance` is called when each gather is ready.
    """
    calls = {(NO_MEMORY, name): call for name, call in compute_loops().items()}
    for case in cases:
        inputs = case.make()
        kernel = compile_case(case, inputs.indices[0])
        call = in_turn([partial(kernel, inputs.data, picks, inputs.out) for picks in inputs.indices])
        calls[case.family, f"{case.name}: {describe(case)}"] = call
        advance(1)
    return scale_calls(calls, rounds=rounds, threads=threads)


def scale_calls(calls: Mapping[tuple[str, str], Callable[[], object]], *, rounds: int, threads: int) -> list[Scaled]:
    """Time calls, by their bottleneck and name, on one thread and on 2 or more, all of them in turn."""
    candidates = {f"{count} {name}": _on(count, call) for (_, name), call in calls.items() for count in (1, threads)}
    timings = time_interleaved(candidates, rounds=rounds, settle_s=0.0)
    return [_scaled(name, bound, threads, timings) for bound, name in calls]


def _scaled(name: str, bound: str, threads: int, timings: Timings) -> Scaled:
    one, several = f"1 {name}", f"{threads} {name}"
    pairs = zip(timings.rounds_s[one], timings.rounds_s[several], strict=True)
    gains = tuple(alone / shared for alone, shared in pairs)
    return Scaled(name, bound, 1e6 * timings.median_s(one), 1e6 * timings.median_s(several), gains)


def _on(threads: int, call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with knobs.scope(num_threads=threads):
            return call()

    return run


def as_markdown(scaled: Sequence[Scaled], threads: int) -> str:
    """Return a table: the gain is the median over the rounds, with the least and the greatest."""
    rows: list[tuple[str, ...]] = []
    for one in scaled:
        gain, extremes = f"{statistics.median(one.gains):.2f}×", f"{min(one.gains):.2f}× to {max(one.gains):.2f}×"
        rows.append((one.bound, one.name, f"{one.one_us:.0f} µs", f"{one.all_us:.0f} µs", gain, extremes))
    headings = "bound by", "what", "1 thread", f"{threads} threads", "gain", "least and greatest"
    return markdown_table(headings, ["---", "---", *["--:"] * 4], rows)


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


# As much as no last cache of two chiplets holds, in source and target each.
COPIED_BYTES = 64 * 1024**2
ROUNDS = 9


def threads_together(threads: int) -> Together | None:
    """Return the speed-up of `threads` threads over one; None for one thread."""
    if threads == 1:
        return None
    memory = aligned(2 * COPIED_BYTES + LINE_BYTES)
    with knobs.scope(num_threads=threads):
        touch(memory, threads)
    window = address(memory), 0, address(memory) + COPIED_BYTES, 0, COPIED_BYTES
    copy = copy_ways(itertools.repeat(window), [memory], threads)[STREAMED]
    calls = {("units", UNITS): compute_loops()[UNITS], ("bandwidth", "copy"): copy}
    scaled = scale_calls(calls, rounds=ROUNDS, threads=threads)
    return Together(*[statistics.median(one.gains) for one in scaled])
