"""Results that go to files of h5py and stores of zarr by blocks, and gradients, bags and kernels that read them so."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.chunks import stored_gradient, stored_results

RNG = np.random.default_rng(0)
DATA = np.arange(40 * 6 * 3, dtype=np.float32).reshape(40, 6, 3)


@pytest.fixture(params=["h5py", "zarr"])
def made(request, tmp_path):
    """Return a function that makes a stored array of a shape, in chunks that divide nothing."""
    module = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    count = iter(range(100))

    def make(shape, dtype="f4", values=None, **options):
        chunks = tuple(max(size // 2, 1) for size in shape)
        if request.param == "h5py":
            array = file.create_dataset(str(next(count)), shape, dtype, chunks=chunks or None)
        else:
            path = tmp_path / f"{next(count)}.zarr"
            array = module.create_array(str(path), shape=shape, dtype=dtype, chunks=chunks)
        if values is not None:
            array[...] = values
        return array

    if request.param == "h5py":
        with module.File(tmp_path / "data.h5", "w") as file:
            yield make
    else:
        yield make


@pytest.mark.parametrize("block_bytes", [1 << 26, 64])
def test_results_are_written_by_blocks_from_every_kind_of_data(made, monkeypatch, block_bytes):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    monkeypatch.setattr(stored_results, "BLOCK_BYTES", block_bytes)
    calls = [
        ("gather", RNG.integers(-40, 40, 9), {}),
        ("gather", RNG.integers(-6, 6, (40, 2)), {"axis": 1, "batch_dims": 1}),
        ("gather", np.array(2), {"axis": 2}),
        ("gather_nd", RNG.integers(0, 3, (40, 2, 2)), {"batch_dims": 1}),
        ("gather_elements", RNG.integers(-40, 40, (3, 5, 3)), {}),
    ]
    stored, lazy = made(DATA.shape, values=DATA), da.from_array(DATA, chunks=(9, 4, 2))
    for function, indices, options in calls:
        wanted = getattr(gn, function)(DATA, indices, **options)
        for data, places in [(DATA, indices), (stored, indices), (lazy, indices), (stored, da.from_array(indices))]:
            out = made(wanted.shape)
            assert getattr(gn, function)(data, places, out=out, **options) is out
            assert out[...].tobytes() == wanted.tobytes(), (function, type(data))


def test_sums_of_dask_arrays_are_written_too(made):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    grad = da.ones((6, 4), chunks=(2, 3), dtype="f4")
    out = made((9, 4))
    assert gn.gather_grad(grad, [0, 8, 8, 1, 0, 8], (9, 4), out=out) is out
    assert out[...][:, 0].tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 3]
    sums = made((2, 4))
    assert gn.gather_reduce(grad, [[0, 1], [2, 2]], out=sums) is sums and (sums[...] == 2).all()


def test_an_out_that_does_not_fit_is_rejected_and_a_failed_call_writes_nothing(made):
    out = made((2, 6, 3))
    with pytest.raises(gn.BoundsError, match="index 40 at position"):
        gn.gather(DATA, [1, 40], out=out)
    assert (out[...] == 0).all()
    for wrong, message in [
        (made((3, 6, 3)), r"out is a (h5py.Dataset|zarr.Array) and must have shape \(2, 6, 3\), got \(3, 6, 3\)"),
        (made((2, 6, 3), "f8"), "and must have dtype float32, as the result has, got float64"),
    ]:
        with pytest.raises(gn.InvalidGatherError, match=message):
            gn.gather(DATA, [1, 2], out=wrong)
    with pytest.raises(gn.InvalidGatherError, match=r"a fill value is for results in memory, and out lies in a file"):
        gn.gather(DATA, [1, 40], bounds=gn.Fill(1), out=out)


def test_out_may_not_be_data(made, monkeypatch):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    monkeypatch.setattr(stored_results, "BLOCK_BYTES", 16)
    values = np.arange(24, dtype="f4").reshape(6, 4)
    data, other = made((6, 4), values=values), made((6, 4), values=values)
    backwards = np.arange(6)[::-1]
    for source, what in [
        (data, "data itself"),
        (opened_again(data, monkeypatch), "data itself"),
        (da.from_array(data, chunks=2), "what dask reads from"),
        (da.from_array(data, chunks=2, inline_array=True) + 1, "what dask reads from"),
    ]:
        with pytest.raises(gn.InvalidGatherError, match=f"^out is {what}, .*; pass another array of the file$"):
            gn.gather(source, backwards, out=data)
    assert np.array_equal(data[...], values)
    gn.gather(data, backwards, out=other)
    assert np.array_equal(other[...], values[::-1])


def opened_again(stored, monkeypatch):
    """Return another object of a stored array, of zarr by a relative path."""
    if hasattr(stored, "file"):
        return stored.file[stored.name]
    monkeypatch.chdir(stored.store.root.parent)
    return type(stored).open(stored.store.root.name)


def test_two_new_arrays_in_memory_are_not_one():
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    data, out = (zarr.zeros((2, 3), dtype="f4") for _ in range(2))
    assert data == out  # zarr compares what they hold
    assert gn.gather(data, [1, 0], out=out) is out


def test_datasets_of_a_closed_file_are_rejected(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        closed = file.create_dataset("closed", data=DATA[:, 0])
    for name, call in {
        "data": lambda: gn.gather(closed, [0]),
        "out": lambda: gn.gather(DATA[:, 0], [0], out=closed),
        "indices": lambda: gn.gather(DATA, closed),
    }.items():
        with pytest.raises(
            gn.InvalidGatherError, match=rf"^{name} is an h5py\.Dataset whose file was closed; open the"
        ):
            call()


def test_an_out_that_was_opened_for_reading_is_rejected(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("out", (2, 6, 3), "f4")
    with h5py.File(tmp_path / "data.h5", "r") as file, pytest.raises(gn.InvalidGatherError, match="open it with mode"):
        gn.gather(DATA, [1, 2], out=file["out"])


def test_gradients_of_stored_arrays_have_the_bytes_of_those_in_memory(made, monkeypatch):
    monkeypatch.setattr(stored_gradient, "READ_BYTES", 1)
    grad = RNG.standard_normal((90, 4)).astype("f4")
    indices = RNG.integers(-20, 20, 90)
    wanted = gn.gather_grad(grad, indices, (20, 4), scale=3)
    stored = made(grad.shape, values=grad)
    assert gn.gather_grad(stored, indices, (20, 4), scale=3).tobytes() == wanted.tobytes()
    kernel = gn.compile("gather_grad", "20x4xf32", "90xi64", scale=3)
    assert kernel(stored, indices).tobytes() == wanted.tobytes()
    out = np.empty((20, 4), "f4")
    assert gn.gather_grad(stored, indices, (20, 4), scale=3, out=out) is out and out.tobytes() == wanted.tobytes()
    elements = gn.gather_elements_grad(grad, np.tile(indices[:, None], 4), (20, 4))
    assert gn.gather_elements_grad(stored, np.tile(indices[:, None], 4), (20, 4)).tobytes() == elements.tobytes()
    with pytest.raises(gn.BoundsError, match=r"index 20 at position \(1,\)"):
        gn.gather_grad(stored, np.r_[0, 20, indices[2:]], (20, 4))


def test_bags_and_kernels_read_the_rows_that_they_need(made):
    table = RNG.standard_normal((40, 4)).astype("f4")
    stored, rows = made(table.shape, values=table), np.array([[3, -1, 3], [7, 39, 3]])
    wanted = gn.gather_reduce(table, rows, reduce="mean", padding_index=7)
    assert gn.gather_reduce(stored, rows, reduce="mean", padding_index=7).tobytes() == wanted.tobytes()
    assert gn.gather_reduce(stored, rows, reduce="max").tobytes() == table[rows].max(1).tobytes()
    for operator, wanted in [("gather", gn.gather(table, rows)), ("gather_reduce", gn.gather_reduce(table, rows))]:
        kernel = gn.compile(operator, stored, rows)
        assert kernel(stored, rows).tobytes() == wanted.tobytes()
    out = made((2, 3, 4))
    kernel = gn.compile("gather", table, rows)
    assert kernel(table, rows, out) is out and out[...].tobytes() == table[rows].tobytes()
