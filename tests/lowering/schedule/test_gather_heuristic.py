"""How the schedule of a gather is chosen from its sizes and the machine."""

import re
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule.candidates import choose_gradient_schedule
from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.tiling import fused_check

from .nests import MACHINE, chosen, nest


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (nest(indices=3, inner=4), ""),
        (nest(indices=100, inner=16), "specialize-inner{bytes=64},vectorize-inner{lanes=8}"),
        (
            nest(indices=20_000, inner=64),
            "specialize-inner{bytes=256},tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o},"
            "vectorize-inner{lanes=8}",
        ),
        (
            nest(axis=1_000_000, indices=100_000, inner=64, checked=True),
            "specialize-inner{bytes=256},tile-loops{loops=indices,check_indices sizes=1024,4096},"
            "parallelize-loops{loops=indices_o,check_indices_o},vectorize-inner{lanes=16},"
            "prefetch-indices{loop=indices_i distance=64 lines=5 locality=2},"
            "prefetch-indices{loop=indices_i distance=16 lines=5 locality=3},stream-stores",
        ),
        (
            nest(axis=2000, indices=1000, inner=16384),
            "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o},vectorize-inner{lanes=8},"
            "prefetch-indices{loop=indices_i distance=1 lines=0 locality=2},stream-stores",
        ),
        (
            nest(axis=64_000, indices=1_000_000),
            "tile-loops{loops=indices sizes=4096},parallelize-loops{loops=indices_o},vectorize-inner{lanes=8}",
        ),
        (
            nest(axis=1024, outer=8192, indices=512),
            "tile-loops{loops=outer,indices sizes=16,4096},"
            "interchange-loops{order=outer_o,indices_o,outer_i,indices_i},parallelize-loops{loops=outer_o},"
            "hoist-indices{before=outer_i},vectorize-inner{lanes=8},"
            "prefetch-indices{loop=outer_i distance=4 lines=1 locality=2},"
            "prefetch-indices{loop=outer_i distance=1 lines=1 locality=3},stream-stores",
        ),
        (
            nest(indices=20_000, inner=64, is_packed=False),
            "specialize-inner{bytes=256},tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o}",
        ),
    ],
)
def test_schedule_fits_the_sizes(shape, expected):
    assert chosen(shape) == expected


def test_what_fits_the_caches_is_neither_asked_for_nor_streamed():
    shape = nest(axis=1_000_000, indices=100_000, inner=64)
    large = replace(MACHINE, l2_bytes=1 << 30, l3_bytes=1 << 31)
    assert "prefetch" in chosen(shape) and "stream" in chosen(shape)
    assert "prefetch" not in chosen(shape, large) and "stream" not in chosen(shape, large)


