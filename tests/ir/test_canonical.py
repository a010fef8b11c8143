"""Which dimensions merge, and what a kernel knows of what is left."""

import pytest

from gathernest.ir.canonical import Strided, canonical_gather, erased_size, layout_class, view_dims
from gathernest.ir.loop_name import LoopName
from gathernest.ir.operator_spec import Gather, GatherElements
from gathernest.ir.semantics import DYNAMIC


def contiguous(*shape):
    return Strided(shape, None)


def plain(data, indices, out, axis=0, batch_dims=0):
    roles = Gather(axis, batch_dims).roles(len(data.shape), indices.shape)
    return canonical_gather(data, indices, out, roles)


def test_dimension_merges_only_where_every_array_lets_it():
    apart = Strided((5, 3, 4), (24, 8, 1))
    got = plain(apart, contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims == ("batch", "outer", "axis", "inner_0", "inner_1")
    assert got.out.shape == (1, 1, 6, 3, 4)
    got = plain(contiguous(5, 3, 4), contiguous(6), Strided((6, 3, 4), (24, 8, 1)))
    assert got.data.shape == (1, 1, 5, 3, 4)


def test_unknown_strides_and_sizes_merge_where_that_is_sure():
    got = plain(Strided((5, 3, 4), (None, None, 1)), contiguous(6), contiguous(6, 3, 4))
    assert got.data.dims[-2:] == ("inner_0", "inner_1")
    got = plain(contiguous(DYNAMIC, 3, DYNAMIC), contiguous(6), contiguous(6, 3, DYNAMIC))
    assert got.data.shape == (1, 1, DYNAMIC, DYNAMIC)


def test_unknown_sizes_of_larger_data_do_not_merge():
    roles = GatherElements(2).roles(3, (1,) * 3)
    got = canonical_gather(contiguous(4, DYNAMIC, 9), contiguous(4, DYNAMIC, 7), contiguous(4, DYNAMIC, 7), roles)
    assert got.data.dims == ("data_outer_0", "data_outer_1", "axis", "data_inner")


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
