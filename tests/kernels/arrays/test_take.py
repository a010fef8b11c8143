"""`take` and `take_along_axis` beside NumPy's: values, dtypes, shapes and errors; fill values; and wrong arguments."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

from ...selection import examples

pytestmark = pytest.mark.usefixtures("serial")


def drawn(seed: int, function: str) -> tuple[np.ndarray, np.ndarray, int | None, str]:
    """Return an array, indices, an axis and a mode, of which one call in three or so is an error."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))
    shape = [int(size) for size in rng.integers(1, 4, rank)]
    axis = None if rng.random() < 0.2 else int(rng.integers(-rank, rank + (rng.random() < 0.1)))
    array = rng.integers(-99, 99, shape).astype(rng.choice(["f8", "i8", "c8", "U2"]))
    if rng.random() < 0.5:
        array = array[::-1].T if axis is None else array[::-1]
    count = [int(size) for size in rng.integers(0, 3, int(rng.integers(0, 3)))]
    if function == "take_along_axis":
        count = [size if rng.random() < 0.6 else int(rng.choice([1, 1, 2])) for size in shape][: None if axis else 1]
    size = array.size if axis is None else shape[axis % rank]
    reach = size + (rng.random() < 0.3)
    return array, rng.integers(-reach, reach, count), axis, str(rng.choice(["raise", "wrap", "clip"]))


def outcome(call) -> object:
    try:
        result = np.asarray(call())
    except (IndexError, ValueError, TypeError):
        return "an error"
    return result.dtype, result.shape, result.tolist()


def test_take_gives_what_numpy_gives():
    seen = set()
    for seed in range(examples(40)):
        array, indices, axis, mode = drawn(seed, "take")
        expected = outcome(lambda: np.take(array, indices, axis, mode=mode))  # noqa: B023
        assert outcome(lambda: gn.take(array, indices, axis, None, mode)) == expected, seed  # noqa: B023
        seen.add(expected == "an error")
    assert seen == {True, False}


def test_take_along_axis_gives_what_numpy_gives():
    seen = set()
    for seed in range(examples(40)):
        array, indices, axis, _ = drawn(seed, "take_along_axis")
        expected = outcome(lambda: np.take_along_axis(array, indices, axis))  # noqa: B023
        assert outcome(lambda: gn.take_along_axis(array, indices, axis)) == expected, seed  # noqa: B023
        seen.add(expected == "an error")
    assert seen == {True, False}


def test_take_writes_to_out_and_takes_a_scalar():
    out = np.zeros(2)
    assert gn.take([5.0, 6.0, 7.0], [2, 0], out=out) is out
    assert out.tolist() == [7, 5]
    assert gn.take(5, [0, 0]).tolist() == [5, 5] == np.take(5, [0, 0], axis=0).tolist()
    assert gn.take(5, 0, axis=0) == 5


FILLED = [
    ("float32", np.nan, None),
    ("complex64", np.nan, None),
    ("int16", -(2**15), None),
    ("uint8", 255, None),
    ("bool", True, None),
    (ml_dtypes.bfloat16, np.nan, None),
    ("M8[s]", np.datetime64("NaT"), None),
    ("float16", 0.1, 0.1),
    ("int64", 2**62 + 1, 2**62 + 1),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("U3", "abc", "abc"),
    ("complex128", 1 - 2j, 1 - 2j),
    (ml_dtypes.int4, -8, -8),
    ("O", [1], [1]),
]


@pytest.mark.parametrize(("dtype", "wanted", "fill_value"), FILLED, ids=lambda value: str(value))
def test_an_index_outside_gives_the_fill_value(dtype, wanted, fill_value):
    data = np.array([0, 1, 1]).astype(dtype)
    result = gn.take(data, [1, 3, -3, -4], mode="fill", fill_value=fill_value)
    expected = gn.gather(data, [1, 0, -3, 0])
    for place in (1, 3):
        expected[place] = wanted
    assert result.dtype == data.dtype
    if data.dtype == object:
        assert result.tolist() == expected.tolist()
    else:
        assert result.tobytes() == expected.tobytes()


