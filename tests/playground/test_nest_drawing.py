"""The drawing of a nest: boxes stand in one another as the loops do, and badges say what the schedule did."""

import functools
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from xdsl.ir import Operation

from gathernest.ir.dialects.gather_dialect import LoopOp
from gathernest.ir.modules.context import parse_module
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.playground.drawings import LOOPS, MOST_BOXES, loop_names, nest_drawing, standalone

SVG = "{http://www.w3.org/2000/svg}"
TILES = "tile-loops{loops=indices sizes=64}"
EVERYTHING = (
    "tile-loops{loops=outer,indices sizes=4,256},interchange-loops{order=outer_o,indices_o,outer_i,indices_i},"
    "parallelize-loops{loops=outer_o},hoist-indices{before=outer_i},vectorize-inner{lanes=8},"
    "prefetch{what=rows loop=indices_i ahead=1 locality=2},stream-stores"
)
PROBLEMS = {
    "tiled": (problem_of("gather", "3x5000x70xf32", "900xi64", 1), TILES),
    "everything": (problem_of("gather", "64x5000xf32", "5000xi64", 1), EVERYTHING),
    "gradient": (problem_of("gather_grad", "1000x64xf32", "500xi64", scale=2.0), "vectorize-inner{lanes=8}"),
    "unrolled": (problem_of("gather", "1000x64xf32", "100xi64"), "unroll{loop=inner factor=32}"),
}
NESTS = [
    ("tiled", "lower-to-nest"),
    ("tiled", "hoist-invariants"),
    ("tiled", "cse"),
    ("everything", "hoist-invariants"),
    ("everything", "cse"),
    ("gradient", "hoist-invariants"),
]


@functools.cache
def stages(name: str) -> dict[str, str]:
    problem, schedule = PROBLEMS[name]
    return {stage.pass_name: stage.text for stage in run_stages(make_plan(problem, Schedule.parse(schedule)))}


@functools.cache
def drawn(name: str, stage: str) -> str:
    return nest_drawing(stages(name)[stage])


Tree = list[tuple[str, "Tree"]]


def elements(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def loops_of_module(op: Operation) -> Tree:
    """Return the loops below an operation with those in each."""
    found: Tree = []
    for region in op.regions:
        for inner in region.block.ops if region.blocks else ():
            below = loops_of_module(inner)
            found += [(",".join(loop_names(inner)), below)] if isinstance(inner, LOOPS) else below
    return found


def loops_of_drawing(element: ElementTree.Element) -> Tree:
    found: Tree = []
    for child in element:
        below = loops_of_drawing(child)
        name = child.get("data-loop")
        found += [(name, below)] if name is not None else below
    return found


def badges(svg: str) -> dict[str, set[str]]:
    """Return the texts of the badges of each loop."""
    found: dict[str, set[str]] = {}
    for group in elements(svg).iter(f"{SVG}g"):
        if (name := group.get("data-loop")) is not None:
            own = [child for child in group if "gn-badge" in child.get("class", "")]
            found[name] = {child.find(f"{SVG}text").text for child in own}
    return found


@pytest.mark.parametrize(("name", "stage"), NESTS)
def test_boxes_stand_in_one_another_as_the_loops_do(name, stage):
    text = stages(name)[stage]
    expected = loops_of_module(parse_module(text))
    assert expected
    assert loops_of_drawing(elements(nest_drawing(text))) == expected


# Pixels between boxes, and below the last one in another.
GAP, PAD = 7, 13


def boxes(group: ElementTree.Element) -> tuple[tuple[float, ...], list[ElementTree.Element]]:
    rect = group.find(f"{SVG}rect")
    x, y, width, height = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
    inner = [child for child in group if child.tag == f"{SVG}g" and "gn-badge" not in child.get("class", "")]
    return (x, y, x + width, y + height), inner


@pytest.mark.parametrize(("name", "stage"), NESTS)
def test_a_box_lies_inside_of_the_one_around_it_and_none_overlap(name, stage):
    root = elements(drawn(name, stage))
    waiting = [child for child in root if child.tag == f"{SVG}g"]
    assert len(waiting) == 1
    right, bottom = boxes(waiting[0])[0][2:]
    assert (right, bottom) < (float(root.get("width")), float(root.get("height")))
    while waiting:
        (left, top, right, bottom), inner = boxes(group := waiting.pop())
        lines = [float(line.get("y")) for line in group if line.tag == f"{SVG}text"]
        places = [boxes(child)[0] for child in inner]
        assert all(left < a and top < b and c < right and d < bottom for a, b, c, d in places)
        assert all(above[3] + GAP <= below[1] for above, below in pairwise(places))
        assert all(place[3] + PAD <= bottom for place in places)
        assert all(top < y < bottom and not any(b < y < d for _, b, _, d in places) for y in lines)
        waiting += inner


def test_badges_of_the_loops_are_those_of_the_nest():
    nest, loops = (badges(drawn("everything", stage)) for stage in ("hoist-invariants", "cse"))
    assert nest == loops


def test_a_loop_names_its_line_of_the_text():
    lines = stages("everything")["hoist-invariants"].splitlines()
    root = elements(nest_drawing("\n".join(lines)))
    found = {g.get("data-loop"): int(g.get("data-line")) for g in root.iter(f"{SVG}g") if g.get("data-loop")}
    assert len(found) == 8
    assert all(f" {name}(%" in lines[number] for name, number in found.items())


def test_a_module_without_lines_is_drawn_without():
    assert "data-line" not in nest_drawing(parse_module(stages("tiled")["cse"]))


@pytest.mark.parametrize(("name", "stage"), [*NESTS, ("unrolled", "hoist-invariants"), ("tiled", "operator")])
def test_drawing_is_the_reviewed_one(name, stage, golden):
    svg = standalone(drawn(name, stage))
    assert not any(tag in drawn(name, stage) for tag in ("<style", "<script", " id=", " style=", "href"))
    golden(f"drawings/nest_{name}_{stage}.svg", svg.replace("><", ">\n<"))


def test_names_are_escaped():
    module = parse_module(stages("tiled")["lower-to-nest"])
    name = "<script>alert('&')</script>\"\x07"
    next(op for op in module.walk() if isinstance(op, LoopOp)).label = name
    svg = nest_drawing(module, title="<b>&</b>")
    assert "<script" not in svg and "<b>" not in svg and "\x07" not in svg
    root = elements(svg)
    assert root.get("aria-label") == root.find(f"{SVG}title").text == "<b>&</b>"
    assert "<script>alert('&')</script>\"\ufffd(b) in" in "".join(root.itertext())


def test_of_a_huge_nest_a_part_is_drawn_and_the_rest_is_counted():
    loop = 'gather.loop "{}"(%i{}) = %c to %c step %c {{\n}}\n'
    loops = "".join(loop.format(number, number) for number in range(MOST_BOXES + 50))
    text = f"func.func @gather() {{\n%c = arith.constant 1 : index\n{loops}func.return\n}}"
    root = elements(nest_drawing(text))
    shown = [group for group in root.iter(f"{SVG}g") if group.get("data-loop")]
    assert len(shown) == MOST_BOXES - 1  # and the function
    assert root[-1].text == "51 more boxes are not drawn"
