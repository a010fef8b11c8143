"""Measure a case: compare the bytes of all entrants first, then time them in turn, round by round.

A candidate with several ways to run a case is timed in the way that was fastest in a short trial. The reference loops
of the roofline bound are timed in the same rounds, and are no peers.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ...ir.element_types import first_difference
from ...ir.errors import DependencyError, GathernestError
from ...kernels.host.cpu import package_version
from ...kernels.host.knobs import knobs
from ...kernels.host.timing import find_fastest, time_interleaved
from ...kernels.machine.roofline import Bound
from ...kernels.machine.traffic import fewest_bytes
from ...lowering.schedule.steps import STEPS
from ..console.terminal import select
from .by_hand import ByHand, FusedByHand, UncheckedByHand
from .cases import Case, Inputs, problem_of_case
from .peers import ALL, PEERS, Call, Gathernest, OneThread, Peer, WithoutPass, expected

if TYPE_CHECKING:
    from ...kernels.machine.roofline import ReferenceLoops

OURS = "gathernest"
# A pause before each turn: ONNX Runtime's and OpenMP's threads spin for tens of milliseconds after a call, on a core
# that the next candidate needs.
SETTLE_S = 0.05


# The packages of a peer that are not called as it is; the first is the one to install.
_DISTRIBUTIONS = {"tensorflow": ("tensorflow-cpu", "tensorflow")}


@dataclass(frozen=True, slots=True)
class Entrants:
    """The candidates of a run.

    Attributes:
        candidates: gathernest first.
        versions: of the candidates, by name.
        notes: lines about the libraries that are left out.
    """

    candidates: tuple[Peer, ...]
    versions: dict[str, str]
    notes: list[str]


def enter(asked: Sequence[str], threads: int) -> Entrants:
    """Import gathernest and the peers asked for, or all libraries that are installed, and start them.

    Args:
        asked: patterns of names; * stands for anything.
        threads: of each.

    Raises:
        UsageError: there is no peer of that name.
        DependencyError: a named peer cannot be imported, or there is no C compiler for it.
    """
    makers: dict[str, Callable[[], Peer]] = {**PEERS}
    makers |= {peer.name: peer for peer in (ByHand, FusedByHand, UncheckedByHand, OneThread)}
    known = f"the peers are {', '.join(makers)}, without-PASS and without-{ALL}"
    makers |= {f"without-{name}": partial(WithoutPass, name) for name in (*STEPS, ALL)}
    entered: list[Peer] = [Gathernest()]
    absent, broken = dict[str, str](), dict[str, str]()
    for name in select(makers, asked, f"there is no peer {{pattern}}; {known}") if asked else PEERS:
        try:
            entered.append(makers[name]())
        except GathernestError:
            raise
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            if error.name == name:
                absent[name] = f"is not installed: pip install {_DISTRIBUTIONS.get(name, (name,))[0]}"
            else:
                broken[name] = f"needs {package}: pip install {package}"
        except Exception as error:  # a runtime that does not fit this machine may raise anything
            reason = str(error).strip().partition("\n")[0]
            broken[name] = f"cannot be imported: {type(error).__name__}: {reason}"
    if asked and (reasons := absent | broken):
        told = "; ".join(f"{name} {why}" for name, why in reasons.items())
        raise DependencyError(f"--peers names peers that cannot run: {told}")
    for candidate in entered:
        candidate.start(threads)
    versions = {candidate.name: candidate.version or _version_of(candidate.name) for candidate in entered}
    names = ", ".join(absent)
    notes = [f"without {names}, not installed here: pip install 'gathernest[peers]'"] if names else []
    return Entrants(tuple(entered), versions, notes + [f"without {name}, which {why}" for name, why in broken.items()])


def _version_of(name: str) -> str:
    """Return the version of the package of a candidate."""
    found = (package_version(package) for package in _DISTRIBUTIONS.get(name, (name,)))
    return next((version for version in found if version != "not installed"), "not known")


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a case.

    Attributes:
        case: the case.
        median_us: microseconds a call, by candidate; gathernest's first.
        ratios: the time of each peer divided by gathernest's, the median over the rounds.
        ways: the way that was timed, by candidate.
        rejected: the reason of each candidate that cannot run it.
        wrong: the fault of each candidate with a wrong result, which is not timed.
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
        """The measurements of calls that make their result."""
        return self if self.case.into == "new" else self.new

    @property
    def best_peer(self) -> str | None:
        """The peer with the least median time; None when no peer was timed."""
        return min(self.ratios, key=lambda name: self.median_us[name], default=None)

    @property
    def ratio(self) -> float | None:
        """The time of the best peer divided by gathernest's."""
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
    inputs, results = case.make(), [Measured(case)]
    if new_results and case.family != "call":
        results.append(Measured(replace(case, into="new")))
    with knobs.scope(num_threads=threads):
        references = None if is_alone else case_loops(case, inputs)
        calls: dict[str, Call] = {}
        labels = [_enter_calls(result, results[0], inputs, candidates, calls) for result in results]
        if calls:
            loops = {} if references is None else references.calls
            timings = time_interleaved({**calls, **loops}, rounds=rounds, settle_s=0.0 if is_alone else SETTLE_S)
            for result, names in zip(results, labels, strict=True):
                for name, label in names.items():
                    result.median_us[name] = timings.median_s(label) * 1e6
                    result.rounds_us[name] = [round(seconds * 1e6, 3) for seconds in timings.rounds_s[label]]
                    if name != OURS and OURS in names:
                        result.ratios[name] = timings.ratio(names[OURS], label)
            if references is not None:
                results[0] = replace(results[0], bound=references.measured(timings))
    return replace(results[0], new=results[1] if results[1:] else None)


