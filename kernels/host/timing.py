"""Interleaved timing: candidates take turns round by round, so that a busy machine slows all of them alike."""

import math
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
# A trial: passes over the calls; seconds for which a pass repeats a call; and the factor above the best time from which
# a call is not tried again.
TRIAL_PASSES, TRIED_S, HOPELESS_FACTOR = 2, 5e-3, 1.5


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
                fastest_s(candidates[name], warm=0, least_s=SETTLED_S)  # fills the caches with its data
            rounds_s[name].append(_time(candidates[name], repeats[name]))
    return Timings(rounds_s)


def fastest_s(call: Call, *, runs: int = 1, warm: int = 1, least_s: float = 0.0) -> float:
    """Return the seconds of the fastest of some calls.

    Args:
        call: the call.
        runs: the least number of timed calls, 1 or more.
        warm: the number of calls before them that are not timed.
        least_s: the least time that the timed calls take together.
    """
    for _ in range(warm):
        call()
    fastest, end = math.inf, time.perf_counter() + least_s
    while runs > 0 or time.perf_counter() < end:
        fastest = min(fastest, _time(call, 1))
        runs -= 1
    return fastest


def find_fastest(calls: Mapping[str, Call], repeats: Mapping[str, int] | None = None) -> str:
    """Return the name of the call that is fastest in a trial of some milliseconds each.

    Args:
        calls: the calls, by name.
        repeats: the number of times that each call does its work; 1 if omitted.
    """
    best_s = dict.fromkeys(calls, math.inf)
    for _ in range(TRIAL_PASSES if len(calls) > 1 else 0):
        limit_s = HOPELESS_FACTOR * min(best_s.values())
        for name, call in calls.items():
            if best_s[name] <= limit_s:
                taken_s = fastest_s(call, least_s=TRIED_S) / (repeats[name] if repeats else 1)
                best_s[name] = min(best_s[name], taken_s)
    return min(best_s, key=best_s.__getitem__)


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
