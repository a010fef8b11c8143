"""The reference of this folder against NumPy itself, where NumPy says the same thing."""

import numpy as np
import pytest

DATA = np.arange(60.0).reshape(3, 4, 5)


@pytest.mark.parametrize(("bounds", "mode"), [("wrap", "wrap"), ("clip", "clip")])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_reference_equals_take_in_the_modes_that_numpy_has(oracle, axis, bounds, mode):
    indices = np.array([[0, -1, 7], [-9, 2, 100]])
    got = oracle.reference(oracle.make(DATA, indices, axis=axis, bounds=bounds))
    assert oracle.same_bytes(got, DATA.take(indices, axis=axis, mode=mode))


def test_reference_equals_indexing_with_negative_indices(oracle):
    indices = np.array([-4, 3, 0])
    assert oracle.same_bytes(oracle.reference(oracle.make(DATA, indices, axis=1, bounds="error")), DATA[:, indices])


def test_reference_equals_take_along_axis_with_every_dimension_a_batch(oracle):
    indices = np.array([[4, -5, 0], [1, 1, 1], [2, 3, 4]])
    got = oracle.reference(oracle.make(DATA[:, 0], indices, axis=1, batch_dims=1))
    assert oracle.same_bytes(got, np.take_along_axis(DATA[:, 0], indices, 1))


def test_reference_gives_zero_bytes_for_an_index_outside(oracle):
    got = oracle.reference(oracle.make(DATA, np.array([4, -5, 1]), axis=1, bounds="zero"))
    assert not got[:, :2].any()
    assert (got[:, 2] == DATA[:, 1]).all()


@pytest.mark.parametrize("index", [4, -5, 2**62])
def test_reference_rejects_an_index_outside(oracle, index):
    with pytest.raises(oracle.out_of_range):
        oracle.reference(oracle.make(DATA, np.array([index]), axis=1, bounds="error"))


@pytest.mark.parametrize("layout", ["reversed", "stepped", "transposed", "padded", "field"])
def test_layouts_keep_the_elements_and_change_the_strides(oracle, layout):
    laid = oracle.lay_out(DATA, layout)
    assert (laid == DATA).all()
    assert laid.strides != DATA.strides


def test_reference_of_tuples_equals_indexing(oracle):
    indices = np.array([[0, -1], [2, 3], [-3, 0]])
    got = oracle.reference(oracle.make(DATA, indices, operator="gather_nd"))
    assert oracle.same_bytes(got, DATA[indices[:, 0], indices[:, 1]])


def test_reference_of_tuples_gives_zeros_when_any_component_is_outside(oracle):
    indices = np.array([[0, 4], [2, 3], [5, 0]])
    got = oracle.reference(oracle.make(DATA, indices, bounds="zero", operator="gather_nd"))
    assert oracle.same_bytes(got, np.stack([np.zeros(5), DATA[2, 3], np.zeros(5)]))


def test_reference_of_elements_equals_take_along_axis(oracle):
    indices = np.array([[[3, -1]], [[0, 2]]])
    got = oracle.reference(oracle.make(DATA, indices, axis=1, operator="gather_elements"))
    assert oracle.same_bytes(got, np.take_along_axis(DATA[:2, :, :2], indices, 1))
