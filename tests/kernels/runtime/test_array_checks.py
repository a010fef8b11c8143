"""What data, indices and axis may be: anything that NumPy makes an array of, read in place."""

import array

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import index_array

pytestmark = pytest.mark.usefixtures("serial")

DATA = np.arange(24.0).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "axis",
    [1, -2, np.int8(1), np.uint64(1), np.array(1), np.array(-2), np.array([1]), np.array([-2], np.int16), [1], (1,)],
    ids=repr,
)
def test_axis_is_an_int_a_0d_array_or_one_element(axis):
    assert gn.gather(DATA, [2, 0], axis).tolist() == DATA.take([2, 0], axis=1).tolist()


@pytest.mark.parametrize("batch_dims", [1, -1, np.int32(1), np.array(1)], ids=repr)
def test_batch_dims_is_an_int_that_may_count_from_the_rank_of_indices(batch_dims):
    got = gn.gather(DATA, [[2, 0], [1, 1]], 1, batch_dims=batch_dims)
    assert got.tolist() == np.stack([DATA[0, [2, 0]], DATA[1, [1, 1]]]).tolist()


def test_every_dimension_of_indices_may_be_a_batch():
    """b == q: one index of each batch, and the axis is dropped."""
    assert gn.gather(DATA, [2, 0], 1, batch_dims=1).tolist() == [DATA[0, 2].tolist(), DATA[1, 0].tolist()]


@pytest.mark.parametrize("indices", [2, np.int8(-1), np.array(2, np.uint16), np.uint64(2)], ids=repr)
def test_a_0d_index_drops_the_axis(indices):
    got = gn.gather(DATA, indices, 1)
    assert got.shape == (2, 4)
    assert got.tolist() == DATA[:, 2].tolist()


def test_a_0d_index_on_a_vector_gives_a_0d_array():
    got = gn.gather([1.5, 2.5], 1)
    assert isinstance(got, np.ndarray)
    assert (got.shape, got.item()) == ((), 2.5)


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


@pytest.mark.parametrize("indices", [[], (), [[]], [[], []], range(0)], ids=repr)
def test_an_empty_sequence_counts_as_integers(indices):
    got = gn.gather(DATA, indices)
    assert got.shape == (*np.shape(indices), 3, 4)


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


def test_read_only_arrays_are_read():
    data, indices = DATA.copy(), np.array([1, 0])
    data.flags.writeable = indices.flags.writeable = False
    got = gn.gather(data, indices)
    assert got.tolist() == DATA[::-1].tolist()
    assert got.flags.writeable


def test_memory_mapped_arrays_are_read(tmp_path):
    np.save(tmp_path / "data.npy", DATA)
    np.save(tmp_path / "indices.npy", np.array([2, 0]))
    data = np.load(tmp_path / "data.npy", mmap_mode="r")
    indices = np.load(tmp_path / "indices.npy", mmap_mode="r")
    got = gn.gather(data, indices, 1)
    assert type(got) is np.ndarray
    assert got.tolist() == DATA[:, [2, 0]].tolist()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a[:, ::-2],
        lambda a: a.T,
        lambda a: a[:, :, 1:],
        lambda a: a.swapaxes(0, 1),
        lambda a: np.broadcast_to(a[:, :1], a.shape),
        lambda a: np.broadcast_to(a[0, 0, 0], (2, 3, 4)),
        lambda a: a[..., None][:, :, ::-1],
        lambda a: a[1:1],
        lambda a: np.lib.stride_tricks.sliding_window_view(a, 2, axis=1),
    ],
)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_view_is_read_as_its_copy_would_be(view, axis):
    data = view(DATA)
    indices = [0, -1] if data.shape[axis] else []
    wanted = np.ascontiguousarray(data).take(np.array(indices, int), axis=axis)
    got = gn.gather(data, indices, axis)
    assert got.flags.c_contiguous
    assert (got.shape, got.tolist()) == (wanted.shape, wanted.tolist())


def test_results_are_c_contiguous_for_fortran_data():
    assert gn.gather(np.asfortranarray(DATA), [1, 0], 2).flags.c_contiguous


def test_a_result_shares_no_memory_with_its_data():
    data = DATA.copy()
    got = gn.gather(data, np.arange(2))
    got[...] = -1
    assert data.tolist() == DATA.tolist()


def test_int8_minus_one_on_an_axis_of_300_is_the_last():
    assert gn.gather(np.arange(300), np.array([-1, -128, 127], np.int8)).tolist() == [299, 172, 127]


@pytest.mark.parametrize("bounds", ["error", "zero", "wrap"])
def test_int8_reaches_back_on_an_axis_longer_than_its_range(bounds):
    assert gn.gather(np.arange(300), np.array([-1, -128], np.int8), bounds=bounds).tolist() == [299, 172]


def test_uint8_200_on_an_axis_of_300_does_not_wrap():
    assert gn.gather(np.arange(300), np.array([200, 255], np.uint8)).tolist() == [200, 255]


HUGE = np.array([2**64 - 1, 2**63, 1], np.uint64)


def test_the_largest_uint64_is_out_of_range_and_not_minus_one():
    data = np.arange(5, dtype=np.int16)
    assert gn.gather(data, HUGE, bounds="zero").tolist() == [0, 0, 1]
    assert gn.gather(data, HUGE, bounds="clip").tolist() == [4, 4, 1]
    assert gn.gather(data, HUGE, bounds="wrap").tolist() == [(2**64 - 1) % 5, 2**63 % 5, 1]


def test_an_index_is_not_cut_to_32_bits():
    data = np.arange(5, dtype=np.int16)
    indices = np.array([2**32 + 1, -(2**32) + 1, -(2**63)])
    assert gn.gather(data, indices, bounds="zero").tolist() == [0, 0, 0]
    assert gn.gather(data, indices, bounds="clip").tolist() == [4, 0, 0]
    assert gn.gather(data, indices, bounds="wrap").tolist() == [index % 5 for index in indices.tolist()]


@pytest.mark.parametrize("rank", [7, 16, 64])
def test_ranks_up_to_those_of_numpy_work(rank):
    data = np.arange(4.0).reshape((2, *(1,) * (rank - 2), 2))
    assert gn.gather(data, [1, 0], -1).shape == data.shape
    assert gn.gather(data, [1, 0], -1).ravel().tolist() == [1, 0, 3, 2]
    assert gn.gather(data, [1], 0).ravel().tolist() == [2, 3]


def test_a_strided_array_of_many_real_dimensions_works():
    data = np.arange(2.0**13).reshape((2,) * 13)[:, ::-1].swapaxes(3, 9)
    assert gn.gather(data, [1, 0, 1], 6).tobytes() == data.take([1, 0, 1], axis=6).tobytes()


def test_elements_of_several_units_work_at_the_highest_rank():
    data = np.array([b"abcde", b"fghij"], "S5").reshape((2, *(1,) * 63))
    assert gn.gather(data, [1]).item() == b"fghij"


def test_a_huge_broadcast_array_is_read_without_a_copy():
    data = np.broadcast_to(np.arange(3, dtype=np.int8), (2**40, 3))
    assert gn.gather(data, [2**40 - 1, -(2**40)]).tolist() == [[0, 1, 2]] * 2


def test_the_indices_of_a_huge_broadcast_array_are_read_without_a_copy():
    indices = np.broadcast_to(np.array([1], np.int8), (2**22,))
    assert gn.gather(np.array([7, 9], np.int8), indices).sum() == 9 * 2**22