def test_every_operator_fills_slices_whose_index_is_outside():
    data, rng = np.arange(24.0).reshape(2, 3, 4), np.random.default_rng(0)
    for axis, batch_dims in itertools.product(range(3), range(2)):
        if batch_dims > axis:
            continue
        size = data.shape[axis]
        indices = rng.integers(-size - 1, size + 1, (2, 5))
        zeros = gn.gather(data + 1, indices, axis, batch_dims=batch_dims, bounds="zero")
        filled = gn.gather(data + 1, indices, axis, batch_dims=batch_dims, bounds=gn.Fill(-7))
        assert filled.tolist() == np.where(zeros == 0, -7, zeros).tolist()
    tuples = np.array([[0, 2], [2, 0], [-1, -4], [1, 1]])
    zeros, filled = (gn.gather_nd(data + 1, tuples, bounds=bounds) for bounds in ("zero", gn.Fill(99)))
    assert filled.tolist() == np.where(zeros == 0, 99, zeros).tolist() and (filled == 99).sum() == 8
    each = rng.integers(-4, 4, (2, 3, 4))
    zeros, filled = (gn.gather_elements(data + 1, each, 1, bounds=bounds) for bounds in ("zero", gn.Fill(np.nan)))
    assert np.array_equal(filled, np.where(zeros == 0, np.nan, zeros), equal_nan=True)


def test_a_fill_value_goes_into_out_that_lies_in_the_memory_of_indices():
    indices = np.array([0, 5, 1])
    assert gn.gather(np.array([7, 8]), indices, bounds=gn.Fill(-1), out=indices).tolist() == [7, -1, 8]


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[D]", "i8", "f4", "c8", "S3", "U2"])
@pytest.mark.parametrize("value", [np.timedelta64(1, "W"), np.datetime64("2020")])
def test_a_fill_value_with_a_unit_is_for_data_of_its_kind_alone(dtype, value):
    data = np.zeros(2, dtype)
    if data.dtype.kind == value.dtype.kind:
        assert gn.gather(data, [5], bounds=gn.Fill(value))[0] == value
        return
    with pytest.raises(gn.InvalidGatherError, match="cannot hold the fill value np"):
        gn.gather(data, [5], bounds=gn.Fill(value))


def test_a_bounds_mode_that_cannot_be_hashed_is_none():
    with pytest.raises(gn.InvalidGatherError, match=r"bounds np.timedelta64\(3\) is not a bounds mode"):
        gn.gather(np.zeros(3), [0], bounds=np.timedelta64(3))
    with pytest.raises(gn.InvalidGatherError, match=r"mode np.timedelta64\(3\) is not a mode of take"):
        gn.take(np.zeros(3), [0], mode=np.timedelta64(3))


def test_a_fill_value_is_not_for_dask_arrays():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(gn.InvalidGatherError, match=r'a fill value is for arrays in memory, .* use bounds="zero"'):
        gn.gather(dask.zeros(3), [0], bounds=gn.Fill(1))


@pytest.mark.parametrize(
    ("mode", "policy", "wanted"),
    [
        ("fill", "outside", [1, -9, -9]),
        ("fill", "wrap", [1, 299, 172]),
        ("clip", "outside", [1, 0, 0]),
        ("clip", "wrap", [1, 299, 172]),
        ("wrap", "outside", [1, 299, 172]),
    ],
)
def test_negative_indices_mean_what_the_policy_says(mode, policy, wanted):
    arguments = {"mode": mode, "fill_value": -9 if mode == "fill" else None, "negative_indices": policy}
    for dtype in ("int8", "int64"):  # of int8, the unsigned ones of the same bits are on the axis
        indices = np.array([1, -1, -128], dtype)
        assert gn.take(np.arange(300), indices, **arguments).tolist() == wanted
        assert gn.take_along_axis(np.arange(300), indices, **arguments).tolist() == wanted
