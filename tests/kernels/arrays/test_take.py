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


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[D]", "i8", "f4", "c8", "S3", "U2"])
@pytest.mark.parametrize("value", [np.timedelta64(1, "W"), np.datetime64("2020")])
def test_a_fill_value_with_a_unit_is_for_data_of_its_kind_alone(dtype, value):
    data = np.zeros(2, dtype)
    if data.dtype.kind == value.dtype.kind:
        assert gn.gather(data, [5], bounds=gn.Fill(value))[0] == value
        return
    with pytest.raises(gn.InvalidGatherError, match="cannot hold the fill value np"):
        gn.gather(data, [5], bounds=gn.Fill(value))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *[("u8", -1), (">u8", -(2**63)), ("i8", 2**63), ("i8", np.uint64(2**64 - 1)), ("i1", np.uint8(255))],
        *[("u4", np.int32(-5)), ("?", 2), ("i2", np.float32(0.5)), (ml_dtypes.uint4, ml_dtypes.int4(-1))],
    ],
)
def test_a_fill_value_beyond_an_integer_dtype_is_rejected(dtype, value):
    for call in (
        lambda: gn.gather(np.zeros(2, dtype), [5], bounds=gn.Fill(value)),
        lambda: gn.take(np.zeros(2, dtype), [5], mode="fill", fill_value=value),
    ):
        with pytest.raises(gn.InvalidGatherError, match="cannot hold the fill value"):
            call()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("u8", 2**64 - 1), ("i8", np.uint64(5)), ("i1", 2.0), ("u1", True), (ml_dtypes.int4, np.int8(-8)), (">i4", -1)],
)
def test_a_fill_value_of_another_type_is_taken_where_the_dtype_holds_it(dtype, value):
    assert int(gn.gather(np.zeros(2, dtype), [5], bounds=gn.Fill(value))[0]) == int(value)


@pytest.mark.parametrize("dtype", ["U1", object, np.dtypes.StringDType()], ids=str)
def test_a_fill_value_of_text_is_a_text(dtype):
    data = np.array(["a", "b"], dtype)
    assert gn.gather(data, [0, 5], bounds=gn.Fill("q")).tolist() == ["a", "q"]
    if dtype is not object:
        with pytest.raises(gn.InvalidGatherError, match="cannot hold the fill value 5"):
            gn.gather(data, [5], bounds=gn.Fill(5))


@pytest.mark.parametrize("kind", [name for name in ("complex32", "bcomplex32") if hasattr(ml_dtypes, name)])
@pytest.mark.parametrize("dtype", ["f4", "i4", ml_dtypes.bfloat16])
@pytest.mark.filterwarnings("error")
def test_a_complex_fill_value_of_ml_dtypes_keeps_its_imaginary_part_or_is_rejected(dtype, kind):
    value = getattr(ml_dtypes, kind)
    assert gn.gather(np.zeros(2, dtype), [0, 5], bounds=gn.Fill(value(1))).tolist() == [0, 1]
    assert gn.gather(np.zeros(2, "c8"), [5], bounds=gn.Fill(value(1 + 2j)))[0] == 1 + 2j
    with pytest.raises(gn.InvalidGatherError, match="cannot hold the fill value"):
        gn.gather(np.zeros(2, dtype), [5], bounds=gn.Fill(value(1 + 2j)))


def test_a_fill_value_is_not_for_dask_arrays():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(gn.InvalidGatherError, match=r'a fill value is for arrays in memory, .* use bounds="zero"'):
        gn.gather(dask.zeros(3), [0], bounds=gn.Fill(1))
