"""Where indices point, in NumPy: as the reference has it, and in few MB however many there are."""

import tracemalloc

import numpy as np
import pytest

from gathernest.ir import reference
from gathernest.ir.errors import BoundsError
from gathernest.ir.positions import BLOCK, NOWHERE, first_outside, reject_negative, resolve
from gathernest.ir.semantics import Bounds


@pytest.mark.parametrize("bounds", list(Bounds))
@pytest.mark.parametrize("size", [0, 1, 100, 127, 128, 129, 255, 256, 300, 2**31, 2**32 + 5, 2**62 + 1])
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_positions_of_every_index_dtype_are_those_of_the_reference(dtype, size, bounds):
    info = np.iinfo(dtype)
    wanted = [0, 1, -1, size, size - 1, -size, -size - 1, size + 1, info.min, info.max, info.max - 1, 255, -128]
    values = [value for value in wanted if info.min <= value <= info.max]
    if bounds is Bounds.UNCHECKED:
        values = [value for value in values if 0 <= value < size]
    got = resolve(np.array(values, dtype), size, bounds)
    assert got.dtype == np.int64
    for value, position in zip(values, got.tolist(), strict=True):
        try:
            expected = reference.resolve(value, size, bounds)
        except BoundsError:
            expected = None
        assert position == (NOWHERE if expected is None else expected)


def test_what_breaks_the_promise_of_unchecked_has_no_position():
    assert resolve(np.array([-3, 0, 3, 4]), 4, Bounds.UNCHECKED).tolist() == [NOWHERE, 0, 3, NOWHERE]


@pytest.mark.parametrize("at", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK + 5])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_the_first_index_outside_is_found_in_any_block_and_all_are_counted(at, step):
    indices = np.zeros(abs(step) * (2 * BLOCK + 9), np.int8)[::step]
    assert first_outside(indices, [5]) is None
    indices[at:] = 5
    assert first_outside(indices, [5]) == ((at,), len(indices) - at)


@pytest.mark.parametrize("shape", [(), (7,), (3, 4, 5), (0, 3)])
def test_the_place_of_an_index_outside_has_the_rank_of_the_indices(shape):
    indices = np.full(shape, 9)
    assert first_outside(indices, [5]) == (((0,) * len(shape), indices.size) if indices.size else None)


def test_components_are_checked_against_their_own_sizes_in_any_block():
    indices = np.zeros((BLOCK, 3), np.uint8)
    indices[:] = 3, 4, 5
    assert first_outside(indices, [4, 5, 6]) is None
    indices[BLOCK - 2 :, 1] = 5
    assert first_outside(indices, [4, 5, 6]) == ((BLOCK - 2, 1), 2)


def test_a_negative_index_is_found_in_a_later_block():
    indices = np.zeros((2, BLOCK), np.int32)
    reject_negative(indices, "openvino.Gather-7")
    indices[1, 3] = -2
    with pytest.raises(BoundsError, match=r"index -2 at position \(1, 3\) of indices is negative"):
        reject_negative(indices, "openvino.Gather-7")


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8"])
def test_looking_at_many_indices_takes_few_mb(dtype):
    indices = np.full((1 << 21, 2), 100, dtype)
    tracemalloc.start()
    assert first_outside(indices, [50, 101]) == ((0, 0), 1 << 21)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