def _enter_calls(
    result: Measured, given: Measured, inputs: Inputs, candidates: Sequence[Peer], calls: dict[str, Call]
) -> dict[str, str]:
    """Add each candidate's call in its fastest way that gives the right bytes, and return the labels of the calls.

    `given` has the calls into given results. A peer that makes every result is timed once, for both.
    """
    labels: dict[str, str] = {}
    for candidate in candidates:
        name, is_new = candidate.name, result is not given
        label = name if not is_new or candidate.is_allocating else f"{name}, new result"
        if is_new and candidate.is_allocating:
            for known, own in ((given.rejected, result.rejected), (given.ways, result.ways)):
                own |= {name: known[name]} if name in known else {}
        elif (reason := candidate.rejection(result.case)) is not None:
            result.rejected[name] = reason
        elif ways := prepared(candidate, result.case, inputs, result):
            way = result.ways[name] = fastest_way(ways)
            calls[label] = in_turn(ways[way])
        if name in result.ways:
            labels[name] = label
    return labels


def case_loops(case: Case, inputs: Inputs) -> "ReferenceLoops | None":
    """Return the reference loops of a case, ready to run, with the threads of the knobs.

    The first set of indices determines which lines are touched and in what order; the loops use a part of their
    memory for each set in turn. None where only the call is timed, and for gradients, whose table is both read and
    written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.machine.roofline import reference_loops

    indices, sets = inputs.indices[0], len(inputs.indices)
    traffic = fewest_bytes(problem_of_case(case), indices, inputs.data)
    return reference_loops(traffic, case.table_bytes, sets)


def geometric_mean(values: Sequence[float | None]) -> float | None:
    """Return the geometric mean of positive numbers, without None; None if there is none."""
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
    """Return the fault of the bytes of a call, or None."""
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
    """Return the way that is fastest in a trial."""
    return find_fastest({way: in_turn(calls) for way, calls in ways.items()})


def in_turn(calls: Sequence[Call]) -> Call:
    """Return a call that makes the next of these calls each time."""
    if len(calls) == 1:
        return calls[0]
    following: Callable[[], Call] = itertools.cycle(calls).__next__
    return lambda: following()()
