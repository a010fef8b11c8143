"""Measure a case: compare every contender's bytes first, then time them in turn, round by round.

A contender with several ways to run a case is timed in the one that was fastest in a short trial. The loops that
make the machine's limit take part in the same rounds, and are no peers.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...kernels.host.knobs import knobs
from ...kernels.host.timing import Timings, time_interleaved
from ...kernels.roofline.measured_bound import MeasuredLimit
from .cases import Case, Inputs, expected
from .limit import limits
from .peers.peer import Call, Contender

OURS = "gathernest"
TRIAL_ROUNDS = 3
SETTLE_S = 0.05
"""Rest before each turn: ONNX Runtime's and OpenMP's threads spin for tens of milliseconds after a call, on a core that
whoever follows would miss."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found out about a case.

    Attributes:
        case: which.
        median_us: microseconds a call, by contender; gathernest's first.
        ratios: how many times as fast as each peer gathernest is, the median over the rounds.
        ways: what was called, by contender.
        refused: why a contender cannot run it.
        wrong: what is wrong with what a contender gave; it is not timed.
        rounds_us: microseconds a call of each round, by contender.
        limit: the least that this machine took in the same rounds, or None where that was not measured.
    """

    case: Case
    median_us: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    rounds_us: dict[str, list[float]] = field(default_factory=dict)
    limit: MeasuredLimit | None = None

    @property
    def floor_us(self) -> float | None:
        """The median microseconds of the limit: the longer of copying the bytes and reading the lines."""
        return None if self.limit is None else self.limit.time_us

    @property
    def best_peer(self) -> str | None:
        """The peer with the least median time; None when nobody was timed beside gathernest."""
        return min(self.ratios, key=lambda name: self.median_us[name], default=None)

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the best peer gathernest is."""
        return None if (peer := self.best_peer) is None else self.ratios[peer]

    @property
    def of_limit(self) -> float | None:
        """The limit as a fraction of the measured time, both medians of the same rounds."""
        if self.limit is None or OURS not in self.median_us:
            return None
        return self.limit.fraction(self.median_us[OURS])

    @property
    def of_limit_in_order(self) -> float | None:
        """The same of the limit in the order of the indices, where that is known."""
        if self.limit is None or OURS not in self.median_us:
            return None
        return self.limit.fraction_in_order(self.median_us[OURS])


def measure(case: Case, contenders: Sequence[Contender], *, rounds: int, threads: int) -> Measured:
    """Run a case by every contender that can.

    Args:
        case: what to run.
        contenders: gathernest among them, started.
        rounds: how often each is timed.
        threads: how many gathernest uses.
    """
    inputs = case.make()
    result = Measured(case)
    ready: dict[str, dict[str, Sequence[Call]]] = {}
    with knobs.scope(num_threads=threads):
        beside = limits(case, inputs)
        for contender in contenders:
            reason = contender.refusal(case)
            if reason is not None:
                result.refused[contender.name] = reason
                continue
            ready[contender.name] = _prepared(contender, case, inputs, result)
        ready = {name: ways for name, ways in ready.items() if ways}
        chosen: dict[str, Call] = {}
        for name, ways in ready.items():
            result.ways[name] = way = _fastest(ways)
            chosen[name] = _in_turn(ways[way])
        if chosen:
            loops = {} if beside is None else beside.calls
            timings = time_interleaved({**chosen, **loops}, rounds=rounds, settle_s=SETTLE_S)
            _record(timings, list(chosen), result)
            result = replace(result, limit=None if beside is None else beside.measured(timings))
    return result


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the geometric mean of positive numbers, or None of none."""
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def _prepared(contender: Contender, case: Case, inputs: Inputs, result: Measured) -> dict[str, Sequence[Call]]:
    """Return a contender's ways to run a case, those that give other bytes left out and told."""
    try:
        ways = contender.variants(case, inputs)
    except Exception as error:  # each runtime has errors of its own
        result.wrong[contender.name] = _failure(error)
        return {}
    right: dict[str, Sequence[Call]] = {}
    for way, calls in ways.items():
        problem = _problem(contender, calls, case, inputs)
        if problem is None:
            right[way] = calls
        else:
            result.wrong[contender.name] = f"{way}: {problem}"
    return right


def _problem(contender: Contender, calls: Sequence[Call], case: Case, inputs: Inputs) -> str | None:
    """Return what is wrong with the bytes that the calls give, or None."""
    for number, call in enumerate(calls):
        inputs.out.fill(1)
        try:
            got = contender.result(call(), inputs.out)
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
    if np.array_equal(_bytes(got), _bytes(wanted)):
        return None
    unequal = np.any(_bytes(got) != _bytes(wanted), axis=-1)
    first = tuple(int(place) for place in np.unravel_index(int(np.argmax(unequal)), wanted.shape))
    return f"gives other bytes at {first} and {int(unequal.sum()) - 1} other places of {wanted.size}"


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of each element, one row an element."""
    return np.ascontiguousarray(array).reshape(-1, 1).view(np.uint8)


def _fastest(ways: dict[str, Sequence[Call]]) -> str:
    if len(ways) == 1:
        return next(iter(ways))
    timings = time_interleaved({way: _in_turn(calls) for way, calls in ways.items()}, rounds=TRIAL_ROUNDS)
    return min(ways, key=timings.median_s)


def _in_turn(calls: Sequence[Call]) -> Call:
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
