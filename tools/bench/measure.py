"""Measure a case: compare every candidate's bytes first, then time them in turn, round by round.

A candidate with several ways to run a case is timed in the one that was fastest in a short trial. The reference loops
of the roofline bound are timed in the same rounds, and are no peers.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...ir.element_types import first_difference
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import Timings, time_interleaved
from ...kernels.machine.roofline import Bound
from .cases import Case, Inputs
from .peers import Call, Peer, compile_case, expected

if TYPE_CHECKING:
    from ...kernels.machine.roofline import ReferenceLoops

OURS = "gathernest"
# Of the search for the fastest way: the rounds of a trial, and how many ways are left after it.
TRIALS = ((1, 8), (3, 1))
# A pause before each turn: ONNX Runtime's and OpenMP's threads spin for tens of milliseconds after a call, on a core
# that the next candidate needs.
SETTLE_S = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a case.

    Attributes:
        case: which.
        median_us: microseconds a call, by candidate; gathernest's first.
        ratios: how many times as fast as each peer gathernest is, the median over the rounds.
        ways: the way that was timed, by candidate.
        rejected: why a candidate cannot run it.
        wrong: how a candidate's result is wrong; it is not timed.
        rounds_us: microseconds a call of each round, by candidate.
        bound: the roofline bound of the same rounds, or None where it was not measured.
        new: the same of calls that make their result, in the same rounds; None where they were not measured.
    """

    case: Case
    median_us: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    rounds_us: dict[str, list[float]] = field(default_factory=dict)
    bound: Bound | None = None
    new: "Measured | None" = None

    @property
    def of_new_results(self) -> "Measured | None":
        """What was measured of calls that make their result."""
        return self if self.case.into == "new" else self.new

    @property
    def bound_us(self) -> float | None:
        """The roofline bound in microseconds: the longer of copying the bytes and reading the lines."""
        return None if self.bound is None else self.bound.time_us

    @property
    def best_peer(self) -> str | None:
        """The peer with the least median time; None when no peer was timed."""
        return min(self.ratios, key=lambda name: self.median_us[name], default=None)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the best peer gathernest is."""
        return None if (peer := self.best_peer) is None else self.ratios[peer]

    @property
    def of_bound(self) -> float | None:
        """The roofline bound divided by the measured time, both medians of the same rounds."""
        if self.bound is None or OURS not in self.median_us:
            return None
        return self.bound.fraction(self.median_us[OURS])


def measure(
    case: Case,
    candidates: Sequence[Peer],
    *,
    rounds: int,
    threads: int,
    new_results: bool = False,
    is_alone: bool = False,
) -> Measured:
    """Run a case by every candidate that can; they are started, and `threads` are gathernest's.

    With `new_results`, calls that make their result are timed as well, in the same rounds. The family "call" has a case
    of its own for them. With `is_alone` all candidates are gathernest's: nobody's threads spin, and there is no bound.
    """
    inputs = case.make()
    with knobs.scope(num_threads=threads):
        references = None if is_alone else case_loops(case, inputs)
        columns = [_column(case, inputs, candidates)]
        if new_results and case.family != "call":
            columns.append(_column(replace(case, into="new"), inputs, candidates, columns[0]))
        calls = {label: call for column in columns for label, call in column.calls.items()}
        result, new = columns[0].result, columns[1].result if columns[1:] else None
        if not calls:
            return replace(result, new=new)
        loops = {} if references is None else references.calls
        timings = time_interleaved({**calls, **loops}, rounds=rounds, settle_s=0.0 if is_alone else SETTLE_S)
        for column in columns:
            column.record(timings)
        return replace(result, bound=None if references is None else references.measured(timings), new=new)


@dataclass(frozen=True, slots=True)
class _Column:
    """The calls of a case into given results, or into new ones.

    Attributes:
        result: what is known of them.
        labels: what they are called among the timings, by candidate.
        calls: those to time, by label.
    """

    result: Measured
    labels: dict[str, str] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)

    def record(self, timings: Timings) -> None:
        for name, label in self.labels.items():
            self.result.median_us[name] = timings.median_s(label) * 1e6
            self.result.rounds_us[name] = [round(seconds * 1e6, 3) for seconds in timings.rounds_s[label]]
            if name != OURS and OURS in self.labels:
                self.result.ratios[name] = timings.ratio(self.labels[OURS], label)


def _column(case: Case, inputs: Inputs, candidates: Sequence[Peer], given: _Column | None = None) -> _Column:
    """Return each candidate's call in its fastest way, of those that give the right bytes.

    `given` has the calls into given results where these are the others: peers that make every result are timed once.
    """
    column = _Column(Measured(case))
    result = column.result
    for candidate in candidates:
        name = candidate.name
        if given is not None and candidate.is_allocating:
            shared = ((given.result.rejected, result.rejected), (given.result.ways, result.ways))
            for known, own in (*shared, (given.labels, column.labels)):
                own |= {name: known[name]} if name in known else {}
        elif (reason := candidate.rejection(case)) is not None:
            result.rejected[name] = reason
        elif ways := prepared(candidate, case, inputs, result):
            way = result.ways[name] = fastest_way(ways)
            label = column.labels[name] = name if given is None else f"{name}, new result"
            column.calls[label] = in_turn(ways[way])
    return column


def case_loops(case: Case, inputs: Inputs) -> "ReferenceLoops | None":
    """Return the reference loops of a case, ready to run, with as many threads as the knobs say.

    The first set of indices determines which lines are touched and in what order; the loops use as many parts of their
    memory in turn as there are sets. None where only the call is timed, and for gradients, whose table is both read and
    written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.machine.roofline import reference_loops

    indices, sets = inputs.indices[0], len(inputs.indices)
    problem = compile_case(case, indices).problem
    return reference_loops(problem, indices, data=inputs.data, table_bytes=case.table_bytes, sets=sets)


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of positive numbers, without those that are None; None of none."""
    logarithms = [math.log(value) for value in values if value is not None]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def prepared(candidate: Peer, case: Case, inputs: Inputs, result: Measured) -> dict[str, Sequence[Call]]:
    """Return a candidate's ways to run a case; ways that give wrong bytes are recorded and left out."""
    try:
        right = dict(candidate.variants(case, inputs))
    except Exception as error:  # each runtime has errors of its own
        result.wrong[candidate.name] = _failure(error)
        return {}
    for number in range(len(inputs.indices)):
        wanted = expected(case, inputs, number)
        for way, calls in list(right.items()):
            if (problem := _problem(candidate, calls[number], inputs.out, wanted)) is not None:
                result.wrong.setdefault(candidate.name, f"{way}: {problem}")
                del right[way]
    return right


