"""`out` in a file or a store that data or dask's tasks read from: an error, however it is named."""

import pathlib
from types import SimpleNamespace

import numpy as np
import pytest

import gathernest as gn

VALUES = np.arange(20)
BACKWARDS = VALUES[::-1].copy()


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="h5py is not installed")


@pytest.fixture
def zarr():
    return pytest.importorskip("zarr", minversion="3", reason="zarr 3 is not installed")


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


def delayed(read, *arguments):
    """Return a dask array whose chunks a function gives by its arguments and their start."""
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    parts = [dask.delayed(read)(*arguments, start) for start in range(0, 20, 5)]
    return da.concatenate([da.from_delayed(part, (5,), "i8") for part in parts])


def test_arrays_that_delayed_functions_refer_to_are_seen(make_zarr, monkeypatch):
    source, other = make_zarr("source.zarr"), make_zarr("other.zarr")
    monkeypatch.setitem(globals(), "SOURCE", source)
    reader = SimpleNamespace(deep=[{"array": source}])
    for name, data in {
        "argument": delayed(lambda array, start: array[start : start + 5], source),
        "closure": delayed(lambda start: source[start : start + 5]),
        "global": delayed(lambda start: SOURCE[start : start + 5]),  # noqa: F821
        "default": delayed(lambda start, array=source: array[start : start + 5]),
        "inner function": delayed(lambda start: (lambda: source[start : start + 5])()),
        "attribute": delayed(lambda start: reader.deep[0]["array"][start : start + 5]),
    }.items():
        assert not is_written(data, source), name
        assert is_written(data, other), name


def test_paths_that_delayed_functions_are_given_are_seen(zarr, h5py, make_zarr):
    source, other = make_zarr("source.zarr"), make_zarr("other.zarr")
    group = zarr.open_group("group.zarr")
    member = group.create_array("deep/member", data=VALUES, chunks=(5,))
    with h5py.File("file.h5", "w") as file:
        stored, beside = (file.create_dataset(name, data=VALUES) for name in ("deep/stored", "beside"))

        def of_file(path, name, start):
            with h5py.File(path, "r") as opened:
                return opened[name][start : start + 5]

        def of_group(path, name, start):
            return zarr.open_group(path)[name][start : start + 5]

        def of_array(path, start):
            return zarr.open_array(path)[start : start + 5]

        for data, read, apart in [
            (delayed(of_array, "source.zarr"), source, other),
            (delayed(of_array, pathlib.Path("source.zarr").absolute()), source, other),
            (delayed(of_array, f"file://{pathlib.Path.cwd()}/source.zarr/"), source, other),
            (delayed(lambda start: zarr.open_array("source.zarr")[start : start + 5]), source, other),
            (delayed(of_group, "group.zarr", "deep/member"), member, other),
            (delayed(of_file, "file.h5", "/deep/stored"), stored, beside),
        ]:
            assert not is_written(data, read)
            assert is_written(data, apart)


def test_what_a_client_has_is_not_what_its_future_reads(make_zarr):
    da = pytest.importorskip("dask.array")
    source = make_zarr("source.zarr")
    future = type("Future", (), {"__module__": "distributed.client"})()
    future.client = [source]
    data = da.from_array(VALUES, chunks=5).map_blocks(lambda block, future: block, future=future, dtype="i8")
    assert is_written(data, source)


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


def test_virtual_datasets_are_the_datasets_that_they_show(h5py, tmp_path):
    da = pytest.importorskip("dask.array")
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
