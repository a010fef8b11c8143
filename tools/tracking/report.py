"""A comparison as a table, as JSON and as Markdown for a pull request."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...kernels.host.cpu import package_version
from .benchmarks import BENCHMARKS
from .sampling import ERROR, LOOKS, MARGIN, PROBABLE_RATIO, START_MARGIN, TOLERANCE, Series
from .sides import Side

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .causes import ExactDifference, Why

ORDER = ("slower", "probably slower", "faster", "probably faster", "cannot tell", "same")
VERSIONS = ("numpy", "numba", "llvmlite", "xdsl")


@dataclass(slots=True)
class Comparison:
    """What a comparison found.

    Attributes:
        sides: base and head.
        series: of each benchmark that both sides have.
        missing: why others are not compared, by name.
        restarts: how often processes of both sides were started.
        threads: that gathernest had.
        machine: the CPU and its cores, as one line.
        why: what changed in the kernels of alarms, by name.
        exact: the differences without a clock, where they are asked for: of "kernels" and of "counts".
        notes: lines for the reader, such as a dirty tree.
    """

    sides: tuple[Side, Side]
    series: Sequence[Series]
    missing: Mapping[str, str]
    restarts: int
    threads: int
    machine: str
    why: "dict[str, Why]" = field(default_factory=dict)
    exact: "dict[str, ExactDifference]" = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, verdict: str) -> list[Series]:
        """Return the series of a verdict, the largest change first."""
        found = [one for one in self.series if one.verdict == verdict]
        return sorted(found, key=lambda one: one.ratio, reverse=verdict.endswith("slower"))

    @property
    def exact_lines(self) -> dict[str, tuple[str, ...]]:
        """The lines of the exact differences, where there is more than a summary."""
        return {name: found.lines for name, found in self.exact.items() if len(found.lines) > 1}

    def code(self, name: str) -> str:
        """Return whether the code of a kernel that is slower or faster is another, as words; empty where unknown."""
        why = self.why.get(name)
        return "" if why is None or why.is_code is None else "other code" if why.is_code else "the same code"

    @property
    def headline(self) -> str:
        """The result as one line."""
        counts = [f"{len(found)} {verdict}" for verdict in ORDER if (found := self.of(verdict))]
        counts += [found.lines[0] for found in self.exact.values()]
        return f"{', '.join(counts) or 'nothing was compared'}: {title(self.sides)}"

    @property
    def meaning(self) -> str:
        """What the verdicts on times mean, with their error rate, as one line; empty where nothing was timed."""
        if not self.series:
            return ""
        return (
            f"{self.restarts} restart{'s'[: self.restarts != 1]}. Equal revisions raise any alarm in at most "
            f"{ERROR:.0%} of comparisons: the intervals of all {len(self.series)} benchmarks and {len(LOOKS)} looks "
            f"hold together. "
            f"Slower, faster: by more than {TOLERANCE:.0%}; same: within {MARGIN:.0%}, of a start within "
            f"{START_MARGIN:.0%}; probably: too few restarts to be sure, by more than {PROBABLE_RATIO - 1:.0%} in each."
        )


def title(sides: tuple[Side, Side]) -> str:
    """Return head and base as words."""
    base, head = (_called(side) for side in sides)
    return f"{head} against {base}"


def _called(side: Side) -> str:
    short = side.commit[:10]
    return short if side.commit.startswith(side.revision) else f"{side.revision} ({short})"


def as_table(comparison: Comparison) -> "Table":
    """Return the table for a terminal of 80 columns, changes first; the ratio is head's time divided by base's."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("benchmark", "base", "ratio", "interval", "verdict", "code"):
        table.add_column(heading, justify="right" if heading in ("base", "ratio") else "left", no_wrap=True)
    styles = {"slower": "bold red", "faster": "green", "cannot tell": "yellow", "same": None}
    for verdict in ORDER:
        for one in comparison.of(verdict):
            name, _, *cells = _cells(one)
            code = comparison.code(one.name).removeprefix("the ").removesuffix(" code")
            table.add_row(name, *cells, verdict, code, style=styles[verdict.removeprefix("probably ")])
    return table


