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
from gathernest.lowering.schedule.gradient_heuristic import choose_gradient_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule


def chosen(threads: int = 2, machine: str = "zen4", **sizes) -> Schedule:
    """Return the schedule of a gradient of rows, float32 where nothing else is said."""
    given = {"outer": 1, "axis": 100_000, "indices": 100_000, "inner": 64, "width": 4, **sizes}
    loops = tuple((name, given[name]) for name in ("outer", "indices", "inner"))
    table = tuple((name, given[name]) for name in ("outer", "axis", "inner"))
    shape = NestShape(
        loops,
        (("indices", given["indices"]),),
        given["width"],
        table,
        given.get("scales", False),
        looked_up=frozenset(sizes.get("looked_up", ("indices",))),
        is_packed=given.get("is_packed", True),
        has_packed_rows=given.get("has_packed_rows", True),
    )
    described = BUILT_IN[machine]
    memory = given.get("memory", described.memory_bytes_per_ns)
    return choose_gradient_schedule(shape, replace(described, threads=threads, memory_bytes_per_ns=memory)).schedule


@pytest.mark.parametrize(
    ("inner", "width", "threads", "tile"),
    [(64, 4, 2, 32), (48, 4, 2, 32), (32, 4, 2, 16), (80, 4, 2, 48), (80, 4, 4, 32), (64, 8, 4, 16)],
)
def test_threads_share_rows_in_parts_of_some_lines(inner, width, threads, tile):
    schedule = chosen(threads, axis=1000, indices=50_000, inner=inner, width=width)
    assert dict(schedule.tiles)["inner"] == tile
    assert schedule.order == ("inner_o", "indices", "inner_i")
    assert schedule.parallel[0] == "inner_o"
    assert schedule.owners is None
    assert (schedule.specialize, schedule.lanes) == (inner * width, 32 // width)


def test_rows_that_end_within_a_line_are_shared_where_the_table_is_large():
    assert chosen(axis=10_000, inner=100).parallel == ("check_indices_o", "clear_axis_o")
    assert chosen(axis=10_000, inner=100).owners is None
    assert chosen(axis=41_943, inner=100).parallel[0] != "inner_o"
    assert dict(chosen(axis=41_944, inner=100).tiles)["inner"] == 64
    assert (chosen(3, axis=10_000, inner=100).owners, chosen(4, axis=10_000, inner=100).owners) == (None, ("axis", 4))


def test_more_threads_than_lines_owner_computes_of_a_large_table():
    schedule = chosen(16, indices=90_000)
    assert schedule.owners == ("axis", 16)
    assert schedule.lanes == 8


def test_more_threads_than_lines_share_the_lines_of_a_small_table():
    assert dict(chosen(16, axis=1000).tiles)["inner"] == 16


def test_rows_of_half_a_line_have_owners_and_vectors():
    schedule = chosen(axis=1_000_000, inner=8)
    assert schedule.owners == ("axis", 2)
    assert (schedule.specialize, schedule.lanes) == (32, 8)


@pytest.mark.parametrize(
    "sizes",
    [{"inner": 1}, {"inner": 3}, {"is_packed": False}, {"has_packed_rows": False}, {"looked_up": ("indices", "inner")}],
    ids=str,
)
def test_elements_are_added_one_by_one_where_rows_are_no_vectors(sizes):
    schedule = chosen(**sizes)
    assert (schedule.specialize, schedule.lanes) == (None, None)


@pytest.mark.parametrize(("inner", "width", "lanes"), [(1000, 4, 16), (129, 4, 16), (1000, 8, 8), (16_384, 1, 64)])
def test_long_rows_are_added_as_vectors_by_the_owners_of_their_positions(inner, width, lanes):
    schedule = chosen(axis=1000, inner=inner, width=width)
    assert (schedule.specialize, schedule.lanes) == (None, lanes)
    assert schedule.owners is not None and schedule.owners[0] == "axis"
    assert schedule.parallel[0] == "owners"


@pytest.mark.parametrize(
    ("threads", "axis", "inner", "owners"),
    [(2, 10_000, 1023, 40), (3, 10_000, 1023, 42), (2, 100, 1024, 2), (2, 10_000, 161, 8), (2, 48, 65_537, 4)],
)
def test_owners_of_long_rows_have_parts_that_fit_in_l2_where_listing_indices_costs_little(threads, axis, inner, owners):
    schedule = chosen(threads, axis=axis, inner=inner)
    assert schedule.owners == ("axis", owners)
    assert (schedule.fuse_owned, schedule.compact, dict(schedule.tiles)["indices"]) == (True, "indices_i", 4096)
    assert not schedule.stream


@pytest.mark.parametrize(
    ("threads", "given", "owners", "block"),
    [
        (2, {}, 2, 4096),
        (3, {}, 2, 4096),
        (16, {}, 8, 4096),
        (2, {"width": 8}, 2, 2048),
        (1, {}, None, None),
        (2, {"axis": 200_000}, None, None),
        (2, {"indices": 900_000}, None, None),
        (2, {"width": 2}, None, None),
        (2, {"machine": "zen3"}, None, None),
    ],
    ids=str,
)
def test_owners_list_single_elements_where_the_table_exceeds_l2_and_lanes_are_packed(threads, given, owners, block):
    schedule = chosen(threads, **{"axis": 1_000_000, "indices": 4_000_000, "inner": 1, **given})
    assert schedule.owners == (None if owners is None else ("axis", owners))
    assert schedule.owner_block == block
    assert schedule.next_tile == (None if owners is None else ("indices_i", owners))
    assert schedule.list_lanes == (None if owners is None else 8)


@pytest.mark.parametrize(
    ("given", "tiles"),
    [
        ({"axis": 100_000}, {"axis": 256}),
        ({"axis": 100_000, "inner": 256}, {"axis": 64, "inner": 64}),
        ({"axis": 10_000, "inner": 1024}, {"axis": 16, "inner": 64}),
        ({"axis": 10_000, "inner": 512, "width": 8}, {"axis": 16, "inner": 32}),
        ({"axis": 100_000, "inner": 32}, None),  # rows of 128 B are read as fast as indices are sorted
        ({"axis": 100_000, "inner": 63}, None),
        ({"axis": 10_000, "inner": 1000}, None),  # no whole pieces
        ({"axis": 10_000, "indices": 9000, "inner": 1024}, None),
        ({"axis": 10_000}, None),  # the table stays in the last cache
        ({"axis": 100_000, "scales": True}, None),
        ({"axis": 100_000, "outer": 2}, None),
        ({"axis": 100_000, "memory": 300.0}, None),
    ],
    ids=str,
)
def test_indices_are_sorted_where_rows_of_a_large_table_take_longer_to_read(given, tiles):
    schedule = chosen(**{"indices": 100_000, **given})
    assert schedule.grouped == (None if tiles is None else "indices")
    if tiles is not None:
        assert {name: size for name, size in schedule.tiles if not name.startswith("check")} == tiles
        assert schedule.stream and "axis_o" in schedule.parallel and schedule.owners is None


def test_a_table_of_which_few_rows_are_added_to_is_cleared_before():
    schedule = chosen(axis=100_000, indices=50_000, inner=1024)
    assert (schedule.owners, schedule.fuse_owned, schedule.stream) == (("axis", 2), False, True)


@pytest.mark.parametrize(("inner", "ahead"), [(1023, 2), (161, 12), (65_537, 1)])
def test_slices_of_long_rows_are_prefetched_into_l2(inner, ahead):
    assert chosen(axis=10_000, inner=inner).slices == ("indices_i", ahead, 2)


def test_one_thread_adds_where_it_reads_grad_as_fast_as_memory_delivers_it():
    schedule = chosen(axis=1000, indices=200_000)
    assert not any(not name.startswith(("check", "clear")) for name in schedule.parallel)
    assert schedule.slices == ("indices", 32, 2)
    assert chosen(axis=1000, indices=131_072).slices is None  # grad fits in the last cache
    assert chosen(axis=5000, indices=200_000).slices is None  # the table exceeds L2


def test_threads_share_grad_where_one_of_them_cannot_read_as_fast_as_memory_delivers():
    assert chosen(axis=1000, machine="xeon-avx512", indices=1_000_000).parallel[0] == "inner_o"


def test_long_rows_of_few_positions_are_shared_in_pieces():
    assert chosen(axis=32, inner=1000).owners == ("axis", 2)
    schedule = chosen(axis=31, inner=1000)
    assert dict(schedule.tiles)["inner"] == 256
    assert (schedule.owners, schedule.parallel[0], schedule.lanes) == (None, "inner_o", 16)


@pytest.mark.parametrize(
    ("axis", "inner", "streams"),
    [
        (131_071, 64, False),
        (131_072, 64, True),
        (1_000_000, 12, True),
        (1_000_000, 13, False),
        (1_000_000, 127, False),
        (1_000_000, 129, True),
        (10_000_000, 1, True),
    ],
)
def test_zeros_are_stored_past_the_caches_where_they_are_more_than_the_last_one_holds(axis, inner, streams):
    for threads in (1, 2):
        assert chosen(threads, axis=axis, inner=inner).stream == streams


def test_zeros_of_narrow_elements_are_stored_past_the_caches_in_longer_odd_rows():
    assert chosen(axis=100_000, inner=2064, width=1).stream
    assert not chosen(axis=100_000, inner=2063, width=1).stream
    assert chosen(axis=100_000, inner=16_385, width=1).stream
    assert not chosen(axis=100_000, inner=8191, width=2).stream
    assert chosen(axis=100_000, inner=8193, width=2).stream


def test_zeros_that_are_not_side_by_side_are_stored_as_before():
    assert not chosen(axis=1_000_000, has_packed_rows=False).stream
    assert not chosen(axis=127, outer=100_000, inner=1).stream


def test_outer_slices_are_shared_before_rows():
    schedule = chosen(outer=8)
    assert schedule.parallel[0] == "outer"
    assert schedule.lanes == 8


def test_one_thread_adds_what_is_little():
    assert chosen(indices=100) == Schedule()


def test_one_thread_adds_vectors():
    assert chosen(1, axis=1000) == Schedule(specialize=256, lanes=8)


@pytest.mark.parametrize(("threads", "inner", "ahead", "lines"), [(1, 64, 8, 5), (2, 64, 8, 3), (2, 16, 16, 2)])
def test_rows_that_are_added_to_are_asked_for_ahead(threads, inner, ahead, lines):
    (asked,) = chosen(threads, axis=500_000, inner=inner).prefetch
    assert (asked.loop, asked.distance, asked.lines, asked.locality) == ("indices", ahead, lines, 3)


def test_rows_are_not_asked_for_ahead_where_they_stay_near_or_are_long():
    assert chosen(2, axis=1000, inner=64).prefetch == () == chosen(1, inner=1000).prefetch


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
    with knobs.scope(num_threads=threads):
        out, index = ArraySpec(table, "f4"), ArraySpec(indices, "i8", strides)
        grad = ArraySpec(operator.result_shape(table, indices), "f4")
        plan = make_plan(Problem.checked(operator, out, index, Bounds.ERROR, grad, gradient=Gradient(1.0)))
        assert plan.schedule.lanes == 8
        assert build_program(plan)
