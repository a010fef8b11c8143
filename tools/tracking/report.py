"""A comparison as a table, as JSON and as Markdown for a pull request."""

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...kernels.host.cpu import package_version
from ..console.terminal import markdown_table, print_table, time_text
from .benchmarks import BENCHMARKS
from .sampling import ERROR, LOOKS, MARGIN, PROBABLE_RATIO, START_MARGIN, TOLERANCE, Series
from .sides import Side

if TYPE_CHECKING:
    from rich.console import Console

    from .causes import Finding

ORDER = ("slower", "probably slower", "faster", "probably faster", "cannot tell", "same")
VERSIONS = ("numpy", "numba", "llvmlite", "xdsl")


@dataclass(slots=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        sides: base and head.
        series: of each benchmark that both sides have.
        missing: why others are not compared, by name.
        restarts: the number of times that processes of both sides were started.
        threads: that gathernest had.
        machine: the CPU and its cores, as one line.
        why: the changes of the kernels of alarms, by name.
        exact: the differences without a clock, where they are asked for: of "kernels" and of "counts".
        notes: lines for the reader, such as a dirty tree.
    """

    sides: tuple[Side, Side]
    series: Sequence[Series]
    missing: Mapping[str, str]
    restarts: int
    threads: int
    machine: str
    why: "dict[str, Finding]" = field(default_factory=dict)
    exact: "dict[str, Finding]" = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def of(self, verdict: str) -> list[Series]:
        """Return the series of a verdict, the largest change first."""
        found = [one for one in self.series if one.verdict == verdict]
        return sorted(found, key=lambda one: one.ratio, reverse=verdict.endswith("slower"))

    def code(self, name: str) -> str:
        """Return whether the code of a kernel that is slower or faster is another, as words; empty where unknown."""
        why = self.why.get(name)
        return "" if why is None or why.is_code is None else "other code" if why.is_code else "the same code"

    @property
    def headline(self) -> str:
        """The result as one line."""
        counts = [f"{len(found)} {verdict}" for verdict in ORDER if (found := self.of(verdict))]
        counts += [found.summary for found in self.exact.values()]
        return f"{', '.join(counts) or 'nothing was compared'}: {title(self.sides)}"

    @property
    def meaning(self) -> str:
        """The meaning of the verdicts on times, with their error rate, as one line; empty where nothing was timed."""
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


def print_comparison(comparison: Comparison, console: "Console") -> None:
    """Print the table of 80 columns, changes first, the causes, the exact differences and the verdicts' meaning."""
    from rich.text import Text

    styles = {"slower": "bold red", "faster": "green", "cannot tell": "yellow", "same": ""}
    rows: list[list[Text]] = []
    for one in (one for verdict in ORDER for one in comparison.of(verdict)):
        name, _, *cells = _cells(one, comparison)
        cells[-1] = cells[-1].removeprefix("the ").removesuffix(" code")
        rows.append([Text(cell, style=styles[one.verdict.removeprefix("probably ")]) for cell in (name, *cells)])
    if rows:
        print_table(console, ("benchmark", ">base", ">ratio", "interval", "verdict", "code"), rows, header="")
    causes = {f"{name}: {why.summary}": why.lines for name, why in comparison.why.items()}
    causes |= {f"{name}:": found.lines for name, found in comparison.exact.items() if found.lines}
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
        "benchmarks": {
            one.name: {
                "family": BENCHMARKS[one.name].family,
                "verdict": one.verdict,
                "ratio": one.ratio,
                "interval": [one.low or None, None if one.high == math.inf else one.high],
                "base_ns": one.median_ns,
                "log_ratios": one.log_ratios,
                "why": dataclasses.asdict(comparison.why[one.name]) if one.name in comparison.why else None,
            }
            for one in comparison.series
        },
        "missing": dict(comparison.missing),
        "exact": {name: dataclasses.asdict(found) for name, found in comparison.exact.items()},
        "notes": comparison.notes,
    }


def as_markdown(comparison: Comparison) -> str:
    """Return a comment for a pull request: changes in a table, the rest folded."""
    lines = [f"### {comparison.headline}", ""]
    changes = [one for verdict in ORDER[:-1] for one in comparison.of(verdict)]
    if changes:
        lines += [_markdown(changes, comparison), ""]
    for name, why in comparison.why.items():
        lines += _folded(f"{name}: {why.summary}", ["```text", *why.lines, "```"]) if why.lines else []
    if same := comparison.of("same"):
        lines += _folded(f"{len(same)} the same", [_markdown(same, comparison)])
    lines += [f"* {name}: {why.summary}" for name, why in comparison.why.items() if not why.lines]
    for name, found in comparison.exact.items():
        lines += _folded(f"{name}: {found.summary}", ["```diff", *found.lines, "```"]) if found.lines else []
    lines += [f"* {name}: {why}" for name, why in comparison.missing.items()]
    lines += [f"* {note}" for note in comparison.notes]
    threads = f"{comparison.threads} thread{'' if comparison.threads == 1 else 's'}"
    lines += [f"{comparison.meaning} {comparison.machine}, {threads}.".lstrip(), ""]
    return "\n".join(lines)


def _folded(summary: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]


def _markdown(series: Sequence[Series], comparison: Comparison) -> str:
    rows = [_cells(one, comparison) for one in series]
    rows = [[f"**{cell}**" if cell.endswith("slower") else cell for cell in cells] for cells in rows]
    return markdown_table(("benchmark", "family", ">base", ">head / base", "interval", "verdict", ""), rows)


def _cells(one: Series, comparison: Comparison) -> list[str]:
    """Return name, family, base's time, the ratio, its interval, the verdict, and whether the code is another."""
    interval = f"{one.low:.3f} to {one.high:.3f}" if one.low and one.high != math.inf else "too few restarts"
    base = "" if one.median_ns is None else time_text(one.median_ns / 1e3)
    family, code = BENCHMARKS[one.name].family, comparison.code(one.name)
    return [one.name, family, base, f"{one.ratio:.3f}", interval, one.verdict, code]
