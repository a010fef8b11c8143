"""The text of every error about arguments: what was got, what is allowed, how to mend it."""

import re
import tracemalloc
import warnings
from functools import partial

import numpy as np
import pytest

import gathernest as gn

pytestmark = pytest.mark.usefixtures("serial")

DATA = np.arange(24.0).reshape(2, 3, 4)

CONVERT = "; convert them, for instance with numpy.asarray(indices).astype('int64')"
MASK = "; for a mask, pass numpy.flatnonzero(mask)"
PASS = "; pass an array or a list of integers"
TOO_LONG = "integers that no one dtype holds; an index dtype has at most 64 bits, signed or unsigned"
INDEX_ERRORS = [
    ([0.5], f"dtype float64{CONVERT}"),
    (np.array([1.0]), f"dtype float64{CONVERT}"),
    ([np.nan], f"dtype float64{CONVERT}"),
    ([True, False], f"dtype bool{MASK}"),
    (np.array([True]), f"dtype bool{MASK}"),
    ([None], f"dtype object{PASS}"),
    (np.array([1], object), f"dtype object{CONVERT}"),
    (["1"], f"dtype <U1{PASS}"),
    ([1j], f"dtype complex128{PASS}"),
    (np.array([1], "M8[s]"), f"dtype datetime64[s]{PASS}"),
    (np.array([1], "m8[s]"), f"dtype timedelta64[s]{PASS}"),
    (np.array([], float), f"dtype float64{CONVERT}"),
    (np.zeros((0, 2), bool), f"dtype bool{MASK}"),
    ([2**64], TOO_LONG),
    ([2**63, -1], f"dtype float64{CONVERT}"),
    (np.array([(1,)], [("i", "i8")]), f"dtype [('i', '<i8')]{PASS}"),
    (None, f"NoneType{PASS}"),
    ((number for number in [0]), f"generator{PASS}"),
    (slice(2), f"slice{PASS}"),
    (1.0, f"dtype float64{CONVERT}"),
]


@pytest.mark.parametrize(("indices", "got"), INDEX_ERRORS, ids=[f"{number}" for number in range(len(INDEX_ERRORS))])
def test_indices_that_are_no_integers_are_a_type_error(indices, got):
    with pytest.raises(TypeError) as caught:
        gn.gather(DATA, indices)
    assert isinstance(caught.value, gn.IndexTypeError)
    assert str(caught.value) == f"indices must be integers, got {got}"


@pytest.mark.parametrize("name", ["data", "indices"])
def test_masked_arrays_and_ragged_lists_are_rejected_by_name(name):
    arguments = {"data": DATA, "indices": [0]}
    masked = np.ma.masked_array([1, 2, 3], [0, 1, 0])
    with pytest.raises(gn.InvalidGatherError, match=f"{name} is a masked array, and its mask would be lost"):
        gn.gather(**arguments | {name: masked})
    with pytest.raises(gn.InvalidGatherError, match=f"{name} does not make an array: .*inhomogeneous"):
        gn.gather(**arguments | {name: [[1], [2, 3]]})


ROWS, M = DATA[0], np.ma.masked
MASKED = {
    "data": (gn.gather, [1.0, M], [0]),
    "indices": (gn.gather, ROWS, [[0, 1], [2, M]]),
    "offsets": (gn.gather_reduce, ROWS, [0, 1, 2], [0, M]),
    "weights": (partial(gn.gather_reduce, weights=[[1.0, M]]), ROWS, [[0, 1]]),
    "scale": (partial(gn.gather_grad, scale=M), ROWS[:1], [0], (3, 4)),
    "the fill value": (partial(gn.gather, bounds=gn.Fill(M)), ROWS, [9]),
}


@pytest.mark.parametrize(("name", "call"), MASKED.items(), ids=MASKED)
def test_a_masked_element_is_rejected_by_name_without_a_warning_of_numpy(name, call):
    function, *arguments = call
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(gn.InvalidGatherError, match=f"^{name} (has|is) a masked "):
            function(*arguments)


