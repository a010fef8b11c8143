"""Rows of a file that is larger than memory, mapped and as a dask array. Needs the extra `dask`."""

import tempfile
from pathlib import Path

import dask.array as da
import numpy as np

import gathernest as gn

ROWS, COLUMNS = 2**21, 1024


class Table:
    """A file that any worker opens by its path; dask asks it for one chunk at a time."""

    shape, dtype, ndim = (ROWS, COLUMNS), np.dtype(np.float32), 2

    def __init__(self, path: Path):
        self.path = path

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)[place]


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "table.f32"
    with path.open("wb") as stream:
        stream.truncate(ROWS * COLUMNS * 4)  # 8 GiB of zeros that take no room on disk
    table = np.memmap(path, np.float32, "r+", shape=(ROWS, COLUMNS))
    table[[7, 1_000_000, -1], 0] = [7, 1_000_000, -1]

    print(f"{table.nbytes / 2**30:.0f} GiB, mapped:", gn.gather(table, [1_000_000, 7, -1])[:, 0])

    lazy = gn.gather(da.from_array(Table(path), chunks=(2**17, COLUMNS)), [1_000_000, 7, -1])
    print("as a dask array:", lazy)
    print("computed:", lazy.compute()[:, 0])
    try:
        gn.gather(da.from_array(Table(path), chunks=(2**17, COLUMNS)), da.from_array(np.array([7, ROWS]))).compute()
    except gn.BoundsError as error:
        print(error)
