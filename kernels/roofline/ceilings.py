"""The ceilings of a machine's roofline as values: rates at a few sizes, interpolated in the logarithm of the size."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

FORMAT = 2  # since 2 of memory that has no zeros, which are written faster
# Is called with the passes that are done, and the most there will be.
ReportSteps = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CopyRate:
    """How fast a parallel copy is.

    Attributes:
        footprint_bytes: bytes of source and target together.
        bytes_per_s: bytes read and bytes written, in a second; the faster of a copy with non-temporal stores, which
            does not read the lines that it writes, and one without.
    """

    footprint_bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class LineRate:
    """How fast lines of 64 bytes at random places are read in parallel, with the best of some prefetch distances.

    Attributes:
        table_bytes: bytes of the table, every line of which is read once before any is read again.
        piece_lines: adjacent lines that are read at each place.
        lines_per_s: lines in a second.
    """

    table_bytes: int
    piece_lines: int
    lines_per_s: float


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The peak rates of one machine, the ceilings of its roofline.

    Attributes:
        machine: what they depend on: the CPU, its caches, the number of threads, the versions.
        copies: by footprint, smallest first; the last is far larger than the caches.
        lines: by piece_lines and then table_bytes, smallest first.
    """

    machine: dict[str, Any]
    copies: tuple[CopyRate, ...]
    lines: tuple[LineRate, ...]

    @property
    def threads(self) -> int:
        """How many threads they were measured with."""
        return self.machine["threads"]

    def copy_bytes_per_s(self, footprint_bytes: float) -> float:
        """Return the rate of a copy that reads and writes so many bytes together."""
        return _interpolated([(rate.footprint_bytes, rate.bytes_per_s) for rate in self.copies], footprint_bytes)

    def lines_per_s(self, table_bytes: float, piece_lines: float = 1) -> float:
        """Return the rate of lines of which so many bytes, each counted once, are read in pieces of adjacent lines."""
        by_piece: dict[int, list[tuple[float, float]]] = {}
        for rate in self.lines:
            by_piece.setdefault(rate.piece_lines, []).append((rate.table_bytes, rate.lines_per_s))
        return _interpolated(
            [(piece, _interpolated(rates, table_bytes)) for piece, rates in by_piece.items()], piece_lines
        )

    def or_better(self, other: "Ceilings | None") -> "Ceilings":
        """Return these ceilings, with every rate that is higher in the other ones, which are of the same sizes."""
        if other is None or self._sizes() != other._sizes():
            return self
        copies = zip(self.copies, other.copies, strict=True)
        lines = zip(self.lines, other.lines, strict=True)
        return Ceilings(
            self.machine,
            tuple(max(pair, key=lambda rate: rate.bytes_per_s) for pair in copies),
            tuple(max(pair, key=lambda rate: rate.lines_per_s) for pair in lines),
        )

    def _sizes(self) -> list[tuple[int, ...]]:
        copies = [(rate.footprint_bytes,) for rate in self.copies]
        return [*copies, *((rate.table_bytes, rate.piece_lines) for rate in self.lines)]

    def to_json(self) -> dict[str, Any]:
        """Return the ceilings as JSON can hold them."""
        return {"format": FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> "Ceilings":
        """Return what `to_json` gave.

        Raises:
            ValueError: it is of another format, or holds what cannot be a rate.
            KeyError, TypeError: something is missing, or is not what it should be.
        """
        if stored["format"] != FORMAT:
            raise ValueError(f"the format is {stored['format']}, not {FORMAT}")
        copies = tuple(CopyRate(**entry) for entry in stored["copies"])
        lines = tuple(LineRate(**entry) for entry in stored["lines"])
        numbers = [number for rate in (*copies, *lines) for number in asdict(rate).values()]
        if not copies or not lines or not all(math.isfinite(number) and number > 0 for number in numbers):
            raise ValueError("a rate or a size is missing, or is not a positive number")
        return cls(dict(stored["machine"]), copies, lines)


def _interpolated(points: Sequence[tuple[float, float]], size: float) -> float:
    """Return the value at a size between points in ascending order; that of the first or the last outside of them."""
    if size <= points[0][0]:
        return points[0][1]
    for (low, before), (high, after) in itertools.pairwise(points):
        if size <= high:
            share = math.log(size / low) / math.log(high / low)
            return before * (after / before) ** share
    return points[-1][1]
