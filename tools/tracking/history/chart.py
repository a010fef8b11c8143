"""A small SVG chart of one series: a dot a commit, and a line where the level changes. Plain Python.

Lengths are pixels of a `WIDTH` × `HEIGHT` drawing, which the page scales to its column. Colours are the page's.
"""

from collections.abc import Sequence

from .noise import Change

WIDTH, HEIGHT = 320, 90
# Of the largest value: what the height stands for at least, so that noise looks as small as it is.
LEAST_SPAN = 0.01
LEFT, RIGHT, TOP, BOTTOM = 4, 4, 8, 8


def chart(places: Sequence[int], values: Sequence[float], changes: Sequence[Change], most: int) -> str:
    """Return the chart of a series.

    Args:
        places: of its commits on the axis, which ends at `most` commits.
        values: one a place.
        changes: its change points; one that makes it worse is red, any other is green.
        most: commits of the axis that all charts of the page share.
    """
    across = [round(LEFT + (WIDTH - LEFT - RIGHT) * place / max(most - 1, 1), 1) for place in places]
    down = _heights(values)
    marks = "".join(_mark(across[change.index], change) for change in changes)
    points = list(zip(across, down, strict=True))
    line = "M" + "L".join(f"{x:g} {y:g}" for x, y in points)
    dots = "".join(f"M{x:g} {y:g}h0" for x, y in points)
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" aria-hidden="true">{marks}'
        f'<path class="line" d="{line}"></path><path class="dots" d="{dots}"></path></svg>'
    )


def _mark(x: float, change: Change) -> str:
    return f'<path class="{"worse" if change.after > change.before else "better"}" d="M{x:g} 0V{HEIGHT}"></path>'


def _heights(values: Sequence[float]) -> list[float]:
    """Return how far below the upper edge each value lies; values that are nearly equal lie near the middle."""
    least, largest = min(values), max(values)
    middle, span = (least + largest) / 2, max(largest - least, LEAST_SPAN * abs(largest)) or 1.0
    return [round(HEIGHT / 2 + (HEIGHT - TOP - BOTTOM) * (middle - value) / span, 1) for value in values]
