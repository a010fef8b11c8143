"""What a gather means, as functions of shapes: attributes, shapes, and the words of every rejection."""

import numpy as np
import pytest

from gathernest.ir.errors import InvalidGatherError, did_you_mean
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import (
    DYNAMIC,
    Bounds,
    integer_argument,
    parse_bounds,
    reaches_past,
    resolve_index,
    shapes_agree,
)


@pytest.mark.parametrize(
    ("data", "indices", "given", "expected"),
    [
        ((2, 5), (3,), (-1, 0), (1, 0)),
        ((2, 5), (3,), (-2, 0), (0, 0)),
        ((2, 5), (2, 3), (1, -1), (1, 1)),
        ((2, 5), (2, 3), (1, -2), (1, 0)),
        ((2, 3, 4), (2, 3), (2, 2), (2, 2)),
        ((5,), (), (0, 0), (0, 0)),
        ((DYNAMIC, 5), (2, 3), (1, 1), (1, 1)),
    ],
)
def test_attributes_are_made_non_negative(data, indices, given, expected):
    assert Gather(*given).normalized(data, indices) == Gather(*expected)


def test_shapes_are_those_of_the_documents():
    assert Gather(1, 1).result_shape((2, 64, 128), (2, 32, 21)) == (2, 32, 21, 128)
    assert Gather().result_shape((5, 4), ()) == (4,)
    assert GatherNd(1).result_shape((2, 2, 2), (2, 1)) == (2, 2)
    assert GatherElements(-1).normalized((3, 4), (2, 9)) == GatherElements(1)


@pytest.mark.parametrize("value", [1, np.int8(1), np.array(1), np.array([1], np.uint16), [1], (1,)])
def test_axis_may_be_an_integer_or_an_array_of_one(value):
    assert integer_argument(value, "axis", allow_array=True) == 1


def test_bounds_are_known_by_name():
    assert [parse_bounds(mode.value) for mode in Bounds] == list(Bounds)
    with pytest.raises(
        InvalidGatherError, match=r"bounds 'clipp' is not a bounds mode; use one of .*did you mean 'clip'"
    ):
        parse_bounds("clipp")


def test_index_type_reaches_past_an_axis_it_can_leave():
    assert reaches_past(127, 127)
    assert not reaches_past(127, 128)
    assert reaches_past(127, None)


def test_dynamic_sizes_agree_with_any():
    assert shapes_agree((2, DYNAMIC), (2, 7))
    assert not shapes_agree((2, 3), (2, 7))
    assert not shapes_agree((2,), (2, 7))


def test_only_close_names_are_suggested():
    assert did_you_mean("tile", ["tiles", "x"]) == "; did you mean 'tiles'?"
    assert did_you_mean("qqq", ["tiles"]) == ""


@pytest.mark.parametrize(
    ("bounds", "positions"),
    [
        ("error", [None, 0, 3, 0, 3, None]),
        ("zero", [None, 0, 3, 0, 3, None]),
        ("clip", [0, 0, 0, 0, 3, 3]),
        ("wrap", [3, 0, 3, 0, 3, 0]),
        ("unchecked", [None, None, None, 0, 3, None]),
    ],
)
def test_index_means_a_position_or_none_by_its_mode(bounds, positions):
    resolved = [resolve_index(index, 4, Bounds(bounds)) for index in (-5, -4, -1, 0, 3, 4)]
    assert [position if is_valid else None for position, is_valid in resolved] == positions
