"""The figures of a gather and a gradient of chunked arrays: who reads which rows, and who adds them."""

from dataclasses import dataclass

from gathernest.playground.drawings import FONT_SIZE, HUES, Element, add, drawing, finished, width_of

CHUNK, ROWS = 3, 12
INDICES = ((9, 2, 10), (0, 9, 7))

_ROW, _GAP, _TOP, _PAD = 20.0, 22.0, 52.0, 8.0


@dataclass(frozen=True, slots=True)
class Box:
    """A block of an array, or the result of a task.

    Attributes:
        name: the text above it.
        rows: the text of each row, and the number of the chunk of data that it belongs to.
        is_used: whether a task reads it; others are dashed.
    """

    name: str
    rows: tuple[tuple[str, int], ...]
    is_used: bool = True


def gather_figure() -> str:
    """Return the drawing of a gather: chunks of data, the rows that each gives, and blocks of the result."""
    hit = {index // CHUNK for block in INDICES for index in block}
    data = [
        Box(
            f"data, chunk {number}{'' if number in hit else ': not read'}",
            tuple((f"row {row}", number) for row in _rows_of(number)),
            number in hit,
        )
        for number in range(ROWS // CHUNK)
    ]
    parts, edges = [], []
    for which, block in enumerate(INDICES):
        for number in sorted({index // CHUNK for index in block}):
            rows = tuple((f"row {index}", number) for index in block if index // CHUNK == number)
            edges.append((number, len(parts), which))
            parts.append(Box(f"task: {len(rows)} of chunk {number}", rows))
    result = [
        Box(f"result, block {which}", tuple((f"[{index:2}]  row {index}", index // CHUNK) for index in block))
        for which, block in enumerate(INDICES)
    ]
    title = "A gather of chunked data"
    text = "Each chunk gives the rows that a block of indices takes from it, and one task puts them in their places."
    return _drawn(title, text, (data, parts, result), ("read when needed", "what moves", "merged"), edges)


def gradient_figure() -> str:
    """Return the drawing of a gradient: blocks of grad, their sums for each chunk of the result, and the result."""
    grad = [
        Box(f"grad, block {which}", tuple((f"[{index:2}]  row", index // CHUNK) for index in block))
        for which, block in enumerate(INDICES)
    ]
    parts, edges = [], []
    for number in range(ROWS // CHUNK):
        for which, block in enumerate(INDICES):
            keys = sorted({index for index in block if index // CHUNK == number})
            if keys:
                edges.append((which, len(parts), number))
                parts.append(Box(f"task: sums of block {which}", tuple((f"row {key}", number) for key in keys)))
    result = [
        Box(f"result, chunk {number}", tuple((_sum_text(row), number) for row in _rows_of(number)))
        for number in range(ROWS // CHUNK)
    ]
    title = "A gradient of chunked arrays"
    text = "Each block gives every chunk of the result the sums of its rows, and they are added in the order of blocks."
    return _drawn(title, text, (grad, parts, result), ("read when needed", "what moves", "added in a tree"), edges)


def _rows_of(chunk: int) -> range:
    return range(chunk * CHUNK, (chunk + 1) * CHUNK)


def _sum_text(row: int) -> str:
    blocks = [f"b{which}" for which, block in enumerate(INDICES) if row in block]
    return f"row {row:2} = {' + '.join(blocks) or '0'}"


def _drawn(
    title: str,
    text: str,
    columns: tuple[list[Box], list[Box], list[Box]],
    headings: tuple[str, str, str],
    edges: list[tuple[int, int, int]],
) -> str:
    """Return the drawing of three columns of boxes; an edge has the number of a box in each."""
    root = drawing("chunks", title, text)
    heights = [sum(_height(box) + _GAP for box in column) for column in columns]
    tallest, x = max(heights), _PAD
    places: list[list[tuple[float, float, float]]] = []
    lines = add(root, "g", class_="gn-edges")
    for heading, column, height in zip(headings, columns, heights, strict=True):
        width = max(width_of(text) for box in column for text in (box.name, *(row for row, _ in box.rows))) + 2 * _PAD
        add(root, "text", heading, x=x, y=FONT_SIZE + 2.0, font_weight="bold")
        y, found = _TOP + (tallest - height) / 2, []
        for box in column:
            _draw_box(root, box, x, y, width)
            found.append((x, y + _height(box) / 2, x + width))
            y += _height(box) + _GAP
        places.append(found)
        x += width + 90
    for first, middle, last in edges:
        hue = HUES[columns[1][middle].rows[0][1]]
        for start, end in ((places[0][first], places[1][middle]), (places[1][middle], places[2][last])):
            half = (start[2] + end[0]) / 2
            curve = f"{half:.1f} {start[1]:.1f} {half:.1f} {end[1]:.1f} {end[0]:.1f} {end[1]:.1f}"
            add(lines, "path", d=f"M{start[2]:.1f} {start[1]:.1f}C{curve}", fill="none", stroke=hue, stroke_width=1.6)
    return finished(root, x - 90 + _PAD, _TOP + tallest)


def _height(box: Box) -> float:
    return len(box.rows) * _ROW


def _draw_box(root: Element, box: Box, x: float, y: float, width: float) -> None:
    group = add(root, "g", class_="gn-chunk")
    add(group, "text", box.name, x=x, y=y - 5, fill_opacity=1 if box.is_used else 0.7)
    for number, (text, chunk) in enumerate(box.rows):
        top = y + number * _ROW
        add(
            group, "rect", x=x, y=top, width=width, height=_ROW, fill=HUES[chunk], stroke=HUES[chunk],
            fill_opacity=0.25 if box.is_used else 0.06, stroke_opacity=0.6,
            stroke_dasharray=None if box.is_used else "3 3",
        )  # fmt: skip
        add(group, "text", text, x=x + _PAD, y=top + _ROW - 6, fill_opacity=1 if box.is_used else 0.7)
