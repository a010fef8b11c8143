"""Drawings as SVG text: a loop nest, and memory accesses.

Colours are seen on light and on dark: text and lines have the colour of the page, areas have a hue with little opacity,
and each shape has a class (`gn-parallel`), so that a page can give it other colours.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
from xdsl.dialects import arith, func, memref, scf, vector
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp, VectorType
from xdsl.ir import Operation

from ..ir.dialects.gather_dialect import AccumulateOp, LoopOp
from ..ir.dialects.upstream import PrefetchOp, is_nontemporal
from ..ir.errors import GathernestError, InvalidGatherError
from ..ir.loop_name import LoopName
from ..ir.modules.context import make_context
from ..ir.modules.pseudocode import has_loops, nest_lines, print_loop_nest
from ..ir.modules.read_module import read_module
from ..ir.operator_spec import GatherWeighted, GatherWeightedMean
from ..kernels.runtime.plan import Plan
from ..lowering.nest.queries import viewed
from ..lowering.schedule.machine_model import LINE_BYTES
from .accesses import Accesses, accesses_of
from .trace import loop_names

Element = ElementTree.Element

# The font, its size, and the width of a letter in pixels, taken from wide fonts so that text never leaves its box.
FONT, FONT_SIZE, LETTER = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace", 12, 7.3
# Hues between light and dark by class, in the order in which numbered things (threads) take them.
HUES = ("#2f81f7", "#e8803c", "#2da44e", "#b366e0", "#d4a017", "#1b9aaa", "#e5534b", "#808a94")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def drawing(kind: str, title: str, description: str) -> Element:
    """Return an empty drawing.

    Args:
        kind: its subject in a word: its class is `gn-drawing gn-<kind>`.
        title: its name for screen readers, and the text on hovering.
        description: its content as text.
    """
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", "aria-label": _clean(title)})
    root.set("class", f"gn-drawing gn-{kind}")
    root.set("font-family", FONT)
    root.set("font-size", str(FONT_SIZE))
    root.set("fill", "currentColor")
    add(root, "title", title)
    add(root, "desc", description)
    return root


def add(parent: Element, tag: str, text: str = "", **attributes: Any) -> Element:
    """Append an element: `add(root, "text", "a", x=3, font_weight="bold", class_="gn-tile")`; None leaves one out."""
    values = {
        name.strip("_").replace("_", "-"): _value(value) for name, value in attributes.items() if value is not None
    }
    element = ElementTree.SubElement(parent, tag, values)
    element.text = _clean(text)
    return element


def finished(root: Element, width: float, height: float) -> str:
    """Set the size of a drawing in pixels, and return its text."""
    root.set("width", _value(width))
    root.set("height", _value(height))
    root.set("viewBox", f"0 0 {_value(width)} {_value(height)}")
    return ElementTree.tostring(root, encoding="unicode")


def standalone(svg: str) -> str:
    """Return a drawing as a file of its own: with a background, dark where the reader prefers that.

    Args:
        svg: the text of a drawing.
    """
    style = (
        "<style>svg{color:#1f2328;background:#ffffff}"
        "@media (prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
    )
    head, end, rest = svg.partition(">")
    return f"{head}{end}{style}{rest}\n"


def shortened(text: str, letters: int) -> str:
    """Return a text, cut where it is longer than a number of letters."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def width_of(text: str) -> float:
    """Return the most pixels that a text is wide; letters of East Asia count as two."""
    return LETTER * sum(2 if ord(letter) >= 0x1100 else 1 for letter in text)


def _value(value: Any) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else _clean(str(value))


def _clean(text: str) -> str:
    """Return a text with a mark in the place of characters that XML cannot hold."""
    return _CONTROL.sub("\ufffd", text)


def _sentence(kind: str, title: str, text: str) -> str:
    """Return a drawing that is one line of text."""
    root = drawing(kind, title, text)
    add(root, "text", text, x=10, y=18, class_="gn-note")
    return finished(root, width_of(text) + 20, 27)


LOOPS = (LoopOp, scf.ForOp, scf.ParallelOp)
# The meaning of each badge; the badge of a vector has the lanes behind it.
BADGES = {
    "parallel": "threads share its iterations",
    "ordered": "its iterations run one after the other, as sums of floats need",
    "sum": "it sums what its iterations yield",
    "tiles": "an iteration is a tile",
    "tile": "it runs within a tile",
    "check": "it counts the indices out of range, before anything is written",
    "checked": "it runs only when every index is in range",
    "clear": "it clears the table that sums are added to",
    "scale": "it multiplies the sums by the scale",
    "copy": "it copies the buffer of the result to out",
    "staged": "positions, lists or results go through a buffer",
    "vector": "elements are copied or added at once",
    "prefetch": "it loads lines of later iterations into a cache",
    "streamed": "non-temporal stores bypass the caches",
    "remainder": "the iterations that fill no vector or unrolled step",
    "prologue": "the iterations before the first aligned element",
}


# Boxes of a drawing, statements of a box, and letters of a line: of more, the drawing says how many are left out.
MOST_BOXES, MOST_STATEMENTS, MOST_LETTERS = 150, 9, 100
_LINE, _PAD, _GAP, _BADGE = 18.0, 10.0, 4.0, 16.0
_HUES = {
    "parallel": "#2f81f7", "tiles": "#b366e0", "tile": "#b366e0", "vector": "#2da44e", "prefetch": "#d4a017",
    "staged": "#e8803c", "streamed": "#1b9aaa", "check": "#e5534b", "checked": "#e5534b", "ordered": "#e5534b",
}  # fmt: skip
_GREY = "#808a94"


# A row of a drawn nest: how many boxes are around it, its kind (`function`, `loop`, `condition`, or `line` of a
# statement), its text, its operation (None of a line that stands for others), and the badges of a box: keys of
# `BADGES` with their texts, such as `vector ×8`.
_Row = tuple[int, str, str, Operation | None, Sequence[tuple[str, str]]]


def nest_drawing(module: ModuleOp | str, *, title: str = "The loop nest") -> str:
    """Return a drawing of the loop nests of a module at level 2, 3 or 4.

    Each function, loop and condition is a box in the one around it. A loop has its name, its range and a badge for
    each of: parallel, ordered, sum, tiles, tile, check, checked, clear, scale, staged, vector, prefetch, streamed,
    remainder, prologue. Elements have the class of their kind (`gn-loop`, `gn-parallel`, ...). If the module was parsed
    from text, they have its line as `data-line`, counted from 0; a loop has its name as `data-loop`.

    Args:
        module: the module, or its MLIR text.
        title: the name of the drawing for screen readers; their description is the nest as pseudocode.

    Returns:
        SVG as text, which stands in an HTML page as it is. A module without loops yet gives a drawing that says so.

    Raises:
        GathernestError: the text does not parse or is not valid.
        InternalError: the nest has an operation that has no pseudocode.
    """
    if isinstance(module, str):
        module = read_module(module, "<module>", make_context())
    description = print_loop_nest(module)
    if not has_loops(module):
        return _sentence("nest", title, description.strip())
    root, y, right, count = drawing("nest", title, description), 0.5, 0.0, 0
    around, rects = list[tuple[Element, Element, float]](), list[tuple[Element, float]]()
    hidden_depth = math.inf
    for depth, kind, text, op, badges in [*_rows(module), (0, "end", "", None, ())]:
        while len(around) > depth:
            _, rect, top = around.pop()
            rect.set("height", _value(y + _PAD - top))
            y += _PAD + _GAP
        hidden_depth = math.inf if depth <= hidden_depth else hidden_depth
        count += kind not in ("line", "end")
        if kind == "end" or hidden_depth < math.inf:
            continue
        if kind != "line" and count > MOST_BOXES:
            hidden_depth = depth
            continue
        parent, line = around[-1][0] if around else root, None if op is None else _line(op)
        x, shown = 0.5 + depth * _PAD, shortened(text, MOST_LETTERS)
        if kind == "line":
            element = add(
                parent, "text", shown, x=x, y=y + FONT_SIZE, class_="gn-statement", fill_opacity=0.85, data_line=line
            )
            y, right = y + _LINE, max(right, x + width_of(shown) + depth * _PAD)
        else:
            y += _GAP * bool(around)
            hue = _HUES["parallel"] if ("parallel", "parallel") in badges else "currentColor"
            classes = " ".join([f"gn-{kind}", *(f"gn-is-{badge}" for badge, _ in badges)])
            names = ",".join(loop_names(op)) if kind == "loop" and op is not None else None
            group = add(parent, "g", class_=classes, data_line=line, data_loop=names or None)
            rect = add(
                group, "rect", x=x, y=y, rx=5, fill=hue, fill_opacity=0.025, stroke=hue,
                stroke_opacity=0.4 if hue == "currentColor" else 0.9,
                stroke_dasharray="4 3" if kind == "condition" else None,
            )  # fmt: skip
            element = add(
                group, "text", shown, x=x + _PAD, y=y + _PAD + FONT_SIZE, class_="gn-head",
                font_weight="bold" if kind == "loop" else None,
            )  # fmt: skip
            place = x + _PAD + width_of(shown)
            for badge, name in badges:
                place = _draw_badge(group, badge, name, place + _GAP, y + _PAD - 1)
            around.append((group, rect, y))
            rects.append((rect, x))
            y, right = y + _PAD + _LINE, max(right, place + (depth + 1) * _PAD)
        if len(text) > MOST_LETTERS:
            add(element, "title", text)
    for rect, x in rects:
        rect.set("width", _value(right - 2 * x + 0.5))
    if count > MOST_BOXES:
        text = f"{count - MOST_BOXES} more boxes are not drawn"
        add(root, "text", text, x=_PAD, y=y + FONT_SIZE, class_="gn-note")
        y += _LINE
    return finished(root, right + 1, y)


def _rows(module: ModuleOp) -> Iterator[_Row]:
    """Yield the rows of a module's functions, with a row in the place of the middle of long runs of statements."""
    for function in module.ops:
        if not isinstance(function, func.FuncOp) or not function.body.blocks:
            continue
        badges = tuple(_of_operations(list(_directly_in(function))))
        yield 0, "function", f"@{function.sym_name.data}", function, badges
        for (is_line, _), run in groupby(_body_rows(function), key=lambda row: (row[1] == "line", row[0])):
            rows = list(run)
            if is_line and len(rows) > MOST_STATEMENTS:
                first, last = rows[: MOST_STATEMENTS - 3], rows[-2:]
                left_out = len(rows) - len(first) - len(last)
                rows = [*first, (rows[0][0], "line", f"… {left_out} more lines", None, ()), *last]
            yield from rows


def _body_rows(function: func.FuncOp) -> Iterator[_Row]:
    """Yield a row for each line of a function's pseudocode."""
    lines = nest_lines(function)
    depths = [*(line.depth for line in lines), 0]
    for line, next_depth in zip(lines, depths[1:], strict=True):
        op, text = line.op, line.text.removesuffix(":")
        if isinstance(op, LOOPS):
            yield line.depth + 1, "loop", line.trips, op, tuple(_badges(op))
        elif next_depth > line.depth or isinstance(op, scf.IfOp):
            is_guard = isinstance(op, scf.IfOp) and text != "else" and _is_guard(op)
            yield line.depth + 1, "condition", text, op, (("checked", "checked"),) * is_guard
        else:
            yield line.depth + 1, "line", line.text, op, ()


def _badges(loop: Operation) -> Iterator[tuple[str, str]]:
    """Yield the badges of a loop: of its form and its names, then of the operations in it."""
    names = [LoopName(name) for name in loop_names(loop)]
    whole = [LoopName(re.sub("(_rest|_head|_cached)+$", "", name)) for name in names]
    holds = {
        "parallel": isinstance(loop, scf.ParallelOp) or (isinstance(loop, LoopOp) and loop.parallel is not None),
        "ordered": isinstance(loop, LoopOp) and loop.ordered is not None,
        "sum": bool(loop.results),
        "tiles": any(name.is_outer_tile for name in names),
        "tile": any(name.is_inner_tile for name in whole),
        "remainder": any(name.is_remainder for name in names),
        "prologue": any(name.endswith("_head") for name in names),
    }
    holds |= {nest: any(name.nest == nest for name in names) for nest in ("check", "clear", "scale", "copy")}
    yield from ((kind, kind) for kind in BADGES if holds.get(kind))
    yield from _of_operations(list(_directly_in(loop)))


