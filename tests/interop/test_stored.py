"""Arrays in files of h5py and stores of zarr: read by the rows that indices need, and written block by block."""

import itertools
import pathlib
import tracemalloc

import numpy as np
import pytest

import gathernest as gn
from gathernest.interop import stored

RNG = np.random.default_rng(0)
DATA = np.arange(40 * 6 * 3, dtype=np.float32).reshape(40, 6, 3)
LAYOUTS = {"chunked": (7, 4, 3), "compressed": (7, 4, 3), "contiguous": None}
VALUES = np.arange(20)
BACKWARDS = VALUES[::-1].copy()


@pytest.fixture
def da():
    return pytest.importorskip("dask.array", reason="dask is not installed")


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="h5py is not installed")


@pytest.fixture
def zarr():
    return pytest.importorskip("zarr", minversion="3", reason="zarr 3 is not installed")


@pytest.fixture(params=["h5py chunked", "h5py compressed", "h5py contiguous", "zarr chunked"])
def file_array(request, tmp_path):
    library, layout = request.param.split()
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "h5py":
        with module.File(tmp_path / "data.h5", "w") as file:
            compression = "gzip" if layout == "compressed" else None
            yield file.create_dataset("data", data=DATA, chunks=LAYOUTS[layout], compression=compression)
    else:
        array = module.open_array(
            tmp_path / "data.zarr", mode="w", shape=DATA.shape, chunks=LAYOUTS[layout], dtype=DATA.dtype
        )
        array[...] = DATA
        yield array


def calls():
    rng = np.random.default_rng(0)
    for axis, batch_dims, shape in [(0, 0, (5,)), (1, 0, (2, 3)), (2, 0, ()), (1, 1, (40, 2)), (0, 0, (0,))]:
        reach = DATA.shape[axis]
        yield "gather", rng.integers(-reach, reach, shape), {"axis": axis, "batch_dims": batch_dims}
    yield "gather_nd", np.array([[3, 5], [-1, 0], [12, -6]]), {}
    yield "gather_nd", rng.integers(0, 3, (40, 2, 2)), {"batch_dims": 1}
    yield "gather_elements", rng.integers(-40, 40, (3, 5, 3)), {"axis": 0}
    yield "take_along_axis", rng.integers(-6, 6, (40, 2, 3)), {"axis": 1}


def test_every_operator_gives_what_it_gives_of_the_values(file_array):
    for function, indices, rest in calls():
        found = getattr(gn, function)(file_array, indices, **rest)
        assert type(found) is np.ndarray
        assert found.tobytes() == getattr(gn, function)(DATA, indices, **rest).tobytes(), (function, rest)


def test_bounds_out_and_versions_are_those_of_values(file_array):
    outside = np.array([1, -41, 40, 39])
    for bounds in ("zero", "clip", "wrap", gn.Fill(-1)):
        found = gn.gather(file_array, outside, bounds=bounds)
        assert found.tobytes() == gn.gather(DATA, outside, bounds=bounds).tobytes(), bounds
    with pytest.raises(gn.BoundsError, match=r"index -41 at position \(1,\)"):
        gn.gather(file_array, outside)
    out = np.zeros((2, 6, 3), np.float32)
    assert gn.gather(file_array, [39, 0], out=out) is out and out.tobytes() == DATA[[39, 0]].tobytes()
    with pytest.raises(gn.InvalidGatherError, match="out must have shape"):
        gn.gather(file_array, [0], out=out)
    assert gn.ops["onnx.Gather-13"](file_array, [3]).tobytes() == DATA[3:4].tobytes()
    with pytest.raises(gn.BoundsError, match="negative"):
        gn.ops["openvino.Gather-7"](file_array, [-1], 0)
    assert gn.gather(np.arange(99), file_array[0, 0].astype(int)).tolist() == [0, 1, 2]
    message = "out cannot be a (h5py.Dataset|zarr.Array): it lies in a (file|store); leave out away, and write the res"
    with pytest.raises(gn.InvalidGatherError, match=message):
        gn.gather_grad(DATA, np.arange(40), DATA.shape, out=file_array)


def test_few_rows_are_read_and_not_the_whole(h5py, tmp_path):
    spread = ([3, 40_000, 49_999], [[40_000]], [*range(0, 50_000, 1000)])
    for number, (chunks, rows) in enumerate(itertools.product(((1000, 64), None), spread)):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            wide = file.create_dataset("data", (50_000, 640), "f4", chunks=chunks)  # 128 MB that are never written
            wide[40_000] = 7
            expected = gn.gather(wide, rows)  # compiles what runs
            assert (expected == 7).any(-1).sum() == 1
            tracemalloc.start()
            found = gn.gather(wide, rows)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert found.tobytes() == expected.tobytes() and most < 4 << 20


