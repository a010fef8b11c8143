"""Drawings of accesses and of explanations: whole files as goldens, the accesses also computed here in another way."""

import collections
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, GathernestError
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.machine.explain import Ablation, Explanation
from gathernest.kernels.machine.roofline import Bound
from gathernest.kernels.machine.traffic import Traffic
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.playground.accesses import accesses_of, small_instance
from gathernest.playground.drawings import access_drawing
from gathernest.playground.sections import byte_bars, time_bars, worth_bars
from gathernest.playground.trace import thread_of

SVG = "{http://www.w3.org/2000/svg}"
# Of a longer drawing the golden has the sentences, and how many elements of each kind there are.
MAX_BYTES = 25_000
SHARED = "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o}"
OWNERS = "owner-computes{owners=2 axis=axis},parallelize-loops{loops=owners}"
BAGS = (np.arange(18).reshape(6, 3) * 7 % 13 - 1).tolist()


def plan_of(operator: str, data, indices, schedule: str = "", axis: int = 0, **options) -> Plan:
    return make_plan(problem_of(operator, data, indices, axis, **options), Schedule.parse(schedule))


# An operator, its arrays, the values of the indices where they are given, the schedule, the threads, and attributes.
DRAWN = {
    "rows_of_two_threads": ("gather", "11x24xf32", [3, 10, 0, -1, 7, 7, 2, 9, 1], SHARED, 2, {}),
    "lines_of_four_threads": ("gather", "40x4xf32", [0, 1, 38, 39, 2, 20, 20, 20], SHARED.replace("4", "2"), 4, {}),
    "bags": ("gather_reduce", "11x6xf32", BAGS, SHARED, 2, {"bounds": "zero"}),
    "owners": ("gather_grad", "10x4xf32", [9, 0, 4, 5, 5, 1], OWNERS, 2, {}),
    "batches": (
        "gather",
        "3x9x4xf32",
        [[0] * 5] * 3,
        "parallelize-loops{loops=batch}",
        1,
        {"axis": 1, "batch_dims": 1},
    ),
    "zeros": ("gather", "5x4xf32", [1, 7, -9], "", 1, {"bounds": "zero"}),
    "elements_over_two_lines": ("gather", "12x1xV12", range(12), "", 1, {}),
    "reversed": ("gather", "10x16xf32 strided<[-16, 1]>", [0, 9, 4], "", 1, {}),
    "wide_rows": ("gather", "50x40xf32", range(3), "", 1, {}),
    "narrow_rows": ("gather", "50x3xf32", range(40), "", 1, {}),
    "tiles_and_lines": ("gather", "9x24xf32", [0, 2, 4, 6], "tile-loops{loops=indices sizes=2}", 1, {}),
    "nothing": ("gather", "5x0xf32", [1, 2, 3], "", 1, {}),
    "a_part_of_many": ("gather", "600x16xf32", range(0, 600, 6), "", 1, {}),
    "large": ("gather", "100000x64xf32", "100000xi64", SHARED.replace("4", "1024"), 4, {"bounds": "clip"}),
    "large_bags": ("gather_reduce", "200000x256xf32", "8192x16xi64", SHARED, 4, {}),
    "many_dimensions": ("gather", "x".join(["5"] * 16) + "xui8", "3xi64", "", 1, {"axis": 2}),
}


@pytest.mark.draw(8)
@pytest.mark.parametrize("name", DRAWN)
def test_drawing_of_accesses_is_the_reviewed_one(name, golden):
    operator, data, indices, schedule, threads, options = DRAWN[name]
    given = None if isinstance(indices, str) else np.array(indices, np.int64)
    plan = plan_of(operator, data, indices if given is None else given, schedule, **options)
    svg = access_drawing(plan, given, threads=threads, title=f"<{name}>")
    lines = svg.replace("><", ">\n<").splitlines()
    if len(svg) > MAX_BYTES:
        cells = collections.Counter(element.get("class") for element in ElementTree.fromstring(svg).iter())
        sentences = [line for line in lines if line.startswith(("<text", "<desc")) and not re.search(r">\d+<", line)]
        lines = [*sentences, *sorted(f"{count} {name}" for name, count in cells.items())]
    golden(f"drawings/accesses_{name}.svg", "\n".join(lines))


