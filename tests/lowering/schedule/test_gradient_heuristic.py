"""Which schedule a gradient gets from its sizes."""

from dataclasses import replace

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.candidates import choose_gradient_schedule
from gathernest.lowering.schedule.gradient_heuristic import clears_in_vectors, gradient_ways
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule


def shape_of(**sizes) -> NestShape:
    """Return the nest of a gradient of rows, float32 where nothing else is said."""
    given = {"outer": 1, "axis": 100_000, "indices": 100_000, "inner": 64, "width": 4, **sizes}
    loops = tuple((name, given[name]) for name in ("outer", "indices", "inner"))
    table = tuple((name, given[name]) for name in ("outer", "axis", "inner"))
    return NestShape(
        loops,
        (("indices", given["indices"]),),
        given["width"],
        table,
        given.get("scales", False),
        looked_up=frozenset(sizes.get("looked_up", ("indices",))),
        is_packed=given.get("is_packed", True),
        has_packed_rows=given.get("has_packed_rows", True),
    )


def kind_of(schedule: Schedule) -> str:
    """Return how the additions are shared."""
    adding = [name for name in schedule.parallel if not name.startswith(("check", "clear", "scale"))]
    if schedule.owners:
        return "blocks" if schedule.list_lanes else "lists" if schedule.compact else "owners"
    if schedule.slices and not adding:
        return "ahead"
    return {"axis_o": "groups", "inner_o": "rows", "outer": "outer"}[adding[0]] if adding else "alone"


def ways(threads: int = 2, machine: str = "zen4", **sizes) -> dict[str, Schedule]:
    """Return the ways to share the additions of a gradient, by their kind."""
    changes = {name: sizes[name] for name in ("wide_vector_bytes",) if name in sizes}
    described = replace(BUILT_IN[machine], threads=threads, **changes)
    found = [way.schedule for way in gradient_ways(shape_of(**sizes), described)]
    return {kind_of(schedule): schedule for schedule in found}


def chosen(threads: int = 2, machine: str = "zen4", **sizes) -> Schedule:
    """Return the schedule of a gradient."""
    changes = {name: sizes[name] for name in ("memory_bytes_per_ns", "memory_ns") if name in sizes}
    return choose_gradient_schedule(shape_of(**sizes), replace(BUILT_IN[machine], threads=threads, **changes)).schedule


@pytest.mark.parametrize(
    ("inner", "width", "threads", "tile"),
    [(64, 4, 2, 32), (48, 4, 2, 32), (32, 4, 2, 16), (80, 4, 2, 48), (80, 4, 4, 32), (64, 8, 4, 16), (1000, 4, 2, 256)],
)
def test_threads_share_rows_in_parts_of_some_lines(inner, width, threads, tile):
    schedule = ways(threads, axis=1000, inner=inner, width=width)["rows"]
    assert dict(schedule.tiles)["inner"] == tile
    assert schedule.order == ("inner_o", "indices", "inner_i")
    assert schedule.lanes == (32 if inner < 1000 else 64) // width
    assert schedule.specialize == (inner * width if inner < 1000 else None)


def test_rows_that_end_within_a_line_are_shared_where_the_table_is_large():
    assert "rows" not in ways(axis=41_943, inner=100)
    assert dict(ways(axis=41_944, inner=100)["rows"].tiles)["inner"] == 64


def test_ways_are_few_and_the_plainest_comes_first():
    assert list(ways()) == ["alone", "ahead", "rows", "owners", "groups"]
    assert list(ways(1)) == ["alone", "ahead", "groups"]
    assert list(ways(indices=200_000)) == ["ahead", "alone", "rows", "owners", "groups"]  # grad exceeds the last cache
    assert list(ways(axis=1_000_000, indices=4_000_000, inner=1)) == ["alone", "owners", "blocks"]
    assert list(ways(outer=8)) == ["ahead", "alone", "outer"]
    assert list(ways(axis=100, indices=100)) == ["alone"]
    assert "owners" not in ways(axis=31)  # the commonest rows are too much for one of two owners


@pytest.mark.parametrize(
    "sizes",
    [{"inner": 1}, {"inner": 3}, {"is_packed": False}, {"has_packed_rows": False}, {"looked_up": ("indices", "inner")}],
    ids=str,
)
def test_elements_are_added_one_by_one_where_rows_are_no_vectors(sizes):
    schedule = chosen(**sizes)
    assert (schedule.specialize, schedule.lanes) == (None, None)


