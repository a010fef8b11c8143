"""Draw the memory accesses of a small gather: which line of data each element reads, by which thread, in which tile."""

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

import numpy as np

from ...ir.errors import GathernestError, InvalidGatherError
from ...ir.operator_spec import GatherWeighted, GatherWeightedMean
from ...lowering.drawings.svg import FONT_SIZE, HUES, LETTER, Element, add, drawing, finished, width_of
from ...lowering.schedule.machine_model import LINE_BYTES
from ..runtime.plan import Plan
from .accesses import Accesses, ElementAccess, accesses_of

# Elements and lines that are drawn at most, and elements in a row of the drawing; a note says what is left out.
MOST_CELLS, MOST_LINES, MOST_COLUMNS = 1024, 512, 32
_CELL, _LINE_CELL, _LINES_IN_ROW, _TEXT, _GAP, _SMALL, _OPACITY = 18.0, 28.0, 16, 18.0, 12.0, 9, 0.32
_NOBODY = "#808a94"
# Rows that narrow results have before they go on in another block beside.
_ROWS = 16
# The row and the column of an element in the drawing.
_Cell = tuple[int, int, ElementAccess]


def access_drawing(
    plan: Plan, indices: np.ndarray | None = None, *, threads: int = 4, title: str = "The memory accesses"
) -> str:
    """Return a drawing of which 64-byte line of data each element of the result reads.

    Above are the elements of the result (of a gradient, of what it reads; of a reduction, of the slices that it sums: a
    row of cells for each index of a bag), a cell each, with the number of the line
    that it reads (or is added to), in the colour of its thread; heavy lines go around tiles. Below are the lines of
    data, in the colours of the threads that read them. Cells have the class `gn-element`, `data-cache-line` and a title
    with their positions, and stand in groups with `data-thread` and `data-tile`; lines have the class `gn-line`,
    `data-cache-line` and `data-threads`.

    Args:
        plan: what to draw: `kernel.plan`. A large gather is drawn by a small one with the same loops.
        indices: values, for a plan of at most 4096 elements; when omitted, indices all over the axis.
        threads: how many share the parallel loop.
        title: the name of the drawing for screen readers.

    Returns:
        SVG as text, which stands in an HTML page as it is; with a sentence where there is nothing to draw.

    Raises:
        InvalidGatherError: the plan is of weighted sums, the indices have another shape than its, or there are too
            many elements.
        BoundsError: an index is not valid.
    """
    if isinstance(plan.problem.operator, GatherWeighted | GatherWeightedMean):
        raise InvalidGatherError("the drawing of accesses has no weights; draw gather_reduce in its place")
    if plan.action != "run" or not plan.problem.slices.size:
        return _sentence(title, "with these sizes nothing of data is read")
    try:
        accesses = accesses_of(plan, indices, threads=threads)
    except GathernestError as error:
        if indices is not None:
            raise
        return _sentence(title, f"no small gather is like this one: {error}")
    return draw_accesses(accesses, title=title, is_gradient=plan.problem.gradient is not None)


def draw_accesses(accesses: Accesses, *, title: str, is_gradient: bool = False) -> str:
    """Return the drawing of accesses; see `access_drawing`."""
    slices, table = ("grad", "the gradient of data") if is_gradient else ("out", "data")
    verb, reduces = "is added to" if is_gradient else "reads", accesses.problem.reduces
    slices = "slices" if reduces else slices
    texts = [
        f"{slices} {accesses.slices}: the line of {table} that each element {verb}",
        f"{table} {accesses.problem.table} in lines of {LINE_BYTES} bytes: who reads them",
    ]
    if is_gradient:
        texts[1] = texts[1].replace("reads", "adds to")
    bag = len(accesses.problem.indices.shape) - 1
    summed = f"those along dimension {bag}, between thin lines, are a bag: one sum of out {accesses.problem.slices}"
    notes = [*([summed] if reduces else []), *accesses.notes, *_left_out(accesses)]
    root = drawing("accesses", title, _description(accesses, texts, notes))
    widths, y = [width_of(text) for text in [*texts, *notes]], _TEXT
    add(root, "text", texts[0], x=0, y=y - 4, font_weight="bold")
    width, y = _draw_elements(root, accesses, slices, y + 2)
    widths.append(width)
    y += _GAP + _TEXT
    add(root, "text", texts[1], x=0, y=y - 4, font_weight="bold")
    width, y = _draw_lines(root, accesses, y + 2)
    widths.append(width)
    width, y = _draw_legend(root, accesses, y + _GAP)
    widths.append(width)
    for note in notes:
        add(root, "text", note, x=0, y=y + FONT_SIZE, class_="gn-note", fill_opacity=0.8)
        y += _TEXT
    return finished(root, max(widths) + 4, y + 4)


def _sentence(title: str, text: str) -> str:
    root = drawing("accesses", title, text)
    add(root, "text", text, x=0, y=_TEXT, class_="gn-note")
    return finished(root, width_of(text), 1.5 * _TEXT)


