"""The reference against NumPy and against examples worked by hand."""

import numpy as np
import pytest

from gathernest.ir import reference
from gathernest.ir.errors import BoundsError
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import Bounds

DATA = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize(("bounds", "mode"), [(Bounds.CLIP, "clip"), (Bounds.WRAP, "wrap"), (Bounds.ERROR, "raise")])
def test_gather_is_that_of_numpy(axis, bounds, mode):
    indices = np.array([[0, 1], [-1, -2]] if bounds is Bounds.ERROR else [[0, 9], [-9, 3]])
    got = reference.run(Gather(axis), DATA, indices, bounds)
    assert np.array_equal(got, np.take(DATA, indices, axis, mode=mode))


@pytest.mark.parametrize(
    ("index", "size", "bounds", "position"),
    [
        (-4, 4, Bounds.ERROR, 0),
        (3, 4, Bounds.ERROR, 3),
        (-5, 4, Bounds.ZERO, None),
        (4, 4, Bounds.ZERO, None),
        (-1, 4, Bounds.ZERO, 3),
        (0, 0, Bounds.ZERO, None),
        (-1, 4, Bounds.CLIP, 0),
        (2**64 - 1, 4, Bounds.CLIP, 3),
        (-1, 4, Bounds.WRAP, 3),
        (-(2**63), 5, Bounds.WRAP, 2),
        (2**64 - 1, 4, Bounds.WRAP, 3),
        (2, 4, Bounds.UNCHECKED, 2),
    ],
)
def test_index_means_the_position_of_its_mode(index, size, bounds, position):
    assert reference.resolve(index, size, bounds) == position


@pytest.mark.parametrize("index", [4, -5, 2**63, 2**64 - 1, -(2**63)])
def test_index_outside_is_named_with_its_range(index):
    with pytest.raises(BoundsError) as raised:
        reference.resolve(index, 4, Bounds.ERROR)
    assert str(raised.value) == f"index {index} is out of range [-4, 3]"


@pytest.mark.parametrize("bounds", [mode for mode in Bounds if mode is not Bounds.ZERO])
def test_empty_axis_has_no_position(bounds):
    with pytest.raises(BoundsError, match="index 0 on an axis of size 0: no index is valid; use bounds='zero'"):
        reference.resolve(0, 0, bounds)


def test_batch_shares_its_dimension():
    got = reference.run(Gather(1, 1), DATA, np.array([[2, 0], [1, -1]]))
    assert got.tolist() == [DATA[0, [2, 0]].tolist(), DATA[1, [1, 2]].tolist()]


def test_one_component_outside_makes_the_slice_zeros():
    got = reference.run(GatherNd(), DATA, np.array([[0, 1], [1, 9], [9, 0], [-1, -1]]), Bounds.ZERO)
    assert got.tolist() == [[4, 5, 6, 7], [0] * 4, [0] * 4, [20, 21, 22, 23]]


def test_elements_read_their_own_place_off_the_axis():
    got = reference.run(GatherElements(1), DATA, np.array([[[2, 0], [1, 7]]]), Bounds.ZERO)
    assert got.tolist() == [[[8, 1], [4, 0]]]


def test_bytes_move_unconverted():
    data = np.array([2, 255], np.uint8).view(bool)
    assert reference.run(Gather(), data, np.array([1, 0])).view(np.uint8).tolist() == [255, 2]
    nan = np.array([0x7FA00001], np.uint32).view(np.float32)
    assert reference.run(Gather(), nan, np.array([0])).view(np.uint32).tolist() == [0x7FA00001]


def test_zero_of_objects_is_an_empty_string():
    got = reference.run(Gather(), np.array(["a", None], object), np.array([1, 5, 0]), Bounds.ZERO)
    assert got.tolist() == [None, "", "a"]