@pytest.mark.parametrize(
    ("threads", "axis", "inner", "owners"),
    [(2, 10_000, 1023, 40), (3, 10_000, 1023, 42), (2, 100, 1024, 2), (2, 10_000, 161, 8), (2, 48, 65_537, 4)],
)
def test_owners_that_list_have_parts_that_fit_in_l2_where_listing_indices_costs_little(threads, axis, inner, owners):
    schedule = ways(threads, axis=axis, inner=inner)["lists"]
    assert schedule.owners == ("axis", owners)
    assert (schedule.fuse_owned, schedule.compact, dict(schedule.tiles)["indices"]) == (True, "indices_i", 4096)
    assert (schedule.lanes, schedule.prefetch) == (16, ())


@pytest.mark.parametrize(
    ("threads", "given", "owners", "block", "lanes"),
    [
        (2, {}, 2, 4096, 8),
        (3, {}, 2, 4096, 8),
        (16, {}, 8, 4096, 8),
        (2, {"width": 8}, 2, 2048, 8),
        (2, {"machine": "zen3"}, 2, 4096, 4),
    ],
    ids=str,
)
def test_owners_list_single_elements_in_blocks(threads, given, owners, block, lanes):
    schedule = chosen(threads, axis=1_000_000, indices=4_000_000, inner=1, **given)
    assert (schedule.owners, schedule.owner_block) == (("axis", owners), block)
    assert (schedule.next_tile, schedule.list_lanes) == (("indices_i", owners), lanes)


def test_single_elements_of_a_table_in_l2_are_added_by_one_thread():
    """Each owner reads all indices: 1,000,000 float32 into 400 KB take 1.16 times as long by two that list theirs."""
    assert chosen(2, "zen3", axis=100_000, indices=1_000_000, inner=1).owners is None


@pytest.mark.parametrize(
    ("threads", "given"), [(1, {}), (2, {"width": 2}), (2, {"wide_vector_bytes": 16}), (2, {"axis": 8000})], ids=str
)
def test_no_blocks_without_threads_vectors_or_a_block_for_each_owner(threads, given):
    assert "blocks" not in ways(threads, **{"axis": 1_000_000, "indices": 4_000_000, "inner": 1, **given})


@pytest.mark.parametrize(
    ("given", "tiles"),
    [
        ({}, {"axis": 256}),
        ({"inner": 256}, {"axis": 64, "inner": 64}),
        ({"axis": 10_000, "inner": 1024}, {"axis": 16, "inner": 64}),
        ({"axis": 10_000, "inner": 512, "width": 8}, {"axis": 16, "inner": 32}),
        ({"inner": 63}, None),
        ({"axis": 10_000, "inner": 1000}, None),  # no whole pieces
        ({"scales": True}, None),
        ({"outer": 2}, None),
    ],
    ids=str,
)
def test_indices_are_sorted_where_rows_are_whole_vectors(given, tiles):
    schedule = ways(**given).get("groups")
    assert (schedule is None) == (tiles is None)
    if schedule is not None:
        assert {name: size for name, size in schedule.tiles if not name.startswith("check")} == tiles
        assert schedule.stream and schedule.owners is None


@pytest.mark.parametrize(("inner", "ahead"), [(1023, 2), (161, 12), (65_537, 1)])
def test_slices_of_long_rows_are_prefetched_into_l2(inner, ahead):
    assert ways(axis=10_000, inner=inner)["lists"].slices == ("indices_i", ahead, 2)


@pytest.mark.parametrize(("threads", "inner", "ahead", "lines"), [(1, 64, 8, 5), (2, 64, 8, 3), (2, 32, 16, 2)])
def test_rows_that_are_added_to_are_prefetched(threads, inner, ahead, lines):
    (found,) = ways(threads, axis=500_000, inner=inner)["rows" if threads > 1 else "alone"].prefetch
    assert (found.loop, found.distance, found.lines, found.locality) == ("indices", ahead, lines, 3)


def test_rows_are_not_prefetched_where_they_stay_near_or_are_long():
    assert ways(axis=1000)["alone"].prefetch == () == ways(1, inner=1000)["alone"].prefetch


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        ({"axis": 1_000_000, "indices": 400_000, "inner": 8}, "owners"),
        ({"axis": 10_000, "indices": 40_000, "inner": 1024}, "groups"),
        ({"axis": 100, "indices": 200_000}, "ahead"),
        ({"indices": 100_000}, "groups"),
        ({"axis": 2000, "indices": 20_000, "inner": 16}, "alone"),
    ],
    ids=str,
)
def test_choices_for_a_zen4_are_those_that_were_the_fastest(sizes, kind):
    """The fastest of the candidates of `bench --regret`, and of the least processor time among ten."""
    assert kind_of(chosen(**sizes)) == kind


