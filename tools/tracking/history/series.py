"""A series: one benchmark's numbers over commits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """One benchmark over commits; more is worse in all of them.

    Attributes:
        name: of the benchmark, with its parameters: `memory.Peak.track_peak(rows-64)`.
        group: what its results have in common: the machine and versions, or the base of a ratio.
        unit: of the values; "" where the results do not say.
        commits: full names, oldest first.
        values: finite, one a commit.
    """

    name: str
    group: str
    unit: str
    commits: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def key(self) -> str:
        """A text that no other series of a page has."""
        return f"{self.group}: {self.name}"
