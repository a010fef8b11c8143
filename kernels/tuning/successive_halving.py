"""Successive halving of candidates. Pure: the timer is an argument.

All candidates are timed for a few rounds in turn with the default; the better half goes on for twice as many. The
machine may be busy, so the winner is only a guess, and is confirmed by fresh pairs.
"""

from collections.abc import Callable, Sequence

from ..host.timing import Timings

# Times the candidates of those names in turn, for so many rounds.
TimeRounds = Callable[[Sequence[str], int], Timings]

FIRST_ROUNDS = 3


def race(default: str, others: Sequence[str], time_rounds: TimeRounds) -> list[str]:
    """Return the candidates, the best first, by their ratios to the default in the last heat that each was in.

    Every round times the default, too. Each heat after the first has twice the rounds and half the candidates.
    """
    running, behind, rounds = list(others), [], FIRST_ROUNDS
    while len(running) > 1:
        timings = time_rounds([default, *running], rounds)
        ratios = {name: timings.ratio(name, default) for name in running}
        running.sort(key=ratios.__getitem__, reverse=True)
        half = (len(running) + 1) // 2
        running, behind = running[:half], running[half:] + behind
        rounds *= 2
    return running + behind