def test_dask_indices_of_a_stored_array_give_a_dask_array(da, file_array):
    lazy = gn.gather(file_array, da.from_array(np.array([39, 0, -2]), chunks=2))
    assert isinstance(lazy, da.Array) and lazy.compute().tobytes() == DATA[[39, 0, -2]].tobytes()


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
def test_results_are_written_by_blocks_from_every_kind_of_data(da, made, monkeypatch, block_bytes):
    monkeypatch.setattr(stored, "BLOCK_BYTES", block_bytes)
    calls = [
        ("gather", RNG.integers(-40, 40, 9), {}),
        ("gather", RNG.integers(-6, 6, (40, 2)), {"axis": 1, "batch_dims": 1}),
        ("gather", np.array(2), {"axis": 2}),
        ("gather_nd", RNG.integers(0, 3, (40, 2, 2)), {"batch_dims": 1}),
        ("gather_elements", RNG.integers(-40, 40, (3, 5, 3)), {}),
    ]
    in_file, lazy = made(DATA.shape, values=DATA), da.from_array(DATA, chunks=(9, 4, 2))
    for function, indices, options in calls:
        wanted = getattr(gn, function)(DATA, indices, **options)
        for data, places in [(DATA, indices), (in_file, indices), (lazy, indices), (in_file, da.from_array(indices))]:
            out = made(wanted.shape)
            assert getattr(gn, function)(data, places, out=out, **options) is out
            assert out[...].tobytes() == wanted.tobytes(), (function, type(data))


def test_sums_of_dask_arrays_are_written_too(da, made):
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


def test_out_may_not_be_data(da, made, monkeypatch):
    monkeypatch.setattr(stored, "BLOCK_BYTES", 16)
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


def test_two_new_arrays_in_memory_are_not_one(zarr):
    data, out = (zarr.zeros((2, 3), dtype="f4") for _ in range(2))
    assert data == out  # zarr compares what they hold
    assert gn.gather(data, [1, 0], out=out) is out


def test_views_of_a_dataset_in_other_types_are_read(h5py, tmp_path):
    pairs = np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")])
    with h5py.File(tmp_path / "data.h5", "w") as file:
        data, both = file.create_dataset("data", data=DATA, chunks=True), file.create_dataset("both", data=pairs)
        none = file.create_dataset("none", data=DATA[:0])
        assert gn.gather(data.astype("f8"), [3, -1]).tolist() == DATA[[3, -1]].tolist()
        assert gn.gather(both.fields("b"), both.astype([("a", "i8"), ("b", "f8")])["a"] - 3).tolist() == [2.5, 2.5]
        assert gn.gather(none.astype("f8"), []).shape == (0, 6, 3)
        file["kind"] = np.dtype("f4")
        with pytest.raises(gn.InvalidGatherError, match=r"^data is a h5py\.Datatype, which is no array; pass one of"):
            gn.gather(file["kind"], [0])


def test_datasets_of_a_closed_file_are_rejected(h5py, tmp_path):
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


