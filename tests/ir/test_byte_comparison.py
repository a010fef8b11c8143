import ml_dtypes
import numpy as np
import pytest

from gathernest.ir.element_types import first_difference


def test_zeros_of_both_signs_differ_and_the_same_nan_does_not():
    ones = np.array([0.0, np.nan], np.float32)
    assert first_difference(ones, ones.copy()) is None
    assert first_difference(ones, np.array([-0.0, np.nan], np.float32)) == ((0,), 1)


@pytest.mark.parametrize("dtype", [np.int8, ml_dtypes.bfloat16, np.complex128, "S5", object])
def test_first_place_and_the_number_of_places_are_told(dtype):
    wanted = np.arange(12).reshape(3, 4).astype(dtype)
    got = wanted.copy()
    got[1, 2], got[2, 3] = got[0, 0], got[0, 1]
    assert first_difference(got, wanted) == ((1, 2), 2)


@pytest.mark.parametrize("dtype", [np.int32, object])
def test_arrays_without_elements_are_the_same(dtype):
    assert first_difference(np.zeros((0, 3), dtype), np.zeros((0, 3), dtype)) is None


def test_strided_arrays_are_compared_by_their_elements():
    wanted = np.arange(24, dtype=np.int16).reshape(4, 6)
    assert first_difference(wanted[::2, ::3], np.ascontiguousarray(wanted[::2, ::3])) is None
