"""The argument `out`: what it may be, what it may overlap, and that an error leaves it untouched."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime.array_checks import may_overlap_itself, overlaps_itself

pytestmark = pytest.mark.usefixtures("serial")

DATA = np.arange(40 * 3, dtype=np.float64).reshape(40, 3)
INDICES = np.array([3, 39, 0, -1, 7])
WANTED = DATA[INDICES]


@pytest.mark.parametrize(
    "out",
    [
        pytest.param(np.zeros((10, 6))[::2, ::2], id="stepped"),
        pytest.param(np.zeros((5, 3))[::-1, ::-1], id="reversed"),
        pytest.param(np.zeros((3, 5)).T, id="transposed"),
        pytest.param(np.zeros((5, 3), [("tag", "i1"), ("value", "f8")])["value"], id="field of a record"),
        pytest.param(np.zeros((5, 3)).view(type("Sub", (np.ndarray,), {})), id="subclass"),
        pytest.param(np.zeros(16)[1:].reshape(5, 3), id="at an offset"),
        pytest.param(np.frombuffer(bytearray(121), np.uint8)[1:].view("f8").reshape(5, 3), id="unaligned"),
    ],
)
def test_out_of_any_layout_is_filled_in_place(out):
    assert gn.gather(DATA, INDICES, out=out) is out
    assert (np.asarray(out) == WANTED).all()


class Liar(np.ndarray):
    """An array of 4 bytes an element that says 8, and whose functions fail, as those of a unit may."""

    dtype = property(lambda self: np.dtype(np.float64))  # type: ignore[assignment]

    def __array_function__(self, function, *rest):
        raise TypeError(f"no {function}")


@pytest.mark.parametrize("function", ["gather", "gather_grad", "kernel", "onnx.Gather-13"])
def test_an_out_of_a_subclass_is_what_its_memory_is(function):
    data, rows = DATA.astype(np.float32)[:5], np.arange(5)
    call = {
        "gather": lambda out, data: gn.gather(data, rows, out=out),
        "gather_grad": lambda out, data: gn.gather_grad(data, rows, (5, 3), out=out),
        "kernel": lambda out, data: gn.compile("gather", data, rows)(data, rows, out=out),
    }.get(function, lambda out, data: gn.ops[function](data, rows, out=out))
    for _ in range(3):
        out = np.zeros((5, 3), np.float32).view(Liar)
        assert call(out, data) is out
        assert out.view(np.ndarray).tolist() == data.tolist()
        with pytest.raises(gn.InvalidGatherError, match="out must have dtype float64 as data has, got float32"):
            call(out, data.astype(np.float64))


def test_out_writes_nothing_beside_itself():
    base = np.full((12, 9), -1.0)
    gn.gather(DATA, INDICES, out=base[1:11:2, 1:7:2])
    assert (base[1:11:2, 1:7:2] == WANTED).all()
    base[1:11:2, 1:7:2] = -1
    assert (base == -1).all()


def test_out_may_have_any_stride_where_it_has_one_element():
    base = np.zeros(3)
    out = np.lib.stride_tricks.as_strided(base, (1, 3), (0, 8))
    assert gn.gather(DATA, INDICES[:1], out=out) is out
    assert base.tolist() == WANTED[0].tolist()


@pytest.mark.parametrize("shift", [1, 3, 7])
def test_out_that_overlaps_data_gives_the_right_answer(shift):
    base = np.arange(60.0)
    wanted = base[:50][::-1].copy()
    gn.gather(base[:50], np.arange(50)[::-1], out=base[shift : shift + 50])
    assert (base[shift : shift + 50] == wanted).all()


def test_out_that_overlaps_indices_in_bytes_of_another_dtype_gives_the_right_answer():
    base = np.zeros(80, np.int32)
    indices = base[:40].view(np.int64)
    indices[:] = np.arange(20)[::-1]
    data = np.arange(20, dtype=np.int32)
    out = base[10:30]
    gn.gather(data, indices, out=out)
    assert (out == data[::-1]).all()


def test_out_between_the_elements_of_data_gives_the_right_answer():
    base = np.arange(80.0)
    data, out = base[::2], base[1::2]
    wanted = data[::-1].copy()
    gn.gather(data, np.arange(40)[::-1], out=out)
    assert (out == wanted).all()


SHAPES = {
    "small": ((40, 3), 5, 0),
    "rows in parallel": ((4000, 64), 9000, 0),
    "columns in parallel": ((3000, 40), 64, 1),
    "elements in parallel": ((5000,), 70000, 0),
}


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("name", SHAPES)
def test_an_index_outside_leaves_out_untouched(name, place):
    shape, count, axis = SHAPES[name]
    data = np.zeros(shape)
    indices = np.zeros(count, np.int64)
    indices[place] = shape[axis]
    out_shape = (*shape[:axis], count, *shape[axis + 1 :])
    out = np.full(out_shape, 7.0)
    with gn.knobs.scope(schedule=None), pytest.raises(gn.BoundsError):
        gn.gather(data, indices, axis, out=out)
    assert (out == 7).all()


@pytest.mark.parametrize("dtype", ["f8", "i1", "c16", "S5", [("a", "i4"), ("b", "f8")], "M8[s]"])
def test_an_empty_axis_with_zero_writes_zero_bytes_into_strided_out(dtype):
    base = np.frombuffer(b"\xa5" * (8 * np.dtype(dtype).itemsize), dtype).copy()
    out = base[::2]
    gn.gather(np.zeros(0, dtype), [0, 1, -1, 5], bounds="zero", out=out)
    assert not any(out.tobytes())
    assert base[1::2].tobytes() == b"\xa5" * (4 * np.dtype(dtype).itemsize)


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType()])
def test_out_of_references_is_filled(dtype):
    data = np.array(["a", "b", "c"], dtype)
    out = np.array(["x"] * 4, dtype)[::2]
    assert gn.gather(data, [2, 0], out=out) is out
    assert out.tolist() == ["c", "a"]


@pytest.mark.parametrize("strides", [(16, 40), (-16, 40), (16, -40)])
def test_out_whose_rows_lie_between_the_elements_of_others_is_written(strides):
    out = np.lib.stride_tricks.as_strided(np.full(200, -1.0)[100:], WANTED.shape, strides)
    assert may_overlap_itself(out)
    assert gn.gather(DATA, INDICES, out=out) is out
    assert out.tobytes() == WANTED.tobytes()


def test_no_addresses_are_computed_where_there_is_less_memory_than_elements():
    assert overlaps_itself(np.lib.stride_tricks.as_strided(np.zeros(1), (1 << 30, 1 << 20), (0, 0)))
    assert overlaps_itself(np.lib.stride_tricks.sliding_window_view(np.zeros(1 << 20), 1 << 19))
