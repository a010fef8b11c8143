"""Arrays in files of h5py and stores of zarr: only the rows that the indices need are read."""

import itertools
import tracemalloc

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.chunks import stored_arrays

DATA = np.arange(40 * 6 * 3, dtype=np.float32).reshape(40, 6, 3)
LAYOUTS = {"chunked": (7, 4, 3), "contiguous": None}


@pytest.fixture(params=["h5py chunked", "h5py contiguous", "zarr chunked"])
def stored(request, tmp_path):
    library, layout = request.param.split()
    module = pytest.importorskip(library, reason=f"{library} is not installed")
    if library == "h5py":
        with module.File(tmp_path / "data.h5", "w") as file:
            yield file.create_dataset("data", data=DATA, chunks=LAYOUTS[layout])
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


def test_every_operator_gives_what_it_gives_of_the_values(stored):
    for function, indices, rest in calls():
        found = getattr(gn, function)(stored, indices, **rest)
        assert type(found) is np.ndarray
        assert found.tobytes() == getattr(gn, function)(DATA, indices, **rest).tobytes(), (function, rest)


def test_bounds_out_and_versions_are_those_of_values(stored):
    outside = np.array([1, -41, 40, 39])
    for bounds in ("zero", "clip", "wrap", gn.Fill(-1)):
        found = gn.gather(stored, outside, bounds=bounds)
        assert found.tobytes() == gn.gather(DATA, outside, bounds=bounds).tobytes(), bounds
    with pytest.raises(gn.BoundsError, match=r"index -41 at position \(1,\)"):
        gn.gather(stored, outside)
    out = np.zeros((2, 6, 3), np.float32)
    assert gn.gather(stored, [39, 0], out=out) is out and out.tobytes() == DATA[[39, 0]].tobytes()
    with pytest.raises(gn.InvalidGatherError, match="out must have shape"):
        gn.gather(stored, [0], out=out)
    assert gn.ops["onnx.Gather-13"](stored, [3]).tobytes() == DATA[3:4].tobytes()
    with pytest.raises(gn.BoundsError, match="negative"):
        gn.ops["openvino.Gather-7"](stored, [-1], 0)
    assert gn.gather(np.arange(99), stored[0, 0].astype(int)).tolist() == [0, 1, 2]
    message = "out cannot be a (h5py.Dataset|zarr.Array): it lies in a (file|store); leave out away, and write the res"
    with pytest.raises(gn.InvalidGatherError, match=message):
        gn.gather_grad(DATA, np.arange(40), DATA.shape, out=stored)


def test_few_rows_are_read_and_not_the_whole(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    for number, (chunks, rows) in enumerate(itertools.product(((1000, 64), None), ([3, 40_000, 49_999], [[40_000]]))):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            wide = file.create_dataset("data", (50_000, 640), "f4", chunks=chunks)  # 128 MB that are never written
            wide[40_000] = 7
            expected = gn.gather(wide, rows)  # compiles what runs
            assert (expected == 7).any(-1).sum() == 1
            tracemalloc.start()
            found = gn.gather(wide, rows)
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert found.tobytes() == expected.tobytes() and most < 16 << 20


def test_rows_that_lie_close_are_read_in_one_go(monkeypatch):
    class Counted:
        shape, dtype, chunks = (1000, 4), np.dtype("f8"), (10, 4)

        def __init__(self):
            self.reads = []

        def __getitem__(self, parts):
            self.reads.append((parts[0].start, parts[0].stop))
            return np.zeros((parts[0].stop - parts[0].start, 4))

    monkeypatch.setattr(stored_arrays, "_CLOSE_BYTES", 0)
    for used, wanted in [([3, 5, 17, 900], [(3, 18), (900, 901)]), ([5, 25], [(5, 6), (25, 26)])]:
        data = Counted()
        assert stored_arrays._read(data, [np.array(used), slice(4)], 0).shape == (len(used), 4)
        assert data.reads == wanted
    monkeypatch.setattr(stored_arrays, "_MOST_BYTES", 640)
    data = Counted()
    stored_arrays._read(data, [np.arange(50), slice(4)], 0)
    assert data.reads == [(0, 20), (20, 40), (40, 50)]


def test_dask_indices_of_a_stored_array_give_a_dask_array(stored):
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    lazy = gn.gather(stored, dask.from_array(np.array([39, 0, -2]), chunks=2))
    assert isinstance(lazy, dask.Array) and lazy.compute().tobytes() == DATA[[39, 0, -2]].tobytes()