def drawn(svg: str) -> dict[tuple[int, ...], tuple[str | None, str | None, str | None]]:
    """Return the lines, the thread and the tile of each position that has a cell."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        for cell in group.findall(f"{SVG}rect[@class='gn-element']"):
            title = cell.find(f"{SVG}title").text
            position = tuple(int(part) for part in re.match(r"\w+\[([\d, ]*)\]: ", title)[1].split(",") if part)
            assert position not in found
            found[position] = cell.get("data-cache-line"), group.get("data-thread"), group.get("data-tile")
    return found


@pytest.mark.parametrize("operator", ["gather", "gather_reduce", "gather_mean", "gather_max"])
def test_each_element_has_a_cell_with_its_line_thread_and_tile(operator):
    data, indices = np.zeros((11, 24), np.float32), np.array(BAGS) if operator != "gather" else np.arange(-4, 5)
    svg = access_drawing(plan_of(operator, data, indices, SHARED, bounds="zero"), indices, threads=2)
    tiles = -(-len(indices) // 4)
    expected = {}
    for *place, j in np.ndindex(*indices.shape, 24):
        index, tile = indices[tuple(place)], place[0] // 4
        line = None if index > 10 else str(((index % 11) * 24 + j) * 4 // 64)
        expected[*place, j] = line, str(int(tile >= tiles // 2)), f"indices_o={tile * 4}"
    assert drawn(svg) == expected


@pytest.mark.parametrize(
    ("operator", "data", "indices", "options"),
    [
        ("gather", "1000000x64xf32", "100000xi64", {"bounds": "clip"}),
        ("gather", "64x5000x3xf32", "5000xi64", {"axis": 1, "bounds": "zero"}),
        ("gather", "3000x100000xi8", "1000xui8", {"axis": 1}),
        ("gather", "8x100x70xcomplex<f64>", "8x50x3xi32", {"axis": 1, "batch_dims": 1}),
        ("gather", "1000x64xf32 strided<[1, 1000]>", "500xi64", {}),
        ("gather", "500xf64", "3000xi64", {}),
        ("gather_elements", "1000x64xf32", "900x32xi64", {}),
        ("gather_nd", "20x30x40xf32", "1000x2xi64", {}),
        ("gather_grad", "1000x64xf32", "50000xi64", {}),
    ],
)
def test_a_small_instance_reads_what_its_operator_says(operator, data, indices, options):
    accesses = accesses_of(plan_of(operator, data, indices, **options))
    problem = accesses.problem
    assert 1 < problem.slices.size <= 768
    assert len(accesses.elements) == problem.slices.size
    start = {position: number for number, position in enumerate(np.ndindex(problem.table.shape))}
    for element in accesses.elements:
        if element.source is None:
            assert problem.bounds == "zero"
            continue
        offset = sum(map(int.__mul__, element.source, problem.table.strides))
        assert problem.table.is_contiguous <= (offset == start[element.source] * problem.table.dtype.itemsize)
        assert element.lines[0] == offset // 64
        assert element.lines[-1] < accesses.line_count
    assert any(note.startswith("a smaller gather: ") for note in accesses.notes)


TILED = "tile-loops{loops=indices sizes=256}"
EVERY_STORE = (
    f"specialize-inner{{bytes=256}},{TILED},hoist-indices{{before=indices_i}},vectorize-inner{{lanes=8}},"
    "prefetch{what=rows loop=indices_i ahead=16 locality=3},stream-stores"
)
LARGE = {
    **{
        f"{count} rows": plan_of("gather", "1000x64xf32", f"{count}xi64", TILED)
        for count in (100, 500, 700, 1000, 10**5)
    },
    "every pass": plan_of("gather", "1000x64xf32", "5000xi64", EVERY_STORE),
    "a tile of a tile": plan_of(
        "gather", "1000x64xf32", "100000xi64", "tile-loops{loops=indices,indices_i sizes=1024,512}"
    ),
    "many owners": plan_of("gather_grad", "1000x4xf32", "900xi64", "owner-computes{owners=16 axis=axis}"),
    "sizes of one": plan_of("gather", "5x1x7x1000x3xf32", "5x1x90xi64", axis=3, batch_dims=2),
    "strides": plan_of("gather", ArraySpec((1000, 64, 1), np.float32, (-512, 4, 4)), "500xi64"),
    "transposed": plan_of("gather", ArraySpec((1000, 64), np.float32, (4, 4000)), "500xi64"),
}


def test_small_instances_are_the_reviewed_ones(golden):
    lines: list[str] = []
    for name, plan in LARGE.items():
        small, problem = small_instance(plan), plan.problem
        lines += [
            f"{name}: {problem.table} by {problem.indices}",
            f"    {small.problem.table} by {small.problem.indices}",
        ]
        lines += [f"    {text}" for text in (*map(str, small.pipelines), *small.notes)]
    golden("drawings/small_instances.txt", "\n".join(lines))


@pytest.mark.parametrize(("threads", "iterations"), [(1, 5), (2, 5), (4, 4), (4, 3), (3, 100), (7, 50), (4, 1)])
def test_threads_share_iterations_as_the_team_does(threads, iterations):
    parts = min(threads, iterations)
    ranges = [range(iterations * part // parts, iterations * (part + 1) // parts) for part in range(parts)]
    expected = [next(part for part in range(parts) if number in ranges[part]) for number in range(iterations)]
    assert [thread_of(number, iterations, threads) for number in range(iterations)] == expected


@pytest.mark.parametrize(
    ("data", "indices", "values", "message"),
    [
        ("5x4xf32", "3xi64", range(4), r"^expected indices of shape \(3,\), got \(4,\)$"),
        ("500x4xf32", "2xi8", [1, 300], r"^expected indices that int8 holds, got 1 to 300$"),
        ("500x4xf32", "2xi8", [1.5, 3.0], "float64"),
        ("500x64xf32", "100xi64", range(100), "a gather of 6400 elements is too large to interpret"),
    ],
)
def test_indices_that_cannot_be_drawn_are_rejected(data, indices, values, message):
    with pytest.raises(GathernestError, match=message):
        access_drawing(plan_of("gather", data, indices), np.array(values))


def test_an_index_out_of_range_is_an_error():
    with pytest.raises(BoundsError):
        access_drawing(plan_of("gather", "5x4xf32", "3xi64"), np.array([0, 5, 1]))


def test_an_edited_stage_is_drawn_of_given_indices_and_named_otherwise(tmp_path):
    plan = plan_of("gather", "8x4xf32", "6xi64", "tile-loops{loops=indices sizes=2}", bounds="clip")
    number, stage = next(entry for entry in enumerate(run_stages(plan)) if entry[1].pass_name == "tile-loops")
    folder = tmp_path / plan.folder
    folder.mkdir()
    text = stage.text.replace("%c2_2 = arith.constant 2", "%c2_2 = arith.constant 3")
    (folder / f"{number:02}-tile-loops.mlir").write_text(text)
    with knobs.scope(override_dir=tmp_path):
        edited = make_plan(plan.problem, plan.schedule)
    assert {element.tile for element in accesses_of(edited, np.arange(6)).elements} == {
        (("indices_o", 0),),
        (("indices_o", 3),),
    }
    assert accesses_of(edited).notes[-1] == "the stages that were edited by hand are left out here"


TRAFFIC = Traffic((("indices", 1e5), ("data", 3e6), ("output", 1.5e6)), lines=46875.0, piece_lines=4.0)
BOUND = Bound(TRAFFIC, copy_us=40.0, lines_us=60.0)
WAYS = {"copy": "stores <plain>", "random lines": "8 at a time"}
MEASURED = Bound(TRAFFIC, 40.0, 60.0, 2, WAYS, {"copy": (40.0,), "random lines": (60.0,)})
EXPLANATION = Explanation(
    gather="gather 1000x64xf32 by 100xi64",
    schedule="vectorize-inner{lanes=8}",
    reasons=(),
    bound=MEASURED,
    model_bound=BOUND,
    machine="zen4",
    measured_us=80.0,
    fastest_us=70.0,
    rounds=9,
    predicted_us=1200.0,
    ablations=(
        Ablation("vectorize-inner{lanes=8}", 160.0, 2.0),
        Ablation("stream-stores", 40.0, 0.5),
        Ablation("tile-loops{loops=indices sizes=64}", rejected="<no> & never"),
    ),
)
NO_BYTES = Traffic((("indices", 0.0), ("data", 0.0), ("output", 0.0)), 0.0, 1.0)
EXPLANATIONS = {
    "whole": EXPLANATION,
    "without_prediction": replace(EXPLANATION, predicted_us=None),
    "without_passes": replace(EXPLANATION, schedule="", ablations=()),
    "without_bytes": replace(EXPLANATION, bound=replace(MEASURED, traffic=NO_BYTES)),
    "of_a_busy_machine": replace(EXPLANATION, fastest_us=40.0),
    "of_a_faster_machine": replace(EXPLANATION, model_bound=replace(BOUND, copy_us=120.0)),
}


@pytest.mark.parametrize("name", EXPLANATIONS)
def test_explanation_is_the_reviewed_text_with_its_bars(name, golden):
    explanation = EXPLANATIONS[name]
    groups = byte_bars(explanation.bound.traffic.streams), time_bars(explanation), worth_bars(explanation)
    parts = [str(explanation)]
    for group in groups:
        rows = (f"{name} | {value} of {group.longest} | {text} | {kind}" for name, value, text, kind in group.rows)
        parts += [f"\n{group.heading} {group.marked or ''}".rstrip(), *rows]
    golden(f"drawings/explanation_{name}.txt", "\n".join(parts))