LONG = {"list": [0.5] * 3000, "words": "ab cd " * 3000, "shape": (1,) * 3000}
LONG["names"] = dict.fromkeys(range(3000), "x y")


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
@pytest.mark.parametrize(
    "call",
    [
        lambda value: gn.gather_grad(ROWS[:1], [0], value),
        lambda value: gn.Schedule(value),
        lambda value: gn.Schedule.parse(value),
        lambda value: gn.ArraySpec((3,), value),
        lambda value: gn.ArraySpec.parse(value),
        lambda value: gn.compile("gather", ROWS, [0], pipeline=value),
        lambda value: gn.schedule("gather", ROWS, [0]).tile(value, 4),
        lambda value: gn.schedule("gather", ROWS, [0]).tile("indices", value),
        lambda value: gn.schedule("gather", ROWS, [0]).from_transform(value),
        lambda value: gn.run_stage(value, ROWS, [0]),
    ],
)
@pytest.mark.draw(16)
def test_a_long_value_is_shortened_in_its_error(call, value):
    with pytest.raises(gn.GathernestError) as caught:
        call(value)
    assert max(map(len, str(caught.value).splitlines())) < 1000


AXIS = "axis must be an int, a 0-D array or an array of one element"
RANK_0 = "data has rank 0 and no axis to gather from; give data at least one dimension"
MODES = "is not a bounds mode; use one of error, zero, clip, wrap, unchecked"
LOWER = "lower batch_dims or gather from a later axis"


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, int)


def differ(count: int, data: tuple[int, ...], indices: tuple[int, ...], dimension: int) -> str:
    return (
        f"the first {count} sizes of data and indices must be equal for batch_dims {count}, got data {data} and "
        f"indices {indices}: they differ in dimension {dimension}"
    )


ATTRIBUTE_ERRORS = [
    *((DATA, [0], {"axis": axis}, f"axis {axis} is out of range [-3, 2] for data of rank 3") for axis in (3, -4)),
    (DATA, [0], {"axis": 2**70}, f"{AXIS}, of at most 64 bits, got {2**70}"),
    (5.0, [0], {}, RANK_0),
    (np.array(5), 0, {"axis": -1}, RANK_0),
    *(
        (data, indices, {"axis": axis, "batch_dims": count}, f"batch_dims {count} is out of range {allowed}")
        for data, indices, axis, count, allowed in [
            (DATA, [0], 2, 2, "[-1, 1] for data of rank 3 and indices of rank 1"),
            (DATA, [0], 2, -2, "[-1, 1] for data of rank 3 and indices of rank 1"),
            (zeros(2), zeros(2, 1, 1), 0, 2, "[-3, 1] for data of rank 1 and indices of rank 3"),
            (DATA, 0, 0, 1, "[0, 0] for data of rank 3 and indices of rank 0"),
        ]
    ),
    (DATA, zeros(2, 3), {"axis": 0, "batch_dims": 1}, f"batch_dims 1 must not be larger than axis 0; {LOWER}"),
    (
        *(DATA, zeros(2, 3, 1), {"axis": 1, "batch_dims": -1}),
        f"batch_dims -1 (that is 2) must not be larger than axis 1; {LOWER}",
    ),
    (DATA, zeros(2, 4, 5), {"axis": 2, "batch_dims": 2}, differ(2, (2, 3, 4), (2, 4, 5), 1)),
    (DATA, zeros(1, 5), {"axis": 1, "batch_dims": 1}, differ(1, (2, 3, 4), (1, 5), 0)),
    (zeros(0, 3), zeros(1, 0), {"axis": 1, "batch_dims": 1}, differ(1, (0, 3), (1, 0), 0)),
    *(
        (DATA, [0], {"bounds": bounds}, f"bounds {bounds!r} {MODES}{more}")
        for bounds, more in [
            ("zeros", "; did you mean 'zero'?"),
            ("raise", ""),
            ("fill", "; a gather takes gathernest.Fill(value), too"),
            (None, ""),
            (["zero"], "; did you mean 'zero'?"),
        ]
    ),
    *((DATA, [0], {"axis": axis}, f"{AXIS}, got {axis!r}") for axis in (None, 1.0, "1", True, [0, 1], [True])),
    *(
        (DATA, [0], {"axis": axis}, f"{AXIS}, got an array of shape {np.shape(axis)} and dtype {axis.dtype}")
        for axis in (np.bool_(True), np.array([0, 1]), np.array([[1]]), np.array(1.0))
    ),
    *((DATA, [0], {"batch_dims": each}, f"batch_dims must be an int, got {each!r}") for each in (0.0, False, None)),
    (DATA, [0], {"batch_dims": zeros(1)}, "batch_dims must be an int, got an array of shape (1,) and dtype int64"),
    (
        *(zeros(*[1] * 64), [[0, 0]], {}),
        "the result of data of rank 64 and indices of rank 2 has rank 65, and NumPy's arrays have at most 64; "
        "merge dimensions of one of them first",
    ),
]


