"""The traffic of a gather, the lower bound of its time at the stored peak rates, and its measured roofline bound."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ...ir.errors import InvalidGatherError
from ...ir.problem import Problem
from ..runtime.array_checks import address
from ..runtime.plan import make_plan
from .ceilings import Ceilings
from .distinct_lines import count_lines
from .traffic import LINE_BYTES, Traffic, expected_lines, read_pattern, traffic_streams

COPY, LINES, IN_ORDER = "copy", "random lines", "lines in order"


@dataclass(frozen=True, slots=True)
class LowerBound:
    """The lower bound of a gather's time.

    Attributes:
        traffic: its fewest bytes.
        copy_us: the time of a copy of as many bytes.
        lines_us: the time of reading as many lines at random places.
        copy_bytes_per_s, lines_per_s: the rates of both, for this footprint and a table of so many lines: the ceilings,
            or the rates measured in the same rounds as the gather.
    """

    traffic: Traffic
    copy_us: float
    lines_us: float
    copy_bytes_per_s: float
    lines_per_s: float

    @property
    def time_us(self) -> float:
        """The larger of the two times."""
        return max(self.copy_us, self.lines_us)

    @property
    def bound_by(self) -> Literal["copy", "random lines"]:
        """Which of the two is the larger."""
        return "copy" if self.copy_us >= self.lines_us else "random lines"

    @property
    def bytes_by_stream(self) -> dict[str, float]:
        """The bytes of each stream by its name."""
        return dict(self.traffic.streams)

    def fraction(self, measured_us: float) -> float:
        """Return the bound divided by a measured time: 1 is as fast as the machine allows."""
        return self.time_us / measured_us

    def to_json(self) -> dict[str, Any]:
        """Return the lower bound as JSON can hold it."""
        return {
            "time_us": self.time_us,
            "bound_by": self.bound_by,
            "bytes": {**self.bytes_by_stream, "all": self.traffic.total_bytes},
            "lines": self.traffic.lines,
            "piece_lines": self.traffic.piece_lines,
            "is_counted": self.traffic.is_counted,
            **{name: value for name, value in asdict(self).items() if name != "traffic"},
        }


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


def lower_bound_of(traffic: Traffic, measured: Ceilings) -> LowerBound:
    """Return the lower bound of known traffic."""
    copied, table_bytes = traffic.total_bytes, max(traffic.lines, 1) * LINE_BYTES
    copy_bytes_per_s = measured.copy_bytes_per_s(max(copied, 1))
    lines_per_s = measured.lines_per_s(table_bytes, traffic.piece_lines)
    return LowerBound(
        traffic, 1e6 * copied / copy_bytes_per_s, 1e6 * traffic.lines / lines_per_s, copy_bytes_per_s, lines_per_s
    )


def fewest_bytes(problem: Problem, indices: np.ndarray | None = None, data: np.ndarray | None = None) -> Traffic:
    """Return the fewest bytes of a gather or a gradient, and its lines.

    Args:
        problem: the gather.
        indices: of the problem's shape; with them the lines of data are counted, without them they are what uniformly
            random indices touch on average.
        data: the array that is read (of a gradient, the one that is written): says where in a line of 64 bytes it
            begins, at its start if omitted.

    Raises:
        InvalidGatherError: indices have another shape than the problem's.
    """
    if indices is not None and indices.shape != problem.indices.shape:
        raise InvalidGatherError(
            f"indices must have the shape {problem.indices.shape} of the problem, got {indices.shape}; compile a "
            "kernel for these arrays first"
        )
    offset_bytes = 0 if data is None else address(data) % LINE_BYTES
    plan = make_plan(problem)
    canonical, width = plan.layout.canonical, plan.layout.width_bytes
    expected = expected_lines(read_pattern(canonical, width), offset_bytes)
    counted = None if indices is None else count_lines(plan, indices, offset_bytes)
    lines, adjacent = counted or expected
    index_bytes, is_gradient = problem.indices.dtype.itemsize, problem.gradient is not None
    streams = traffic_streams(canonical, width, index_bytes, lines, is_gradient=is_gradient)
    return Traffic(streams, lines, max(adjacent, expected[1]), is_counted=counted is not None)