def test_an_out_that_was_opened_for_reading_is_rejected(h5py, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("out", (2, 6, 3), "f4")
    with h5py.File(tmp_path / "data.h5", "r") as file, pytest.raises(gn.InvalidGatherError, match="open it with mode"):
        gn.gather(DATA, [1, 2], out=file["out"])


def test_gradients_of_stored_arrays_have_the_bytes_of_those_in_memory(made, monkeypatch):
    monkeypatch.setattr(stored, "READ_BYTES", 1)
    grad = RNG.standard_normal((90, 4)).astype("f4")
    indices = RNG.integers(-20, 20, 90)
    wanted = gn.gather_grad(grad, indices, (20, 4), scale=3)
    in_file = made(grad.shape, values=grad)
    assert gn.gather_grad(in_file, indices, (20, 4), scale=3).tobytes() == wanted.tobytes()
    kernel = gn.compile("gather_grad", "20x4xf32", "90xi64", scale=3)
    assert kernel(in_file, indices).tobytes() == wanted.tobytes()
    out = np.empty((20, 4), "f4")
    assert gn.gather_grad(in_file, indices, (20, 4), scale=3, out=out) is out and out.tobytes() == wanted.tobytes()
    elements = gn.gather_elements_grad(grad, np.tile(indices[:, None], 4), (20, 4))
    assert gn.gather_elements_grad(in_file, np.tile(indices[:, None], 4), (20, 4)).tobytes() == elements.tobytes()
    with pytest.raises(gn.BoundsError, match=r"index 20 at position \(1,\)"):
        gn.gather_grad(in_file, np.r_[0, 20, indices[2:]], (20, 4))


def test_bags_and_kernels_read_the_rows_that_they_need(made):
    table = RNG.standard_normal((40, 4)).astype("f4")
    in_file, rows = made(table.shape, values=table), np.array([[3, -1, 3], [7, 39, 3]])
    wanted = gn.gather_reduce(table, rows, reduce="mean", padding_index=7)
    assert gn.gather_reduce(in_file, rows, reduce="mean", padding_index=7).tobytes() == wanted.tobytes()
    assert gn.gather_reduce(in_file, rows, reduce="max").tobytes() == table[rows].max(1).tobytes()
    for operator, wanted in [("gather", gn.gather(table, rows)), ("gather_reduce", gn.gather_reduce(table, rows))]:
        kernel = gn.compile(operator, in_file, rows)
        assert kernel(in_file, rows).tobytes() == wanted.tobytes()
    out = made((2, 3, 4))
    kernel = gn.compile("gather", table, rows)
    assert kernel(table, rows, out) is out and out[...].tobytes() == table[rows].tobytes()


@pytest.fixture
def make_zarr(zarr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(path):
        array = zarr.create_array(path, shape=(20,), chunks=(5,), dtype="i8", overwrite=True)
        array[...] = VALUES
        return array

    return make


def is_written(data, out) -> bool:
    """Return whether a call wrote to `out`; when not, `out` was rejected and is what it was."""
    before, wanted, rejected = out[...], np.asarray(gn.gather(data, BACKWARDS)), ""
    try:
        gn.gather(data, BACKWARDS, out=out)
    except gn.InvalidGatherError as error:
        rejected = str(error)
    assert np.array_equal(out[...], before if rejected else wanted)
    assert not rejected or rejected.endswith("would be read after others were written; pass another array of the file")
    return not rejected


def test_a_store_of_fsspec_is_known_by_its_address(zarr, make_zarr):
    fsspec = pytest.importorskip("fsspec")
    make_zarr("source.zarr"), make_zarr("other.zarr")
    pathlib.Path("folder").mkdir()
    make_zarr("folder/source.zarr")
    here = f"file://{pathlib.Path.cwd()}"
    fsspec.filesystem("memory").store.clear()
    make_zarr("memory://source.zarr"), make_zarr("memory://other.zarr")
    for data, out, is_one in [
        (f"{here}/source.zarr", "source.zarr", True),
        (f"{here}/source.zarr", f"{here}/source.zarr", True),
        (f"{here}/source.zarr", "other.zarr", False),
        ("memory://source.zarr", "memory://source.zarr", True),
        ("memory://source.zarr", "memory://other.zarr", False),
        (f"memory://{pathlib.Path.cwd()}/source.zarr", "source.zarr", False),
        (zarr.storage.LoggingStore(zarr.storage.LocalStore("source.zarr"), log_level="ERROR"), "source.zarr", True),
        (in_folder(zarr, fsspec, "."), in_folder(zarr, fsspec, "folder"), False),
        (in_folder(zarr, fsspec, "folder"), "folder/source.zarr", True),
    ]:
        if data == f"memory://{pathlib.Path.cwd()}/source.zarr":
            make_zarr(data)
        assert is_written(zarr.open_array(data, mode="r"), zarr.open_array(out, mode="r+")) != is_one, (data, out)


def in_folder(zarr, fsspec, folder):
    """Return a store of fsspec whose path is relative to a folder."""
    asynchronous = fsspec.implementations.asyn_wrapper.AsyncFileSystemWrapper
    files = fsspec.filesystem("dir", path=str(pathlib.Path(folder).absolute()), fs=fsspec.filesystem("file"))
    return zarr.storage.FsspecStore(asynchronous(files, asynchronous=True), path="source.zarr")


def test_virtual_datasets_are_the_datasets_that_they_show(da, h5py, tmp_path):
    with h5py.File(tmp_path / "source.h5", "w") as file, h5py.File(tmp_path / "other.h5", "w") as elsewhere:

        def virtual(source, name, where=file):
            layout = h5py.VirtualLayout((20,), "i8")
            layout[:] = source
            return where.create_virtual_dataset(name, layout)

        source, other = (file.create_dataset(name, data=VALUES) for name in ("source", "other"))
        shown = virtual(h5py.VirtualSource(source), "shown")
        file.flush()
        far = virtual(h5py.VirtualSource("source.h5", "shown", (20,)), "far", elsewhere)
        missing = virtual(h5py.VirtualSource("missing.h5", "source", (20,)), "missing")
        elsewhere.flush()
        for data in (shown, far, da.from_array(far, chunks=5)):
            assert not is_written(data, source)
        assert is_written(shown, other) and is_written(far, other)
        assert not is_written(source, shown) and not is_written(shown, far)
        gn.gather(missing, BACKWARDS, out=source)
        assert file["source"][...].sum() == 0