@pytest.mark.parametrize(("data", "indices", "attributes", "message"), ATTRIBUTE_ERRORS)
def test_attributes_that_do_not_fit_are_rejected(data, indices, attributes, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$") as caught:
        gn.gather(data, indices, **attributes)
    assert isinstance(caught.value, gn.InvalidGatherError)


FIVE = "is out of range [-5, 4] for axis 0 of size 5"
BOUNDS_ERRORS = [
    (np.zeros(5), [1, 7, 2], 0, f"index 7 at position (1,) of indices {FIVE}"),
    (np.zeros(5), [1, -6], 0, f"index -6 at position (1,) of indices {FIVE}"),
    (np.zeros(5), 5, 0, f"index 5 at position () of indices {FIVE}"),
    (np.zeros(5), [-5, 5], 0, f"index 5 at position (1,) of indices {FIVE}"),
    (np.zeros(5), np.array([0, 2**64 - 1], np.uint64), 0, f"index {2**64 - 1} at position (1,) of indices {FIVE}"),
    (np.zeros(5), np.uint64(2**63), 0, f"index {2**63} at position () of indices {FIVE}"),
    (np.zeros(5), [-(2**63)], 0, f"index {-(2**63)} at position (0,) of indices {FIVE}"),
    (DATA, [[0, 1], [2, 9]], -1, "index 9 at position (1, 1) of indices is out of range [-4, 3] for axis 2 of size 4"),
    (
        *(DATA, [[4, 1], [-5, 9]], 2),
        "index 4 at position (0, 0) of indices is out of range [-4, 3] for axis 2 of size 4 "
        "(3 of 4 indices are out of range)",
    ),
    (
        *(np.zeros(2), [2**32 + 1], 0),
        f"index {2**32 + 1} at position (0,) of indices is out of range [-2, 1] for axis 0 of size 2",
    ),
    (np.zeros((4, 0)), [4], 0, "index 4 at position (0,) of indices is out of range [-4, 3] for axis 0 of size 4"),
]
REMEDY = "; use bounds='zero', 'clip' or 'wrap' to allow it"


@pytest.mark.parametrize(("data", "indices", "axis", "message"), BOUNDS_ERRORS)
def test_an_index_outside_is_named_with_its_place_and_the_valid_range(data, indices, axis, message):
    with pytest.raises(IndexError) as caught:
        gn.gather(data, indices, axis)
    assert isinstance(caught.value, gn.BoundsError)
    assert str(caught.value) == message + REMEDY


@pytest.mark.parametrize("bounds", ["error", "clip", "wrap", "unchecked"])
def test_an_empty_axis_rejects_every_index(bounds):
    with pytest.raises(gn.BoundsError) as caught:
        gn.gather(np.zeros((3, 0, 2)), [[0, 1]], 1, bounds=bounds)
    assert str(caught.value) == (
        "axis 1 of data has size 0, so none of the 2 indices is valid "
        f"with bounds='{bounds}'; pass no indices, or bounds='zero' to get zeros"
    )


def test_an_empty_axis_gives_zeros_with_zero():
    assert gn.gather(np.zeros((3, 0, 2)), [[0, 1]], 1, bounds="zero").tolist() == np.zeros((3, 1, 2, 2)).tolist()


@pytest.mark.parametrize("bounds", ["error", "zero", "clip", "wrap", "unchecked"])
def test_no_indices_give_an_empty_result_on_an_empty_axis(bounds):
    assert gn.gather(np.zeros((3, 0, 2)), np.zeros((0, 4), int), 1, bounds=bounds).shape == (3, 0, 4, 2)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (2, 0, 4)])
