"""Blocks that are another array than dask was told of: one error, and nothing is read beyond them."""

import numpy as np
import pytest

import gathernest as gn

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

TABLE = np.arange(24.0).reshape(6, 4)
ROWS = np.array([1, 5])
CALLS = {
    "gather": lambda data, indices: gn.gather(data, indices),
    "gather_nd": lambda data, indices: gn.gather_nd(data, indices[:, None]),
    "gather_elements": lambda data, indices: gn.gather_elements(data, indices[:, None] + np.zeros(4, int)),
    "gather_reduce": lambda data, indices: gn.gather_reduce(data, indices, offsets=[0, 1]),
    "gather_grad": lambda data, indices: gn.gather_grad(data, indices, (6, 4)),
    "gather_reduce_grad": lambda data, indices: gn.gather_reduce_grad(data, indices, (6, 4), offsets=[0, 1]),
}


@pytest.fixture(autouse=True)
def _here():
    """Run tasks in this thread."""
    with dask.config.set(scheduler="sync"):
        yield


def untold(array, change, chunks):
    """Return a dask array whose blocks a function changes, which dask is not told."""
    meta = np.empty((0,) * array.ndim, array.dtype)
    return da.from_array(array, chunks=chunks).map_blocks(change, dtype=array.dtype, meta=meta)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("rows", [2, 6], ids=["chunks", "one chunk"])
@pytest.mark.parametrize("indices", [ROWS, da.from_array(ROWS)], ids=["known", "of dask"])
def test_blocks_of_another_shape_or_dtype_are_rejected(call, rows, indices):
    name, array = ("grad", TABLE[:2]) if call.endswith("grad") else ("data", TABLE)
    for change, found in [
        (lambda block: block[:1], r"shape \(1, 4\) and dtype float64"),
        (lambda block: block[:, :1], r"shape \(\d, 1\) and dtype float64"),
        (lambda block: block[0], r"shape \(4,\) and dtype float64"),
        (lambda block: block.astype("f4"), r"shape \(\d, 4\) and dtype float32"),
    ]:
        told = r"shape \(\d, \d\) and dtype float64; say what the blocks are where they are made, as map_blocks\(func"
        with pytest.raises(gn.InvalidGatherError, match=f"^a block of {name} has {found}, and dask was told {told}"):
            CALLS[call](untold(array, change, (rows, 4)), indices).compute()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("rows", [2, 6], ids=["chunks", "one chunk"])
def test_blocks_of_indices_of_another_shape_are_rejected(call, rows):
    array = TABLE[:2] if call.endswith("grad") else TABLE
    lazy = CALLS[call](da.from_array(array, chunks=(rows, 4)), untold(ROWS, lambda block: block[:1], 2))
    message = r"a block of indices has shape \(1,.*\) and dtype int64, and dask was told shape \(2,.*\); say what"
    with pytest.raises(gn.InvalidGatherError, match=message):
        lazy.compute()


def test_lists_and_other_index_types_are_blocks_too():
    data = untold(TABLE, lambda block: block.tolist(), (2, 4))
    narrow = untold(ROWS, lambda block: block.astype("i1"), 1)
    assert gn.gather(data, narrow).compute().tolist() == TABLE[ROWS].tolist()


def test_masked_chunks_are_rejected():
    with pytest.raises(gn.InvalidGatherError, match=r"masks would be lost; pass dask.array.ma.filled\(data, value\)$"):
        gn.gather(da.ma.masked_greater(da.from_array(TABLE, chunks=2), 5), [1])
