"""A plot of a run: the ratio of every case, and the time of every case over its roofline bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...ir.errors import DependencyError
from ..console.terminal import UsageError
from .measure import OURS, Measured
from .report import Report
from .table import conditions

SUFFIXES = (".png", ".svg")
GOOD, POOR, LINE = "#1b7837", "#c0392b", "#444444"


def check_plot(path: str) -> Path:
    """Return the path of a picture, or raise the error that it cannot be drawn for, before anything is measured."""
    picture = Path(path)
    if picture.suffix not in SUFFIXES:
        raise UsageError(f"--plot {path!r} must end in {' or '.join(SUFFIXES)}, as in --plot ratios.svg")
    try:
        import matplotlib  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DependencyError(
            "--plot draws with matplotlib, which is not installed: pip install 'gathernest[report]'"
        ) from None
    return picture


def plot(report: Report, path: Path) -> None:
    """Write the picture of a run: PNG or SVG, as the file's name says."""
    draw(report).savefig(path, dpi=150)


def draw(report: Report) -> Any:
    """Return the figure: a bar for each case that has a peer, and a point for each whose bound was measured."""
    from matplotlib.figure import Figure  # pyright: ignore[reportMissingImports]

    with_ratio = [one for one in report.measured if one.ratio is not None]
    with_bound = [one for one in report.measured if one.bound_us is not None and OURS in one.median_us]
    parts = 2 if with_bound else 1
    figure: Any = Figure(figsize=(8 * parts, max(3.0, 0.24 * len(with_ratio) + 1.5)), layout="constrained")
    axes = figure.subplots(1, parts, squeeze=False)[0]
    _draw_ratios(axes[0], with_ratio)
    if with_bound:
        _draw_roofline(axes[1], with_bound)
    figure.supxlabel(conditions(report), fontsize=6, wrap=True)
    return figure


def _draw_ratios(axes: Any, measured: Sequence[Measured]) -> None:
    """Draw a bar for each case from 1, to the right where gathernest is faster."""
    ratios = [one.ratio or 1.0 for one in measured]
    places = range(len(measured))
    colours = [GOOD if ratio >= 1 else POOR for ratio in ratios]
    axes.barh(places, [ratio - 1 for ratio in ratios], left=1.0, color=colours)
    axes.set_xscale("log")
    axes.axvline(1.0, color=LINE, linewidth=1)
    axes.set_yticks(places, [f"{one.case.name}  ({one.best_peer})" for one in measured], fontsize=7)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as the best peer, which is in brackets")
    axes.set_title("gathernest against the best peer of each case", fontsize=10)


def _draw_roofline(axes: Any, measured: Sequence[Measured]) -> None:
    """Draw a point for each case: its roofline bound and its measured time."""
    families = dict.fromkeys(one.case.family for one in measured)
    for family in families:
        ours = [one for one in measured if one.case.family == family]
        axes.scatter([one.bound_us for one in ours], [one.median_us[OURS] for one in ours], s=18, label=family)
    for one in measured:
        place = (one.bound_us, one.median_us[OURS])
        axes.annotate(one.case.name, place, fontsize=4, xytext=(3, 2), textcoords="offset points")
    ends = [min(one.bound_us or 1 for one in measured), max(one.median_us[OURS] for one in measured)]
    axes.plot(ends, ends, color=LINE, linewidth=1, label="roofline bound")
    axes.plot(ends, [end / 0.8 for end in ends], color=LINE, linewidth=1, linestyle="--", label="0.8 of it")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("roofline bound of the same rounds, µs")
    axes.set_ylabel("measured time, µs")
    axes.set_title("roofline: the closer to the line, the closer to the bound", fontsize=10)
    axes.legend(fontsize=6)
