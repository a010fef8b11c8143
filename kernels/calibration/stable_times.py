"""Repeating timings until they are stable: best of many short runs, rejected where other processes disturb them all.

Another process can only make a run slower, so the time of a probe is that of its fastest run. Runs are short, since a
short one is more often undisturbed. Passes over all probes are spread over seconds, since a core that is shared with
another machine may be slow for a tenth of a second. A *round* is the passes of a second or so. Rounds go on until
`QUIET_ROUNDS` of them in turn have made no probe faster by more than `IMPROVES_BY`; where that takes too long, the
machine is too busy.

How fast memory is depends on where a virtual machine's cores run, too, and on its neighbours: the best run may be a
rare one. So a probe knows what it takes most of the time as well, the median of the passes.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import TypeVar

from ...ir.errors import GathernestError

IMPROVES_BY, QUIET_ROUNDS = 1.05, 2

Timer = Callable[[], float]
Name = TypeVar("Name")


class BusyMachineError(GathernestError):
    """Other processes disturb a measurement so much that it is not believed."""


@dataclass
class Probe:
    """Something that is timed.

    Attributes:
        run: does it once, after what it needs to be in the caches, and returns nanoseconds for a unit of its work.
        times_ns: of each pass.
        best_ns: the fastest so far.
        gain: how many times as fast the last round made it.
    """

    run: Timer
    times_ns: list[float] = field(default_factory=list)
    best_ns: float = field(default=float("inf"))
    gain: float = field(default=float("inf"))
    _before_ns: float = field(default=float("inf"))

    @property
    def median_ns(self) -> float:
        """The median of the passes; of two in the middle the lower one, as they may be of two speeds of memory."""
        return median_low(self.times_ns)

    def begin_round(self) -> None:
        """Count the gain from here on."""
        self._before_ns = self.best_ns

    def improve(self) -> None:
        """Run it once more."""
        self.times_ns.append(self.run())
        self.best_ns = min(self.best_ns, self.times_ns[-1])
        self.gain = self._before_ns / self.best_ns


def timed(call: Callable[[], object], units: float, runs: int = 5, warm: int = 1) -> Timer:
    """Return a timer of a call that does so many units of work: the fastest of some runs, after some that warm up."""

    def run() -> float:
        for _ in range(warm):
            call()
        times_ns: list[int] = []
        for _ in range(runs):
            start = time.perf_counter_ns()
            call()
            times_ns.append(time.perf_counter_ns() - start)
        return max(min(times_ns), 1) / units

    return run


def stable_times(
    probes: Mapping[Name, Probe], round_s: float, limit_s: float, on_round: Callable[[str], None] = lambda said: None
) -> dict[Name, float]:
    """Return the times of probes in nanoseconds for a unit, once they are stable.

    Args:
        probes: by name.
        round_s: what a round takes, one pass at least.
        limit_s: seconds after which no round begins, but for one more that a quiet one needs.
        on_round: is called after each round with words about it.

    Raises:
        BusyMachineError: they are not stable by then.
    """
    start, quiet = time.perf_counter(), 0
    while quiet < QUIET_ROUNDS:
        began = time.perf_counter()
        if began - start > limit_s and not quiet:
            raise BusyMachineError(_too_busy(probes, limit_s))
        _round(probes.values(), began + round_s)
        falling = sum(probe.gain > IMPROVES_BY for probe in probes.values())
        quiet = 0 if falling else quiet + 1
        on_round(f"{falling} unstable" if falling else "stable")
    return {name: probe.best_ns for name, probe in probes.items()}


def _round(probes: Collection[Probe], end: float) -> None:
    for probe in probes:
        probe.begin_round()
    while True:
        for probe in probes:
            probe.improve()
        if time.perf_counter() >= end:
            return


def _too_busy(probes: Mapping[Name, Probe], limit_s: float) -> str:
    falling = {str(name): probe.gain for name, probe in probes.items() if probe.gain > IMPROVES_BY}
    worst = max(falling, key=falling.__getitem__, default="")
    said = f", {worst!r} by {100 * (1 - 1 / falling[worst]):.0f} %" if falling else ""
    return (
        f"this machine is too busy to be measured: after {limit_s:.0f} s, {len(falling)} of {len(probes)} "
        f"times still fell by more than {100 * (IMPROVES_BY - 1):.0f} %{said}; run it again when other processes "
        "are done"
    )
