"""Each library is imported before every other and after it, and gathernest compiles and runs beside them all."""

import importlib.util
import os
import subprocess
import sys

import pytest

INSTALLED = [
    name
    for name in (
        *("torch", "tensorflow", "jax", "onnx", "onnxruntime", "openvino", "pyarrow", "polars", "pandas"),
        *("xarray", "h5py", "zarr", "dask.array"),
    )
    if importlib.util.find_spec(name.partition(".")[0]) is not None
]
# Of each two libraries, each comes first in one of the orders.
ORDERS = {"first": ["gathernest", *INSTALLED], "last": [*reversed(INSTALLED), "gathernest"]}
PROGRAM = """
import importlib, os, sys
import numpy as np

table = np.arange(400_000, dtype=np.float32).reshape(4000, 100)
rows = np.random.default_rng(0).integers(0, 4000, 20_000)


def check(found):
    assert np.asarray(found).tobytes() == table[rows].tobytes()


for name in sys.argv[1:]:
    library = importlib.import_module(name)
    if name == "gathernest":
        check(library.gather(table, rows))
    elif name == "torch":
        check(library.from_numpy(table).index_select(0, library.from_numpy(rows)))
    elif name == "jax":
        check(library.jit(lambda data, places: data[places])(table, rows))
    elif name == "tensorflow":
        check(library.gather(table, rows))
import gathernest

check(gathernest.gather(table, rows))
assert gathernest.gather_reduce(table, rows.reshape(-1, 10)).shape == (2000, 100)
child = os.fork()
if not child:
    try:
        check(gathernest.gather(table, rows))
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("the same bytes")
"""


@pytest.mark.skipif(len(INSTALLED) < 5, reason="few of the libraries are installed; `make libraries` installs them")
@pytest.mark.parametrize("place", ORDERS)
def test_libraries_and_gathernest_work_in_any_order_of_import(place, tmp_path):
    environment = os.environ | {"GATHERNEST_CACHE_DIR": str(tmp_path)}  # compiles beside the libraries
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *ORDERS[place]], env=environment, check=False, text=True, capture_output=True
    )
    assert ended.stdout.endswith("the same bytes\n"), ended.stderr[-2000:]
