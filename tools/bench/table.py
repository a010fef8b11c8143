"""A run as a table: for the terminal, and as Markdown for the README."""

import platform
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...kernels.host.cpu import cpu_model, package_version, usable_cores
from .cases.case import describe
from .cases.suite import APART
from .measure import OURS, Measured
from .report import Mean, Report

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = {OURS: "time", "onnxruntime": "ORT", "tensorflow": "TF"}
ALL = f"all but {' and '.join(APART)}"


def as_table(report: Report) -> "Table":
    """Return a table for the terminal: the ratio to every peer, that to the best one marked."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    has_bounds = any(one.of_bound is not None for one in report.measured)
    table.add_column("case")
    for name in (OURS, "best", *report.peers, *(["of bound"] if has_bounds else [])):
        table.add_column(HEADINGS.get(name, name), justify="right")
    family = None
    for one in report.measured:
        if one.case.family != family:
            family = one.case.family
            table.add_row(Text(family, style="dim"))
        cells = [Text(f"  {one.case.name}"), Text(time_text(one.median_us.get(OURS)))]
        cells.append(Text(ratio_text(one.ratio), style=_style(one.ratio)))
        cells += [Text(_peer_text(one, name), style="bold" if name == one.best_peer else "") for name in report.peers]
        cells += [Text(_percent(one.of_bound) or "–")] if has_bounds else []
        table.add_row(*cells)
    return table


def summary(report: Report) -> list[str]:
    """Return the lines below a table: the mean and the worst case of each family, and of all gathers."""
    lines = [_mean_line(name, mean) for name, mean in _means(report).items()]
    fractions = {"of the bound": report.of_bound(), "of the bound in order": report.of_bound_in_order()}
    return lines + [
        f"{name:<24} {_percent(mean):>7}, cases larger than cache" for name, mean in fractions.items() if mean
    ]


def _mean_line(name: str, mean: Mean) -> str:
    return f"{name:<24} {ratio_text(mean.geometric_mean):>7}, worst {ratio_text(mean.worst_ratio)} ({mean.worst_case})"


def markdown_table(headings: Sequence[str], marks: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its columns aligned by marks such as "--:"."""
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


def as_markdown(report: Report) -> str:
    """Return the README's table, with the means, the machine and the versions below it."""
    rows: list[tuple[str, ...]] = []
    for one in report.measured:
        best, ratio = one.best_peer, ratio_text(one.ratio)
        told = "" if best is None else f"{best} {one.ways[best]}, {time_text(one.median_us[best])}"
        shown = f"**{ratio}**" if one.ratio is not None and one.ratio < 1 else ratio
        rows.append((one.case.name, describe(one.case), time_text(one.median_us.get(OURS)), told, shown))
    cases = markdown_table(("case", "shapes", "time", "best peer", "ratio"), ("---", "---", "--:", "---", "--:"), rows)
    means = [
        (name, str(one.cases), ratio_text(one.geometric_mean), f"{ratio_text(one.worst_ratio)}, {one.worst_case}")
        for name, one in _means(report).items()
    ]
    families = markdown_table(("family", "cases", "geometric mean", "worst case"), ("---", "--:", "--:", "---"), means)
    return f"{cases}\n\n{families}\n\n{conditions(report)}.\n"


def _means(report: Report) -> dict[str, Mean]:
    """Return the means of the families, and that of all gathers at the end."""
    gathers = report.gathers()
    return report.families() | ({} if gathers is None else {ALL: gathers})


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
