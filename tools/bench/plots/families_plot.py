"""The picture of stored runs at a glance: how many times as fast as the best peer of each case, by family."""

from collections.abc import Sequence
from typing import Any

from ....playground.drawings import drawing, finished, width_of
from ..table import ALL, ratio_text
from .bars import FASTER, ROW, SLOWER, SPACE, Column, write, write_below

WIDTH = 150.0


def families_plot(runs: Sequence[dict[str, Any]], headings: Sequence[str], *, title: str, notes: list[str]) -> str:
    """Return the picture as SVG: a column for each run, with a bar for each family and a tick at its worst case.

    Args:
        runs: what `as_json` returns, and stored runs hold.
        headings: of their columns.
        title: the line above them.
        notes: the lines below them.
    """
    means = [means_of(run) for run in runs]
    counted = {name: mean["cases"] for of_run in reversed(means) for name, mean in of_run.items()}
    told = ". ".join(f"{heading}: {told_means(run)}" for heading, run in zip(headings, runs, strict=True))
    root = drawing("families", title, f"{told}.")
    names = {name: f"{name} ({cases} case{'s' * (cases > 1)})" for name, cases in counted.items()}
    longest = max(1.0, *(mean["geometric_mean"] for of_run in means for mean in of_run.values()))
    step = max(WIDTH + width_of("00.00×"), *map(width_of, headings)) + SPACE
    left, top = SPACE + max(map(width_of, names.values())) + SPACE / 2, SPACE + 2 * ROW
    write(root, title, SPACE, SPACE / 2, bold=True)
    for row, name in enumerate(counted):
        write(root, names[name], left - SPACE / 2, top + row * ROW, bold=name == ALL, end=True)
    for place, (heading, of_run) in enumerate(zip(headings, means, strict=True)):
        bars = Column(left + place * step, WIDTH, longest)
        write(root, heading, bars.left, SPACE / 2 + ROW, faint=True)
        for row, name in enumerate(counted):
            if name in of_run:
                _draw_family(root, bars, top + row * ROW, of_run[name])
        bars.draw_line(root, top, top + len(counted) * ROW)
    bottom = top + len(counted) * ROW + SPACE / 2
    return finished(root, left + len(runs) * step, write_below(root, notes, bottom))


def _draw_family(root: Any, bars: Column, top: float, mean: dict[str, Any]) -> None:
    ratio = mean["geometric_mean"]
    bars.draw_bar(root, top, ratio, ratio_text(ratio), FASTER if ratio >= 1 else SLOWER)
    bars.draw_mark(root, top, mean["worst_ratio"], f"worst {ratio_text(mean['worst_ratio'])} {mean['worst_case']}")


def means_of(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the mean of all gathers, then those of the families."""
    whole = {} if run["gathers"] is None else {ALL: run["gathers"]}
    return whole | run["families"]


def told_means(run: dict[str, Any]) -> str:
    """Return these means as text."""
    return ", ".join(f"{name} {ratio_text(mean['geometric_mean'])}" for name, mean in means_of(run).items())