def _left_out(accesses: Accesses) -> list[str]:
    """Return a sentence for what is not drawn, as there is too much of it."""
    parts = (("elements", len(accesses.elements), MOST_CELLS), ("lines", accesses.line_count, MOST_LINES))
    return [f"the first {most} of {count} {what} are drawn" for what, count, most in parts if count > most]


def _description(accesses: Accesses, texts: list[str], notes: list[str]) -> str:
    """Return in words what the drawing shows."""
    counts: dict[int, int] = {}
    for element in accesses.elements:
        if element.thread is not None:
            counts[element.thread] = counts.get(element.thread, 0) + 1
    read = {line for element in accesses.elements for line in element.lines}
    shares = ", ".join(f"thread {thread} runs {count} elements" for thread, count in sorted(counts.items()))
    tiles = len({element.tile for element in accesses.elements})
    said = f"{len(read)} of {accesses.line_count} lines are used; {shares}; {tiles} tile{'s' * (tiles != 1)}"
    return ". ".join([*texts, said, *notes])


def _draw_elements(root: Element, accesses: Accesses, name: str, top: float) -> tuple[float, float]:
    """Draw a cell for each element; return the width and where it ends."""
    cells = _grid(accesses)
    parent = add(root, "g", class_="gn-elements")
    for (row, thread, _), run in groupby(cells, key=lambda cell: (cell[0], cell[2].thread, cell[2].tile)):
        run = list(run)
        tile = " ".join(f"{loop}={value}" for loop, value in run[0][2].tile)
        hue = _NOBODY if thread is None else _hue(thread)
        group = add(
            parent, "g", class_="gn-run", data_thread=thread, data_tile=tile or None, fill=hue, stroke=hue,
            fill_opacity=_OPACITY, stroke_opacity=0.5,
        )  # fmt: skip
        for _, column, element in run:
            _draw_element(group, element, name, column * _CELL + 1, top + row * _CELL)
    _draw_labels(root, cells, top)
    bag = len(accesses.problem.indices.shape) - 1 if accesses.problem.reduces else 0
    _draw_edges(root, {(row, column): element for row, column, element in cells}, top, bag)
    columns = max((column for _, column, _ in cells), default=-1) + 1
    rows = max((row for row, _, _ in cells), default=-1) + 1
    return columns * _CELL + 2, top + rows * _CELL + 1


