"""What the schedule of a gather prefetches, chosen from its sizes and the machine."""

from dataclasses import replace

import pytest

from gathernest.lowering.schedule.gather_heuristic import choose_schedule
from gathernest.lowering.schedule.loop_sizes import NestShape

from .nests import MACHINE, chosen, nest


def test_scalars_spread_over_more_than_the_caches_are_asked_for_past_the_first():
    spread = chosen(nest(axis=16_000_000, indices=1_000_000))
    assert "prefetch-indices{loop=indices_i distance=32 lines=1 locality=2}" in spread
    assert "prefetch-indices{loop=indices_i distance=24 " in chosen(nest(axis=16_000_000, indices=100_000))
    assert "prefetch" not in chosen(nest(axis=500_000, indices=1_000_000))
    quarter = MACHINE.l3_bytes // 4 // 4
    assert "prefetch" in chosen(nest(axis=quarter, indices=1_000_000))
    assert "prefetch" not in chosen(nest(axis=quarter - 1, indices=1_000_000))


def test_small_rows_are_asked_for_farther_ahead_with_every_line_that_they_may_touch():
    rows = chosen(nest(axis=1_000_000, indices=400_000, inner=16))
    assert "prefetch-indices{loop=indices_i distance=256 lines=2 locality=2}," in rows
    assert "prefetch-indices{loop=indices_i distance=16 lines=2 locality=3}" in rows


def test_rows_of_a_table_in_the_last_cache_are_asked_for_into_the_first_alone():
    rows = chosen(nest(axis=50_000, indices=20_000, inner=32))
    assert "prefetch-indices{loop=indices_i distance=16 lines=3 locality=3}" in rows
    assert rows.count("prefetch-indices") == 1


def test_elements_of_short_loops_are_asked_for_less_far_ahead():
    copied, table = (("indices", 2048), ("inner", 1024)), (("axis", 8192), ("inner", 1024))
    own = NestShape(copied, (), 4, table, looked_up=frozenset({"indices", "inner"}))
    assert "prefetch-indices{loop=inner distance=8 lines=1 locality=2}" in chosen(own)


def test_short_rows_of_a_table_in_the_last_cache_are_asked_for_into_the_second_alone():
    rows = chosen(nest(axis=100_000, indices=40_000, inner=16))
    assert "prefetch-indices{loop=indices_i distance=256 lines=2 locality=2}" in rows
    assert rows.count("prefetch-indices") == 1


def test_rows_shorter_than_a_line_are_asked_for_where_they_are_spread_over_much_of_the_last_cache():
    assert "prefetch" not in chosen(nest(axis=100_000, indices=400_000, inner=8))
    assert "prefetch-indices{loop=indices_i distance=256 lines=2 locality=2}" in chosen(
        nest(axis=500_000, indices=200_000, inner=8)
    )


def test_long_rows_of_a_table_in_the_last_cache_are_not_asked_for():
    assert "prefetch" in chosen(nest(axis=3000, indices=2000, inner=511))
    assert "prefetch" not in chosen(nest(axis=3000, indices=2000, inner=512))


def test_elements_are_prefetched_by_a_share_of_all_places_where_a_core_has_fewer_under_way():
    assert "distance=12 lines=1 locality=2" in chosen(nest(outer=64, axis=4_000_000, indices=1600))
    assert "distance=3 lines=1 locality=2" in chosen(nest(axis=4_000_000, indices=512 * MACHINE.l1_misses))
    assert "prefetch" not in chosen(nest(axis=4_000_000, indices=512 * MACHINE.l1_misses - 1))


def test_slices_that_are_read_nearly_whole_are_asked_for_whole():
    far = "prefetch-indices{loop=outer_i distance=1 lines=1 locality=2}"
    assert far in chosen(nest(axis=4096, outer=256, indices=2048, inner=2))
    assert far not in chosen(nest(axis=4096, outer=256, indices=600, inner=2))
    assert far not in chosen(nest(axis=4096, outer=8, indices=2048, inner=2))
    assert "loop=outer distance=1 lines=1" in chosen(nest(axis=1000, outer=200, indices=2000, inner=32))


def test_few_slices_are_not_asked_for_whole():
    assert "loop=outer" in chosen(nest(axis=4000, outer=4, indices=8000, inner=32))
    assert "loop=outer" not in chosen(nest(axis=4000, outer=3, indices=8000, inner=32))


