"""What was measured, as a table for the terminal, as Markdown and as JSON."""

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...kernels.machine import cache_sizes, cpu_model, package_version, usable_cores
from .measure import OURS, Measured, geometric_mean
from .suite import APART

if TYPE_CHECKING:
    from rich.table import Table

LAST_LEVEL_IF_UNKNOWN = 2**25


@dataclass(frozen=True, slots=True)
class Report:
    """A run of the suite.

    Attributes:
        measured: case by case.
        versions: of gathernest and its peers, in the order of the table.
        threads: how many everyone had.
        rounds: how often everyone was timed.
        cut: what dimensions were cut to, or None where the suite ran as it is.
    """

    measured: Sequence[Measured]
    versions: Mapping[str, str]
    threads: int
    rounds: int
    cut: int | None = None

    @property
    def peers(self) -> list[str]:
        """The peers that took part."""
        return [name for name in self.versions if name != OURS]

    @property
    def wrong(self) -> list[str]:
        """A line for every contender that gave other bytes or failed."""
        return [f"{one.case.name}: {name} {problem}" for one in self.measured for name, problem in one.wrong.items()]

    def families(self) -> dict[str, float]:
        """Return the geometric mean of the ratios against the best peers, by family."""
        by_family: dict[str, list[float]] = {}
        for one in self.measured:
            if one.ratio is not None:
                by_family.setdefault(one.case.family, []).append(one.ratio)
        return {family: mean for family, ratios in by_family.items() if (mean := geometric_mean(ratios)) is not None}

    def overall(self) -> dict[str, Any]:
        """Return the mean and the worst case of the gathers, and the fraction of the limit beyond cache."""
        gathers = {one.case.name: one.ratio for one in self.measured if one.case.family not in APART}
        ratios = {name: ratio for name, ratio in gathers.items() if ratio is not None}
        worst = min(ratios, key=lambda name: ratios[name], default=None)
        last_level = max(cache_sizes().values(), default=LAST_LEVEL_IF_UNKNOWN)
        limits = [one.of_limit for one in self.measured if one.case.larger_than(last_level)]
        return {
            "geometric_mean": geometric_mean(list(ratios.values())),
            "worst_case": worst,
            "worst_ratio": None if worst is None else ratios[worst],
            "cases_below_1": [name for name, ratio in ratios.items() if ratio < 1],
            "of_limit_beyond_cache": geometric_mean([limit for limit in limits if limit is not None]),
        }


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as what JSON can hold."""
    last_level = max(cache_sizes().values(), default=LAST_LEVEL_IF_UNKNOWN)
    return {
        "machine": {"cpu": cpu_model(), "usable_cores": usable_cores(), "caches_bytes": cache_sizes()},
        "versions": {"python": platform.python_version(), "numba": package_version("numba"), **report.versions},
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "threads": report.threads,
        "rounds": report.rounds,
        "cut": report.cut,
        "cases": [_case_json(one, last_level) for one in report.measured],
        "families": report.families(),
        "overall": report.overall(),
    }


def _case_json(one: Measured, last_level: int) -> dict[str, Any]:
    return {
        **asdict(one.case),
        "table_bytes": one.case.table_bytes,
        "row_bytes": one.case.row_bytes,
        "rows": one.case.rows,
        "larger_than_cache": one.case.larger_than(last_level),
        "median_us": one.median_us,
        "ratios": one.ratios,
        "best_peer": one.best_peer,
        "ratio": one.ratio,
        "ways": one.ways,
        "refused": one.refused,
        "wrong": one.wrong,
        "floor_us": one.floor_us,
        "of_limit": one.of_limit,
    }


def as_table(report: Report) -> "Table":
    """Return a table for the terminal: the ratio to every peer, that to the best one marked."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    has_floors = any(one.of_limit is not None for one in report.measured)
    table.add_column("case")
    for name in (OURS, "best", *report.peers, *(["of limit"] if has_floors else [])):
        table.add_column(HEADINGS.get(name, name), justify="right")
    family = None
    for one in report.measured:
        if one.case.family != family:
            family = one.case.family
            table.add_row(Text(family, style="dim"))
        cells = [Text(f"  {one.case.name}"), Text(time_text(one.median_us.get(OURS)))]
        cells.append(Text(ratio_text(one.ratio), style=_style(one.ratio)))
        cells += [Text(_peer_text(one, name), style="bold" if name == one.best_peer else "") for name in report.peers]
        cells += [Text(_percent(one.of_limit))] if has_floors else []
        table.add_row(*cells)
    return table