def test_sorting_indices_takes_longer_than_reading_short_rows():
    assert kind_of(chosen(inner=16)) != "groups"


def test_more_threads_than_lines_of_a_row_may_have_parts_of_the_table():
    assert ways(16, axis=1000)["owners"].owners == ("axis", 16)


@pytest.mark.parametrize(
    ("threads", "axis", "indices", "parts"),
    [
        (1, 100_000, 100_000, None),
        (2, 100_000, 100_000, 2),
        (3, 100_000, 100_000, 2),
        (16, 100_000, 100_000, 2),
        (16, 100_000, 1_000_000, 8),
        (16, 1000, 1_000_000, 16),
        (64, 1000, 1_000_000, 16),
        (2, 1_000_000, 400_000, None),
        (2, 1000, 4000, None),
    ],
)
def test_a_sort_is_shared_in_fewer_parts_where_positions_are_many(threads, axis, indices, parts):
    assert ways(threads, axis=axis, indices=indices)["groups"].sort_parts == parts


@pytest.mark.parametrize(
    ("axis", "inner", "can_stream"),
    [(1_000_000, 12, True), (1_000_000, 13, False), (1_000_000, 127, False), (1_000_000, 129, True)],
)
def test_zeros_are_written_with_non_temporal_stores_where_runs_are_whole_or_long(axis, inner, can_stream):
    assert clears_in_vectors(shape_of(axis=axis, inner=inner)) == can_stream


def test_zeros_pass_the_caches_where_they_exceed_them():
    assert chosen(1, axis=4_000_000, inner=12).stream and not chosen(1, axis=20_000, inner=12).stream


def test_zeros_of_narrow_elements_are_stored_past_the_caches_in_longer_odd_rows():
    for inner, width, can_stream in ((2064, 1, True), (2063, 1, False), (16_385, 1, True), (8191, 2, False)):
        assert clears_in_vectors(shape_of(inner=inner, width=width)) == can_stream


def test_zeros_that_are_not_side_by_side_are_stored_as_before():
    assert not clears_in_vectors(shape_of(has_packed_rows=False))
    assert not clears_in_vectors(shape_of(axis=127, outer=100_000, inner=1))


def test_outer_slices_are_shared_before_rows():
    schedule = chosen(outer=8)
    assert schedule.parallel[0] == "outer"
    assert schedule.lanes == 8


def test_one_thread_adds_what_is_little_to_a_small_table():
    assert chosen(axis=100, indices=100) == Schedule()


def test_threads_share_the_zeros_of_a_large_table_to_which_little_is_added():
    """100 rows of 64 in 100,000 of them: two threads take 342 us and one took 437 on a Zen 5, and NumPy's zeros 475."""
    assert chosen(indices=100).parallel


def test_one_thread_adds_vectors():
    assert chosen(1, axis=1000) == Schedule(specialize=256, lanes=8)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("operator", "table", "indices", "strides"),
    [
        (Gather(1, 1), (500, 200, 64), (500, 1), None),
        (Gather(1, 1), (500, 200, 64), (500, 3), None),
        (Gather(1), (3000, 40, 64), (1,), None),
        (Gather(), (100_000, 64), (300, 5), (8, 2400)),
        (GatherNd(1), (3000, 30, 30, 64), (3000, 1, 2), None),
        (GatherNd(), (300, 300, 64), (3000, 2), None),
        (GatherNd(), (1, 30_000, 64), (3000, 2), None),
    ],
)
def test_chosen_schedule_is_legal_for_its_nest(operator, table, indices, strides, threads):
    with knobs.scope(num_threads=threads, machine="zen4"):
        out, index = ArraySpec(table, "f4"), ArraySpec(indices, "i8", strides)
        grad = ArraySpec(operator.result_shape(table, indices), "f4")
        plan = make_plan(Problem.checked(operator, out, index, Bounds.ERROR, grad, gradient=Gradient(1.0)))
        assert plan.schedule.lanes == 8
        assert build_program(plan)


def test_single_elements_by_tuples_are_added_without_lists():
    with knobs.scope(num_threads=2, machine="zen4"):
        out, index, grad = ArraySpec((1000, 600), "f4"), ArraySpec((700_000, 2), "i8"), ArraySpec((700_000,), "f4")
        plan = make_plan(Problem.checked(GatherNd(), out, index, Bounds.ERROR, grad, gradient=Gradient(1.0)))
    assert plan.schedule.list_lanes is None
    assert build_program(plan)