def test_slices_that_are_small_or_whose_elements_lie_apart_are_not_asked_for_whole():
    assert "loop=outer" in chosen(nest(axis=128, outer=1000, indices=400, inner=8))
    assert "loop=outer" not in chosen(nest(axis=127, outer=1000, indices=400, inner=8))
    assert "loop=outer" not in chosen(nest(axis=1000, outer=200, indices=2000, inner=32, has_packed_rows=False))


def test_rows_are_not_asked_for_where_each_index_brings_several():
    several = chosen(nest(batch=500, outer=2, axis=9, inner=20_000))
    assert "parallelize-loops{loops=batch,outer}" in several and "prefetch" not in several


def test_slices_are_asked_for_whole_where_they_fit_half_of_the_second_cache():
    assert "loop=outer" in chosen(nest(axis=4096, outer=64, indices=8192, inner=32))
    assert "loop=outer" not in chosen(nest(axis=4097, outer=64, indices=8194, inner=32))


def test_rows_longer_than_a_line_are_asked_for_one_by_one():
    assert "distance=1 lines=1" in chosen(nest(axis=500, outer=200, indices=1000, inner=128))


def columns(outer, axis, indices, inner):
    copied = (("outer", outer), ("indices", indices), ("inner", inner))
    table = (("data_outer", outer), ("axis", axis), ("data_inner", inner))
    return NestShape(copied, (), 4, table, looked_up=frozenset({"outer", "indices", "inner"}))


def test_columns_are_read_in_vectors_while_the_next_slice_is_asked_for():
    asked = "prefetch-indices{loop=outer distance=1 lines=2 locality=2}"
    in_cache, beyond = chosen(columns(16, 512, 256, 128)), chosen(columns(64, 512, 256, 128))
    assert f"vectorize-inner{{lanes=8}},gather-lanes,{asked}" in in_cache and "stream" not in in_cache
    assert f"vectorize-inner{{lanes=8}},gather-lanes,{asked},stream-stores" in beyond
    assert "vectorize" not in chosen(columns(64, 512, 2048, 128))


def test_columns_of_which_few_elements_are_read_are_not_asked_for():
    assert "lines=4" in chosen(columns(64, 512, 128, 128))
    assert "vectorize" not in chosen(columns(64, 512, 127, 128))


def test_what_is_read_again_while_it_is_near_is_not_asked_for():
    assert "prefetch" in chosen(nest(axis=1000, outer=64, indices=500, inner=32))
    assert "prefetch" not in chosen(nest(axis=1000, outer=64, indices=1500, inner=32))


def test_rows_with_indices_of_their_own_are_asked_for_whole():
    later, soon = (f"prefetch-indices{{loop=batch_i distance={n}" for n in ("4 lines=2 locality=2}", "1 lines=2 loc"))
    slow = replace(MACHINE, lane_gather_ns=1.0)
    assert f"lanes=8}},{later},{soon}" in chosen(nest(batch=8192, axis=1024, indices=256), slow)
    assert "prefetch" not in chosen(nest(batch=65536, axis=128, indices=256))


@pytest.mark.parametrize(("indices", "distance", "lines"), [(256, 2, 2), (1024, 1, 1), (64, 2, 8)])
def test_rows_from_memory_are_gathered_while_one_later_row_is_prefetched(indices, distance, lines):
    asked = f"lanes=8}},gather-lanes,prefetch-indices{{loop=batch_i distance={distance} lines={lines} locality=3}}"
    assert asked in chosen(nest(batch=8192, axis=1024, indices=indices))
    assert "gather-lanes" not in chosen(nest(batch=1024, axis=1024, indices=indices))


@pytest.mark.parametrize(("inner", "axes", "distances"), [(16, 1, [256, 16]), (16, 2, [256]), (64, 2, [64, 16])])
def test_short_rows_of_tuples_are_prefetched_into_the_second_cache_alone(inner, axes, distances):
    table = (*(("axis" if at == 0 else f"axis_{at}", 10 ** (6 // axes)) for at in range(axes)), ("inner", inner))
    copied = (("indices", 400_000), ("inner", inner))
    shape = NestShape(copied, (), 4, table, looked_up=frozenset({"indices"}))
    assert [each.distance for each in choose_schedule(shape, MACHINE).schedule.prefetch] == distances
