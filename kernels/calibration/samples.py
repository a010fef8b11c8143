"""Timing probes in turn, and the fields of a model that follow from their times, with intervals. Plain Python.

A core or a memory that strangers share is slow for a while, and another process can only make a run slower. So a probe
takes the fastest of some short runs in each pass over all probes, passes are spread over seconds, and the time of a
probe is the median of its passes; beside busy processes it is the fastest pass. How far to believe a field is an
interval: the fields are derived again and again from passes that are drawn at random from the measured ones (a
bootstrap).
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, TypeVar

# The fewest passes over all probes, however long one takes.
MIN_PASSES = 5
# How often the fields are derived from drawn passes, and how many of the lowest and of the highest values of a field
# are outside its interval.
DRAWS, OUTSIDE = 40, 4

Timer = Callable[[], float]
Name = TypeVar("Name")
Times = Mapping[str, float]
# The least and the greatest value of a field; of each element where it is a tuple.
Interval = tuple[Any, Any]


@dataclass
class Probe:
    """Something that is timed.

    Attributes:
        run: does it once, after what it needs to be in the caches, and returns nanoseconds for a unit of its work.
        times_ns: the time of each pass.
    """

    run: Timer
    times_ns: list[float] = field(default_factory=list)

    @property
    def median_ns(self) -> float:
        """The median of the passes; the lower of two in the middle, since memory may have two speeds."""
        return median_low(self.times_ns)


def timed(call: Callable[[], object], units: float, runs: int = 5, warm: int = 1) -> Timer:
    """Return a timer of a call that does `units` units of work: the fastest of some runs, after some that warm up."""

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


def take_samples(
    probes: Mapping[Name, Probe], seconds: float, on_pass: Callable[[float], None] = lambda done: None
) -> dict[Name, float]:
    """Run all probes pass by pass for `seconds`, and return the median of each in nanoseconds.

    Args:
        probes: the probes by name.
        seconds: when no more pass begins, after `MIN_PASSES` at least.
        on_pass: is called after each pass with the part that is done, 0 to 1.
    """
    start, passes = time.perf_counter(), 0
    while passes < MIN_PASSES or time.perf_counter() - start < seconds:
        for probe in probes.values():
            probe.times_ns.append(probe.run())
        passes += 1
        on_pass(min((time.perf_counter() - start) / max(seconds, 1e-9), passes / MIN_PASSES, 1.0))
    return {name: probe.median_ns for name, probe in probes.items()}


def intervals(
    probes: Mapping[str, Probe],
    derive: Callable[[Times], Mapping[str, Any]],
    pick: Callable[[list[float]], float] = median_low,
) -> dict[str, Interval]:
    """Return the interval of each field that is derived from the times of probes: about 80 % of its values.

    Args:
        probes: the probes by name, each with its passes.
        derive: returns the fields for a time of each probe.
        pick: returns the time of a probe from passes.
    """
    draw = random.Random(0).choices
    drawn = [
        derive({name: pick(draw(each.times_ns, k=len(each.times_ns))) for name, each in probes.items()})
        for _ in range(DRAWS)
    ]
    return {name: _interval([fields[name] for fields in drawn]) for name in drawn[0]}


def _interval(values: list[Any]) -> Interval:
    if isinstance(values[0], tuple):
        elements = [_interval(list(each)) for each in zip(*values, strict=True)]
        return tuple(low for low, _ in elements), tuple(high for _, high in elements)
    ranked = sorted(values)
    return ranked[OUTSIDE], ranked[-1 - OUTSIDE]


def is_wide(interval: Interval, ratio: float) -> bool:
    """Return whether the greatest value is more than `ratio` times the least, in any element of a tuple."""
    low, high = interval
    if isinstance(low, tuple):
        return any(is_wide(each, ratio) for each in zip(low, high, strict=True))
    return high > ratio * low
