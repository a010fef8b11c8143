"""The drawing of accesses: a cell an element, its line and its thread as computed here in another way."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, IndexTypeError, InvalidGatherError
from gathernest.kernels.drawings import access_drawing as drawing_module
from gathernest.kernels.drawings.access_drawing import access_drawing
from gathernest.kernels.drawings.accesses import Accesses, accesses_of
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.kernels.stepping.thread_share import thread_of
from gathernest.lowering.registry import Pipeline
from gathernest.lowering.schedule.schedule import Schedule

SVG = "{http://www.w3.org/2000/svg}"
SHARED = "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o}"


def plan_of(operator: str, data, indices, axis: int = 0, schedule: str = "", **options) -> Plan:
    return make_plan(problem_of(operator, data, indices, axis, **options), Schedule.parse(schedule))


def numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text else ()


def drawn(svg: str) -> dict[tuple[int, ...], tuple[tuple[int, ...], str | None, str | None]]:
    """Return the lines, the thread and the tile of each position that has a cell."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        for cell in group.findall(f"{SVG}rect[@class='gn-element']"):
            title = cell.find(f"{SVG}title").text
            position = tuple(int(part) for part in re.match(r"\w+\[([\d, ]*)\]: ", title)[1].split(",") if part)
            assert position not in found
            found[position] = numbers(cell.get("data-cache-line")), group.get("data-thread"), group.get("data-tile")
    return found


def test_each_element_has_a_cell_with_its_line_thread_and_tile():
    data, indices = np.zeros((11, 24), np.float32), np.array([3, 10, 0, -1, 7, 7, 2, 9, 1])
    found = drawn(access_drawing(plan_of("gather", data, indices, schedule=SHARED), indices, threads=2))
    expected = {}
    for i, index in enumerate(indices):
        for j in range(24):
            line = ((index % 11) * 24 + j) * 4 // 64
            expected[i, j] = (line,), str(int(i >= 4)), f"indices_o={i // 4 * 4}"  # tile 0 of 3, then tiles 1 and 2
    assert found == expected