HEADINGS = {OURS: "time", "onnxruntime": "ORT", "tensorflow": "TF"}


def summary(report: Report) -> list[str]:
    """Return the lines below a table: means by family, the worst case, who took part."""
    overall = report.overall()
    lines = [f"{family:<16} {ratio_text(mean):>7}" for family, mean in report.families().items()]
    if overall["geometric_mean"] is not None:
        apart = f", without {' and '.join(APART)}" if any(one.case.family in APART for one in report.measured) else ""
        lines.append(f"{'all':<16} {ratio_text(overall['geometric_mean']):>7}{apart}")
        lines.append(f"{'worst':<16} {ratio_text(overall['worst_ratio']):>7}, {overall['worst_case']}")
    if overall["of_limit_beyond_cache"] is not None:
        lines.append(f"{'of the limit':<16} {_percent(overall['of_limit_beyond_cache']):>7}, cases larger than cache")
    return lines


def as_markdown(report: Report) -> str:
    """Return the README's table, with the machine and the versions below it."""
    lines = ["| case | shapes | time | best peer | ratio |", "|---|---|--:|---|--:|"]
    for one in report.measured:
        best = one.best_peer
        told = "" if best is None else f"{best} {one.ways[best]}, {time_text(one.median_us[best])}"
        ratio = ratio_text(one.ratio)
        shown = f"**{ratio}**" if one.ratio is not None and one.ratio < 1 else ratio
        lines.append(
            f"| {one.case.name} | {one.case.describe()} | {time_text(one.median_us.get(OURS))} | {told} | {shown} |"
        )
    lines += ["", "| family | geometric mean |", "|---|--:|"]
    lines += [f"| {family} | {ratio_text(mean)} |" for family, mean in report.families().items()]
    overall = report.overall()
    if overall["geometric_mean"] is not None:
        lines.append(f"| all but {' and '.join(APART)} | {ratio_text(overall['geometric_mean'])} |")
    return "\n".join([*lines, "", f"{conditions(report)}."]) + "\n"


def conditions(report: Report) -> str:
    """Return machine, threads, rounds and versions as one line."""
    versions = [f"{name} {version}" for name, version in report.versions.items()]
    rounds = f"medians of {report.rounds} interleaved rounds in one process, bytes compared first"
    cut = f"; no dimension above {report.cut}" if report.cut is not None else ""
    python = f"Python {platform.python_version()}, numba {package_version('numba')}"
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''} for everyone but numpy, which has one"
    return f"{cpu_model()}, {usable_cores()} cores; {threads}; {rounds}{cut}; {python}, {', '.join(versions)}"


def time_text(microseconds: float | None) -> str:
    """Return a time with three digits, such as "4.56 µs" or "12.3 ms"; empty for none."""
    if microseconds is None:
        return ""
    unit, value = ("ms", microseconds / 1e3) if microseconds >= 999.5 else ("µs", microseconds)
    digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def ratio_text(ratio: float | None) -> str:
    """Return a ratio such as "1.25×"; empty for none."""
    return "" if ratio is None else f"{ratio:.2f}×" if ratio < 99.995 else f"{ratio:.0f}×"


def _peer_text(one: Measured, name: str) -> str:
    if name in one.wrong and name not in one.ratios:
        return "wrong"
    return ratio_text(one.ratios.get(name)) or "–"


def _percent(fraction: float | None) -> str:
    return "" if fraction is None else f"{100 * fraction:.0f} %"


def _style(ratio: float | None) -> str:
    return "" if ratio is None else "bold red" if ratio < 1 else "bold green"
