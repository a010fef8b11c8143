"""The gain of all threads over one, for gathers of several kinds and for compute-bound loops."""

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....kernels.host.knobs import knobs
from ....kernels.host.timing import Timings, time_interleaved
from ..cases.case import Case, describe
from ..peers.gathernest_peer import compile_case
from ..table import markdown_table

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
    from .compute_loops import compute_loops

    calls = {(NO_MEMORY, name): call for name, call in compute_loops().items()}
    for case in cases:
        calls[case.family, f"{case.name}: {describe(case)}"] = _call_of(case)
        advance(1)
    return scale_calls(calls, rounds=rounds, threads=threads)


def scale_calls(calls: Mapping[tuple[str, str], Callable[[], object]], *, rounds: int, threads: int) -> list[Scaled]:
    """Time calls, by their bottleneck and name, on one thread and on 2 or more, all of them in turn."""
    candidates = {f"{count} {name}": _on(count, call) for (_, name), call in calls.items() for count in (1, threads)}
    timings = time_interleaved(candidates, rounds=rounds, settle_s=0.0)
    return [_scaled(name, bound, threads, timings) for bound, name in calls]


def _call_of(case: Case) -> Callable[[], object]:
    inputs = case.make()
    kernel, following = compile_case(case, inputs.indices[0]), itertools.cycle(inputs.indices).__next__
    return lambda: kernel(inputs.data, following(), inputs.out)


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
