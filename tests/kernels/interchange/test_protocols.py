"""Arrays by the protocols of NumPy and DLPack: read and written in place, and one error where they cannot be."""

import array
import ctypes

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import data_array, index_array, out_array


class Interface:
    """An array that has `__array_interface__` alone."""

    def __init__(self, values: np.ndarray):
        self._values = values
        self.__array_interface__ = values.__array_interface__


class Dlpack:
    """An array that has DLPack alone, on a device of one's choice."""

    def __init__(self, values: np.ndarray, device: int = 1):
        self._values, self._device = values, device

    def __dlpack__(self, **options: object) -> object:
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


class Converted:
    """An array that NumPy must convert, and that is not written in place so."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(3.0)


WAYS = {"__array_interface__": Interface, "DLPack": Dlpack, "buffer": memoryview}


@pytest.mark.parametrize("way", WAYS)
def test_data_and_indices_are_read_in_place(way):
    values, indices = np.arange(6.0).reshape(3, 2), np.array([2, 0])
    assert np.shares_memory(data_array(WAYS[way](values)), values)
    assert np.shares_memory(index_array(WAYS[way](indices)), indices)
    assert gn.gather(WAYS[way](values), WAYS[way](indices)).tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("way", WAYS)
def test_a_result_goes_into_the_memory_of_out_which_is_returned(way):
    values, result = np.arange(6.0).reshape(3, 2), np.zeros((1, 2))
    out = WAYS[way](result)
    for row in (1, 2, 0):
        assert gn.gather(values, [row], out=out) is out
        assert result.tolist() == [values[row].tolist()]
    assert gn.take(values, [1], 0, out) is out and result.tolist() == [[2, 3]]
    assert gn.ops["onnx.Gather-13"](values, [2], out=out) is out and result.tolist() == [[4, 5]]
    assert gn.gather_grad(np.ones((1, 2)), [0], (1, 2), out=out) is out and result.tolist() == [[1, 1]]
    kernel = gn.compile("gather", values, np.array([0]))
    assert kernel(values, np.array([2]), out=out) is out and result.tolist() == [[4, 5]]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize("lengths", [None, [2]])
def test_sums_of_bags_go_into_the_memory_of_out_which_is_returned(way, reduce, lengths):
    values, result, table = np.arange(6.0).reshape(3, 2), np.zeros((1, 2)), np.ones((3, 2))
    out, indices = WAYS[way](result), [2, 0] if lengths else [[2, 0]]
    assert gn.gather_reduce(values, indices, lengths=lengths, reduce=reduce, out=out) is out
    assert result.tolist() == gn.gather_reduce(values, indices, lengths=lengths, reduce=reduce).tolist()
    out, options = WAYS[way](table), {"lengths": lengths, "reduce": reduce}
    options |= {"data": values} if reduce == "max" else {}
    assert gn.gather_reduce_grad(result, indices, (3, 2), out=out, **options) is out
    assert table.tolist() == gn.gather_reduce_grad(result, indices, (3, 2), **options).tolist()
    assert table[1].tolist() == [0, 0]


def test_arrays_of_the_standard_library_work():
    out = array.array("d", [0, 0])
    assert gn.gather(array.array("d", [5, 6, 7]), array.array("q", [2, 0]), out=out) is out
    assert out.tolist() == [7, 5]
    assert gn.gather((ctypes.c_int * 3)(5, 6, 7), range(2)).tolist() == [5, 6]


def test_a_kind_of_array_that_was_seen_before_is_found_by_the_fast_call(monkeypatch):
    from gathernest.kernels import gather

    data, out = Dlpack(np.arange(4.0)), Dlpack(np.zeros(2))
    for _ in range(3):
        gn.gather(data, [1, 2], out=out)
    monkeypatch.setattr(gather, "run_operator", None)
    assert gn.gather(data, [1, 2], out=out) is out


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (Converted(), "out must be an ndarray, got Converted; an array that shares its memory by DLPack, "),
        ([0.0, 0.0], "out must be an ndarray, got list"),
        (b"0123456789abcdef", "out is a bytes whose memory cannot be shared"),
        (Dlpack(np.zeros(2), 2), r"out is a .*Dlpack, in the memory of a CUDA device; copy it to the CPU"),
        (memoryview(b"0123456789abcdef").cast("d"), "out must be writeable, got a read-only array; pass a copy"),
        (Dlpack(np.zeros(3)), r"out must have shape \(2,\), got \(3,\)"),
    ],
    ids=["__array__", "list", "bytes", "cuda", "read-only", "shape"],
)
def test_out_that_cannot_be_written_in_place_is_rejected(out, message):
    with pytest.raises(gn.InvalidGatherError, match=message):
        gn.gather(np.arange(3.0), [1, 2], out=out)


@pytest.mark.parametrize(("number", "device"), [(2, "CUDA"), (10, "ROCm"), (8, "Metal")])
def test_an_array_on_another_device_is_rejected_by_the_device(number, device):
    with pytest.raises(gn.InvalidGatherError, match=f"in the memory of a {device} device; copy it to the CPU first"):
        gn.gather(Dlpack(np.arange(3.0), number), [0])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ((row for row in [1, 2]), "generator"),
        (map(int, "12"), "map"),
        ({1, 2}, "set"),
        ({1: 2}.values(), "dict_values"),
    ],
)
def test_what_is_no_sequence_is_rejected_by_its_type(data, kind):
    with pytest.raises(gn.InvalidGatherError, match=f"data is a {kind}, which is no sequence; pass list.data., or"):
        gn.gather(data, [0])


def test_an_array_that_fails_to_convert_says_why():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("the file is closed")

    with pytest.raises(gn.InvalidGatherError, match="data does not make an array: the file is closed"):
        gn.gather(Broken(), [0])


def test_out_array_gives_back_an_ndarray():
    values = np.zeros(2)
    assert out_array(values) is values
