"""The adapter of this process: it watches classes of calls, compiles their candidates in a thread, and records winners.

Calls ask `CallClass` what to run; all that takes longer is done by one thread at a time, which ends when a candidate is
ready to race. It is no daemon: the interpreter's exit waits for the candidate that is being compiled, as LLVM's code
must not run while the process is taken down.
"""

import contextvars
import os
import sys
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...lowering.schedule.schedule import Schedule
from ..host.knobs import knobs
from ..host.machine import machine_model, sharing_threads
from ..host.runtime import RUNTIME
from ..tuned_schedules.confirmation import Confirmation
from ..tuned_schedules.records import change_records, new_record, records_path, warn
from ..tuned_schedules.store import Tuned, tuned_schedules
from .budget import Budget
from .call_class import CallClass, Outcome, Subject, WatchedCalls
from .next_candidates import next_candidates

MOST_CLASSES = 256
MOST_TRIED = 12
# What choosing a candidate and loading its kernel from disk may take, and compiling one, in seconds of CPU time; the
# first one may have to import the compiler. Whatever took longer in this process is expected of the next one.
LOADING_S, COMPILING_S, IMPORTING_S = 0.03, 0.6, 2.0


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="gathernest-adapting").start()


class Adapter:
    """The classes of calls that are watched.

    Args:
        clock: tells the CPU time of the calling thread in seconds.
        begin: runs a function in a thread.

    Attributes:
        budget: what calls and adapting have cost.
        classes: the classes by what a schedule is recorded for.
    """

    def __init__(
        self, clock: Callable[[], float] = time.thread_time, begin: Callable[[Callable[[], None]], None] = _in_a_thread
    ):
        self.budget, self._begin = Budget(), begin
        self.classes: dict[str, CallClass] = {}
        self._clock, self._longest_s = clock, 0.0
        self._working = allocate_lock()
        self._is_forked = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_child)

    @property
    def is_working(self) -> bool:
        """Whether a thread is choosing, compiling or recording."""
        return self._working.locked()

    def watch(self, subject: Subject, tuned: Tuned | None) -> WatchedCalls | None:
        """Return how the calls of a problem are watched; None where they are not.

        Args:
            subject: the problem and its schedule.
            tuned: what is recorded for it. Classes that were tuned, or adapted by a process before, are left alone.
        """
        if self._is_forked:
            return None
        found = self.classes.get(subject.call_class)
        if found is None:
            if tuned is not None or not self._has_room():
                return None
            found = self.classes[subject.call_class] = CallClass(self.budget, self.start, LOADING_S)
        elif tuned is not None and tuned.origin == "tune":
            found.finish()
        return found.watch(subject)

    def _has_room(self) -> bool:
        """Return whether one more class can be watched, once those without calls are forgotten."""
        if len(self.classes) >= MOST_CLASSES:
            self.classes = {name: each for name, each in self.classes.items() if not each.is_empty}
        return len(self.classes) < MOST_CLASSES

    def start(self, found: CallClass) -> bool:
        """Have a thread do what a class needs next; return whether it has begun."""
        if not knobs.adapt or not self._working.acquire(False):
            return False
        try:
            context = contextvars.copy_context()  # with the knobs of the caller
            self._begin(lambda: context.run(self._work, found))
        except RuntimeError:  # the interpreter is at its end, or the system starts no more threads
            self._working.release()
            return False
        return True

    def _work(self, found: CallClass) -> None:
        start = self._clock()
        try:
            self._end_race(found)
            self._choose(found)
        except Exception as error:  # a program must not fail by what it did not ask for
            found.finish()
            warn(f"adapting has stopped for one class of calls: {error}")
        finally:
            self.budget.add(compiling_s=self._clock() - start)
            self._working.release()

    def _end_race(self, found: CallClass) -> None:
        """Record what a race found, if there was one."""
        heat = found.heat
        if heat is None:
            return
        subject, verdict = heat.calls.subject, heat.race.verdict
        if heat.failure or verdict is None:
            found.outcomes.append(Outcome(heat.candidate, subject.schedule, "failed", reason=heat.failure))
        else:
            result = heat.race.confirmation()
            found.outcomes.append(Outcome(heat.candidate, subject.schedule, verdict, result.ratio))
            if found.best is None or result.ratio > found.best.ratio:
                found.best = result
            if verdict == "won":
                found.gain *= result.ratio
                found.default_us = found.default_us or result.default_us
                told = replace(result, ratio=found.gain, default_us=found.default_us)
                found.replan()
                self._keep(subject, str(heat.candidate), str(found.default), told)
                RUNTIME.forget_calls()
        found.end_race("choosing")

    def _choose(self, found: CallClass) -> None:
        """Choose and compile the next candidate, as far as the budget allows, and begin its race."""
        start, calls = self._clock(), found.busiest()
        if calls is None:  # they are planned anew, with the schedule that has won
            found.state = "watched"
            return
        subject = calls.subject
        found.tried.add(subject.schedule)
        is_gradient = subject.problem.adds
        for schedule in next_candidates(subject.nest, machine_model(), subject.schedule, is_gradient=is_gradient):
            if schedule in found.tried:
                continue
            if len(found.tried) > MOST_TRIED:
                break
            cost_s, begun_s = LOADING_S if subject.is_compiled(schedule) else self._compiling_s(), self._clock() - start
            must_wait = not self.budget.allows(cost_s + begun_s)
            if must_wait or not knobs.adapt or not threading.main_thread().is_alive():
                found.needed_s = cost_s + 2 * begun_s + LOADING_S
                found.state = "watched"
                return
            found.tried.add(schedule)
            try:
                other = self._prepared(subject, schedule)
            except Exception as error:  # a pass or the compiler rejects it
                found.outcomes.append(Outcome(schedule, subject.schedule, "failed", reason=str(error)))
                continue
            found.needed_s = LOADING_S
            found.begin_race(calls, schedule, other)
            return
        self._finish(found, subject)

    def _finish(self, found: CallClass, subject: Subject) -> None:
        """End a class whose candidates have raced; where none has won, that is recorded."""
        best, has_won = found.best, found.gain != 1.0
        found.finish()
        if best is not None and not has_won:
            self._keep(subject, None, str(found.default), best)

    def _prepared(self, subject: Subject, schedule: Schedule) -> Any:
        """Compile a candidate, in the thread that compiling has; its time is counted beside this thread's."""
        taken_s, start = [0.0], self._clock()

        def compile_it() -> Any:
            start = self._clock()
            try:
                return subject.prepare(schedule)
            finally:
                taken_s[0] = self._clock() - start

        try:
            return RUNTIME.make(compile_it)
        finally:
            self._longest_s = max(self._longest_s, taken_s[0])
            self.budget.add(compiling_s=max(taken_s[0] - (self._clock() - start), 0.0))

    def _compiling_s(self) -> float:
        """Return how long compiling a candidate may take."""
        first_s = COMPILING_S if "numba" in sys.modules and "xdsl" in sys.modules else IMPORTING_S
        return max(first_s, 1.25 * self._longest_s)

    def _keep(self, subject: Subject, schedule: str | None, default: str, result: Confirmation) -> None:
        """Record a result for later processes, and for the plans of this one."""
        threads = sharing_threads()
        path, schedules = records_path(threads), tuned_schedules(threads)
        if path is None or schedules is None:
            return
        record = new_record(subject.problem, schedule, default, result, "adapt")
        schedules.adopt(subject.call_class, record)
        try:
            change_records(path, lambda before: {**before, subject.call_class: record})
        except OSError as error:
            reason = error.strerror or error
            warn(f"what adapting found cannot be recorded in {path} ({reason}), so this process alone has it")

    def _begin_child(self) -> None:
        """In a forked child, which shares the cores with its parent: watch nothing."""
        self._is_forked = True
        for found in self.classes.values():
            found.finish()


ADAPTER = Adapter()
