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

from ...ir.byte_comparison import first_difference
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import Timings, time_interleaved
from ...kernels.roofline.lower_bound import MeasuredBound
from .cases.case import Case, Inputs, expected
from .peers.gathernest_peer import compile_case
from .peers.peer import Call, Peer

if TYPE_CHECKING:
    from ...kernels.roofline.reference_loops import ReferenceLoops

OURS = "gathernest"
TRIAL_ROUNDS = 3
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
    """

    case: Case
    median_us: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    rounds_us: dict[str, list[float]] = field(default_factory=dict)
    bound: MeasuredBound | None = None

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

    @property
    def of_bound_in_order(self) -> float | None:
        """The same with the bound in the order of the indices, where it is known."""
        if self.bound is None or OURS not in self.median_us:
            return None
        return self.bound.fraction_in_order(self.median_us[OURS])


def measure(case: Case, candidates: Sequence[Peer], *, rounds: int, threads: int) -> Measured:
    """Run a case by every candidate that can; they are started, and `threads` are gathernest's."""
    inputs = case.make()
    result = Measured(case)
    ready: dict[str, dict[str, Sequence[Call]]] = {}
    with knobs.scope(num_threads=threads):
        references = case_loops(case, inputs)
        for candidate in candidates:
            if (reason := candidate.rejection(case)) is not None:
                result.rejected[candidate.name] = reason
            elif ways := prepared(candidate, case, inputs, result):
                ready[candidate.name] = ways
        result.ways.update({name: fastest_way(ways) for name, ways in ready.items()})
        chosen = {name: in_turn(ways[result.ways[name]]) for name, ways in ready.items()}
        if chosen:
            loops = {} if references is None else references.calls
            timings = time_interleaved({**chosen, **loops}, rounds=rounds, settle_s=SETTLE_S)
            _record(timings, list(chosen), result)
            result = replace(result, bound=None if references is None else references.measured(timings))
    return result


def case_loops(case: Case, inputs: Inputs) -> "ReferenceLoops | None":
    """Return the reference loops of a case, ready to run, with as many threads as the knobs say.

    The first set of indices determines which lines are touched and in what order; the loops use as many parts of their
    memory in turn as there are sets. None where only the call is timed, and for gradients, whose table is both read and
    written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.roofline.reference_loops import reference_loops

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
        ways = candidate.variants(case, inputs)
    except Exception as error:  # each runtime has errors of its own
        result.wrong[candidate.name] = _failure(error)
        return {}
    right: dict[str, Sequence[Call]] = {}
    for way, calls in ways.items():
        problem = _problem(candidate, calls, case, inputs)
        if problem is None:
            right[way] = calls
        else:
            result.wrong[candidate.name] = f"{way}: {problem}"
    return right


def _problem(candidate: Peer, calls: Sequence[Call], case: Case, inputs: Inputs) -> str | None:
    """Return how the bytes of the calls are wrong, or None."""
    for number, call in enumerate(calls):
        inputs.out.fill(1)
        try:
            got = candidate.result(call(), inputs.out)
        except Exception as error:
            return _failure(error)
        if (problem := _difference(got, expected(case, inputs, number))) is not None:
            return problem
    return None


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
    """Return the way that is fastest in a short trial."""
    if len(ways) == 1:
        return next(iter(ways))
    timings = time_interleaved({way: in_turn(calls) for way, calls in ways.items()}, rounds=TRIAL_ROUNDS)
    return min(ways, key=timings.median_s)


def in_turn(calls: Sequence[Call]) -> Call:
    """Return a call that makes the next of these calls each time."""
    if len(calls) == 1:
        return calls[0]
    following: Callable[[], Call] = itertools.cycle(calls).__next__
    return lambda: following()()


def _record(timings: Timings, names: Sequence[str], result: Measured) -> None:
    for name in names:
        result.median_us[name] = timings.median_s(name) * 1e6
        result.rounds_us[name] = [round(seconds * 1e6, 3) for seconds in timings.rounds_s[name]]
        if name != OURS and OURS in names:
            result.ratios[name] = timings.ratio(OURS, name)