def print_comparison(comparison: Comparison, console: "Console") -> None:
    """Print the table, the causes of alarms, the exact differences and what the verdicts mean."""
    if comparison.series:
        console.print(as_table(comparison), soft_wrap=False)
    causes = {f"{name}: {why.summary}": why.lines for name, why in comparison.why.items()}
    causes |= {f"{name}:": lines[1:] for name, lines in comparison.exact_lines.items()}
    for title, lines in causes.items():
        console.print(f"\n{title}", style="bold")
        if lines:
            console.print("\n".join(f"  {line}" for line in lines))
    console.print(f"\n{comparison.headline}", style="bold")
    console.print(f"{comparison.meaning} {comparison.machine}.".lstrip(), style="dim", soft_wrap=False)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return everything as JSON can hold it; ratios are head's time divided by base's."""
    sides = {
        side.name: {"revision": side.revision, "commit": side.commit, "changed_files": side.changed}
        for side in comparison.sides
    }
    return {
        "kind": "gathernest paired comparison",
        **sides,
        "measured": time.time(),
        "machine": comparison.machine,
        "versions": {name: package_version(name) for name in VERSIONS},
        "threads": comparison.threads,
        "restarts": comparison.restarts,
        "error": ERROR,
        "tolerance": TOLERANCE,
        "benchmarks": {one.name: _facts(one, comparison) for one in comparison.series},
        "missing": dict(comparison.missing),
        "exact": {name: dataclasses.asdict(found) for name, found in comparison.exact.items()},
        "notes": comparison.notes,
    }


def _facts(one: Series, comparison: Comparison) -> dict[str, Any]:
    why = comparison.why.get(one.name)
    ends = [None if not one.low else one.low, None if one.high == float("inf") else one.high]
    return {
        "family": BENCHMARKS[one.name].family,
        "verdict": one.verdict,
        "ratio": one.ratio,
        "interval": ends,
        "base_ns": _median(one.base_ns),
        "log_ratios": one.log_ratios,
        "why": None if why is None else dataclasses.asdict(why),
    }


def as_markdown(comparison: Comparison) -> str:
    """Return a comment for a pull request: changes in a table, the rest folded."""
    lines = [f"### {comparison.headline}", ""]
    changes = [one for verdict in ORDER[:-1] for one in comparison.of(verdict)]
    if changes:
        lines += [*_markdown_table(changes, comparison), ""]
    for name, why in comparison.why.items():
        lines += _folded(f"{name}: {why.summary}", ["```text", *why.lines, "```"]) if why.lines else []
    if same := comparison.of("same"):
        lines += _folded(f"{len(same)} the same", _markdown_table(same, comparison))
    lines += [f"* {name}: {why.summary}" for name, why in comparison.why.items() if not why.lines]
    for name, (summary, *differences) in comparison.exact_lines.items():
        lines += _folded(f"{name}: {summary}", ["```diff", *differences, "```"])
    lines += [f"* {name}: {why}" for name, why in comparison.missing.items()]
    lines += [f"* {note}" for note in comparison.notes]
    lines += [f"{comparison.meaning} {comparison.machine}, {_threads(comparison.threads)}.".lstrip(), ""]
    return "\n".join(lines)


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def _threads(number: int) -> str:
    return f"{number} thread{'' if number == 1 else 's'}"


def _markdown_table(series: Sequence[Series], comparison: Comparison) -> list[str]:
    lines = ["| benchmark | family | base | head / base | interval | verdict | |", "|---|---|--:|--:|---|---|---|"]
    for one in series:
        verdict = f"**{one.verdict}**" if one.verdict.endswith("slower") else one.verdict
        lines.append(f"| {' | '.join((*_cells(one), verdict, comparison.code(one.name)))} |")
    return lines


def _cells(one: Series) -> list[str]:
    low = "" if not one.low else f"{one.low:.3f}"
    high = "" if one.high == float("inf") else f"{one.high:.3f}"
    interval = f"{low} to {high}" if low and high else "too few restarts"
    return [one.name, BENCHMARKS[one.name].family, _time(_median(one.base_ns)), f"{one.ratio:.3f}", interval]


def _median(values: Sequence[float]) -> float | None:
    return sorted(values)[len(values) // 2] if values else None


def _time(ns: float | None) -> str:
    if ns is None:
        return ""
    unit, size = next(
        (unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0)) if ns >= size or size == 1
    )
    return f"{ns / size:.3g} {unit}"