def _problem(candidate: Peer, call: Call, out: np.ndarray, wanted: np.ndarray) -> str | None:
    """Return how the bytes of a call are wrong, or None."""
    out.fill(1)
    try:
        got = candidate.result(call(), out)
    except Exception as error:
        return _failure(error)
    return _difference(got, wanted)


def _failure(error: Exception) -> str:
    reason = str(error).strip().partition("\n")[0]
    return f"fails with {type(error).__name__}{f': {reason}' if reason else ''}"


def _difference(got: np.ndarray, wanted: np.ndarray) -> str | None:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"gives {got.dtype} of shape {got.shape} for {wanted.dtype} of shape {wanted.shape}"
    if (found := first_difference(got, wanted)) is None:
        return None
    return f"gives other bytes at {found[0]} and {found[1] - 1} other places of {wanted.size}"


def fastest_way(ways: dict[str, Sequence[Call]]) -> str:
    """Return the way that is fastest in short trials, after each of which the slower ones are left out."""
    left = list(ways)
    for rounds, stay in TRIALS:
        if len(left) > stay:
            timings = time_interleaved({way: in_turn(ways[way]) for way in left}, rounds=rounds)
            left = sorted(left, key=timings.median_s)[:stay]
    return left[0]


def in_turn(calls: Sequence[Call]) -> Call:
    """Return a call that makes the next of these calls each time."""
    if len(calls) == 1:
        return calls[0]
    following: Callable[[], Call] = itertools.cycle(calls).__next__
    return lambda: following()()
