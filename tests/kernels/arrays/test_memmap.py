"""Memory-mapped files of more bytes than anyone would read: gathers touch the pages that they need."""

import errno
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn

pytestmark = pytest.mark.usefixtures("serial")

GIB = 2**30
ROWS, COLUMNS = 2**21, 1024
PLACES = [0, 1_234_567, -1]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A file of 8 GiB that takes a few pages on disk: row r holds r + 1, in the rows of `PLACES` alone."""
    path = tmp_path_factory.mktemp("memmap") / "rows.f32"
    with path.open("wb") as stream:
        try:
            stream.truncate(ROWS * COLUMNS * 4)
        except OSError as error:
            if error.errno not in (errno.EFBIG, errno.ENOSPC, errno.EINVAL, errno.EOPNOTSUPP):
                raise
            pytest.skip(f"the file system takes no file of 8 GiB: {error}")
    array = np.memmap(path, np.float32, "r+", shape=(ROWS, COLUMNS))
    for row in PLACES:
        array[row] = row % ROWS + 1
    array.flush()
    return path


@pytest.fixture(params=["r", "r+", "c"])
def big(request, file) -> np.memmap:
    return np.memmap(file, np.float32, request.param, shape=(ROWS, COLUMNS))


def resident_bytes() -> int:
    """Return what this process holds in memory, mapped pages included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Touched:
    """Measures by how much the memory of this process grows in a `with`."""

    bytes = 0

    def __enter__(self) -> "Touched":
        self.bytes = -resident_bytes()
        return self

    def __exit__(self, *ignored) -> None:
        self.bytes += resident_bytes()


LITTLE = 64 * 2**20
linux_only = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is measured by Linux's /proc")

CALLS = {
    "gather": (gn.gather, np.array(PLACES), (3, COLUMNS)),
    "gather_nd": (gn.gather_nd, np.array([[row, 5] for row in PLACES]), (3,)),
    "gather_elements": (gn.gather_elements, np.array([[row, row] for row in PLACES]), (3, 2)),
}


@linux_only
@pytest.mark.parametrize("name", CALLS)
def test_a_gather_reads_the_rows_it_needs_and_no_more(big, name):
    function, indices, shape = CALLS[name]
    function(np.zeros((4, COLUMNS), np.float32), indices % 2)  # compiles
    with Touched() as touched:
        got = function(big, indices)
    assert touched.bytes < LITTLE
    assert (type(got), got.shape) == (np.ndarray, shape)
    assert got.reshape(3, -1)[:, 0].tolist() == [1, 1_234_568, ROWS]


@linux_only
def test_a_rejected_index_reads_nothing(big):
    with Touched() as touched, pytest.raises(gn.BoundsError, match=r"index 2097152 at position \(1,\)"):
        gn.gather(big, [0, ROWS])
    assert touched.bytes < LITTLE


@linux_only
@pytest.mark.parametrize("view", [np.s_[::-1], np.s_[::2, 3:], np.s_[:, ::-4]], ids=str)
def test_a_view_of_a_file_is_read_in_place(file, view):
    big = np.memmap(file, np.float32, "r", shape=(ROWS, COLUMNS))[view]
    gn.gather(np.zeros((4, COLUMNS), np.float32)[view], [0])  # compiles
    with Touched() as touched:
        got = gn.gather(big, [0, 7, len(big) - 1])
    assert touched.bytes < LITTLE
    assert got.tobytes() == np.asarray(big[[0, 7, len(big) - 1]]).tobytes()


@linux_only
def test_a_file_of_indices_is_read_where_the_result_needs_it(file):
    indices = np.memmap(file, np.int64, "r", shape=(ROWS * COLUMNS // 2,))
    few = indices[2000:4000]
    gn.gather(np.arange(3.0), np.zeros(4, np.int64))  # compiles
    with Touched() as touched:
        assert gn.gather(np.arange(3.0), few).tolist() == [0.0] * 2000
    assert touched.bytes < LITTLE


@linux_only
@pytest.mark.parametrize("name", CALLS)
def test_dask_indices_into_a_file_read_the_rows_they_need(big, name):
    function, indices, _ = CALLS[name]
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    lazy = da.from_array(indices, chunks=2)
    with dask.config.set(scheduler="sync"):
        function(np.zeros((4, COLUMNS), np.float32), lazy % 2).compute()  # compiles
        with Touched() as touched:
            got = function(big, lazy).compute()
    assert touched.bytes < LITTLE
    assert got.reshape(3, -1)[:, 0].tolist() == [1, 1_234_568, ROWS]


@linux_only
def test_compiling_for_a_file_reads_nothing_of_it(big):
    gn.compile("gather", np.zeros((4, COLUMNS), np.float32), [0])
    with Touched() as touched:
        kernel = gn.compile("gather", big, PLACES)
        assert kernel(big, PLACES)[:, 0].tolist() == [1, 1_234_568, ROWS]
    assert touched.bytes < LITTLE


@linux_only
def test_out_may_be_rows_of_a_file_of_many_bytes(tmp_path):
    with (tmp_path / "out").open("wb") as stream:
        stream.truncate(8 * GIB)
    out = np.memmap(tmp_path / "out", np.float32, "r+", shape=(ROWS, COLUMNS))[5000:5003]
    data = np.arange(4 * COLUMNS, dtype=np.float32).reshape(4, COLUMNS)
    gn.gather(data, [0, 1])  # compiles
    with Touched() as touched:
        assert gn.gather(data, [3, 0, 1], out=out) is out
    assert touched.bytes < LITTLE
    out.flush()
    stored = np.fromfile(tmp_path / "out", np.float32, 3 * COLUMNS, offset=5000 * COLUMNS * 4)
    assert stored.tobytes() == data[[3, 0, 1]].tobytes()


def test_a_row_may_be_gathered_into_its_own_file(tmp_path):
    path = tmp_path / "own"
    np.arange(12.0).tofile(path)
    own = np.memmap(path, np.float64, "r+", shape=(4, 3))
    gn.gather(own, [3, 0], out=own[:2])
    own.flush()
    assert np.fromfile(path).reshape(4, 3)[:, 0].tolist() == [9, 0, 6, 9]


@pytest.mark.parametrize("function", [gn.gather, gn.gather_nd, gn.gather_elements])
def test_a_file_opened_to_read_is_no_out(tmp_path, function):
    np.zeros(3).tofile(tmp_path / "out")
    out = np.memmap(tmp_path / "out", np.float64, "r", shape=(3,))
    indices = np.zeros((3, 1) if function is gn.gather_nd else 3, int)
    with pytest.raises(gn.InvalidGatherError, match="out must be writeable, got a read-only array; pass a copy"):
        function(np.ones(3), indices, out=out)


def test_a_result_does_not_hold_the_file(file):
    got = gn.gather(np.memmap(file, np.float32, "r", shape=(ROWS, COLUMNS)), [0])
    assert got.base is None
    assert len(pickle.dumps(got)) < 10_000
