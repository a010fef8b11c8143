"""What a gather was held against in the same rounds: how long a copy and reads of random lines took beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .floor import Floor

COPY, LINES = "copy", "random lines"


@dataclass(frozen=True, slots=True)
class MeasuredLimit:
    """The limit of a gather, timed in turn with it.

    Attributes:
        floor: its fewest bytes, and the medians of the two times that they take.
        threads: how many the loops may use.
        ways: how each was done, the fastest of some ways, by "copy" and "random lines".
        rounds_us: microseconds of each round, by the same.
    """

    floor: Floor
    threads: int
    ways: Mapping[str, str]
    rounds_us: Mapping[str, Sequence[float]]

    @property
    def time_us(self) -> float:
        """The larger of the two medians."""
        return self.floor.time_us

    def fraction(self, measured_us: float) -> float:
        """Return the fraction of the limit that the median time of a gather is: 1 is as fast as can be."""
        return self.floor.fraction(measured_us)

    def to_json(self) -> dict[str, Any]:
        """Return the limit as JSON can hold it."""
        rounds_us = {name: [round(time_us, 3) for time_us in times] for name, times in self.rounds_us.items()}
        return {**self.floor.to_json(), "threads": self.threads, "ways": dict(self.ways), "rounds_us": rounds_us}
