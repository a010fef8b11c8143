"""What `Kernel.explain` found, as a value: text for people, JSON for scripts."""

from dataclasses import asdict, dataclass
from typing import Any

from .lower_bound import Floor
from .measured_bound import AGAIN, COPY, LINES, MeasuredLimit
from .peak_rates import Ceilings

BUSY = 1.5
"""How many times the fastest round a median is that says more of the machine's other work than of the kernel."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """A schedule with one pass left out, or all of one kind.

    Attributes:
        left_out: the pass with its options; what a schedule holds several times is left out together.
        measured_us: the median time without it; None where the rest is refused.
        times_as_fast: how many times as fast the whole schedule is: the median over the rounds, above 1 where the pass
            pays. None where the rest is refused.
        refused: why the rest is no legal schedule; None where it is one.
    """

    left_out: str
    measured_us: float | None = None
    times_as_fast: float | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How near a kernel is to what the machine can do, and what each pass of its schedule is worth.

    Attributes:
        gather: the operator with its arrays and attributes.
        schedule: the schedule as text; empty for none.
        reasons: why it was chosen; empty where nothing says so.
        limit: the fewest bytes, and the least time that they take: measured in the same rounds as the kernel.
        floor: the same bytes at the ceilings, which nothing was timed for.
        ceilings: the best that the machine was ever measured to do, kept on disk; what is predicted stands on them.
        measured_us: the median time of a call.
        fastest_us: the time of a call in the fastest round; far below the median on a busy machine.
        rounds: how many rounds were timed.
        predicted_us: what the cost model expects; None without one.
        ablations: the schedule without each of its passes.
    """

    gather: str
    schedule: str
    reasons: tuple[str, ...]
    limit: MeasuredLimit
    floor: Floor
    ceilings: Ceilings
    measured_us: float
    fastest_us: float
    rounds: int
    predicted_us: float | None = None
    ablations: tuple[Ablation, ...] = ()

    @property
    def fraction(self) -> float:
        """The fraction of the limit of the same rounds: 1 is as fast as can be."""
        return self.limit.fraction(self.measured_us)

    @property
    def fraction_in_order(self) -> float | None:
        """The fraction of the limit in the order of the indices, in which lines must come again."""
        return self.limit.fraction_in_order(self.measured_us)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as JSON can hold it."""
        predicted = {} if self.predicted_us is None else {"predicted_us": self.predicted_us}
        return {
            "gather": self.gather,
            "schedule": self.schedule,
            "reasons": list(self.reasons),
            "limit": self.limit.to_json(),
            "floor": self.floor.to_json(),
            "ceilings": self.ceilings.to_json(),
            **predicted,
            "measured_us": self.measured_us,
            "fastest_us": self.fastest_us,
            "fraction": self.fraction,
            "fraction_in_order": self.fraction_in_order,
            "rounds": self.rounds,
            "ablations": [asdict(ablation) for ablation in self.ablations],
        }

    def sections(self) -> dict[str, list[str]]:
        """Return the lines of each part of the text by its title."""
        parts = {
            "The schedule": _passes(self.schedule) or ["none"],
            "Why this schedule": list(self.reasons),
            "The fewest bytes": self._bytes_lines(),
            "The limit, timed in turn with the kernel": self._limit_lines(),
            "The same at the rates kept of this machine, which the prediction stands on": self._floor_lines(),
            "The time": self._time_lines(),
            "Without a pass, the time of a call, and how many times as fast the whole schedule is": _rows(
                [row for ablation in self.ablations for row in _ablation_rows(ablation)]
            ),
        }
        return {title: lines for title, lines in parts.items() if lines}

    def __str__(self) -> str:
        text = [self.gather]
        for title, lines in self.sections().items():
            text += ["", title, *lines]
        return "\n".join(text)

    def _bytes_lines(self) -> list[str]:
        traffic = self.floor.traffic
        rows = [(name, _bytes(count)) for name, count in (*traffic.streams, ("together", traffic.total_bytes))]
        how = "counted from the indices" if traffic.is_counted else "expected of uniformly random indices"
        lines = "1 line" if round(traffic.lines) == 1 else f"{traffic.lines:,.0f} lines"
        text = [*_rows(rows), f"{lines} of data, {how}; {traffic.piece_lines:,.1f} of them at each place"]
        ordered = self.limit.ordered_lines
        if ordered is not None and ordered > traffic.lines:
            text.append(f"{ordered:,.0f} lines in the order of the indices, whatever the cores' own caches keep")
        elif ordered is not None:
            text.append("none of them is sure to come again in the order of the indices")
        return text

    def _limit_lines(self) -> list[str]:
        limit = self.limit
        threads = f"on {limit.threads} thread{'' if limit.threads == 1 else 's'}"
        rows = [(*row, limit.ways[name]) for row, name in zip(_rate_rows(limit.floor), (COPY, LINES), strict=True)]
        if AGAIN in limit.ways and limit.ordered_lines is not None and limit.ordered_us is not None:
            per_s = 1e6 * limit.ordered_lines / limit.ordered_us
            row = _lines_row("lines in the order of the indices", limit.ordered_us, per_s)
            rows.append((*row, limit.ways[AGAIN]))
        return [*_rows(rows), f"bound by {limit.floor.bound_by}, {threads}"]

    def _floor_lines(self) -> list[str]:
        lines = _rows(_rate_rows(self.floor))
        if self.floor.time_us > BUSY * self.limit.time_us:
            lines.append(
                "the machine is faster now than when they were measured: "
                "gathernest.kernels.roofline.peak_rates.ceilings(remeasure=True) measures again and keeps the better"
            )
        return lines

    def _time_lines(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("limit", _us(self.limit.time_us))]
        if self.predicted_us is not None:
            rows.append(("predicted", _us(self.predicted_us)))
        rows.append(("measured", _us(self.measured_us), f"median of {self.rounds} round{'s' * (self.rounds > 1)}"))
        rows.append(("fastest round", _us(self.fastest_us)))
        rows.append(("fraction of the limit", f"{self.fraction:>12.2f}"))
        if self.fraction_in_order is not None:
            rows.append(("fraction of it in this order", f"{self.fraction_in_order:>12.2f}"))
        is_busy = self.measured_us > BUSY * self.fastest_us
        remark = (
            ["the median is far above the fastest round: the machine is busy, and times say little"] if is_busy else []
        )
        return [*_rows(rows), *remark]


def _passes(pipeline: str) -> list[str]:
    """Return the text of a pipeline, a line a pass."""
    return pipeline.replace("},", "},\n").splitlines()


def _ablation_rows(ablation: Ablation) -> list[tuple[str, ...]]:
    """Return a row for each pass that is left out together, what was found in the last."""
    *before, last = _passes(ablation.left_out)
    if ablation.measured_us is None or ablation.times_as_fast is None:
        found = (f"refused: {ablation.refused}",)
    else:
        found = (_us(ablation.measured_us), f"{ablation.times_as_fast:.2f}x")
    return [*((name,) for name in before), (last, *found)]


def _rate_rows(floor: Floor) -> list[tuple[str, ...]]:
    """Return a row for the copy, and one for the lines."""
    return [
        ("copy of as many bytes", _us(floor.copy_us), f"at {floor.copy_bytes_per_s / 1e9:,.1f} GB/s"),
        _lines_row("lines at random places", floor.lines_us, floor.lines_per_s),
    ]


def _lines_row(name: str, time_us: float, lines_per_s: float) -> tuple[str, ...]:
    return name, _us(time_us), f"at {lines_per_s / 1e6:,.0f} million a second"


def _rows(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose first cells are of one width."""
    width = max((len(row[0]) for row in rows), default=0)
    return [f"{row[0]:<{width}}  {'  '.join(row[1:])}".rstrip() for row in rows]


def _us(time_us: float) -> str:
    return f"{time_us:>12,.1f} µs"


def _bytes(count: float) -> str:
    return f"{count / 1e6:>12,.3f} MB"
