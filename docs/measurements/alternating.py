"""Times of our calls right behind a call of another library, beside the same calls when quiet.

    python docs/measurements/alternating.py [torch,onnxruntime,openvino [ROUNDS [CASE,..]]]

Threads of ONNX Runtime, OpenVINO and OpenMP spin for a while after a call, on cores that our own threads need. So the
first two calls behind a peer's are timed, one by one, and before them quiet ones, on all threads and on one: after a
pause in which every thread falls asleep, and calls of ours that are not timed.

The first call also finds another's data in the caches, and its own threads asleep. The first call on one thread behind
the same calls has the same caches, and needs no other core. A call on all threads that takes as long or less has waited
for nobody.
"""

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gathernest.kernels.host.cpu import cpu_model, usable_cores
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.runtime.launch import available_threads
from gathernest.tools.bench.cases import Case, chosen, describe
from gathernest.tools.bench.measure import (
    OURS,
    SETTLE_S,
    Measured,
    enter,
    fastest_way,
    geometric_mean,
    in_turn,
    prepared,
)
from gathernest.tools.bench.peers import Call, Gathernest, Peer
from gathernest.tools.bench.report import ratio_text
from gathernest.tools.console.terminal import markdown_table, time_text

NAMES = (
    "rows-256B-small-table",
    "last-axis-in-cache",
    "middle-axis-8B",
    "scalars-256KB-table",
    "last-axis",
    "rows-4KB",
)
# Calls behind each other: a peer's threads are awake after the second.
PEER_CALLS, QUIET_CALLS = 2, 3
NO_PEER = "a pause"
# The calls that are timed: on all threads or on one, quiet or behind a peer's; the ratios are to the first of them.
TIMED = QUIET, ALONE, FIRST, SECOND, FIRST_ALONE = (
    *("quiet", "quiet on one thread", "first call", "second call", "first on one thread"),
)
WAITED = "first beside that"
POSSIBLE = (
    "Where no other core is free, the first call on one thread is the best possible, with the caches as the calls "
    "before left them: up to 1.00× beside it, a call waits for nobody."
)


@dataclass(frozen=True, slots=True)
class Alternated:
    """A case behind the calls of one peer, or behind a pause as long as the settling of the others.

    Attributes:
        times_us: by each of `TIMED`, the median of the rounds, microseconds of one call.
        ratios: how many times as long as the quiet call the others take, and as `WAITED` the first call beside the
            first on one thread; the median of the ratios of the rounds.
    """

    case: Case
    behind: str
    times_us: Mapping[str, float]
    ratios: Mapping[str, float]

    @classmethod
    def of(cls, case: Case, behind: str, rounds: Sequence[Mapping[str, float]]) -> "Alternated":
        """Return the medians of rounds, whose seconds are by `TIMED`."""
        times_us = {name: 1e6 * statistics.median(one[name] for one in rounds) for name in TIMED}
        ratios = {name: statistics.median(one[name] / one[QUIET] for one in rounds) for name in TIMED[1:]}
        return cls(
            case,
            behind,
            times_us,
            ratios | {WAITED: statistics.median(one[FIRST] / one[FIRST_ALONE] for one in rounds)},
        )


def alternate(cases: Sequence[Case], peers: Sequence[Peer], rounds: int, threads: int) -> list[Alternated]:
    """Time each case behind calls of each peer that can run it, in turn round by round; the first round warms up."""
    found: list[Alternated] = []
    with knobs.scope(num_threads=threads):
        for case in cases:
            calls = _calls(case, peers)
            ours, others = calls.pop(OURS), {NO_PEER: partial(time.sleep, SETTLE_S), **calls}
            names, times = list(others), {name: list[Mapping[str, float]]() for name in others}
            for number in range(rounds + 1):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    times[name].append(_round(ours, others[name], is_one_first=number % 2 == 1))
            found += [Alternated.of(case, name, each[1:]) for name, each in times.items()]
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


def _round(ours: Call, other: Call, *, is_one_first: bool) -> dict[str, float]:
    """Return the seconds of the calls of `TIMED`; the first call on one thread comes first or last."""
    early = _behind_on_one(ours, other) if is_one_first else None
    time.sleep(SETTLE_S)
    with knobs.scope(num_threads=1):
        alone = _quiet_seconds(ours)
    quiet = _quiet_seconds(ours)
    for _ in range(PEER_CALLS):
        other()
    times = {QUIET: quiet, ALONE: alone, FIRST: _seconds(ours), SECOND: _seconds(ours)}
    return times | {FIRST_ALONE: _behind_on_one(ours, other) if early is None else early}


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


def as_markdown(found: Sequence[Alternated], threads: int, rounds: int) -> str:
    """Return the table, and the geometric mean over the cases of each peer."""
    rows: list[list[str]] = []
    for one in found:
        shown = [f"{ratio_text(one.ratios[name])}, {time_text(one.times_us[name])}" for name in TIMED[1:]]
        named = [one.case.name, describe(one.case), one.behind, time_text(one.times_us[QUIET])]
        rows.append([*named, *shown, ratio_text(one.ratios[WAITED])])
    for behind in dict.fromkeys(one.behind for one in found):
        of_peer = [one.ratios for one in found if one.behind == behind]
        means = [geometric_mean([ratios[name] for ratios in of_peer]) for name in (*TIMED[1:], WAITED)]
        rows.append(["geometric mean", "", behind, "", *map(ratio_text, means)])
    table = markdown_table(("case", "shapes", "behind", *(f">{name}" for name in (*TIMED, WAITED))), rows)
    machine = f"{cpu_model()}, {usable_cores()} cores; {threads} threads for everyone"
    return f"{table}\n\nTimes as long as a quiet call; {machine}; medians of {rounds} rounds. {POSSIBLE}"


def main(peers: str = "", rounds: str = "15", cases: str = ",".join(NAMES)) -> None:
    """Print the table of some cases behind calls of some peers, or of all that are installed."""
    threads = available_threads()
    entrants = enter(peers.split(",") if peers else (), threads)
    found = alternate(chosen(cases.split(","), ()), entrants.candidates[1:], int(rounds), threads)
    print(as_markdown(found, threads, int(rounds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