@pytest.mark.parametrize("operator", ["gather_reduce", "gather_mean", "gather_max"])
def test_each_row_of_a_bag_has_cells_of_the_thread_that_sums_the_bag(operator):
    data, indices = np.zeros((11, 24), np.float32), np.arange(18).reshape(6, 3) * 7 % 13 - 1
    plan = plan_of(operator, data, indices, schedule=SHARED, bounds="zero")
    svg = access_drawing(plan, indices, threads=2)
    expected = {}
    for i, k, j in np.ndindex(6, 3, 24):
        line = (((indices[i, k] % 11) * 24 + j) * 4 // 64,) if indices[i, k] < 11 else ()
        expected[i, k, j] = line, str(i // 4), f"indices_o={i // 4 * 4}"  # tiles 0 and 1
    assert drawn(svg) == expected
    assert "those along dimension 1, between thin lines, are a bag: one sum of out 6x24xf32" in svg
    (light,) = re.findall(r'class="gn-line-ends" d="([^"]*)"', svg)
    assert {float(part) for part in re.findall(r"M[\d.]+ ([\d.]+)h", light)} == {
        20 + 18 * 3 * bag for bag in (1, 2, 3, 5)
    }


def test_a_large_reduction_is_drawn_by_a_small_one():
    found = accesses_of(plan_of("gather_reduce", "200000x256xf32", "8192x16xi64", schedule=SHARED))
    assert str(found.slices) == "6x4x32xf32" and len(found.elements) == found.slices.size
    assert {element.thread for element in found.elements} == {0, 1, 2}


def test_lines_have_the_threads_that_read_them():
    data, indices = np.zeros((40, 4), np.float32), np.array([0, 1, 38, 39, 2, 20, 20, 20])
    plan = plan_of(
        "gather", data, indices, schedule="tile-loops{loops=indices sizes=2},parallelize-loops{loops=indices_o}"
    )
    svg = access_drawing(plan, indices, threads=4)
    lines = ElementTree.fromstring(svg).findall(f".//{SVG}g[@class='gn-line']")
    assert [int(line.get("data-cache-line")) for line in lines] == list(range(10))
    threads = {number: numbers(line.get("data-threads")) for number, line in enumerate(lines)}
    assert threads == {0: (0, 2), 5: (2, 3), 9: (1,)} | dict.fromkeys((1, 2, 3, 4, 6, 7, 8), ())
    titles = [line.find(f"{SVG}title").text for line in lines]
    assert titles[0] == "line 0: used 12 times by threads 0 and 2"
    assert titles[1] == "line 1: used 0 times"


@pytest.mark.parametrize(
    ("operator", "data", "indices", "options"),
    [
        ("gather", "1000x64xf32", "100xi64", {}),
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
    accesses = accesses_of(plan_of(operator, data, indices, schedule="", **options))
    problem = accesses.problem
    assert 1 < problem.slices.size <= 768
    assert len(accesses.elements) == problem.slices.size
    assert all(element.thread == 0 for element in accesses.elements)
    table = np.zeros(problem.table.shape, problem.table.dtype)
    start = {position: number for number, position in enumerate(np.ndindex(table.shape))}
    bytes_of = problem.table.dtype.itemsize
    for element in accesses.elements:
        if element.source is None:
            assert problem.bounds == "zero"
            continue
        offset = sum(map(int.__mul__, element.source, problem.table.strides))
        assert problem.table.is_contiguous <= (offset == start[element.source] * bytes_of)
        assert element.lines[0] == offset // 64
        assert element.lines[-1] < accesses.line_count
    assert any(note.startswith("a smaller gather: ") for note in accesses.notes)


def test_the_default_schedule_of_a_large_gather_has_tiles_on_all_threads():
    plan = plan_of("gather", "100000x64xf32", "100000xi64", bounds="clip", schedule=SHARED.replace("4", "1024"))
    accesses = accesses_of(plan, threads=4)
    assert {element.thread for element in accesses.elements} == {0, 1, 2, 3}
    tiles = {element.position[0]: element.tile for element in accesses.elements}
    assert tiles == {i: (("indices_o", i // 3 * 3),) for i in range(12)}
    assert accesses.notes[1:] == ("tiles of indices have 3 iterations here, and 1024 in the gather",)


def test_a_pipeline_of_the_callers_is_drawn_too():
    plan = plan_of("gather", "1000x64xf32", "5000xi64", schedule="tile-loops{loops=indices sizes=256}")
    given = make_plan(plan.problem, Pipeline(plan.pipeline))
    assert [element.tile for element in accesses_of(given).elements] == [
        element.tile for element in accesses_of(plan).elements
    ]


def test_owners_have_the_elements_that_they_add():
    schedule = "owner-computes{owners=2 axis=axis},parallelize-loops{loops=owners}"
    problem = problem_of("gather_grad", "10x4xf32", "6xi64")
    indices = np.array([9, 0, 4, 5, 5, 1])
    accesses = accesses_of(make_plan(problem, Schedule.parse(schedule)), indices, threads=2)
    threads = {element.position[0]: element.thread for element in accesses.elements}
    assert threads == {0: 1, 1: 0, 2: 0, 3: 1, 4: 1, 5: 0}
    assert accesses.elements[0].tile == (("owners", 5),)
    alone = make_plan(problem, Schedule.parse(schedule.partition(",parallelize")[0]))
    assert {element.thread for element in accesses_of(alone, indices).elements} == {0}
    assert [element.tile for element in accesses_of(alone, indices).elements] == [e.tile for e in accesses.elements]


def test_a_parallel_loop_counts_as_a_tile():
    plan = plan_of("gather", "3x9x4xf32", "3x5xi64", 1, "parallelize-loops{loops=batch}", batch_dims=1)
    accesses = accesses_of(plan, np.zeros((3, 5), np.int64))
    assert all(element.tile == (("batch", element.position[0]),) for element in accesses.elements)


def test_lines_count_from_the_lowest_address():
    data = np.zeros((10, 16), np.float32)[::-1]
    accesses = accesses_of(plan_of("gather", data, "3xi64"), np.array([0, 9, 4]))
    assert [element.lines for element in accesses.elements[::16]] == [(9,), (0,), (5,)]
    assert accesses.line_count == 10


def places(svg: str) -> list[tuple[float, float]]:
    cells = ElementTree.fromstring(svg).iter(f"{SVG}rect")
    return [(float(cell.get("x")), float(cell.get("y"))) for cell in cells if cell.get("class") == "gn-element"]


@pytest.mark.parametrize(("rows", "columns", "wide", "high"), [(3, 40, 32, 6), (40, 3, 11, 16), (40, 1, 5, 16)])
def test_wide_rows_go_on_below_and_many_narrow_rows_beside(rows, columns, wide, high):
    svg = access_drawing(plan_of("gather", f"50x{columns}xf32", f"{rows}xi64"), np.arange(rows))
    found = places(svg)
    assert len(set(found)) == len(found) == rows * columns
    x, y = ({place[dim] for place in found} for dim in (0, 1))
    assert (max(x) - min(x), max(y) - min(y)) == (18 * (wide - 1), 18 * (high - 1))


def test_heavy_lines_go_around_tiles_and_light_ones_between_lines_of_data():
    schedule = "tile-loops{loops=indices sizes=2}"
    svg = access_drawing(plan_of("gather", "9x24xf32", "4xi64", schedule=schedule), np.array([0, 2, 4, 6]))
    paths = {path.get("class"): path.get("d") for path in ElementTree.fromstring(svg).iter(f"{SVG}path")}
    assert paths["gn-tiles"].count("h") == 3 * 24  # above, below, and between the tiles
    assert paths["gn-tiles"].count("v") == 2 * 4
    assert paths["gn-line-ends"].count("v") == 4  # rows of 96 bytes at multiples of 192 lie in two lines


@pytest.mark.parametrize(("threads", "iterations"), [(1, 5), (2, 5), (4, 4), (4, 3), (3, 100), (7, 50), (4, 1)])
def test_threads_share_iterations_as_the_team_does(threads, iterations):
    parts = min(threads, iterations)
    ranges = [range(iterations * part // parts, iterations * (part + 1) // parts) for part in range(parts)]
    expected = [next(part for part in range(parts) if number in ranges[part]) for number in range(iterations)]
    assert [thread_of(number, iterations, threads) for number in range(iterations)] == expected


def test_elements_over_two_lines_name_both():
    data = np.zeros((12, 1), "V12")
    found = drawn(access_drawing(plan_of("gather", data, "12xi64"), np.arange(12)))
    assert found[5, 0][0] == (0, 1)  # bytes 60 to 71
    assert found[6, 0][0] == (1,)


def test_zeros_read_no_line():
    svg = access_drawing(plan_of("gather", "5x4xf32", "3xi64", bounds="zero"), np.array([1, 7, -9]))
    found = drawn(svg)
    assert found[0, 0][0] == (0,)
    assert found[1, 2][0] == found[2, 3][0] == ()
    assert "out[1, 2]: a zero" in svg and ">zero<" in svg


@pytest.mark.parametrize(("data", "indices"), [("5x4xf32", "0xi64"), ("5x0xf32", "3xi64"), ("0x4xf32", "3xi64")])
def test_nothing_to_read_is_said(data, indices):
    svg = access_drawing(plan_of("gather", data, indices))
    assert drawn(svg) == {}
    assert "with these sizes nothing of data is read" in svg


def test_of_many_elements_the_first_are_drawn_with_a_note(monkeypatch):
    monkeypatch.setattr(drawing_module, "MOST_CELLS", 50)
    monkeypatch.setattr(drawing_module, "MOST_LINES", 7)
    indices = np.arange(9)
    svg = access_drawing(plan_of("gather", "16x16xf32", "9xi64"), indices)
    assert len(drawn(svg)) == 50
    assert svg.count('class="gn-line"') == 7
    assert "the first 50 of 144 elements are drawn" in svg and "the first 7 of 16 lines are drawn" in svg


def test_many_dimensions_do_not_make_many_elements():
    plan = plan_of("gather", ArraySpec((5,) * 16, np.uint8), "3xi64", axis=2)
    assert "no small gather is like this one: a gather of " in access_drawing(plan)


def test_indices_of_another_shape_are_rejected():
    with pytest.raises(InvalidGatherError, match=r"^expected indices of shape \(3,\), got \(4,\)$"):
        access_drawing(plan_of("gather", "5x4xf32", "3xi64"), np.arange(4))


def test_indices_that_their_dtype_does_not_hold_are_rejected():
    with pytest.raises(InvalidGatherError, match=r"^expected indices that int8 holds, got 1 to 300$"):
        access_drawing(plan_of("gather", "500x4xf32", "2xi8"), np.array([1, 300]))
    with pytest.raises(IndexTypeError):
        access_drawing(plan_of("gather", "500x4xf32", "2xi8"), np.array([1.5, 3.0]))


def test_an_edited_stage_is_drawn_of_given_indices_and_named_otherwise(tmp_path):
    plan = plan_of("gather", "8x4xf32", "6xi64", schedule="tile-loops{loops=indices sizes=2}", bounds="clip")
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


def test_a_gather_too_large_for_given_indices_is_rejected():
    with pytest.raises(InvalidGatherError, match="a gather of 6400 elements is too large to interpret"):
        access_drawing(plan_of("gather", "500x64xf32", "100xi64"), np.arange(100))


def test_an_index_out_of_range_is_an_error():
    with pytest.raises(BoundsError):
        access_drawing(plan_of("gather", "5x4xf32", "3xi64"), np.array([0, 5, 1]))


def test_title_is_escaped_and_the_description_tells_what_is_seen():
    indices = np.array([0, 4])
    root = ElementTree.fromstring(access_drawing(plan_of("gather", "5x4xf32", "2xi64"), indices, title="<&>"))
    assert root.get("aria-label") == "<&>"
    assert "2 of 2 lines are used; thread 0 runs 8 elements; 1 tile" in root.find(f"{SVG}desc").text


def test_a_drawing_is_the_same_every_time():
    first, second = (access_drawing(plan_of("gather", "900x64xf32", "700xi64", schedule=SHARED)) for _ in range(2))
    assert first == second
    assert isinstance(accesses_of(plan_of("gather", "9x64xf32", "7xi64")), Accesses)
