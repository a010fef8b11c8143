"""Interleaved timing: candidates take turns round by round, so that a busy machine slows all of them alike."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Call = Callable[[], object]

# The first call of a candidate may compile, and the second still store it in the call cache.
WARMING_CALLS = 3
# Calls of a candidate fill at least this time in a round, so that the cost of reading the clock is negligible.
SHORTEST_ROUND_S = 200e-6

# A candidate is called for this time before its turn, to fill the caches with its own data: a gather of 5.6 MB took
# 155 µs after a single call, in turn with loops that use other memory, and 92 µs by itself.
SETTLED_S = 2e-3


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds a call, one number a round and candidate.

    Attributes:
        rounds_s: by candidate, in the order of the rounds.
    """

    rounds_s: Mapping[str, Sequence[float]]

    def median_s(self, name: str) -> float:
        """Return the median time of one call of a candidate, in seconds."""
        return statistics.median(self.rounds_s[name])

    def ratio(self, name: str, beside: str) -> float:
        """Return the speed of `name` relative to `beside`: the median of the ratios within each round."""
        pairs = zip(self.rounds_s[beside], self.rounds_s[name], strict=True)
        return statistics.median(other / own for other, own in pairs)


def time_interleaved(
    candidates: Mapping[str, Call],
    *,
    rounds: int = 7,
    shortest_s: float = SHORTEST_ROUND_S,
    settle_s: float | None = None,
) -> Timings:
    """Time calls in turn, each round beginning with another one.

    Args:
        candidates: the calls, by name; each is called a few times before, which is not timed.
        rounds: the number of times that each is timed, 1 or more.
        shortest_s: the least time of one timing; short calls are repeated within it.
        settle_s: pause before each turn, 0 or more, followed by calls that are not timed, for `SETTLED_S` or once.
            Other runtimes' threads spin for a while after a call, and slow down the next candidate on few cores; and
            the first calls find another candidate's data in the caches.
    """
    repeats = {name: _repeats(call, shortest_s) for name, call in candidates.items()}
    names = list(candidates)
    rounds_s: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if settle_s is not None:
                time.sleep(settle_s)
                _settle(candidates[name])
            rounds_s[name].append(_time(candidates[name], repeats[name]))
    return Timings(rounds_s)


def _settle(call: Call) -> None:
    """Call until the caches hold the data of the call, as far as they can; once where it takes long."""
    end = time.perf_counter() + SETTLED_S
    call()
    while time.perf_counter() < end:
        call()


def _repeats(call: Call, shortest_s: float) -> int:
    """Return the number of repetitions of a call that take `shortest_s`."""
    for _ in range(WARMING_CALLS):
        call()
    repeats = 1
    while (taken := _time(call, repeats) * repeats) < shortest_s:
        repeats = max(2 * repeats, min(int(repeats * shortest_s / max(taken, 1e-9)), 100 * repeats))
    return repeats


def _time(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats
