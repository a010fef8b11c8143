"""Draw a loop nest as nested boxes, with a badge for each thing that the schedule did."""

from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from ...ir.modules.context import make_context
from ...ir.modules.pseudocode import has_loops, print_loop_nest
from ...ir.modules.read_module import read_module
from .nest_boxes import Badge, Box, Statement, nest_box
from .svg import FONT_SIZE, Element, add, drawing, finished, shortened, width_of

# Boxes of a drawing, statements of a box, and letters of a line: of more, the drawing says how many are left out.
MOST_BOXES, MOST_STATEMENTS, MOST_LETTERS = 150, 9, 100
_LINE, _PAD, _GAP, _BADGE = 18.0, 10.0, 6.0, 16.0
_HUES = {
    **dict.fromkeys(("parallel",), "#2f81f7"),
    **dict.fromkeys(("tiles", "tile"), "#b366e0"),
    **dict.fromkeys(("vector",), "#2da44e"),
    **dict.fromkeys(("prefetch",), "#d4a017"),
    **dict.fromkeys(("staged",), "#e8803c"),
    **dict.fromkeys(("streamed",), "#1b9aaa"),
    **dict.fromkeys(("check", "checked", "ordered"), "#e5534b"),
}
_GREY = "#808a94"


def nest_drawing(module: ModuleOp | str, *, title: str = "The loop nest") -> str:
    """Return a drawing of the loop nests of a module at level 2, 3 or 4.

    Each function, loop and condition is a box in the one around it. A loop has its name, its range and a badge for
    each of: parallel, ordered, sum, tiles, tile, check, checked, clear, scale, staged, vector, prefetch, streamed,
    remainder, prologue. Elements have the class of what they are (`gn-loop`, `gn-parallel`, ...). Those of a module
    that was parsed from text have its line as `data-line`, counted from 0; a loop has its name as `data-loop`.

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
        return _sentence(title, description.strip())
    functions = [nest_box(op) for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks]
    canvas = _Canvas(MOST_BOXES)
    boxes = [_measured(box, canvas) for box in functions]
    root = drawing("nest", title, description)
    width, y = max(box.width for box in boxes), 0.0
    for box in boxes:
        _draw(root, box, 0.5, y + 0.5, width - 1)
        y += box.height + _GAP
    if canvas.left_out:
        add(root, "text", f"{canvas.left_out} more boxes are not drawn", x=_PAD, y=y + FONT_SIZE, class_="gn-note")
        y += _LINE
    return finished(root, width, y)


def _sentence(title: str, text: str) -> str:
    """Return a drawing that is one line of text."""
    root = drawing("nest", title, text)
    add(root, "text", text, x=_PAD, y=_LINE, class_="gn-note")
    return finished(root, width_of(text) + 2 * _PAD, 1.5 * _LINE)


@dataclass(slots=True)
class _Canvas:
    """How many more boxes may be drawn, and how many were left out."""

    room: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Measured:
    """A box or a line of text with its size in pixels."""

    of: Box | Statement
    children: tuple["_Measured", ...]
    width: float
    height: float


def _measured(box: Box, canvas: _Canvas) -> _Measured:
    """Return a box with the sizes of all that is drawn in it."""
    canvas.room -= 1
    children: list[_Measured] = []
    for child in _folded(box.children):
        if isinstance(child, Statement):
            children.append(_Measured(child, (), width_of(shortened(child.text, MOST_LETTERS)), _LINE))
        elif canvas.room > 0:
            children.append(_measured(child, canvas))
        else:
            canvas.left_out += sum(1 for _ in child.walk())
    head = width_of(shortened(box.head, MOST_LETTERS)) + sum(_GAP + _badge_width(badge) for badge in box.badges)
    width = max([head, *(child.width for child in children)]) + 2 * _PAD
    gaps = sum(_GAP for child in children if isinstance(child.of, Box))
    return _Measured(box, tuple(children), width, 2 * _PAD + _LINE + gaps + sum(child.height for child in children))


def _folded(children: tuple[Box | Statement, ...]) -> list[Box | Statement]:
    """Return what is in a box, with a line in the place of the middle of long runs of statements."""
    found: list[Box | Statement] = []
    run: list[Statement] = []
    for child in (*children, None):
        if isinstance(child, Statement):
            run.append(child)
            continue
        if len(run) > MOST_STATEMENTS:
            first, last = run[: MOST_STATEMENTS - 3], run[-2:]
            run = [*first, Statement(f"… {len(run) - len(first) - len(last)} more lines", None), *last]
        found += run
        run = []
        if child is not None:
            found.append(child)
    return found


def _badge_width(badge: Badge) -> float:
    return width_of(badge.text) + 10


def _draw(parent: Element, measured: _Measured, x: float, y: float, width: float) -> None:
    """Draw a box with its upper left corner at (x, y)."""
    box = measured.of
    assert isinstance(box, Box)
    kinds = [badge.kind for badge in box.badges]
    name = ",".join(box.names) or None
    group = add(
        parent, "g", class_=" ".join([f"gn-{box.kind}", *(f"gn-is-{kind}" for kind in kinds)]),
        data_line=_from_zero(box.line), data_loop=name,
    )  # fmt: skip
    hue = _HUES["parallel"] if "parallel" in kinds else "currentColor"
    dashes = "4 3" if box.kind == "condition" else None
    add(
        group, "rect", x=x, y=y, width=width, height=measured.height - 1, rx=5, fill=hue, fill_opacity=0.025,
        stroke=hue, stroke_opacity=0.9 if "parallel" in kinds else 0.4, stroke_dasharray=dashes,
    )  # fmt: skip
    baseline = y + _PAD + FONT_SIZE
    head = add(
        group, "text", shortened(box.head, MOST_LETTERS), x=x + _PAD, y=baseline, class_="gn-head",
        font_weight="bold" if box.kind == "loop" else None,
    )  # fmt: skip
    _name_whole(head, box.head)
    place = x + _PAD + width_of(shortened(box.head, MOST_LETTERS))
    for badge in box.badges:
        _draw_badge(group, badge, place + _GAP, y + _PAD - 1)
        place += _GAP + _badge_width(badge)
    top = y + _PAD + _LINE
    for child in measured.children:
        if isinstance(child.of, Box):
            _draw(group, child, x + _PAD, top + _GAP / 2, width - 2 * _PAD)
            top += child.height + _GAP
            continue
        line = add(
            group, "text", shortened(child.of.text, MOST_LETTERS), x=x + _PAD, y=top + FONT_SIZE, class_="gn-statement",
            fill_opacity=0.85, data_line=_from_zero(child.of.line),
        )  # fmt: skip
        _name_whole(line, child.of.text)
        top += _LINE


def _draw_badge(parent: Element, badge: Badge, x: float, y: float) -> None:
    hue, width = _HUES.get(badge.kind, _GREY), _badge_width(badge)
    group = add(parent, "g", class_=f"gn-badge gn-{badge.kind}")
    add(group, "title", f"{badge.text}: {badge.meaning}")
    add(group, "rect", x=x, y=y, width=width, height=_BADGE, rx=_BADGE / 2, fill=hue, fill_opacity=0.25, stroke=hue)
    add(group, "text", badge.text, x=x + width / 2, y=y + FONT_SIZE, font_size=FONT_SIZE - 1, text_anchor="middle")


def _name_whole(element: Element, text: str) -> None:
    """Give an element that shows a part of a text the whole of it on hovering."""
    if len(text) > MOST_LETTERS:
        add(element, "title", text)


def _from_zero(line: int | None) -> int | None:
    return None if line is None else line - 1