def _of_operations(ops: Sequence[Operation]) -> Iterator[tuple[str, str]]:
    """Yield the badges of operations: buffers of the function's own, vectors, prefetches and non-temporal stores."""
    moves = [op for op in ops if isinstance(op, memref.LoadOp | memref.StoreOp)]
    if any(isinstance(viewed(op.memref).owner, memref.AllocaOp | memref.AllocOp) for op in moves):
        yield "staged", "staged"
    written = [op.vector for op in ops if isinstance(op, vector.StoreOp)]
    written += [op.element for op in ops if isinstance(op, AccumulateOp)]
    lanes = [value.type.get_shape()[0] for value in written if isinstance(value.type, VectorType)]
    if lanes:
        yield "vector", f"vector ×{max(lanes)}"
    if any(isinstance(op, PrefetchOp) for op in ops):
        yield "prefetch", "prefetch"
    if any(isinstance(op, memref.StoreOp | vector.StoreOp) and is_nontemporal(op) for op in ops):
        yield "streamed", "streamed"


def _directly_in(op: Operation) -> Iterator[Operation]:
    """Yield the operations in a loop or a function that are in no loop inside it."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if not isinstance(inner, LOOPS):
                    yield from _directly_in(inner)


def _is_guard(op: scf.IfOp) -> bool:
    """Return whether a condition is about a sum of a loop: the number of indices out of range."""
    condition = op.cond.owner
    return isinstance(condition, arith.CmpiOp) and any(isinstance(value.owner, LOOPS) for value in condition.operands)


def _line(op: Operation) -> int | None:
    """Return the number of an operation's line in its text, from 0; None where it came from no text."""
    return op.location.line.data - 1 if isinstance(op.location, FileLineColLoc) else None


def _draw_badge(parent: Element, kind: str, text: str, x: float, y: float) -> float:
    """Draw a badge, and return where it ends."""
    hue, width = _HUES.get(kind, _GREY), width_of(text) + 10
    group = add(parent, "g", class_=f"gn-badge gn-{kind}")
    add(group, "title", f"{text}: {BADGES[kind]}")
    add(group, "rect", x=x, y=y, width=width, height=_BADGE, rx=_BADGE / 2, fill=hue, fill_opacity=0.25, stroke=hue)
    add(group, "text", text, x=x + width / 2, y=y + FONT_SIZE, font_size=FONT_SIZE - 1, text_anchor="middle")
    return x + width


# The largest numbers of elements and lines that are drawn, and of elements in a row; a note counts the others.
MOST_CELLS, MOST_LINES, MOST_COLUMNS = 1024, 512, 32
_CELL, _LINE_CELL, _LINES_IN_ROW, _TEXT, _PART_GAP, _SMALL, _OPACITY = 18.0, 28.0, 16, 18.0, 12.0, 9, 0.32
_NOBODY = "#808a94"
# Rows that narrow results have before they go on in another block beside.
_ROWS = 16


