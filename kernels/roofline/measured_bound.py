"""What a gather was held against in the same rounds: how long a copy and reads of random lines took beside it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .lower_bound import Floor

COPY, LINES, AGAIN = "copy", "random lines", "lines again"


@dataclass(frozen=True, slots=True)
class MeasuredLimit:
    """The limit of a gather, timed in turn with it.

    Attributes:
        floor: its fewest bytes, and the medians of the two times that they take.
        threads: how many the loops may use.
        ways: how each was done, the fastest of some ways, by "copy" and "random lines", and by "lines again" where that
            was timed.
        rounds_us: microseconds of each round, by the same.
        ordered_lines: how many lines the cores must fetch into their own caches in the order of the indices; None where
            that is not known.
    """

    floor: Floor
    threads: int
    ways: Mapping[str, str]
    rounds_us: Mapping[str, Sequence[float]]
    ordered_lines: float | None = None

    @property
    def time_us(self) -> float:
        """The larger of the two medians."""
        return self.floor.time_us

    @property
    def ordered_us(self) -> float | None:
        """The time that reading so many lines at random places takes."""
        if self.ordered_lines is None:
            return None
        return statistics.median(self.rounds_us[AGAIN]) if AGAIN in self.rounds_us else self.floor.lines_us

    @property
    def in_order_us(self) -> float | None:
        """The limit in the order of the indices, in which lines must come again; never less than `time_us`."""
        return None if self.ordered_us is None else max(self.time_us, self.ordered_us)

    def fraction(self, measured_us: float) -> float:
        """Return the fraction of the limit that the median time of a gather is: 1 is as fast as can be."""
        return self.floor.fraction(measured_us)

    def fraction_in_order(self, measured_us: float) -> float | None:
        """Return the fraction of the limit in the order of the indices: 1 is as fast as can be in this order."""
        return None if self.in_order_us is None else self.in_order_us / measured_us

    def to_json(self) -> dict[str, Any]:
        """Return the limit as JSON can hold it."""
        rounds_us = {name: [round(time_us, 3) for time_us in times] for name, times in self.rounds_us.items()}
        return {
            **self.floor.to_json(),
            "ordered_lines": self.ordered_lines,
            "limit_in_order_us": self.in_order_us,
            "threads": self.threads,
            "ways": dict(self.ways),
            "rounds_us": rounds_us,
        }