def test_validation_does_not_depend_on_an_empty_result(shape):
    data = np.zeros(shape)
    axis = shape.index(4)
    assert 0 in gn.gather(data, [3, -4], axis).shape
    with pytest.raises(gn.BoundsError, match="index 4 at position"):
        gn.gather(data, [3, 4], axis)


def test_validation_does_not_depend_on_an_empty_result_of_references():
    with pytest.raises(gn.BoundsError, match="index 4 at position"):
        gn.gather(np.zeros((4, 0), object), [3, 4])


@pytest.mark.parametrize(
    ("shape", "indices", "batch_dims", "message"),
    [
        ((3,), 0, 0, "gather_nd needs data and indices of rank 1 or more, got ranks 1 and 0"),
        ((), [0], 0, "gather_nd needs data and indices of rank 1 or more, got ranks 0 and 1"),
        (
            (3,),
            np.zeros((2, 0), int),
            0,
            "the last size of indices is the length of the tuples and must be in [1, 1] "
            "for data of rank 1 and batch_dims 0, got 0",
        ),
        (
            (3, 3),
            [[0, 0, 0]],
            0,
            "the last size of indices is the length of the tuples and must be in [1, 2] "
            "for data of rank 2 and batch_dims 0, got 3",
        ),
        (
            (3, 3),
            [[0]] * 3,
            2,
            "batch_dims 2 is out of range [0, 1] for gather_nd with data of rank 2 and indices of rank 2",
        ),
        (
            (3, 3),
            [[0]] * 3,
            -1,
            "batch_dims -1 is out of range [0, 1] for gather_nd with data of rank 2 and indices of rank 2",
        ),
    ],
)
def test_gather_nd_rejects_what_does_not_fit(shape, indices, batch_dims, message):
    with pytest.raises(gn.InvalidGatherError, match=f"^{re.escape(message)}$"):
        gn.gather_nd(np.zeros(shape), indices, batch_dims=batch_dims)


@pytest.mark.parametrize(
    ("shape", "indices", "axis", "message"),
    [
        ((3, 3), [0], 0, "gather_elements needs data and indices of one rank, got 2 and 1"),
        (
            (3, 3),
            np.zeros((2, 4), int),
            0,
            "indices must not be larger than data off axis 0, got data (3, 3) and indices (2, 4): dimension 1 is",
        ),
        ((3, 3), np.zeros((2, 2), int), 2, "axis 2 is out of range [-2, 1] for data of rank 2"),
    ],
)
def test_gather_elements_rejects_what_does_not_fit(shape, indices, axis, message):
    with pytest.raises(gn.InvalidGatherError, match=f"^{re.escape(message)}$"):
        gn.gather_elements(np.zeros(shape), indices, axis)


def test_gather_nd_names_the_component_and_its_axis():
    with pytest.raises(
        gn.BoundsError,
        match=r"index 5 at position \(1, 1\) of indices is out of range \[-4, 3\] "
        "for axis 1 of size 4",
    ):
        gn.gather_nd(np.zeros((3, 4)), [[0, 0], [1, 5]])


def test_gather_elements_names_the_place():
    with pytest.raises(
        gn.BoundsError,
        match=r"index 4 at position \(1, 0\) of indices is out of range \[-4, 3\] "
        "for axis 1 of size 4",
    ):
        gn.gather_elements(np.zeros((3, 4)), [[0, 0], [4, 0]], 1)


def test_an_error_of_many_indices_takes_few_mb():
    indices, data = np.full(1 << 23, 100, np.int8), np.zeros(101, np.int8)
    out = np.empty(indices.shape, data.dtype)
    gn.gather(data, indices, out=out)
    indices[-3:] = 101
    tracemalloc.start()
    with pytest.raises(gn.BoundsError, match=r"index 101 at position \(8388605,\) .* \(3 of 8388608 indices are out"):
        gn.gather(data, indices, out=out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
