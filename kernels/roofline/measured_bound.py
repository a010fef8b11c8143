"""The roofline bound of a gather, measured in the same rounds: the times of a copy and of reads of random lines."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .lower_bound import LowerBound

COPY, LINES, IN_ORDER = "copy", "random lines", "lines in order"


@dataclass(frozen=True, slots=True)
class MeasuredBound:
    """The roofline bound of a gather, timed in turn with it.

    Attributes:
        lower_bound: its traffic, with the medians of the two measured times.
        threads: how many the loops may use.
        ways: the fastest way of each loop: "copy", "random lines", and with capacity misses "lines in order".
        rounds_us: microseconds of each round, by the same names.
        ordered_lines: lines that the cores load in the order of the indices, capacity misses included; None where they
            were not counted.
    """

    lower_bound: LowerBound
    threads: int
    ways: Mapping[str, str]
    rounds_us: Mapping[str, Sequence[float]]
    ordered_lines: float | None = None

    @property
    def time_us(self) -> float:
        """The larger of the two medians."""
        return self.lower_bound.time_us

    @property
    def ordered_us(self) -> float | None:
        """The time of reading `ordered_lines` at random places."""
        if self.ordered_lines is None:
            return None
        return statistics.median(self.rounds_us[IN_ORDER]) if IN_ORDER in self.rounds_us else self.lower_bound.lines_us

    @property
    def in_order_us(self) -> float | None:
        """The bound in the order of the indices, capacity misses included; never less than `time_us`."""
        return None if self.ordered_us is None else max(self.time_us, self.ordered_us)

    def fraction(self, measured_us: float) -> float:
        """Return the bound divided by the median time of a gather: 1 is as fast as the machine allows."""
        return self.lower_bound.fraction(measured_us)

    def fraction_in_order(self, measured_us: float) -> float | None:
        """Return the bound in the order of the indices divided by the median time."""
        return None if self.in_order_us is None else self.in_order_us / measured_us

    def to_json(self) -> dict[str, Any]:
        """Return the bound as JSON can hold it."""
        rounds_us = {name: [round(time_us, 3) for time_us in times] for name, times in self.rounds_us.items()}
        return {
            **self.lower_bound.to_json(),
            "ordered_lines": self.ordered_lines,
            "bound_in_order_us": self.in_order_us,
            "threads": self.threads,
            "ways": dict(self.ways),
            "rounds_us": rounds_us,
        }