def large(width, inner):
    """Return a schedule of rows of so many elements, which are far more than the caches hold."""
    return chosen(nest(axis=2_000_000, indices=40_000_000 // (width * inner), inner=inner, width=width))


@pytest.mark.parametrize(
    ("width", "inner", "expected"),
    [
        (4, 64, "vectorize-inner{lanes=16}"),
        (4, 24, "vectorize-inner{lanes=8}"),
        (4, 20, "vectorize-inner{lanes=4}"),
        (4, 4, "vectorize-inner{lanes=4}"),
        (4, 25, "vectorize-inner{lanes=4}"),
        (1, 255, "vectorize-inner{lanes=16}"),
        (1, 257, "vectorize-inner{lanes=32}"),
        (16, 7, "vectorize-inner{lanes=2}"),
        (16, 8, "vectorize-inner{lanes=4}"),
        (4, 1001, "vectorize-inner{lanes=8}"),
        (4, 512, "vectorize-inner{lanes=8},prefetch-indices{loop=indices_i distance=8 lines=0"),
        (1, 16384, "vectorize-inner{lanes=32}"),
    ],
)
def test_rows_past_the_caches_are_stored_in_vectors_that_fill_them_or_overlap(width, inner, expected):
    schedule = large(width, inner)
    assert expected in schedule and schedule.endswith("stream-stores")


@pytest.mark.parametrize(("width", "least"), [(4, 25), (1, 97), (2, 49), (8, 13), (16, 7)])
def test_odd_rows_are_stored_past_the_caches_from_a_line_and_a_half_on(width, least):
    assert "stream-stores" in large(width, least)
    assert "stream-stores" not in large(width, least - 2)


def test_long_odd_rows_of_narrow_elements_are_made_code_for_or_have_cached_ends():
    assert "specialize-inner{bytes=16383}" in large(1, 16383) and "stream" in large(1, 16383)
    assert "specialize" not in large(1, 16385) and "stream" in large(1, 16385)
    assert "specialize" not in large(4, 513) and "stream" in large(4, 513)


@pytest.mark.parametrize(("width", "count"), [(4, 128), (4, 129), (2, 256), (2, 8193), (16, 33)])
def test_elements_from_places_of_their_own_are_stored_past_the_caches_in_long_runs(width, count):
    def runs(count):
        return chosen(nest(outer=200_000_000 // (width * count), axis=4 * count, indices=count, width=width))

    assert "stream-stores" in runs(count)
    assert "stream-stores" not in runs(count - 2)
    assert "stream-stores" not in runs(count - 1 & -8 if count % 8 == 0 else 8)


@pytest.mark.parametrize(
    ("width", "inner", "expected"),
    [
        (1, 16, "specialize-inner{bytes=16},vectorize-inner{lanes=16}"),
        (4, 2, "specialize-inner{bytes=8},vectorize-inner{lanes=2}"),
        (2, 3, "specialize-inner{bytes=6},vectorize-inner{lanes=2}"),
        (4, 6, "specialize-inner{bytes=24},vectorize-inner{lanes=4}"),
        (1, 50, "specialize-inner{bytes=50},vectorize-inner{lanes=32}"),
        (4, 250, "specialize-inner{bytes=1000},vectorize-inner{lanes=8}"),
        (4, 256, "vectorize-inner{lanes=8}"),
        (4, 510, "specialize-inner{bytes=2040},vectorize-inner{lanes=8}"),
        (4, 514, "vectorize-inner{lanes=8}"),
    ],
)
def test_rows_are_copied_in_vectors_of_which_the_last_may_overlap(width, inner, expected):
    assert chosen(nest(indices=4096 // (width * inner) + 1, inner=inner, width=width)) == expected


@pytest.mark.parametrize(
    ("width", "count", "expected"),
    [
        (4, 2, ""),
        (4, 3, "specialize-inner{bytes=12},vectorize-inner{lanes=2}"),
        (4, 6, "specialize-inner{bytes=24},vectorize-inner{lanes=4}"),
        (8, 7, "specialize-inner{bytes=56},vectorize-inner{lanes=4}"),
        (1, 7, "specialize-inner{bytes=7},vectorize-inner{lanes=4}"),
        (4, 10, "specialize-inner{bytes=40},vectorize-inner{lanes=4}"),
        (2, 20, "specialize-inner{bytes=40},vectorize-inner{lanes=8}"),
        (1, 64, "specialize-inner{bytes=64},vectorize-inner{lanes=8}"),
        (4, 65, "vectorize-inner{lanes=8}"),
    ],
)
def test_few_elements_with_an_index_each_are_copied_without_a_loop(width, count, expected):
    assert chosen(nest(batch=4096 // (width * count) + 1, indices=count, width=width)) == expected
    assert "specialize" not in chosen(nest(outer=4096, indices=count, width=width))  # indices that repeat are staged


def test_only_few_elements_of_long_slices_are_copied_without_a_loop():
    assert "specialize" in chosen(nest(batch=1000, axis=255, indices=8))
    assert "specialize" not in chosen(nest(batch=1000, axis=256, indices=8))
    assert "specialize" in chosen(nest(batch=1000, axis=256, indices=7))


def test_whole_vectors_of_rows_of_known_size_are_streamed():
    assert "stream" in chosen(nest(batch=1_000_000, axis=16, indices=12))
    assert "stream" not in chosen(nest(batch=1_000_000, axis=16, indices=10))  # elements at the ends would be peeled


def test_new_results_check_a_few_rows_of_known_size_at_a_time():
    rows = nest(batch=100_000, axis=16, indices=12, checked=True)
    schedule = choose_schedule(rows, MACHINE).schedule
    assert ("batch_i", 22) in schedule.tiles
    assert fused_check(rows, schedule, MACHINE) == ("batch_i_o", True)


def test_vectors_of_elements_with_an_index_each_are_no_wider_than_32_bytes():
    wide = replace(MACHINE, vector_bytes=64)
    assert chosen(nest(batch=2, indices=1000), wide) == "vectorize-inner{lanes=8}"
    assert chosen(nest(indices=100, inner=16), wide) == "specialize-inner{bytes=64},vectorize-inner{lanes=16}"


def test_rows_whose_elements_lie_apart_end_with_single_ones():
    assert chosen(nest(indices=10, inner=250, has_packed_rows=False)) == "vectorize-inner{lanes=8}"


def test_rows_of_elements_of_sixteen_bytes_are_copied_in_vectors_beyond_the_caches_too():
    assert "vectorize-inner{lanes=4}" in chosen(nest(axis=1_000_000, indices=100_000, inner=8, width=16))


def test_lanes_that_miss_the_caches_are_gathered_where_that_takes_little_longer():
    assert "gather-lanes" in chosen(nest(axis=200_000, indices=10_000))
    assert "gather-lanes" not in chosen(nest(axis=600_000, indices=10_000))  # prefetched loads are as fast
    assert "gather-lanes" in chosen(nest(batch=500, axis=4096, indices=900))
    assert "gather-lanes" in chosen(nest(axis=100_000, indices=10_000, width=8))
    slow = replace(MACHINE, lane_gather_ns=2 * MACHINE.lane_load_ns)
    assert "gather-lanes" not in chosen(nest(axis=200_000, indices=10_000), slow)


def test_lanes_in_the_caches_are_gathered_where_that_takes_less_time():
    shapes = nest(axis=1000, indices=10_000), nest(batch=1500, axis=1024, indices=500), nest(axis=10**7, indices=10**6)
    fast = replace(MACHINE, lane_gather_ns=MACHINE.lane_load_ns / 2)
    for shape in shapes:
        assert "gather-lanes" not in chosen(shape)
        assert "gather-lanes" in chosen(shape, fast)


def test_only_lanes_of_four_and_eight_bytes_at_single_indices_are_gathered():
    assert "gather-lanes" not in chosen(nest(axis=10**6, indices=10_000, width=2))
    assert "gather-lanes" not in chosen(nest(axis=10**6, indices=10_000, inner=16))
    pairs = replace(nest(axis=10**3, indices=10_000), table=(("axis_0", 1000), ("axis_1", 1000)))
    assert "gather-lanes" not in chosen(pairs)


def test_a_large_result_is_stored_past_the_caches_where_data_does_not_stay_in_them():
    rows = nest(axis=130_000, indices=20_000, inner=64)
    assert rows.moved_bytes < MACHINE.l3_bytes < rows.table_bytes + rows.out_bytes
    assert "stream-stores" in chosen(rows)
    assert "stream-stores" not in chosen(nest(axis=130_000, indices=10_000, inner=64))


@pytest.mark.parametrize(
    ("indices", "width", "lanes", "is_staged"),
    [
        *((4, width, 4, False) for width in (2, 4, 8)),
        *((count, 4, None, False) for count in (2, 3, 5, 6)),
        *((8, 1, 8, True), (8, 2, 8, True), (8, 4, 8, True), (16, 2, 16, True), (12, 2, None, False)),
    ],
)
def test_few_elements_a_row_are_vectors_where_they_fill_them(indices, width, lanes, is_staged):
    """Indices of four are resolved for each row, and of more before the rows of a tile."""
    schedule = chosen(nest(axis=16, outer=500_000, indices=indices, width=width))
    vectors = re.findall(r"vectorize-inner{lanes=(\d+)}", schedule)
    assert (vectors, "hoist-indices" in schedule) == ([] if lanes is None else [str(lanes)], is_staged)


def test_few_indices_are_checked_by_one_thread():
    assert "check" not in chosen(nest(indices=15_000, inner=64, checked=True))
    assert "check" in chosen(nest(indices=20_000, inner=64, checked=True))


def test_each_pass_has_its_reason():
    choice = choose_schedule(nest(axis=1_000_000, indices=100_000, inner=64), MACHINE)
    text = "; ".join(choice.reasons)
    for words in (
        "part of the code",
        "indices_o parallel, in tiles of",
        "64 B at a time",
        "prefetched 64 rows ahead into L2 and 16 rows ahead into L1",
        "non-temporal stores",
    ):
        assert words in text


SIZES = st.sampled_from([1, 2, 3, 17, 500, 5000, 70_000])


@pytest.mark.thorough
@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    *(SIZES, SIZES, SIZES, SIZES),
    st.sampled_from([Bounds.ERROR, Bounds.ZERO, Bounds.WRAP]),
    st.sampled_from(["packed", "strided", "reversed"]),
    st.sampled_from(["i1", "f4", "c16", "S12"]),
    st.sampled_from(["i8", "u4"]),
)
def test_chosen_schedule_is_legal_for_its_nest(batch, outer, indices, inner, bounds, layout, dtype, index_dtype):
    assume(16 * batch * outer * indices * inner < 2**63)  # a result of more bytes is rejected
    unit = {"packed": None, "strided": (-1, 0, 1, 5, 1, 0), "reversed": (9, 9, 9, 9, -1, 1)}[layout]
    strides = unit and [int(dtype[1:]) * stride for stride in unit]
    data = ArraySpec((batch, outer, 1, 9, inner, 1), dtype, strides)
    problem = Problem.checked(Gather(3, 1), data, ArraySpec((batch, indices), index_dtype), bounds)
    plan = make_plan(problem)
    assert make_plan(problem) == plan
    assert ("share(team, " in build_program(plan).source) == bool(plan.schedule.parallel)


def nests_of_sizes(sizes):
    """Return (nest, is a gradient) of every operator, on data and indices with each of the sizes at every place."""
    nests = set()
    for batch, axis, inner, count in product(sizes, repeat=4):
        indices = [(Gather(1), (count,)), (Gather(2, 1), (batch, count)), (GatherNd(), (batch, count, 2))]
        indices += [(GatherNd(1), (batch, count, 1)), (GatherElements(1), (batch, count, inner))]
        for (operator, shape), gradient in product(indices, (None, Gradient(2.0))):
            specs = ArraySpec((batch, axis, inner), "f4"), ArraySpec(shape, "i8")
            plan = make_plan(Problem.checked(operator, *specs, Bounds.ERROR, gradient=gradient), Schedule())
            nests.add((plan.layout.nest, gradient is not None))
    return nests


@pytest.mark.thorough
def test_a_schedule_is_chosen_for_sizes_of_zero_at_every_place():
    nests, sizes = nests_of_sizes((0, 3, 5000)), ((12, 16), (20, 25))
    assert len(nests) > 300
    machines = [
        replace(MACHINE, l2_bytes=1 << l2, l3_bytes=1 << l3, threads=threads)
        for (l2, l3), threads in product(sizes, (1, 2, 64))
    ]
    for (shape, is_gradient), machine in product(nests, machines):
        schedule = (choose_gradient_schedule if is_gradient else choose_schedule)(shape, machine).schedule
        assert Schedule.parse(str(schedule)) == schedule
