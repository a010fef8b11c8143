"""Tuning one problem: every candidate compiled, compared with the default byte for byte, and timed in turn with it.

Nothing is recorded here; `gathernest.tune` (`kernels.tune`) does that.
"""

import numbers
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from ...ir.errors import GathernestError, InvalidGatherError, show
from ...ir.problem import Problem
from ...lowering.schedule.candidates import Space, best_predicted, search
from ...lowering.schedule.machine_model import MachineModel
from ...lowering.schedule.predict import Model
from ...lowering.schedule.schedule import Schedule
from ..host.cpu import OtherLoad
from ..host.knobs import knobs
from ..host.machine import machine_model, sharing_threads
from ..host.timing import Call, Timings, time_interleaved
from ..runtime.plan import Plan
from ..runtime.prepare import Prepared, planned, prepare_problem
from ..tuned_schedules.confirmation import LEAST_GAIN, LEAST_PAIRS, Confirmation, confirmation

ROUNDS, FIRST_ROUNDS = 21, 3
TIME_LIMIT_S = 20.0
SEARCH_WIDTH = 2
# So many variations of a search step are compiled: those that the cost model ranks best.
MOST_TRIED = 10
# Where other processes use a larger part of the cores, parallel schedules lose to serial ones: then only schedules
# that are parallel where the default is can win.
BUSY = 0.25
# A candidate that takes so many times as long as the best so far is abandoned after a round, and one to be sure.
FAR_SLOWER = 3.0
# Times calls by name, as `time_interleaved` does with its argument `rounds`.
Timer = Callable[..., Timings]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one candidate.

    Attributes:
        schedule: the candidate.
        outcome: `default`; `winner`, confirmed; `timed`; `abandoned` for its slowness; or `failed`.
        time_us: its median time in microseconds; None when it failed before.
        ratio: how many times as fast as the default; None when it failed before.
        reason: why it was abandoned or failed.
    """

    schedule: Schedule
    outcome: Literal["default", "winner", "timed", "abandoned", "failed"]
    time_us: float | None = None
    ratio: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What tuning one problem found.

    Attributes:
        problem: what was tuned.
        problem_class: what the result counts for.
        schedule: the schedule that matching calls take from now on.
        trials: every candidate, the default first, then the fastest, then those that failed.
        confirmation: how the best other candidate did in pairs with the default; None when there was no other.
        busy_cores: how many cores other processes used, when that was so many that schedules which share work where the
            default does not, or the other way round, were left out; else 0.
        file: where the result is recorded; None when it is not.
    """

    problem: Problem
    problem_class: str
    schedule: Schedule
    trials: tuple[Trial, ...]
    confirmation: Confirmation | None
    busy_cores: float = 0.0
    file: Path | None = None

    @property
    def is_default(self) -> bool:
        """Whether the default stays."""
        return self.schedule == self.trials[0].schedule

    @property
    def summary(self) -> str:
        """One sentence: what won, by how much, and how sure that is; and whether the machine was busy."""
        return self._outcome + (
            f"; other processes used {self.busy_cores:.1f} cores meanwhile, so only schedules that start threads where "
            "the default does could win"
            if self.busy_cores
            else ""
        )

    @property
    def _outcome(self) -> str:
        found = self.confirmation
        if found is None:
            return "the default stays: no other schedule could be timed to the end"
        count = f"{found.wins} of {found.pairs} pairs"
        if not self.is_default:
            text = str(self.schedule) or "the empty schedule"
            return f"{text} is {found.ratio:.2f} times as fast as the default; it won {count}"
        return (
            f"the default stays: the best other schedule was {found.ratio:.2f} times as fast and won {count}; "
            f"{found.wins_needed} are needed, and a ratio of {LEAST_GAIN}"
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far tuning is, for whoever shows it.

    Attributes:
        done, total: steps; a search adds to the total as it goes on.
        doing: what is being done now.
        best: the best candidate so far, with its ratio to the default; None before the first.
    """

    done: int
    total: int
    doing: str
    best: tuple[Schedule, float] | None


Report = Callable[[Progress], None]


class Tuner:
    """One problem being tuned.

    Args:
        problem: what is tuned.
        source, indices: what its kernels read.
        time_limit_s, rounds, progress: as for `gathernest.tune`.
        timer, clock: time candidates, and tell the time in seconds.
        busy_cores: tells how many cores other processes have used; counted from now when omitted.
        machine: what predictions are made for; the machine that schedules are chosen by when omitted.
    """

    def __init__(
        self,
        problem: Problem,
        source: np.ndarray,
        indices: np.ndarray,
        *,
        time_limit_s: float = TIME_LIMIT_S,
        rounds: int = ROUNDS,
        progress: Report | None = None,
        timer: Timer = time_interleaved,
        clock: Callable[[], float] = time.perf_counter,
        busy_cores: Callable[[], float] | None = None,
        machine: MachineModel | None = None,
    ):
        if not isinstance(rounds, numbers.Integral):
            raise InvalidGatherError(f"rounds must be a whole number, got {show(rounds)}")
        if not isinstance(time_limit_s, numbers.Real):
            raise InvalidGatherError(f"time_limit_s must be a number, got {show(time_limit_s)}")
        if rounds < LEAST_PAIRS:
            raise InvalidGatherError(f"rounds must be {LEAST_PAIRS} or more to confirm a winner, got {rounds}")
        if time_limit_s <= 0:
            raise InvalidGatherError(f"time_limit_s must be above 0, got {time_limit_s}")
        if knobs.interpret:
            raise GathernestError("tuning times compiled code, and GATHERNEST_INTERPRET is set; unset it")
        self._problem, self._source, self._indices = problem, source, indices
        self._limit_s, self._rounds, self._progress = time_limit_s, rounds, progress
        self._timer, self._clock = timer, clock
        self._busy_cores = OtherLoad().cores if busy_cores is None else busy_cores
        with knobs.scope(tuning="off"):
            plan = planned(problem)
        if plan.action != "run":
            raise InvalidGatherError(
                f"{problem.name} {problem.table} by {problem.indices} moves nothing; tune larger sizes"
            )
        self._plan: Plan = plan
        nest, machine = plan.layout.nest, machine_model() if machine is None else machine
        model = Model(nest, machine)
        self._predict = lambda schedule: model.predict(schedule).time_us
        self.default = plan.schedule
        self._space = Space(nest, self.default, replace(machine, threads=sharing_threads()))
        self._out = np.zeros(problem.result.shape, problem.result.dtype)
        self._trials: dict[Schedule, Trial] = {}
        self._calls: dict[str, Call] = {}
        self._ratios: dict[str, list[float]] = {}
        self._done, self._total = 0, 3  # the default, the race, and the confirmation

    def run(self, candidates: Sequence[Schedule] | None = None) -> TuningResult:
        """Time the candidates and confirm the winner; see `gathernest.tune`, which records what this returns.

        Without candidates the search space is searched, each of its steps going on from the `SEARCH_WIDTH` fastest.
        """
        self._report("compiling the default")
        expected = self._run_default()
        if candidates is None:
            search(self._space, lambda schedules: self._fastest(schedules, expected))
        else:
            self._fastest([self.default, *dict.fromkeys(candidates)], expected)
        self._report("racing")
        can_win = self._who_can_win()
        others = [name for name in self._calls if name != str(self.default) and can_win(Schedule.parse(name))]
        order = race(str(self.default), others, self._time)
        found = None
        if order:
            self._report("confirming the winner")
            found = self._confirm(order[0])
        self._report("done")
        return self._result(Schedule.parse(order[0]) if order else None, found)

    def _fastest(self, schedules: Sequence[Schedule], expected: np.ndarray) -> list[Schedule]:
        """Try the schedules that have not been tried; return the default and the fastest of those that are given."""
        fresh = [schedule for schedule in schedules if schedule not in self._trials]
        if not self._problem.adds:
            fresh = best_predicted(self._space, fresh, self._predict, MOST_TRIED)
        self._total += len(fresh)
        for schedule in fresh:
            self._report(str(schedule) or "the empty schedule")
            self._try(schedule, expected)
        can_win = self._who_can_win()
        running = [schedule for schedule in schedules if str(schedule) in self._calls and can_win(schedule)]
        running = [schedule for schedule in running if schedule != self.default]
        ranked = sorted(running, key=lambda schedule: -self._score(str(schedule)))
        return [self.default, *ranked[:SEARCH_WIDTH]]

    def confirm(self, schedule: Schedule) -> Confirmation:
        """Measure one schedule against the default in fresh pairs; raises GathernestError for other bytes."""
        expected = self._run_default()
        other = prepare_problem(self._problem, schedule)
        if not np.array_equal(self._first_call(other), expected):
            raise GathernestError(_other_bytes(schedule))
        self._calls[str(schedule)] = self._call(other)
        return self._confirm(str(schedule))

    def _run_default(self) -> np.ndarray:
        """Compile the default and run it once; return the bytes that every other schedule must give."""
        default = prepare_problem(self._problem, self.default)
        expected = self._first_call(default).copy()
        self._calls[str(self.default)] = self._call(default)
        self._time([str(self.default)], 1)
        return expected

    def _confirm(self, name: str) -> Confirmation:
        default = str(self.default)
        times_s = self._time([default, name], self._rounds).rounds_s
        return confirmation(times_s[default], times_s[name])

    def _time(self, names: Sequence[str], rounds: int) -> Timings:
        timings = self._timer({name: self._calls[name] for name in names}, rounds=rounds)
        self._trials[self.default] = Trial(self.default, "default", timings.median_s(names[0]) * 1e6, 1.0)
        for name in names[1:]:
            pairs = zip(timings.rounds_s[names[0]], timings.rounds_s[name], strict=True)
            self._ratios.setdefault(name, []).extend(default / own for default, own in pairs)
            schedule, ratio = Schedule.parse(name), timings.ratio(name, names[0])
            self._trials[schedule] = Trial(schedule, "timed", timings.median_s(name) * 1e6, ratio)
        return timings

    def _try(self, schedule: Schedule, expected: np.ndarray) -> None:
        """Compile a candidate, compare its bytes and time it once; what goes wrong is its trial's reason."""
        start = self._clock()
        try:
            prepared = prepare_problem(self._problem, schedule)
            compiled = self._clock()
            if compiled - start > self._limit_s:
                return self._drop(schedule, "abandoned", f"compiling took {compiled - start:.1f} s")
            got = self._first_call(prepared)
        except GathernestError as error:
            return self._drop(schedule, "failed", str(error))
        if not np.array_equal(got, expected):
            return self._drop(schedule, "failed", _other_bytes(schedule))
        if (taken := self._clock() - compiled) > self._limit_s:
            return self._drop(schedule, "abandoned", f"one call took {taken:.1f} s")
        name = str(schedule)
        self._calls[name] = self._call(prepared)
        alike = [name for name in self._ratios if bool(Schedule.parse(name).parallel) == bool(schedule.parallel)]
        best = max((min(self._ratios[name]) for name in alike), default=0.0)
        for _ in range(2):  # once more, as a busy machine may have slowed one round
            self._time([str(self.default), name], 1)
            if max(self._ratios[name]) * FAR_SLOWER >= best:
                self._time([str(self.default), name], FIRST_ROUNDS - len(self._ratios[name]))
                return
        timed, ratio = self._trials[schedule], max(self._ratios.pop(name))
        del self._calls[name]
        reason = f"it takes {best / ratio:.1f} times as long as the best so far"
        self._trials[schedule] = Trial(schedule, "abandoned", timed.time_us, ratio, reason)

    def _drop(self, schedule: Schedule, outcome: Literal["abandoned", "failed"], reason: str) -> None:
        self._trials[schedule] = Trial(schedule, outcome, reason=reason)

    def _first_call(self, prepared: Prepared) -> np.ndarray:
        """Run a kernel over an output of other bytes; return the bytes that it leaves, where the next call writes."""
        written = self._out.reshape(-1).view(np.uint8)
        written[:] = 0xA5
        prepared.run(self._source, self._indices, self._out)
        return written

    def _call(self, prepared: Prepared) -> Call:
        return partial(prepared.run, self._source, self._indices, self._out)

    def _who_can_win(self) -> Callable[[Schedule], bool]:
        """Return which schedules can win: all, or on a busy machine those that share work where the default does."""
        is_busy = self._busy_cores() > BUSY * sharing_threads()
        return lambda schedule: not is_busy or bool(schedule.parallel) == bool(self.default.parallel)

    def _report(self, doing: str) -> None:
        """Tell what is begun now; every report but the last begins a step."""
        if self._progress is not None:
            done = self._total if doing == "done" else self._done
            best = max(self._ratios, key=self._score, default=None)
            found = None if best is None else (Schedule.parse(best), self._score(best))
            self._progress(Progress(done, self._total, doing, found))
        self._done += 1

    def _score(self, name: str) -> float:
        return statistics.median(self._ratios[name])

    def _result(self, best: Schedule | None, found: Confirmation | None) -> TuningResult:
        chosen = self.default
        if best is not None and found is not None and found.holds:
            chosen = best
            self._trials[best] = Trial(best, "winner", found.other_us, found.ratio)
        trials = sorted(self._trials.values(), key=lambda trial: (trial.outcome != "default", -(trial.ratio or 0.0)))
        cores = self._busy_cores()
        busy = cores if cores > BUSY * sharing_threads() else 0.0
        return TuningResult(self._problem, self._plan.problem_class, chosen, tuple(trials), found, busy)


def _other_bytes(schedule: Schedule) -> str:
    return f"it gives other bytes than the default; please report it with the schedule {str(schedule) or 'none'}"


def race(default: str, others: Sequence[str], time_rounds: Callable[[Sequence[str], int], Timings]) -> list[str]:
    """Return the candidates, the best first, by successive halving: each heat has twice the rounds and half of them.

    They are ranked by their ratios to the default, which every round times, too, in the last heat that each was in.
    The machine may be busy, so the first is only a guess, and is confirmed by fresh pairs.
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
