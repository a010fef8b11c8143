"""A run as a table: for the terminal, and as Markdown for the README."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...kernels.host.cpu import cpu_model, package_version, usable_cores
from .cases.case import describe
from .measure import OURS, Measured
from .report import Mean, Report

if TYPE_CHECKING:
    from rich.table import Table

HEADINGS = {OURS: "time", "onnxruntime": "ORT", "tensorflow": "TF"}
ALL = "all gathers"
# The widest table has so many characters.
WIDTH = 130
# The column of calls that make their result.
NEW = "new result"


def as_table(report: Report) -> "Table":
    """Return a table for the terminal: the ratio to every peer, the best one marked, and that of new results."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    has_bounds = any(one.of_bound is not None for one in report.measured)
    has_new = report.of_new_results is not None
    table.add_column("case", no_wrap=True)
    more = [*(["of bound"] if has_bounds else []), *(["new", "best"] if has_new else [])]
    for name in (OURS, "best", *report.peers, *more):
        table.add_column(HEADINGS.get(name, name), justify="right", no_wrap=True)
    family = None
    for one in report.measured:
        if one.case.family != family:
            family = one.case.family
            table.add_row(Text(family, style="dim"))
        cells = [Text(f"  {one.case.name}"), Text(time_text(one.median_us.get(OURS)))]
        cells.append(Text(ratio_text(one.ratio), style=_style(one.ratio)))
        cells += [Text(_peer_text(one, name), style="bold" if name == one.best_peer else "") for name in report.peers]
        cells += [Text(_percent(one.of_bound) or "–")] if has_bounds else []
        if has_new and (new := one.of_new_results) is not None:
            cells += [Text(time_text(new.median_us.get(OURS))), Text(ratio_text(new.ratio), style=_style(new.ratio))]
        table.add_row(*cells)
    return table


def summary(report: Report) -> list[str]:
    """Return the lines below a table: the mean and the worst case of each family, and of all gathers."""
    new = {} if report.of_new_results is None else _means(report.of_new_results)
    lines = [_mean_line(name, mean, new.get(name)) for name, mean in _means(report).items()]
    fractions = {"of the bound": report.of_bound(), "of the bound in order": report.of_bound_in_order()}
    return lines + [
        f"{name:<24} {_percent(mean):>7}, cases larger than cache" for name, mean in fractions.items() if mean
    ]


def _mean_line(name: str, mean: Mean, new: Mean | None) -> str:
    told = f"{name:<24} {_mean_text(mean)}"
    return told if new is None else f"{told}; new results {_mean_text(new)}"


def _mean_text(mean: Mean) -> str:
    return f"{ratio_text(mean.geometric_mean):>7}, worst {ratio_text(mean.worst_ratio)} ({mean.worst_case})"


def markdown_table(headings: Sequence[str], marks: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its columns aligned by marks such as "--:"."""
    lines = [f"| {' | '.join(cells)} |" for cells in (headings, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(marks)}|", *lines[1:]])


def as_markdown(report: Report) -> str:
    """Return the README's table, with the means, the machine and the versions below it."""
    new = report.of_new_results
    rows: list[tuple[str, ...]] = []
    for one in report.measured:
        best = one.best_peer
        told = "" if best is None else f"{best} {one.ways[best]}, {time_text(one.median_us[best])}"
        row = (one.case.name, describe(one.case), time_text(one.median_us.get(OURS)), told, marked_ratio(one.ratio))
        rows.append(row if new is None else (*row, _new_text(one.of_new_results)))
    headings, marks = ("case", "shapes", "time", "best peer", "ratio"), ("---", "---", "--:", "---", "--:")
    cases = markdown_table(*_with_new(new, headings, marks), rows)
    of_new = {} if new is None else _means(new)
    means: list[tuple[str, ...]] = []
    for name, one in _means(report).items():
        worst = f"{ratio_text(one.worst_ratio)}, {one.worst_case}"
        row = (name, str(one.cases), ratio_text(one.geometric_mean), worst)
        means.append(row if new is None else (*row, ratio_text(of_new[name].geometric_mean) if name in of_new else ""))
    headings, marks = ("family", "cases", "geometric mean", "worst case"), ("---", "--:", "--:", "---")
    families = markdown_table(*_with_new(new, headings, marks), means)
    return f"{cases}\n\n{families}\n\n{conditions(report)}.\n"


def _with_new(new: Report | None, headings: Sequence[str], marks: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return headings and marks of a table, with a column more for new results where they were measured."""
    return (headings, marks) if new is None else ((*headings, NEW), (*marks, "--:"))


def _new_text(one: Measured | None) -> str:
    """Return the time of a case into a new result, with the ratio and the best peer."""
    if one is None:
        return ""
    return new_result_text(one.median_us.get(OURS), one.ratio, one.best_peer)


def new_result_text(microseconds: float | None, ratio: float | None, peer: str | None) -> str:
    """Return a cell such as "3.10 ms, 2.57× jax"; without a peer the time alone."""
    time_ = time_text(microseconds)
    return time_ if peer is None else f"{time_}, {marked_ratio(ratio)} {peer}"


def marked_ratio(ratio: float | None) -> str:
    """Return a ratio for Markdown, bold where a peer wins."""
    shown = ratio_text(ratio)
    return f"**{shown}**" if ratio is not None and ratio < 1 else shown


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
    threads += together_text([each and each._asdict() for each in report.together])
    return f"{cpu_model()}, {usable_cores()} cores; {threads}; {rounds}{cut}; {python}, {', '.join(versions)}"


def together_text(found: Sequence[Mapping[str, float] | None]) -> str:
    """Return how many times as fast as one thread all were before and after a run, as JSON holds it; maybe nothing."""
    times = [f"{each['computing']:.1f} and {each['copying']:.1f}" for each in found if each is not None]
    if len(times) < 2:
        return ""
    return f", who compute and copy {times[0]} times as fast as one before the run, {times[1]} after it"


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
