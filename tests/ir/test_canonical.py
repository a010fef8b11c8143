"""Which dimensions merge, and what a kernel knows of what is left."""

import pytest

from gathernest.ir.canonical import Strided, canonical_gather, dim_names, erased_size, layout_class, view_dims
from gathernest.ir.loop_name import LoopName
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import DYNAMIC


def contiguous(*shape):
    return Strided(shape, None)


def plain(data, indices, out, axis=0, batch_dims=0):
    roles = Gather(axis, batch_dims).roles(len(data.shape), indices.shape)
    return canonical_gather(data, indices, out, roles)


def test_contiguous_dimensions_merge_by_role():
    got = plain(
        contiguous(2, 3, 4, 5, 6, 7), contiguous(2, 8, 9), contiguous(2, 3, 4, 8, 9, 6, 7), axis=3, batch_dims=1
    )
    assert got.data.dims == ("batch", "outer", "axis", "inner")
    assert got.data.groups == ((0,), (1, 2), (3,), (4, 5))
    assert (got.data.shape, got.indices.shape, got.out.shape) == ((2, 12, 5, 42), (2, 72), (2, 12, 72, 42))
    assert got.data.strides is None


def test_role_without_dimensions_has_size_1():
    got = plain(contiguous(5), contiguous(), contiguous())
    assert (got.data.shape, got.indices.shape, got.out.shape) == ((1, 1, 5, 1), (1, 1), (1, 1, 1, 1))
    assert got.out.groups == ((), (), (), ())


def test_dimension_merges_only_where_every_array_lets_it():
    apart = Strided((5, 3, 4), (24, 8, 1))
    got = plain(apart, contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims == ("batch", "outer", "axis", "inner_0", "inner_1")
    assert got.out.shape == (1, 1, 6, 3, 4)
    got = plain(contiguous(5, 3, 4), contiguous(6), Strided((6, 3, 4), (24, 8, 1)))
    assert got.data.shape == (1, 1, 5, 3, 4)


def test_strided_dimensions_that_follow_each_other_merge():
    got = plain(Strided((5, 3, 4), (12, -8, -2)), contiguous(6), contiguous(6, 3, 4))
    assert (got.data.shape, got.data.strides) == ((1, 1, 5, 12), (1, 1, 12, -2))


def test_dimensions_that_run_against_each_other_do_not_merge():
    got = plain(Strided((5, 3, 4), (12, -4, 1)), contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims[-2:] == ("inner_0", "inner_1")


def test_dimension_of_size_1_keeps_no_others_apart():
    got = plain(Strided((5, 3, 1, 4), (12, 4, 999, 1)), contiguous(6), contiguous(6, 3, 1, 4))
    assert got.data.groups[-1] == (1, 3)
    assert got.data.shape == (1, 1, 5, 12)


def test_broadcast_dimension_merges_with_broadcast_ones_only():
    got = plain(Strided((5, 3, 4), (1, 0, 0)), contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims[-1] == "inner"
    got = plain(Strided((5, 3, 4), (4, 0, 1)), contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims[-2:] == ("inner_0", "inner_1")


def test_unknown_strides_and_sizes_merge_where_that_is_sure():
    got = plain(Strided((5, 3, 4), (None, None, 1)), contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims[-2:] == ("inner_0", "inner_1")
    got = plain(contiguous(DYNAMIC, 3, DYNAMIC), contiguous(6), contiguous(6, 3, DYNAMIC))
    assert got.data.shape == (1, 1, DYNAMIC, DYNAMIC)


def test_empty_array_is_contiguous():
    got = plain(Strided((5, 0, 4), (77, 8, 1)), contiguous(6), contiguous(6, 0, 4))
    assert (got.data.shape, got.data.strides) == ((1, 1, 5, 0), None)


def test_elements_of_larger_data_do_not_merge_off_the_axis():
    roles = GatherElements(2).roles(3, (1,) * 3)
    got = canonical_gather(contiguous(4, 6, 9), contiguous(4, 5, 7), contiguous(4, 5, 7), roles)
    assert got.data.dims == ("data_outer_0", "data_outer_1", "axis", "data_inner")
    assert got.out.dims == ("outer_0", "outer_1", "indices", "inner")
    same = canonical_gather(contiguous(4, 5, 9), contiguous(4, 5, 7), contiguous(4, 5, 7), roles)
    assert same.data.shape == (20, 9, 1)


def test_unknown_sizes_of_larger_data_do_not_merge():
    roles = GatherElements(2).roles(3, (1,) * 3)
    got = canonical_gather(contiguous(4, DYNAMIC, 9), contiguous(4, DYNAMIC, 7), contiguous(4, DYNAMIC, 7), roles)
    assert got.data.dims == ("data_outer_0", "data_outer_1", "axis", "data_inner")


def test_dimensions_apart_in_larger_data_do_not_merge():
    roles = GatherElements(3).roles(4, (1,) * 4)
    got = canonical_gather(contiguous(2, 2, 2, 1), contiguous(2, 1, 2, 3), contiguous(2, 1, 2, 3), roles)
    assert (got.data.groups, got.data.strides) == (((0,), (2,), (3,), ()), (4, 1, 1, 1))


def test_prefix_of_larger_data_has_its_own_strides():
    roles = GatherElements(0).roles(2, (1,) * 2)
    got = canonical_gather(contiguous(4, 6), contiguous(7, 1), contiguous(7, 1), roles)
    assert (got.data.shape, got.data.strides) == ((1, 4, 1), (1, 6, 1))


def test_tuples_keep_each_axis_and_their_length():
    roles = GatherNd(1).roles(5, (2, 7, 2))
    got = canonical_gather(contiguous(2, 3, 4, 5, 6), contiguous(2, 7, 2), contiguous(2, 7, 5, 6), roles)
    assert got.data.dims == ("batch", "axis_0", "axis_1", "inner")
    assert dim_names(roles, "data") == ("batch", "axis_0", "axis_1", "inner_0", "inner_1")
    assert (got.data.shape, got.indices.shape, got.out.shape) == ((2, 3, 4, 30), (2, 7, 2), (2, 7, 30))
    assert (got.data.place_of("axis"), got.data.count_of("axis"), got.data.count_of("batch")) == (1, 2, 1)


def test_view_has_the_sizes_and_the_last_strides_of_its_groups():
    assert view_dims(((), (0, 1), (2,)), (3, 4, 5), (40, 10, 2)) == ((1, 12, 5), (0, 10, 2))


@pytest.mark.parametrize(
    ("size", "dim", "known"),
    [(1, "outer", 1), (1, "axis", DYNAMIC), (1, "axis_0", DYNAMIC), (3, "tuple", 3), (3, "inner", DYNAMIC)],
)
def test_kernel_knows_sizes_of_1_and_of_tuples(size, dim, known):
    assert erased_size(size, LoopName(dim)) == known


@pytest.mark.parametrize(
    ("shape", "strides", "known"),
    [
        ((3, 4), None, None),
        ((3, 4), (4, 1), None),
        ((1, 4), (99, 1), None),
        ((3, 4), (8, 1), (None, 1)),
        ((3, 4), (1, 3), (1, None)),
        ((1, 4), (99, 2), (1, None)),
    ],
)
def test_kernel_knows_strides_of_one_element(shape, strides, known):
    assert layout_class(shape, strides, 1) == known