def access_drawing(
    plan: Plan, indices: np.ndarray | None = None, *, threads: int = 4, title: str = "The memory accesses"
) -> str:
    """Return a drawing of which 64-byte line of data each element of the result reads.

    Above are the elements of the result (of a gradient, of grad; of a reduction, of the slices that it sums: a
    row of cells for each index of a bag), a cell each, with the number of the line
    that it reads (or is added to), in the colour of its thread; heavy lines go around tiles. Below are the lines of
    data, in the colours of the threads that read them. Cells have the class `gn-element`, `data-cache-line` and a title
    with their positions, and stand in groups with `data-thread` and `data-tile`; lines have the class `gn-line`,
    `data-cache-line` and `data-threads`.

    Args:
        plan: the plan to draw: `kernel.plan`. A large gather is drawn by a small one with the same loops.
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
        return _sentence("accesses", title, "with these sizes nothing of data is read")
    try:
        accesses = accesses_of(plan, indices, threads=threads)
    except GathernestError as error:
        if indices is not None:
            raise
        return _sentence("accesses", title, f"no small gather is like this one: {error}")
    problem, elements = accesses.problem, accesses.elements
    is_gradient, bag = problem.gradient is not None, problem.indices.rank - 1 if problem.reduces else 0
    slices = "slices" if problem.reduces else "grad" if is_gradient else "out"
    table, verb, readers_verb = (
        ("the gradient of data", "is added to", "adds to") if is_gradient else ("data", "reads", "reads")
    )
    headings = [
        f"{slices} {accesses.slices}: the line of {table} that each element {verb}",
        f"{table} {problem.table} in lines of {LINE_BYTES} bytes: who {readers_verb} them",
    ]
    notes = [
        f"slices along dimension {bag}, between thin lines, are a bag: one sum of out {problem.slices}"
    ] * problem.reduces
    notes += accesses.notes
    for what, count, most in (("elements", len(elements), MOST_CELLS), ("lines", accesses.line_count, MOST_LINES)):
        notes += [f"the first {most} of {count} {what} are drawn"] * (count > most)
    counts = Counter(element.thread for element in elements if element.thread is not None)
    shares = ", ".join(f"thread {thread} runs {count} elements" for thread, count in sorted(counts.items()))
    tiles, read = len({element.tile for element in elements}), {line for element in elements for line in element.lines}
    said = f"{len(read)} of {accesses.line_count} lines are used; {shares}; {tiles} tile{'s' * (tiles != 1)}"
    root = drawing("accesses", title, ". ".join([*headings, said, *notes]))
    add(root, "text", headings[0], x=0, y=_TEXT - 4, font_weight="bold")
    width, y = _draw_elements(root, accesses, slices, bag, _TEXT + 2)
    y += _PART_GAP + _TEXT
    add(root, "text", headings[1], x=0, y=y - 4, font_weight="bold")
    y = _draw_lines(root, accesses, y + 2) + _PART_GAP
    legend, x = add(root, "g", class_="gn-legend"), 1.0
    entries = [(_hue(thread), f"thread {thread}") for thread in sorted(counts)]
    entries += [(_NOBODY, "nothing writes it")] * any(element.thread is None for element in elements)
    for hue, text in entries + [("none", "tile")] * (tiles > 1):
        stroke, thickness = ("currentColor", 2) if hue == "none" else (hue, None)
        box = {"x": x, "y": y, "width": 12, "height": 12}
        add(legend, "rect", **box, fill=hue, fill_opacity=_OPACITY, stroke=stroke, stroke_width=thickness)
        add(legend, "text", text, x=x + 18, y=y + 11)
        x += 18 + width_of(text) + _PART_GAP
    y += _TEXT
    for note in notes:
        add(root, "text", note, x=0, y=y + FONT_SIZE, class_="gn-note", fill_opacity=0.8)
        y += _TEXT
    widths = [width, x, _LINES_IN_ROW * _LINE_CELL + 2, *map(width_of, [*headings, *notes])]
    return finished(root, max(widths) + 4, y + 4)


def _draw_elements(root: Element, accesses: Accesses, name: str, bag: int, top: float) -> tuple[float, float]:
    """Draw a cell for each element; return the width and where it ends.

    Narrow rows stand in several blocks side by side. A heavy line goes around each tile, and a light one stands where
    another line of data begins in a row, and below each bag, whose elements share their first `bag` subscripts.
    """
    last = max(accesses.slices.shape[-1], 1) if accesses.slices.shape else 1
    columns = min(last, MOST_COLUMNS)
    shown = accesses.elements[:MOST_CELLS]
    starts = [number for number in range(len(shown)) if number % last % columns == 0]
    rows = [shown[start:end] for start, end in pairwise([*starts, len(shown)])]
    height = max(_ROWS, math.ceil(len(rows) / max((MOST_COLUMNS + 1) // (columns + 1), 1)))
    cells = {
        (number % height, number // height * (columns + 1) + column): element
        for number, row in enumerate(rows)
        for column, element in enumerate(row)
    }
    parent = add(root, "g", class_="gn-elements")
    labels = ElementTree.Element("g", {"font-size": str(_SMALL), "text-anchor": "middle", "pointer-events": "none"})
    heavy, light = list[str](), list[str]()
    for (thread, tile), run in groupby(sorted(cells), key=lambda place: (cells[place].thread, cells[place].tile)):
        hue = _NOBODY if thread is None else _hue(thread)
        group = add(
            parent, "g", class_="gn-run", data_thread=thread, fill=hue, stroke=hue, fill_opacity=_OPACITY,
            stroke_opacity=0.5, data_tile=" ".join(f"{loop}={value}" for loop, value in tile) or None,
        )  # fmt: skip
        for row, column in run:
            element, x, y = cells[row, column], column * _CELL + 1, top + row * _CELL
            lines = " and ".join(map(str, element.lines))
            source = "a zero" if element.source is None else f"data{list(element.source)}, line {lines}"
            cell = add(
                group, "rect", class_="gn-element", data_cache_line=_joined(element.lines) or None, x=x, y=y,
                width=_CELL, height=_CELL, fill_opacity=None if element.lines else 0.06,
            )  # fmt: skip
            add(cell, "title", f"{name}{list(element.position)}: {source}")
            below, right, left = (
                cells.get(place) for place in ((row + 1, column), (row, column + 1), (row, column - 1))
            )
            if left is None or left.lines != element.lines or not element.lines:
                text = _joined(element.lines[:1]) or "–"
                small = round(min(_SMALL, (_CELL - 2) * FONT_SIZE / (LETTER * len(text))), 1)
                add(
                    labels,
                    "text",
                    text,
                    x=x + _CELL / 2,
                    y=y + _CELL / 2 + 3,
                    font_size=small if small < _SMALL else None,
                )
            # A side between two tiles is drawn once, by the upper or left one of them.
            heavy += [f"M{x:g} {y:g}h{_CELL:g}"] * ((row - 1, column) not in cells)
            heavy += [f"M{x:g} {y:g}v{_CELL:g}"] * (left is None)
            for other, side, is_light in (
                (below, f"M{x:g} {y + _CELL:g}h{_CELL:g}", below and below.position[:bag] != element.position[:bag]),
                (right, f"M{x + _CELL:g} {y:g}v{_CELL:g}", right and right.lines != element.lines),
            ):
                heavy += [side] * (other is None or other.tile != element.tile)
                light += [side] * bool(is_light and other and other.tile == element.tile)
    root.append(labels)
    for kind, segments, width in (("line-ends", light, 1), ("tiles", heavy, 2)):
        add(
            root, "path", class_=f"gn-{kind}", d="".join(segments), stroke="currentColor", stroke_width=width,
            fill="none", stroke_linecap="square", pointer_events="none",
        )  # fmt: skip
    bottom, end = (max((place[side] for place in cells), default=-1) + 1 for side in (0, 1))
    return end * _CELL + 2, top + bottom * _CELL + 1


def _draw_lines(root: Element, accesses: Accesses, top: float) -> float:
    """Draw a cell for each line of the table, in strips of the colours of its threads; return where they end."""
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
        strip = _LINE_CELL / max(len(threads), 1)
        for number, thread in enumerate(threads):
            add(
                cell, "rect", x=x + number * strip, y=y, width=strip, height=_CELL, fill=_hue(thread),
                fill_opacity=_OPACITY,
            )  # fmt: skip
        add(
            cell, "rect", x=x, y=y, width=_LINE_CELL, height=_CELL, fill="none", stroke="currentColor",
            stroke_opacity=0.5,
        )  # fmt: skip
        add(
            cell, "text", str(line), x=x + _LINE_CELL / 2, y=y + _CELL / 2 + 3, font_size=_SMALL, text_anchor="middle",
            fill_opacity=1 if times else 0.55,
        )  # fmt: skip
    return top + math.ceil(count / _LINES_IN_ROW) * _CELL + 1


def _hue(thread: int) -> str:
    return HUES[thread % len(HUES)]


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
