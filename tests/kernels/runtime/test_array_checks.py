"""What data, indices and axis may be: anything that NumPy makes an array of, read in place."""

import array

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import index_array

pytestmark = pytest.mark.usefixtures("serial")

DATA = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "indices",
    [
        [1, 0, 1],
        (1, 0, 1),
        range(1, -2, -1),
        array.array("i", [1, 0, 1]),
        memoryview(np.array([1, 0, 1])),
        np.array([1, 0, 1], ">i2"),
        np.array([1, 0, 1], ">u8"),
        np.asmatrix([1, 0, 1]),
        np.array([1, 0, 1]).view(type("Sub", (np.ndarray,), {})),
        np.array([1, 9, 0, 9, 1])[::2],
        np.array([1, 0, 1])[::-1],
        np.array([(5, 1), (5, 0), (5, 1)], [("a", "i1"), ("i", "i8")])["i"],
        np.frombuffer(b"\x00" + np.array([1, 0, 1]).tobytes(), np.uint8)[1:].view(np.int64),
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')} {getattr(value, 'strides', '')}",
)
@pytest.mark.parametrize("bounds", ["error", "zero"])
def test_indices_are_anything_that_numpy_makes_an_integer_array_of(indices, bounds):
    wanted = DATA.take(np.asarray(indices), axis=0, mode="wrap")
    got = gn.gather(DATA, indices, bounds=bounds)
    assert type(got) is np.ndarray
    assert got.tolist() == wanted.tolist()


def test_indices_that_lie_as_a_kernel_reads_them_are_not_copied():
    for strides in ((8, 8), (5, 8), (0, -8)):
        indices = np.lib.stride_tricks.as_strided(np.zeros(9, np.int64)[4:], (1, 3), strides)
        assert index_array(indices) is indices


@pytest.mark.parametrize(
    "data",
    [
        DATA.tolist(),
        array.array("d", range(4)),
        memoryview(DATA),
        np.asmatrix(np.arange(6.0).reshape(3, 2)),
        DATA.view(type("Sub", (np.ndarray,), {})),
        ["ab", "c", "def"],
        [1 + 2j, 3],
        [[True, False], [False, True]],
        range(4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_is_anything_that_numpy_makes_an_array_of(data):
    wanted = np.asarray(data)[[1, 0]]
    got = gn.gather(data, [1, 0])
    assert type(got) is np.ndarray
    assert (got.dtype, got.tolist()) == (wanted.dtype, wanted.tolist())


def test_an_object_with_the_array_protocol_is_data():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return DATA

    assert gn.gather(Holder(), [1]).tolist() == DATA[[1]].tolist()


def test_a_result_shares_no_memory_with_its_data():
    data = DATA.copy()
    got = gn.gather(data, np.arange(2))
    got[...] = -1
    assert data.tolist() == DATA.tolist()


@pytest.mark.parametrize("rank", [7, 16, 64])
def test_ranks_up_to_those_of_numpy_work(rank):
    data = np.arange(4.0).reshape((2, *(1,) * (rank - 2), 2))
    assert gn.gather(data, [1, 0], -1).shape == data.shape
    assert gn.gather(data, [1, 0], -1).ravel().tolist() == [1, 0, 3, 2]
    assert gn.gather(data, [1], 0).ravel().tolist() == [2, 3]


def test_a_strided_array_of_many_real_dimensions_works():
    data = np.arange(2.0**13).reshape((2,) * 13)[:, ::-1].swapaxes(3, 9)
    assert gn.gather(data, [1, 0, 1], 6).tobytes() == data.take([1, 0, 1], axis=6).tobytes()


def test_a_huge_broadcast_array_is_read_without_a_copy():
    data = np.broadcast_to(np.arange(3, dtype=np.int8), (2**40, 3))
    assert gn.gather(data, [2**40 - 1, -(2**40)]).tolist() == [[0, 1, 2]] * 2


def test_the_indices_of_a_huge_broadcast_array_are_read_without_a_copy():
    indices = np.broadcast_to(np.array([1], np.int8), (2**22,))
    assert gn.gather(np.array([7, 9], np.int8), indices).sum() == 9 * 2**22
