"""Elements of every dtype: bytes are moved, never converted; references go by their positions."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd

pytestmark = pytest.mark.usefixtures("serial")

ML_DTYPES = [
    name for name, value in sorted(vars(ml_dtypes).items()) if isinstance(value, type) and issubclass(value, np.generic)
]
DTYPES = [
    *("?", "b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "e", "f", "d", "g", "F", "D", "G"),
    *(">i2", ">u4", ">f8", ">c16", ">M8[s]", ">U4", "S1", "S5", "S32", "U1", "U7", "V1", "V7", "V64"),
    *("M8[ns]", "M8[D]", "M8[25s]", "m8[ms]", "m8"),
    np.dtype([("a", "i1"), ("b", "f8")]),
    np.dtype((np.record, [("a", "i2"), ("b", "f8")])),
    np.dtype([("a", "i1"), ("b", "f8")], align=True),
    np.dtype([("a", ">i4", (2, 3)), ("b", [("c", "S3")])]),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [4, 0], "itemsize": 12}),
    np.dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}),
    *(np.dtype(getattr(ml_dtypes, name)) for name in ML_DTYPES),
]


def noise(count: int, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(np.random.default_rng(0).bytes(count * dtype.itemsize), np.uint8).copy().view(dtype)


def take_bytes(data: np.ndarray, indices: list[int]) -> bytes:
    return data.view(np.uint8).reshape(len(data), -1)[indices].tobytes()


@pytest.mark.draw(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_keeps_its_bytes_and_itself(dtype):
    dtype = np.dtype(dtype)
    data = noise(7, dtype)
    got = gn.gather(data, [6, 0, -3])
    assert got.dtype == dtype
    assert got.tobytes() == take_bytes(data, [6, 0, 4])


@pytest.mark.draw(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_gives_zero_bytes_for_an_index_outside(dtype):
    dtype = np.dtype(dtype)
    data = noise(7, dtype)
    got = gn.gather(data, [1, 7, -8], bounds="zero")
    assert got.tobytes() == take_bytes(data, [1]) + bytes(2 * dtype.itemsize)


@pytest.mark.draw(20)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_has_a_type_in_the_ir(dtype):
    dtype = np.dtype(dtype)
    data = noise(7, dtype)
    with gn.knobs.scope(interpret=True):
        assert gn.gather(data, [6, -8], bounds="zero").tobytes() == take_bytes(data, [6]) + bytes(dtype.itemsize)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4", "int2", "uint2"])
def test_the_dtypes_of_ml_dtypes_that_operators_name_are_among_those_tested(name):
    assert name in ML_DTYPES


def test_nans_keep_their_payloads():
    data = np.array([0x7FC00001, 0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    assert gn.gather(data, [2, 1, 0]).view(np.uint32).tolist() == [0x7F800001, 0xFFC12345, 0x7FC00001]


def test_negative_zero_stays_negative():
    assert np.signbit(gn.gather(np.array([-0.0, 0.0]), [0])).all()


def test_the_padding_of_a_record_is_moved_too():
    dtype = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    data = noise(5, dtype)
    assert gn.gather(data, [4, 3]).tobytes() == take_bytes(data, [4, 3])


def test_a_record_array_gives_records():
    data = np.rec.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])
    with gn.knobs.scope(always_compile=True):
        got = gn.gather(data, [1])
    assert got["b"].tolist() == [4.5]


def test_a_dtype_with_metadata_is_moved():
    data = np.arange(4).astype(np.dtype("i4", metadata={"unit": "m"}))
    assert gn.gather(data, [3]).tolist() == [3]


@pytest.mark.parametrize("dtype", ["V0", np.dtype([])])
def test_elements_of_no_bytes_have_a_shape_all_the_same(dtype):
    data = np.zeros((3, 2), dtype)
    got = gn.gather(data, [[0, 2]])
    assert (got.shape, got.dtype) == ((1, 2, 2), data.dtype)
    with pytest.raises(gn.BoundsError):
        gn.gather(data, [3])


OBJECTS = np.array([["a", None, 3], [{"k": 1}, (), "z"]], object)


def test_objects_are_the_same_objects():
    got = gn.gather(OBJECTS, [1, 0, 1])
    assert all(left is right for left, right in zip(got.flat, OBJECTS[[1, 0, 1]].flat, strict=True))


def test_objects_along_another_axis_in_batches():
    got = gn.gather(OBJECTS, [[0, 2], [-1, 1]], 1, batch_dims=1)
    assert got.tolist() == [["a", 3], ["z", ()]]


def test_objects_outside_are_empty_strings_with_zero():
    assert gn.gather(OBJECTS, [0, 5], 1, bounds="zero").tolist() == [["a", ""], [{"k": 1}, ""]]


@pytest.mark.parametrize("bounds", ["clip", "wrap"])
def test_objects_follow_the_total_modes(bounds):
    wanted = OBJECTS.take([5, -7], axis=1, mode=bounds)
    assert gn.gather(OBJECTS, [5, -7], 1, bounds=bounds).tolist() == wanted.tolist()


def test_objects_outside_are_rejected_with_the_callers_own_axis_and_place():
    with pytest.raises(gn.BoundsError, match=r"index 3 at position \(0, 1\) of indices .* for axis 1 of size 3"):
        gn.gather(OBJECTS, [[0, 3]], 1)


def test_objects_on_an_empty_axis():
    data = np.zeros((0, 2), object)
    assert gn.gather(data, [0], bounds="zero").tolist() == [["", ""]]
    with pytest.raises(gn.BoundsError, match="axis 0 of data has size 0"):
        gn.gather(data, [0])


def test_objects_are_not_compared_or_asked_for_their_truth():
    class Touchy:
        def __bool__(self):
            raise AssertionError

        __eq__ = __lt__ = __bool__
        __hash__ = object.__hash__

    items = np.array([Touchy(), Touchy()], object)
    assert gn.gather(items, [1])[0] is items[1]


@pytest.mark.parametrize("strings", [np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None)], ids=repr)
def test_variable_strings_are_gathered(strings):
    data = np.array(["a", "", "long enough to live on the heap, surely", "日本語"], strings)
    got = gn.gather(data, [3, 2, -4])
    assert got.dtype == strings
    assert got.tolist() == ["日本語", "long enough to live on the heap, surely", "a"]


def test_variable_strings_outside_are_empty_with_zero():
    data = np.array(["a", "b"], np.dtypes.StringDType())
    assert gn.gather(data, [1, 2], bounds="zero").tolist() == ["b", ""]


def test_missing_variable_strings_stay_missing():
    dtype = np.dtypes.StringDType(na_object=None)
    data = np.array(["a", None], dtype)
    assert gn.gather(data, [1, 0]).tolist() == [None, "a"]


def test_strided_objects_are_gathered():
    assert gn.gather(OBJECTS[:, ::-2], [1, 0], 1).tolist() == OBJECTS[:, ::-2][:, [1, 0]].tolist()


def test_records_that_hold_objects_are_gathered():
    data = np.array([(1, "a"), (2, "b")], [("n", "i4"), ("o", object)])
    assert gn.gather(data, [1, 0]).tolist() == [(2, "b"), (1, "a")]
    assert gn.gather(data, [5], bounds="zero").tolist() == [(0, 0)]


def test_objects_are_kept_alive_and_released():
    import sys

    item = object()
    data = np.array([item], object)
    before = sys.getrefcount(item)
    got = gn.gather(data, [0, 0, 0])
    assert sys.getrefcount(item) == before + 3
    del got
    assert sys.getrefcount(item) == before


@pytest.mark.parametrize("bounds", ["error", "zero", "clip", "wrap"])
@pytest.mark.parametrize("step", [1, -1], ids=["packed", "reversed"])
@pytest.mark.parametrize(
    ("operator", "indices"),
    [
        (Gather(1), [[3, 0], [-1, 2]]),
        (Gather(2, 1), [[4], [0], [-5]]),
        (GatherNd(), [[1, 3], [-3, 0]]),
        (GatherNd(1), [[[3, 1]], [[0, 4]], [[-1, -1]]]),
        (GatherElements(1), [[[3, 0, 1]], [[0, -4, 2]]]),
    ],
    ids=str,
)
def test_references_are_gathered_as_their_numbers_are(operator, indices, step, bounds):
    numbers = np.arange(1, 61).reshape(3, 4, 5)[:, ::step]
    names = np.vectorize(lambda number: str(number) if number else "", [object])
    far = np.array(indices) if bounds == "error" else np.array(indices) * 3
    gather, options = getattr(gn, operator.name), {"bounds": bounds, **operator.attributes()}
    wanted = names(gather(numbers, far, **options)).tolist()
    assert gather(names(numbers), far, **options).tolist() == wanted
    out = np.empty(np.shape(wanted), object)
    assert gather(names(numbers), far, out=out, **options) is out
    assert out.tolist() == wanted


@pytest.mark.parametrize("strings", [np.dtype(object), np.dtypes.StringDType()], ids=["object", "strings"])
@pytest.mark.parametrize("step", [1, -2])
def test_references_of_a_large_table_are_gathered_in_memory_of_the_result(strings, step):
    data = np.zeros((1000, 1000), strings)[:, ::step]
    data[7, 3] = "seven"
    calls = (gn.gather, data, [[7, -1]]), (gn.gather_nd, data, [[7, 3]]), (gn.gather_elements, data, [[0, 7]])
    tracemalloc.start()
    results = [call(*arguments) for call, *arguments in calls]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert results[0][0, 0, 3] == results[1][0] == "seven"
    assert peak < 1 << 20
