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


@pytest.mark.parametrize(
    ("data", "indices", "given", "message"),
    [
        ((), (3,), (0, 0), "data has rank 0 and no axis to gather from; give data at least one dimension"),
        ((2, 5, 3), (3,), (7, 0), "axis 7 is out of range [-3, 2] for data of rank 3"),
        ((2, 5, 3), (3,), (-4, 0), "axis -4 is out of range [-3, 2] for data of rank 3"),
        ((2, 5), (2, 3), (1, 3), "batch_dims 3 is out of range [-2, 2] for data of rank 2 and indices of rank 2"),
        ((2, 5), (3,), (1, -2), "batch_dims -2 is out of range [-1, 1] for data of rank 2 and indices of rank 1"),
        (
            (2, 5),
            (2, 3),
            (0, -1),
            "batch_dims -1 (that is 1) must not be larger than axis 0; lower batch_dims or gather from a later axis",
        ),
        (
            (2, 5),
            (4, 3),
            (1, 1),
            "the first 1 sizes of data and indices must be equal for batch_dims 1, "
            "got data (2, 5) and indices (4, 3): they differ in dimension 0",
        ),
    ],
)
def test_wrong_attributes_say_what_is_allowed(data, indices, given, message):
    with pytest.raises(InvalidGatherError) as raised:
        Gather(*given).normalized(data, indices)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("data", "indices", "batch_dims", "message"),
    [
        ((), (1,), 0, "gather_nd needs data and indices of rank 1 or more, got ranks 0 and 1"),
        ((2, 3), (2, 1), -1, "batch_dims -1 is out of range [0, 1] for gather_nd"),
        ((2, 3), (2, 2), 1, "must be in [1, 1] for data of rank 2 and batch_dims 1, got 2"),
        ((2, 3), (2, 0), 0, "must be in [1, 2] for data of rank 2 and batch_dims 0, got 0"),
        ((2, 3), (2, DYNAMIC), 0, "got an unknown length"),
    ],
)
def test_wrong_tuples_say_what_is_allowed(data, indices, batch_dims, message):
    with pytest.raises(InvalidGatherError) as raised:
        GatherNd(batch_dims).normalized(data, indices)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("data", "indices", "axis", "message"),
    [
        ((2, 3), (2,), 0, "gather_elements needs data and indices of one rank, got 2 and 1"),
        ((2, 3), (3, 3), 1, "indices must not be larger than data off axis 1"),
        ((2, 3), (DYNAMIC, 4), 0, "data (2, 3) and indices (?, 4): dimension 1 is"),
        ((2, 3), (2, 3), 2, "axis 2 is out of range [-2, 1] for data of rank 2"),
    ],
)
def test_wrong_elements_say_what_is_allowed(data, indices, axis, message):
    with pytest.raises(InvalidGatherError) as raised:
        GatherElements(axis).normalized(data, indices)
    assert message in str(raised.value)


def test_shapes_are_those_of_the_documents():
    assert Gather(1, 1).result_shape((2, 64, 128), (2, 32, 21)) == (2, 32, 21, 128)
    assert Gather().result_shape((5, 4), ()) == (4,)
    assert GatherNd(1).result_shape((2, 2, 2), (2, 1)) == (2, 2)
    assert GatherElements(-1).normalized((3, 4), (2, 9)) == GatherElements(1)


@pytest.mark.parametrize("value", [1, np.int8(1), np.array(1), np.array([1], np.uint16), [1], (1,)])
def test_axis_may_be_an_integer_or_an_array_of_one(value):
    assert integer_argument(value, "axis", allow_array=True) == 1


@pytest.mark.parametrize(
    "value", [True, np.bool_(True), 1.0, "1", None, np.array([1, 2]), np.array([[1]]), np.array([1.0])]
)
def test_axis_of_another_kind_is_rejected(value):
    with pytest.raises(InvalidGatherError, match="axis must be an int, a 0-D array or an array of one element, got "):
        integer_argument(value, "axis", allow_array=True)


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
