"""The reference against NumPy and against examples worked by hand."""

import pytest

from gathernest.ir import reference
from gathernest.ir.errors import BoundsError
from gathernest.ir.semantics import Bounds


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
