"""`gathernest bench --alternating`: our calls right behind a call of another library, beside the same calls when quiet.

Threads of ONNX Runtime, OpenVINO and OpenMP spin for a while after a call, on cores that our own threads need. So the
first two calls behind a peer's are timed, one by one, and before them quiet ones, on all threads and on one: after a
pause in which every thread falls asleep, and calls of ours that are not timed.

The first call also finds another's data in the caches, and its own threads asleep. What is possible is therefore the
first call on one thread behind the same calls: the same caches, and no other core. A call on all threads that takes as
long or less has waited for nobody.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ...kernels.host.cpu import cpu_model, usable_cores
from ...kernels.host.knobs import knobs
from .cases import SUITE, Case, describe
from .measure import OURS, SETTLE_S, Measured, fastest_way, geometric_mean, in_turn, prepared
from .peers import Call, Gathernest, Peer
from .report import markdown_table, ratio_text, time_text

NAMES = (
    "rows-256B-small-table",
    "last-axis-in-cache",
    "middle-axis-8B",
    "scalars-256KB-table",
    "last-axis",
    "rows-4KB",
)
CASES = tuple(case for case in SUITE if case.name in NAMES)
# Calls behind each other: a peer's threads are awake after the second.
PEER_CALLS, QUIET_CALLS = 2, 3
NO_PEER = "a pause"
POSSIBLE = (
    "Where no other core is free, the first call on one thread is what is possible, with the caches as the calls "
    "before left them: up to 1.00× beside it, a call waits for nobody."
)
# Seconds of a quiet call, of one on one thread, of the first and the second behind the peer's, and of the first on one
# thread.
Round = tuple[float, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Alternated:
    """A case behind the calls of one peer, or behind a pause as long as the settling of the others.

    Attributes:
        quiet_us, alone_us, first_us, second_us, first_alone_us: medians of the rounds, microseconds of one call: quiet,
            quiet on one thread, the first and the second call behind the peer's, and the first on one thread.
        alone, first, second, first_alone: how many times as long as the quiet call the others take, of each round the
            ratio, and of those the median.
        waited: how many times as long as the first call on one thread that on all threads takes; the same.
    """

    case: Case
    behind: str
    quiet_us: float
    alone_us: float
    first_us: float
    second_us: float
    first_alone_us: float
    alone: float
    first: float
    second: float
    first_alone: float
    waited: float


def alternate(
    cases: Sequence[Case], peers: Sequence[Peer], *, rounds: int, threads: int, advance: Callable[[int], None]
) -> list[Alternated]:
    """Time each case behind calls of each peer that can run it, in turn round by round."""
    found: list[Alternated] = []
    with knobs.scope(num_threads=threads):
        for case in cases:
            calls = _calls(case, peers)
            found += _alternated(case, calls.pop(OURS), {NO_PEER: partial(time.sleep, SETTLE_S), **calls}, rounds)
            advance(1)
    return found


def _calls(case: Case, peers: Sequence[Peer]) -> dict[str, Call]:
    """Return the fastest call of gathernest and of each peer that can run a case."""
    inputs = case.make()
    calls: dict[str, Call] = {}
    for peer in (Gathernest(), *peers):
        ways = prepared(peer, case, inputs, Measured(case)) if peer.rejection(case) is None else {}
        if ways:
            calls[peer.name] = in_turn(ways[fastest_way(ways)])
    return calls


def _alternated(case: Case, ours: Call, others: Mapping[str, Call], rounds: int) -> list[Alternated]:
    times: dict[str, list[Round]] = {name: [] for name in others}
    names = list(others)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(_round(ours, others[name], is_one_first=number % 2 == 1))
    return [_result(case, name, found[1:]) for name, found in times.items()]  # the first round warms up


def _round(ours: Call, other: Call, *, is_one_first: bool) -> Round:
    first_alone = _behind_on_one(ours, other) if is_one_first else 0.0
    time.sleep(SETTLE_S)
    with knobs.scope(num_threads=1):
        alone = _quiet_seconds(ours)
    quiet = _quiet_seconds(ours)
    for _ in range(PEER_CALLS):
        other()
    first, second = _seconds(ours), _seconds(ours)
    return quiet, alone, first, second, first_alone or _behind_on_one(ours, other)


def _behind_on_one(ours: Call, other: Call) -> float:
    """Return the seconds of the first call behind a peer's on one thread; quiet ones on all threads come before."""
    time.sleep(SETTLE_S)
    _quiet_seconds(ours)
    for _ in range(PEER_CALLS):
        other()
    with knobs.scope(num_threads=1):
        return _seconds(ours)


def _quiet_seconds(call: Call) -> float:
    for _ in range(QUIET_CALLS):
        call()
    return _seconds(call)


def _seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _result(case: Case, name: str, rounds: Sequence[Round]) -> Alternated:
    medians = [1e6 * statistics.median(column) for column in zip(*rounds, strict=True)]
    ratios = [statistics.median(one[place] / one[0] for one in rounds) for place in (1, 2, 3, 4)]
    waited = statistics.median(one[2] / one[4] for one in rounds)
    return Alternated(case, name, *medians, *ratios, waited=waited)


def as_markdown(found: Sequence[Alternated], threads: int, rounds: int) -> str:
    """Return the table, and the geometric mean over the cases of each peer."""
    rows = [_row(one) for one in found]
    for name in dict.fromkeys(one.behind for one in found):
        of_peer = [_ratios(one) for one in found if one.behind == name]
        means = [geometric_mean(column) for column in zip(*of_peer, strict=True)]
        rows.append(["geometric mean", "", name, "", *map(ratio_text, means)])
    headings = (
        *("case", "shapes", "behind", "quiet", "quiet on one thread"),
        *("first call", "second call", "first on one thread", "first beside that"),
    )
    table = markdown_table(headings, ["---", "---", "---", *["--:"] * 6], rows)
    machine = f"{cpu_model()}, {usable_cores()} cores; {threads} threads for everyone"
    conditions = f"Times as long as a quiet call; {machine}; medians of {rounds} rounds."
    return f"{table}\n\n{conditions} {POSSIBLE}"


def _row(one: Alternated) -> list[str]:
    times_us = (one.alone_us, one.first_us, one.second_us, one.first_alone_us)
    shown = [f"{ratio_text(ratio)}, {time_text(us)}" for ratio, us in zip(_ratios(one), times_us, strict=False)]
    return [one.case.name, describe(one.case), one.behind, time_text(one.quiet_us), *shown, ratio_text(one.waited)]


def _ratios(one: Alternated) -> list[float]:
    return [one.alone, one.first, one.second, one.first_alone, one.waited]
