"""Classes of calls: what each has cost, and the race that it is in."""

from _thread import allocate_lock
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...ir.problem import Problem
from ...lowering.schedule.loop_sizes import NestShape
from ...lowering.schedule.schedule import Schedule
from ..tuned_schedules.confirmation import Confirmation
from .budget import WATCHING_S, Budget
from .race import Race

# What a class must have cost before its first candidate.
LEAST_SPENT_S = 1.0
# Calls that are shorter are left to the fast call after the first few: to time them would cost more than they can gain.
SHORTEST_S = 300e-6
FIRST_CALLS = 8
# What a candidate's first call may take, in usual calls, and what it makes a call longer by, with the comparison of the
# bytes: a result of 25 MB takes 1.3 ms, its copy 5 and its comparison 3 (Zen 4).
WORST_FIRST = 8.0
TRIAL = 10.0
# What calls add up before they tell their class.
TOLD_S = 50e-3
# Problems of a class that are watched: calls of one class differ in sizes that round to the same powers of two.
MOST_PROBLEMS = 16

State = Literal["watched", "choosing", "racing", "over"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is watched: the calls of one problem.

    Attributes:
        problem: the problem.
        nest: the sizes that a schedule is chosen from.
        schedule: the one that calls have.
        call_class: what a schedule is recorded for.
        prepare: compiles the problem under another schedule; the result has `run(data, indices, out)`.
        is_compiled: whether the kernel of another schedule is in memory or on disk.
    """

    problem: Problem
    nest: NestShape
    schedule: Schedule
    call_class: str
    prepare: Callable[[Schedule], Any]
    is_compiled: Callable[[Schedule], bool]


@dataclass(slots=True)
class Heat:
    """A candidate that races, and the calls that run it.

    Attributes:
        calls: the calls.
        candidate: the schedule.
        other: the calls' problem, prepared under it.
        race: the pairs so far.
        is_tried: whether the candidate's bytes have been compared.
        failure: what is wrong with it; empty while nothing is.
        charged_s: what the budget has of `race.extra_s`.
    """

    calls: "WatchedCalls"
    candidate: Schedule
    other: Any
    race: Race
    is_tried: bool = False
    failure: str = ""
    charged_s: float = 0.0

    @property
    def is_decided(self) -> bool:
        """Whether the candidate has won, lost or failed."""
        return bool(self.failure) or self.race.verdict is not None


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that is timed for a race.

    Attributes:
        heat: the race.
        other: the prepared candidate that it runs under; None for the schedule that calls have.
        is_trial: whether it runs under both, to compare the bytes, and counts for no pair.
    """

    heat: Heat
    other: Any
    is_trial: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a candidate.

    Attributes:
        schedule: the candidate.
        beside: what calls had meanwhile.
        outcome: `won`, `lost` or `failed`.
        ratio: how many times as fast it was, the median of the pairs; None where it failed.
        reason: why it failed.
    """

    schedule: Schedule
    beside: Schedule
    outcome: Literal["won", "lost", "failed"]
    ratio: float | None = None
    reason: str = ""


class WatchedCalls:
    """The calls of one problem: they say how long they take, and ask which kernel to run.

    Attributes:
        subject: what they are.
        is_over: whether they are no longer timed.
        spent_s: what they took.
        beside_s: what they took beside their kernels and trials, since their class was told.
    """

    __slots__ = ("_class", "_count", "_least_s", "_untold", "_untold_s", "beside_s", "is_over", "spent_s", "subject")

    def __init__(self, call_class: "CallClass", subject: Subject):
        self.subject, self.is_over, self.spent_s = subject, False, 0.0
        self._class, self._count = call_class, 0
        self._least_s: float | None = float("inf")  # of the first calls, and None behind them
        self._untold, self._untold_s = 0, 0.0
        self.beside_s = 0.0

    @property
    def usual_s(self) -> float:
        """What a call takes on average."""
        return self.spent_s / max(self._count, 1)

    @property
    def is_racing(self) -> bool:
        """Whether a call may have a turn."""
        return self._class.state == "racing"

    def begin(self) -> Turn | None:
        """Return the turn of the next call in a race; None for a call that is timed alone.

        A turn must be ended, by `end` or by `abandon`.
        """
        return self._class.turn(self) if self._class.state == "racing" else None

    def add(self, seconds: float) -> None:
        """Tell what a call without a turn took."""
        self._untold_s += seconds
        self._untold += 1
        if self._untold_s >= TOLD_S or self._least_s is not None:
            self._tell_rest()

    def end(self, turn: Turn | None, seconds: float) -> None:
        """Tell what a call took, which ends its turn."""
        if turn is None:
            self.add(seconds)
        else:
            self._tell_rest()
            self._tell(turn, 1, seconds)

    def _tell_rest(self) -> None:
        """Tell the class what has been added up; another thread may have told it meanwhile."""
        calls, seconds = self._untold, self._untold_s
        self._untold, self._untold_s = 0, 0.0
        if calls:
            self._tell(None, calls, seconds)

    def _tell(self, turn: Turn | None, calls: int, seconds: float) -> None:
        self.spent_s += seconds
        self._count += calls
        if (least_s := self._least_s) is not None:
            self._note_first(least_s, seconds / calls)
        beside_s, self.beside_s = self.beside_s, 0.0
        self._class.took(self, turn, calls, seconds, beside_s)

    def end_trial(self, turn: Turn, seconds: float, extra_s: float, other_s: float, failure: str) -> None:
        """End a trial.

        Args:
            seconds: what the call took.
            extra_s: how much longer the trial made it.
            other_s: what the candidate took of that.
            failure: what is wrong with the candidate.
        """
        far_s = WORST_FIRST * turn.heat.race.usual_s
        if not failure and other_s > far_s:
            failure = f"its first call took {other_s:.3g} s, and {far_s:.3g} s are too long"
        turn.heat.is_tried, turn.heat.failure = True, failure
        self._class.end_trial(extra_s)
        self.end(None, seconds)

    def abandon(self, turn: Turn | None) -> None:
        """End the turn of a call that failed, such as by an index out of range; it counts for no pair."""
        if turn is not None:
            self._class.end_turn()

    def _note_first(self, least_s: float, seconds: float) -> None:
        """Note one of the first calls; after the last of them short ones are watched no longer."""
        self._least_s = min(least_s, seconds)
        if self._count < FIRST_CALLS:
            return
        self.is_over = self._least_s < SHORTEST_S
        self._least_s = None
        if self.is_over:
            self._class.drop(self)


class CallClass:
    """Calls that get the same schedule.

    Args:
        budget: the process's.
        work: called where something is to be chosen, compiled or recorded; returns whether it has begun.

    Attributes:
        state: `watched`; `choosing` while a thread works for it; `racing`; or `over`.
        spent_s: what its calls took.
        needed_s: what the budget must allow before the next candidate is chosen.
        tried: the schedules that have been candidates, or had by calls.
        outcomes: what came of them.
        best: how the best of them did.
        default, default_us: the text of the schedule that calls had at first, and its time in the first race won.
        gain: how many times as fast calls are as at first.
        heat: the race that is on, or that has been decided and is not yet evaluated.
    """

    def __init__(self, budget: Budget, work: Callable[["CallClass"], bool], needed_s: float):
        self.state: State = "watched"
        self.spent_s, self.needed_s = 0.0, needed_s
        self.tried: set[Schedule] = set()
        self.outcomes: list[Outcome] = []
        self.best: Confirmation | None = None
        self.default: str | None = None
        self.default_us, self.gain = 0.0, 1.0
        self.heat: Heat | None = None
        self._budget, self._work = budget, work
        self._calls: dict[tuple[Problem, str], WatchedCalls] = {}
        self._idle_s = 0.0
        self._turn, self._claim = allocate_lock(), allocate_lock()

    def watch(self, subject: Subject) -> WatchedCalls | None:
        """Return the calls of a problem of this class; None where they are not to be watched."""
        if self.state == "over":
            return None
        if self.default is None:
            self.default = str(subject.schedule)
        key = _key(subject)
        calls = self._calls.get(key)
        if calls is None or calls.subject.schedule != subject.schedule:
            if calls is None and len(self._calls) >= MOST_PROBLEMS:
                return None
            calls = self._calls[key] = WatchedCalls(self, subject)
        return calls

    @property
    def is_empty(self) -> bool:
        """Whether no calls are watched."""
        return not self._calls

    def drop(self, calls: WatchedCalls) -> None:
        """Watch some calls no longer."""
        self._calls.pop(_key(calls.subject), None)

    def busiest(self) -> WatchedCalls | None:
        """Return the calls that have cost the most; None while there are none."""
        return max(list(self._calls.values()), key=lambda calls: calls.spent_s, default=None)

    def begin_race(self, calls: WatchedCalls, candidate: Schedule, other: Any) -> None:
        """Let these calls run a prepared candidate in turn with the schedule that they have."""
        self.heat, self._idle_s = Heat(calls, candidate, other, Race(calls.usual_s)), 0.0
        self.state = "racing"

    def end_race(self, state: State) -> None:
        """Forget the race and its candidate."""
        self.state, self.heat = state, None

    def replan(self) -> None:
        """Forget the calls, as those that follow are planned with another schedule."""
        for calls in list(self._calls.values()):
            calls.is_over = True
        self._calls = {}

    def finish(self) -> None:
        """Watch no more."""
        self.end_race("over")
        self.replan()

    def turn(self, calls: WatchedCalls) -> Turn | None:
        """Return the turn of a call, as `WatchedCalls.begin`; one call at a time has one."""
        heat = self.heat
        if heat is None or calls is not heat.calls or not self._turn.acquire(False):
            return None
        risk_s = heat.race.risk_s if heat.is_tried else TRIAL * heat.race.usual_s
        if heat.is_decided or (heat.race.is_between_pairs and not self._budget.allows(risk_s)):
            self._turn.release()
            return None
        if not heat.is_tried:
            return Turn(heat, heat.other, is_trial=True)
        return Turn(heat, heat.other if heat.race.next_is_other() else None)

    def took(self, calls: WatchedCalls, turn: Turn | None, count: int, seconds: float, beside_s: float = 0.0) -> None:
        """Add what so many calls took, and what watching them took beside; with a turn it is one."""
        self.spent_s += seconds
        self._budget.add(calls_s=seconds, watching_s=count * WATCHING_S + beside_s)
        if turn is not None:
            self._count(turn.heat, seconds)
        elif self.state == "racing":
            self._note_untimed(calls, seconds)
        elif self.state == "watched" and self.spent_s >= LEAST_SPENT_S:
            self._start_work()

    def end_trial(self, extra_s: float) -> None:
        """End the turn of a trial that has made a call longer."""
        self._budget.add(racing_s=extra_s)
        self.end_turn()

    def end_turn(self) -> None:
        """Let the next call have its turn; after the last one, the race is evaluated."""
        self._turn.release()
        if self.heat is not None and self.heat.is_decided:
            self._start_work()

    def _count(self, heat: Heat, seconds: float) -> None:
        heat.race.took(seconds)
        self._budget.add(racing_s=heat.race.extra_s - heat.charged_s)
        heat.charged_s = heat.race.extra_s
        self.end_turn()

    def _note_untimed(self, calls: WatchedCalls, seconds: float) -> None:
        """Note a call without a turn: where those that race no longer come, others of the class race instead."""
        heat = self.heat
        if heat is None or heat.is_decided:
            self._start_work()
        elif calls is not heat.calls:
            self._idle_s += seconds
            if self._idle_s > LEAST_SPENT_S and self._turn.acquire(False):
                heat.calls.spent_s = 0.0
                self.tried.discard(heat.candidate)
                self.end_race("watched")
                self._turn.release()

    def _start_work(self) -> None:
        """Have the next step done; nothing happens while another thread does one."""
        if not self._claim.acquire(False):
            return
        try:
            before, heat = self.state, self.heat
            is_due = before == "watched" or (before == "racing" and heat is not None and heat.is_decided)
            if is_due and self._budget.allows(self.needed_s):
                self.state = "choosing"
                if not self._work(self):
                    self.state = before
        finally:
            self._claim.release()


def _key(subject: Subject) -> tuple[Problem, str]:
    return subject.problem, repr(subject.problem.gradient)  # 0.0 is not -0.0
