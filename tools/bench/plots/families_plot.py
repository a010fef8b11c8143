"""The picture of a run at a glance: how many times as fast as the best peer of each case, by family."""

from typing import Any

from ....lowering.drawings.svg import drawing, finished, width_of
from ..table import ALL, ratio_text
from .bars import FASTER, ROW, SLOWER, SPACE, Column, write, write_below

WIDTH = 330.0


def families_plot(run: dict[str, Any], *, title: str, notes: list[str]) -> str:
    """Return the picture as SVG: a bar for each family, the geometric mean, with a tick at its worst case.

    Args:
        run: what `as_json` returns, and stored runs hold.
        title: the line above the bars.
        notes: the lines below them.
    """
    means = means_of(run)
    told = ", ".join(f"{name} {ratio_text(mean['geometric_mean'])}" for name, mean in means.items())
    root = drawing("families", title, f"{told}.")
    names = {name: f"{name} ({mean['cases']} case{'s' * (mean['cases'] > 1)})" for name, mean in means.items()}
    longest = max(mean["geometric_mean"] for mean in means.values())
    bars = Column(SPACE + max(map(width_of, names.values())) + SPACE / 2, WIDTH, max(1.0, longest))
    worst = bars.left + WIDTH + width_of("00.00×") + SPACE
    told_worst = {name: f"worst {ratio_text(mean['worst_ratio'])} {mean['worst_case']}" for name, mean in means.items()}
    width = worst + max(map(width_of, told_worst.values())) + SPACE
    write(root, title, SPACE, SPACE / 2, bold=True)
    top = first = SPACE + ROW
    for name, mean in means.items():
        ratio = mean["geometric_mean"]
        write(root, names[name], bars.left - SPACE / 2, top, bold=name == ALL, end=True)
        bars.draw_bar(root, top, ratio, ratio_text(ratio), FASTER if ratio >= 1 else SLOWER)
        bars.draw_mark(root, top, mean["worst_ratio"], told_worst[name])
        write(root, told_worst[name], worst, top, faint=True)
        top += ROW
    bars.draw_line(root, first, top)
    return finished(root, width, write_below(root, notes, top + SPACE / 2))


def means_of(run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the mean of all gathers, then those of the families."""
    whole = {} if run["gathers"] is None else {ALL: run["gathers"]}
    return whole | run["families"]
