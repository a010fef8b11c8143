"""A race on live calls: a candidate against the schedule that calls have, in pairs. Pure: times are arguments.

A pair is a call with each, in random order. So whatever follows a rhythm in the program (other tables in turn, other
indices, a cache that another step fills) hits both alike, and the sign test holds. The number of pairs is set before; a
race may end early only by a loss, which makes no false winner.
"""

import random
from collections.abc import Callable
from typing import Literal

from ..tuned_schedules.confirmation import Confirmation, confirmation, wins_needed

# Where the noise of a call is 40 %, a candidate that is 20 % faster is found in four races of five.
PAIRS = 151
MOST_LOSSES = PAIRS - wins_needed(PAIRS)
# A candidate that loses all of so many first pairs has lost.
LOST_AT_ONCE = 5
# As far as the budget is concerned a call takes at most so many times as long as usual; what takes longer is a stall of
# the machine, since a candidate that did so in its first call does not race.
WORST_CALL = 5.0

Verdict = Literal["won", "lost"]


class Race:
    """One candidate's pairs so far.

    Args:
        usual_s: what a call takes under the schedule that calls have, in seconds.
        toss: returns a random number in [0, 1), for the order of a pair.

    Attributes:
        verdict: None while the race is on.
        usual_s: what a call takes.
        extra_s: how much longer calls took than they would have, 0 or more: gains of a call pay for losses of others.
    """

    def __init__(self, usual_s: float, toss: Callable[[], float] = random.random):
        self.verdict: Verdict | None = None
        self.extra_s = 0.0
        self._toss, self.usual_s = toss, usual_s
        self._times: dict[bool, list[float]] = {False: [], True: []}
        self._balance_s = self._first_s = 0.0
        self._wins = 0
        self._next_is_other, self._is_within = False, False

    @property
    def is_between_pairs(self) -> bool:
        """Whether the next call would begin a pair."""
        return not self._is_within

    @property
    def risk_s(self) -> float:
        """How much longer than usual the candidate's next call may take."""
        return WORST_CALL * self.usual_s

    def next_is_other(self) -> bool:
        """Return whether the next call runs under the candidate."""
        if not self._is_within:
            self._next_is_other = self._toss() < 0.5
        return self._next_is_other

    def took(self, seconds: float) -> None:
        """Add what the call took that `next_is_other` was asked for."""
        is_other = self._next_is_other
        self._times[is_other].append(seconds)
        self._charge(min(seconds, WORST_CALL * self.usual_s), is_other)
        if not self._is_within:
            self._is_within, self._next_is_other = True, not is_other
            return
        self._is_within = False
        self._wins += self._times[True][-1] < self._times[False][-1]
        self._judge()

    def confirmation(self) -> Confirmation:
        """Return how the candidate did; there must be a pair."""
        pairs = min(map(len, self._times.values()))
        return confirmation(self._times[False][:pairs], self._times[True][:pairs])

    def _charge(self, seconds: float, is_other: bool) -> None:
        """Add a call: the first one of a pair against a usual call, and both against each other."""
        against_s = self._first_s if self._is_within else self.usual_s
        longer_s = seconds - against_s if is_other else against_s - seconds
        if not self._is_within:
            self._first_s, pending_s = seconds, longer_s if is_other else 0.0
        else:
            self._balance_s, pending_s = self._balance_s + longer_s, 0.0
        self.extra_s = max(self._balance_s + pending_s, 0.0)

    def _judge(self) -> None:
        pairs = len(self._times[True])
        losses = pairs - self._wins
        if losses == pairs == LOST_AT_ONCE or losses > MOST_LOSSES:
            self.verdict = "lost"
        elif pairs == PAIRS:
            self.verdict = "won" if self.confirmation().holds else "lost"