def _grid(accesses: Accesses) -> list[_Cell]:
    """Return the row and the column of each element that is drawn; narrow rows stand in several blocks side by side."""
    last = max(accesses.slices.shape[-1], 1) if accesses.slices.shape else 1
    columns = min(last, MOST_COLUMNS)
    shown = accesses.elements[:MOST_CELLS]
    starts = [number for number in range(len(shown)) if number % last % columns == 0]
    rows = [shown[start:end] for start, end in pairwise([*starts, len(shown)])]
    height = max(_ROWS, math.ceil(len(rows) / max((MOST_COLUMNS + 1) // (columns + 1), 1)))
    cells = [
        (number % height, number // height * (columns + 1) + column, element)
        for number, row in enumerate(rows)
        for column, element in enumerate(row)
    ]
    return sorted(cells, key=lambda cell: (cell[0], cell[1]))


def _draw_element(group: Element, element: ElementAccess, name: str, x: float, y: float) -> None:
    lines = " and ".join(map(str, element.lines))
    source = "a zero" if element.source is None else f"data{list(element.source)}, line {lines}"
    cell = add(
        group, "rect", class_="gn-element", data_cache_line=_joined(element.lines) or None, x=x, y=y, width=_CELL,
        height=_CELL, fill_opacity=None if element.lines else 0.06,
    )  # fmt: skip
    add(cell, "title", f"{name}{list(element.position)}: {source}")


def _draw_labels(root: Element, cells: Sequence[_Cell], top: float) -> None:
    """Write the number of the line on each run of elements that read it."""
    group = add(root, "g", font_size=_SMALL, text_anchor="middle", pointer_events="none")
    numbered = enumerate(cells)
    # Cells side by side in a row have one difference of column and number.
    for (row, lines, _), run in groupby(
        numbered, key=lambda cell: (cell[1][0], cell[1][2].lines, cell[1][1] - cell[0])
    ):
        columns = [cell[1][1] for cell in run]
        text = _joined(lines[:1]) if lines else "zero" if len(columns) > 1 else "–"
        size = _CELL * len(columns) / max(len(text) * LETTER / FONT_SIZE, 1)
        x = (columns[0] + columns[-1] + 1) / 2 * _CELL + 1
        small = round(size - 0.5, 1) if size < _SMALL + 0.5 else None
        add(group, "text", text, x=x, y=top + (row + 0.5) * _CELL + 3, font_size=small)


def _draw_edges(root: Element, elements: dict[tuple[int, int], ElementAccess], top: float, bag: int) -> None:
    """Draw a heavy line around each tile, and a light one where another line of data begins in a row.

    There is a light one below each bag, too, whose elements share their first `bag` subscripts.
    """
    heavy: list[str] = []
    light: list[str] = []
    for (row, column), element in elements.items():
        x, y = column * _CELL + 1, top + row * _CELL
        below, right = elements.get((row + 1, column)), elements.get((row, column + 1))
        # A side between two tiles is drawn once, by the upper or left one of them.
        if (row - 1, column) not in elements:
            heavy.append(f"M{x:g} {y:g}h{_CELL:g}")
        if (row, column - 1) not in elements:
            heavy.append(f"M{x:g} {y:g}v{_CELL:g}")
        if below is None or below.tile != element.tile:
            heavy.append(f"M{x:g} {y + _CELL:g}h{_CELL:g}")
        elif below.position[:bag] != element.position[:bag]:
            light.append(f"M{x:g} {y + _CELL:g}h{_CELL:g}")
        if right is None or right.tile != element.tile:
            heavy.append(f"M{x + _CELL:g} {y:g}v{_CELL:g}")
        elif right.lines != element.lines:
            light.append(f"M{x + _CELL:g} {y:g}v{_CELL:g}")
    for kind, segments, width in (("line-ends", light, 1), ("tiles", heavy, 2)):
        add(
            root, "path", class_=f"gn-{kind}", d="".join(segments), stroke="currentColor", stroke_width=width,
            fill="none", stroke_linecap="square", pointer_events="none",
        )  # fmt: skip


def _draw_lines(root: Element, accesses: Accesses, top: float) -> tuple[float, float]:
    """Draw a cell for each line of the table, in strips of the colours of its threads; return width and end."""
    readers: dict[int, list[int | None]] = {}
    for element in accesses.elements:
        for line in element.lines:
            readers.setdefault(line, []).append(element.thread)
    group, count = add(root, "g", class_="gn-lines"), min(accesses.line_count, MOST_LINES)
    for line in range(count):
        x, y = line % _LINES_IN_ROW * _LINE_CELL + 1, top + line // _LINES_IN_ROW * _CELL
        threads = sorted({thread for thread in readers.get(line, []) if thread is not None})
        cell = add(group, "g", class_="gn-line", data_cache_line=line, data_threads=_joined(threads) or None)
        times = len(readers.get(line, []))
        who = f" by thread{'s' * (len(threads) > 1)} {' and '.join(map(str, threads))}" if threads else ""
        add(cell, "title", f"line {line}: used {times} time{'s' * (times != 1)}{who}")
        edges = [x + _LINE_CELL * part / max(len(threads), 1) for part in range(len(threads) + 1)]
        for thread, (left, right) in zip(threads, pairwise(edges), strict=True):
            hue = _hue(thread)
            add(cell, "rect", x=left, y=y, width=right - left, height=_CELL, fill=hue, fill_opacity=_OPACITY)
        add(
            cell,
            "rect",
            x=x,
            y=y,
            width=_LINE_CELL,
            height=_CELL,
            fill="none",
            stroke="currentColor",
            stroke_opacity=0.5,
        )
        opacity = 1 if times else 0.55
        add(
            cell, "text", str(line), x=x + _LINE_CELL / 2, y=y + _CELL / 2 + 3, font_size=_SMALL, text_anchor="middle",
            fill_opacity=opacity,
        )  # fmt: skip
    rows = math.ceil(count / _LINES_IN_ROW)
    return min(count, _LINES_IN_ROW) * _LINE_CELL + 2, top + rows * _CELL + 1


def _draw_legend(root: Element, accesses: Accesses, top: float) -> tuple[float, float]:
    """Name the colours; return the width and where it ends."""
    threads = sorted({element.thread for element in accesses.elements if element.thread is not None})
    entries = [(_hue(thread), f"thread {thread}") for thread in threads]
    if any(element.thread is None for element in accesses.elements):
        entries.append((_NOBODY, "nothing writes it"))
    group, x = add(root, "g", class_="gn-legend"), 1.0
    for hue, text in entries:
        add(group, "rect", x=x, y=top, width=12, height=12, fill=hue, fill_opacity=_OPACITY, stroke=hue)
        add(group, "text", text, x=x + 18, y=top + 11)
        x += 18 + width_of(text) + _GAP
    if len({element.tile for element in accesses.elements}) > 1:
        add(group, "rect", x=x, y=top, width=12, height=12, fill="none", stroke="currentColor", stroke_width=2)
        add(group, "text", "tile", x=x + 18, y=top + 11)
        x += 18 + width_of("tile")
    return x, top + _TEXT


def _hue(thread: int) -> str:
    return HUES[thread % len(HUES)]


def _joined(numbers: tuple[int, ...] | list[int]) -> str:
    return ",".join(map(str, numbers))
