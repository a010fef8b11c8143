"""Dask arrays: lazy, chunk by chunk, with the answers and errors of arrays in memory, wherever their tasks run."""

import os
import subprocess
import sys
import textwrap
import tracemalloc
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn
from gathernest.interop import chunks as chunked

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
DATA = np.arange(120).reshape(6, 5, 4)
TABLE = np.arange(40.0).reshape(10, 4)
INDICES = np.array([[5, 0, -1], [2, 2, -6]])
GRADIENTS = {"gather": gn.gather_grad, "gather_nd": gn.gather_nd_grad, "gather_elements": gn.gather_elements_grad}


@pytest.fixture(autouse=True)
def _here():
    """Run tasks in this thread, under the empty schedule, unless a test says otherwise."""
    with dask.config.set(scheduler="sync"), gn.knobs.scope(schedule=""):
        yield


class Source:
    """An array that is not in memory: it knows its shape, and notes the first row of every chunk that is read."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.rows_read: list[int] = []

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        if not all(part == slice(0, 0) for part in place):
            self.rows_read.append(place[0].start)
        return self.array[place]


def of_source(chunks) -> tuple[Source, da.Array]:
    source = Source(TABLE)
    return source, da.from_array(source, chunks=chunks, meta=np.empty((0, 0)))


def same(lazy, wanted: np.ndarray) -> None:
    """Check that a result is a dask array of the shape, dtype and bytes of an array in memory."""
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (wanted.shape, wanted.dtype)
    got = np.asarray(lazy.compute())
    assert (got.shape, got.dtype, got.tobytes()) == (wanted.shape, wanted.dtype, wanted.tobytes())


def cut(array: np.ndarray, rng: np.random.Generator) -> da.Array:
    """Return an array as dask's, every dimension in up to three chunks of any size from 0."""
    ends = [sorted(rng.integers(0, size + 1, rng.integers(0, 3)).tolist()) for size in array.shape]
    sizes = [np.diff([0, *found, size]).tolist() for found, size in zip(ends, array.shape, strict=True)]
    return da.from_array(array, chunks=tuple(map(tuple, sizes)))


CALLS = [  # operator, shape of data, shape of indices, attributes
    ("gather", (7, 3, 4), (5,), {}),
    ("gather", (4, 7, 3), (3, 4), {"axis": 1}),
    ("gather", (4, 3, 7), (), {"axis": -1}),
    ("gather", (4, 3, 7), (4, 5), {"axis": 2, "batch_dims": 1}),
    ("gather", (4, 7), (4,), {"axis": 1, "batch_dims": 1}),
    ("gather_nd", (7, 5, 3), (4, 2), {}),
    ("gather_nd", (4, 7, 5, 2), (4, 3, 2), {"batch_dims": 1}),
    ("gather_nd", (7,), (2, 3, 1), {}),
    ("gather_elements", (7, 5), (4, 3), {}),
    ("gather_elements", (4, 7, 3), (3, 9, 3), {"axis": 1}),
]


@pytest.mark.draw(10)
@pytest.mark.parametrize("call", range(len(CALLS)))
@pytest.mark.parametrize("is_checked", [True, False])
def test_gathers_and_gradients_give_the_bytes_of_arrays_in_memory_however_they_are_cut(call, is_checked, monkeypatch):
    operator, shape, indices_shape, attributes = CALLS[call]
    bounds = "error" if is_checked else ("zero", "zero", "clip", "wrap")[call % 4]
    rng = np.random.default_rng(call)
    data, reach = np.arange(np.prod(shape)).reshape(shape), 5 if bounds == "error" else 9
    if operator == "gather_elements":
        reach += 2 if bounds == "error" else 0
    indices = rng.integers(-reach, reach, indices_shape)
    wanted = getattr(gn, operator)(data, indices, bounds=bounds, **attributes)
    grad = rng.integers(-3, 4, wanted.shape)
    wanted_grad = GRADIENTS[operator](grad, indices, shape, bounds=bounds, scale=-2, **attributes)
    for given, places in [(cut(data, rng), indices), (data, cut(indices, rng)), (cut(data, rng), cut(indices, rng))]:
        for ratio in (0, 1):  # in a task for each chunk, and in one for all
            monkeypatch.setattr(chunked, "IN_MEMORY_RATIO", ratio)
            same(getattr(gn, operator)(given, places, bounds=bounds, **attributes), wanted)
    with dask.config.set({"array.chunk-size": "48B"}):
        for given, places in [
            (cut(grad, rng), indices),
            (grad, cut(indices, rng)),
            (cut(grad, rng), cut(indices, rng)),
        ]:
            lazy = GRADIENTS[operator](given, places, shape, bounds=bounds, scale=-2, **attributes)
            same(lazy, wanted_grad)


def test_chunks_off_the_axis_and_of_indices_are_chunks_of_the_result():
    data = da.from_array(DATA, chunks=((4, 2), (2, 3), (1, 3)))
    indices = da.from_array(np.zeros((3, 4), int), chunks=((2, 1), (4,)))
    assert gn.gather(data, indices, 1).chunks == ((4, 2), (2, 1), (4,), (1, 3))
    assert gn.gather_nd(data, indices.rechunk((2, 2))[:, :2]).chunks == ((2, 1), (1, 3))
    assert gn.gather_elements(data, da.zeros((5, 5, 2), dtype=int, chunks=3), 1).chunks == ((3, 1, 1), (3, 2), (1, 1))
    large = da.zeros((1000, 100), chunks=(100, 50))
    with dask.config.set({"array.chunk-size": "40 kB"}):
        got = gn.gather(large, np.zeros((20, 30), int))
    assert got.chunks[-1] == (50, 50) and max(got.chunks[0]) * max(got.chunks[1]) * 50 * 8 <= 40_000
    assert len(gn.gather(large, np.zeros(600, int)).chunks[0]) == 1


@pytest.mark.parametrize("chunks", [10, 3])
def test_nothing_is_read_before_it_is_computed_and_then_every_chunk_once(chunks):
    source, data = of_source((chunks, 4))
    got = gn.gather(data, da.from_array(np.array([9, 0, 5, 5, 1]), chunks=2))
    assert source.rows_read == []
    assert got.compute().tolist() == TABLE[[9, 0, 5, 5, 1]].tolist()
    assert sorted(source.rows_read) == list(range(0, 10, chunks))


def test_chunks_that_known_indices_do_not_point_into_are_not_read():
    source, data = of_source((2, 4))
    got = gn.gather(data, [9, 2, -1, 3, 12], bounds="zero")
    assert got.compute()[:, 0].tolist() == [36, 8, 36, 12, 0]
    assert sorted(source.rows_read) == [2, 8]
    source, data = of_source((2, 4))
    assert gn.gather_reduce(data, [[3, 2], [9, -1]]).compute().tolist() == (TABLE[[3, 9]] + TABLE[[2, 9]]).tolist()
    assert sorted(source.rows_read) == [2, 8]
    source, data = of_source((10, 1))
    assert gn.gather(data, [3, 1])[:, 2].compute().tolist() == [14, 6]
    assert source.rows_read == [0]


def test_graphs_are_no_larger_than_those_of_take_and_vindex():
    data, indices = da.zeros((800, 3), chunks=(50, 3)), RNG.integers(0, 800, 600)
    with dask.config.set({"array.chunk-size": "2kB"}):
        made = [gn.gather(data, indices), da.take(data, indices, axis=0), data.vindex[indices]]
    lazy = da.from_array(indices, chunks=150)
    made += [gn.gather(data, lazy), data[lazy]]
    sizes = [len(dict(dask.optimize(array)[0].__dask_graph__())) for array in made]
    assert sizes[0] <= min(sizes[1:3]) and sizes[3] <= sizes[4], sizes


def test_indices_of_dask_are_computed_once_for_all_that_use_them():
    computed = []

    def count(block: np.ndarray) -> np.ndarray:
        computed.append(block.tolist())
        return block

    indices = da.from_array(np.array([9, 0, 5, 2]), chunks=2).map_blocks(count, dtype=int, meta=np.empty(0, int))
    data, grad = da.from_array(TABLE, chunks=(3, 2)), da.ones((4, 4), chunks=(2, 3))
    gathers = [gn.gather(data, indices), gn.gather(data + 1, indices), gn.gather(data.rechunk(-1), indices)]
    found = dask.compute(*gathers, gn.gather_grad(grad, indices, (10, 4)), gn.gather_nd(data, indices[:, None]))
    assert found[1].tolist() == (TABLE + 1)[[9, 0, 5, 2]].tolist() and found[3].sum() == 16
    assert sorted(computed) == [[5, 2], [9, 0]]


def test_equal_gathers_have_equal_names_and_different_ones_do_not():
    data, lazy = da.from_array(TABLE, chunks=3), da.from_array(np.array([1, 2]))
    for indices in ([1, 2], lazy):
        first = gn.gather(data, indices)
        assert first.name == gn.gather(data, indices).name
        others = [gn.gather(data, indices, 1), gn.gather(data, indices, bounds="zero"), gn.gather(data + 1, indices)]
        others += [gn.gather(data.rechunk(2), indices), gn.gather(data, [1, 3]), gn.gather_elements(data, [[1, 2]])]
        assert len({first.name, *(other.name for other in others)}) == 7


def test_indices_written_to_before_the_gather_is_computed_are_those_that_were_passed():
    for chunks in (3, 10):
        indices = np.array([9, 0])
        lazy, sums = (call(da.from_array(TABLE, chunks=chunks), indices) for call in (gn.gather, gn.gather_reduce))
        indices[:] = 4
        assert lazy.compute().tolist() == TABLE[[9, 0]].tolist()
        assert sums.compute().tolist() == (TABLE[9] + TABLE[0]).tolist()


def test_indices_in_a_mapped_file_are_read_block_by_block(tmp_path):
    np.array([9, 0]).tofile(tmp_path / "indices")
    indices = np.memmap(tmp_path / "indices", int, "r+")
    assert gn.gather(da.from_array(TABLE, chunks=3), indices).compute().tolist() == TABLE[[9, 0]].tolist()


@pytest.mark.parametrize("chunks", [10, 3])
def test_an_index_outside_is_rejected_in_the_words_of_ndarrays(chunks):
    data, indices = da.from_array(TABLE, chunks=chunks), np.array([[0, 1, 2], [3, -11, 4]])
    lazy = da.from_array(indices, chunks=(1, 2))
    message = r"^index -11 at position \(1, 1\) of indices is out of range \[-10, 9\] for axis 0 of size 10; use"
    tuples = da.from_array(np.array([[0, 1], [9, 3], [9, 4]]), chunks=(2, 1))
    with dask.config.set({"array.chunk-size": "80B"}):
        for call in (  # of known indices at once, of dask's when they are computed
            lambda: gn.gather(data, indices),
            lambda: gn.gather(data, lazy).compute(),
            lambda: gn.gather_reduce(data, indices),
            lambda: gn.gather_reduce(data, lazy).compute(),
            lambda: gn.gather_grad(da.ones((2, 3, 4), chunks=2), indices, (10, 4)),
            lambda: gn.gather_grad(da.ones((2, 3, 4), chunks=2), lazy, (10, 4)).compute(),
            lambda: gn.gather(da.zeros((10, 0), chunks=(chunks, 0)), indices),
        ):
            with pytest.raises(gn.BoundsError, match=message):
                call()
    with pytest.raises(gn.BoundsError, match=r"index 4 at position \(2, 1\) of indices is out of range \[-4, 3\] for"):
        gn.gather_nd(data, tuples).compute()
    several = gn.gather(data, da.from_array(np.array([0, 1, 2, 10, 11, 3]), chunks=3))
    with pytest.raises(gn.BoundsError, match=r"index 10 at position \(3,\) .* \(2 of 3 indices of its block are"):
        several.compute()
    with pytest.raises(gn.BoundsError, match=r"index -1 at position \(2,\) of indices is negative, and openvino"):
        gn.ops["openvino.Gather-7"](data, da.from_array(np.array([0, 1, -1]), chunks=2), 0).compute()


@pytest.mark.parametrize("bounds", ["error", "clip", "wrap", "unchecked"])
def test_an_empty_axis_is_rejected_when_there_are_indices(bounds):
    for chunks in ((0,), ((0, 0),)):
        data = da.from_array(np.zeros(0), chunks=chunks)
        with pytest.raises(gn.BoundsError, match="axis 0 of data has size 0, so none of the 5 indices is valid"):
            gn.gather(data, da.zeros(5, dtype=int, chunks=2), bounds=bounds).compute()
        assert gn.gather(data, np.zeros(0, int), bounds=bounds).compute().shape == (0,)
        assert gn.gather(data, [1, 2], bounds="zero").compute().tolist() == [0, 0]


@pytest.mark.parametrize("name", sorted(gn.ops))
def test_every_operator_version_takes_dask_arrays(name):
    indices = np.array([[9, 0], [1, 2], [1, 3]])
    arguments = [0] if name in ("openvino.Gather-7", "openvino.Gather-8", "openvino.GatherElements-6") else []
    options = {"training": False} if name == "labview.GatherND" else {}
    lazy = gn.ops[name](da.from_array(TABLE, chunks=3), da.from_array(indices, chunks=2), *arguments, **options)
    wanted = gn.ops[name](TABLE, indices, *arguments, **options)
    same(*((lazy.output, wanted.output) if options else (lazy, wanted)))


def test_a_kernel_is_called_with_dask_arrays_and_compiled_for_them():
    data, indices = da.from_array(TABLE, chunks=3), da.arange(4, chunks=2)
    kernel = gn.compile("gather", data, indices)
    assert kernel(data, indices).compute().tolist() == TABLE[:4].tolist()
    with pytest.raises(gn.InvalidGatherError, match=r"a layer in training mode keeps .* pass training=False"):
        gn.ops["labview.GatherND"](data, [[0, 1]])


RECORD = np.dtype([("a", "i1"), ("b", "f8"), ("c", "S3", (2,))])
DTYPES = ["?", ">f8", "c16", "g", "S5", "U3", "M8[ns]", "V3", "V0", ml_dtypes.bfloat16, ml_dtypes.int4, RECORD]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_keeps_its_bytes(dtype):
    dtype = np.dtype(dtype)
    data = np.zeros(7, dtype)
    if dtype.itemsize:
        data = RNG.integers(0, 2, 7 * dtype.itemsize, np.uint8).view(dtype)
    for chunks in (7, 3):
        for bounds, indices in (("error", [6, 0, -3]), ("zero", [6, 9, 0])):
            for places in (indices, da.from_array(np.array(indices), chunks=2)):
                lazy = gn.gather(da.from_array(data, chunks=chunks), places, bounds=bounds)
                same(lazy, gn.gather(data, indices, bounds=bounds))


@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType(na_object=None)], ids=repr)
def test_strings_are_gathered_and_empty_outside(dtype):
    data = np.array(["a", "bc", "", "a string that is too long for the inline form", "é"], dtype)
    for chunks in (7, 2):
        got = gn.gather(da.from_array(data, chunks=chunks), [4, 3, 7, -5], bounds="zero")
        assert got.dtype == dtype and got.compute().tolist() == ["é", data[3], "", "a"]


def in_documented_order(grad: np.ndarray, indices: np.ndarray, block: int) -> np.ndarray:
    """Return the gradient (20, 3) that is added by blocks of `block` rows, then by groups of 4."""
    parts = []
    for start in range(0, len(grad), block):
        parts.append(np.zeros((20, 3), np.float32))
        for row, index in zip(grad[start : start + block], indices[start : start + block], strict=True):
            parts[-1][index] += row
    while len(parts) > 1:
        parts = [sum(parts[first + 1 : first + 4], parts[first]) for first in range(0, len(parts), 4)]
    return parts[0]


def test_bytes_of_gradients_are_those_of_the_documented_order_on_any_number_of_threads():
    grad, indices = RNG.standard_normal((90, 3)).astype(np.float32), RNG.integers(-20, 20, 90)
    wanted = in_documented_order(grad, indices, 5)
    assert wanted.tobytes() != gn.gather_grad(grad, indices, (20, 3)).tobytes()  # the order is seen
    for size in ("128MiB", "100B"):
        with dask.config.set({"array.chunk-size": size}):
            lazy = gn.gather_grad(da.from_array(grad, chunks=(5, 3)), indices, (20, 3))
        assert (len(lazy.chunks[0]) > 1) == (size == "100B")
        for workers in (None, 1, 4):
            where = {"scheduler": "threads", "num_workers": workers} if workers else {}
            assert lazy.compute(**where).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, ml_dtypes.int4, "O", "m8[s]"])
def test_every_dtype_is_added_as_in_memory(dtype):
    grad, zeros = np.full(90, 3).astype(dtype), np.zeros(90, int)
    wanted = gn.gather_grad(grad, zeros, (2,), scale=3)
    got = gn.gather_grad(da.from_array(grad, chunks=7), zeros, (2,), scale=3).compute()
    assert (got.dtype, got.tolist()) == (wanted.dtype, wanted.tolist())


FLAT, OFFSETS = RNG.integers(0, 23, 40), np.array([0, 0, 3, 17, 17, 30, 40])
BAGS = [
    (RNG.integers(-23, 23, (9, 2, 5)), (4, 1, 2), None),
    (FLAT, 11, OFFSETS),
    (FLAT, 7, None),
    (FLAT[:0], 1, [0, 0]),
]


@pytest.mark.parametrize("bags", range(len(BAGS)))
@pytest.mark.parametrize(("reduce", "dtype"), [("sum", "f4"), ("mean", "f4"), ("mean", ">f4"), ("sum", "i4")])
def test_sums_of_bags_and_their_gradients_are_those_of_arrays_in_memory(bags, reduce, dtype):
    indices, chunks, offsets = BAGS[bags]
    table = RNG.integers(-5, 5, (23, 4)).astype(dtype)  # sums are exact in any order
    options = {"offsets": offsets, "reduce": reduce, "padding_index": 3, "bounds": "zero"}
    wanted = gn.gather_reduce(table, indices, **options)
    grad = np.trunc(wanted).astype(dtype)
    wanted_grad = gn.gather_reduce_grad(grad, indices, table.shape, **options)
    for size in ("128MiB", "64B"):
        with dask.config.set({"array.chunk-size": size}):
            for given in (indices, da.from_array(indices, chunks=chunks)):
                same(gn.gather_reduce(da.from_array(table, chunks=(7, 3)), given, **options), wanted)
                lazy = gn.gather_reduce_grad(da.from_array(grad, chunks=3), given, table.shape, **options)
                assert (lazy.shape, lazy.dtype) == (table.shape, table.dtype)
                np.testing.assert_allclose(lazy.compute(), wanted_grad, rtol=1e-5, atol=1e-5)
            same(gn.gather_reduce(table, da.from_array(indices, chunks=chunks), **options), wanted)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_bags_have_the_bytes_of_arrays_in_memory_however_they_are_cut(reduce, dtype):
    table, rows = RNG.standard_normal((23, 4)).astype(dtype), RNG.integers(-23, 23, (9, 2, 5))
    wanted = gn.gather_reduce(table, rows, reduce=reduce)
    for places in (rows, da.from_array(rows, chunks=(2, 2, 3))):
        lazy = gn.gather_reduce(da.from_array(table, chunks=(12, 3)), places, reduce=reduce)
        same(lazy, wanted)
        assert lazy.compute(scheduler="threads").tobytes() == wanted.tobytes()


def peak_bytes(lazy: da.Array, **where) -> int:
    """Return the memory at the peak of computing a result that nobody keeps; what compiles has run before."""
    seen = lazy.map_blocks(lambda block: block[:, :1].copy(), dtype=lazy.dtype, chunks=(lazy.chunks[0], (1,)))
    seen.compute(**where)
    tracemalloc.start()
    seen.compute(**where)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@pytest.mark.draw(1)
@pytest.mark.parametrize("kind", ["of dask", "known"])
@pytest.mark.parametrize("threads", [2, 1])
def test_memory_is_bounded_by_the_result_and_few_blocks(kind, threads):
    rows, chunk_bytes = 1024, 2**20
    data = da.zeros((40 * rows, 256), chunks=(rows, 256), dtype="f4").map_blocks(lambda block: block + 1)
    indices = RNG.integers(0, len(data), 6 * rows)
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B"}):
        places = indices if kind == "known" else da.from_array(indices, chunks=rows)
        gathered = gn.gather(data, places)
        pairs = indices.reshape(-1, 2) if kind == "known" else da.from_array(indices.reshape(-1, 2), chunks=rows)
        sums = gn.gather_reduce(data, pairs)
    assert (gathered.chunksize, sums.chunksize) == ((rows, 256), (rows // 2, 256))
    where = {"scheduler": "threads", "num_workers": threads}
    assert peak_bytes(gathered, **where) < (6 + 3 * threads + 1) * chunk_bytes
    assert peak_bytes(sums, **where) < 20 * chunk_bytes  # half of the table


ROWS = np.array([1, 5])
BLOCK_CALLS = {
    "gather": lambda data, indices: gn.gather(data, indices),
    "gather_nd": lambda data, indices: gn.gather_nd(data, indices[:, None]),
    "gather_elements": lambda data, indices: gn.gather_elements(data, indices[:, None] + np.zeros(4, int)),
    "gather_reduce": lambda data, indices: gn.gather_reduce(data, indices, offsets=[0, 1]),
    "gather_grad": lambda data, indices: gn.gather_grad(data, indices, (6, 4)),
    "gather_reduce_grad": lambda data, indices: gn.gather_reduce_grad(data, indices, (6, 4), offsets=[0, 1]),
}


def untold(array, change, chunks):
    """Return a dask array whose blocks a function changes, which dask is not told."""
    meta = np.empty((0,) * array.ndim, array.dtype)
    return da.from_array(array, chunks=chunks).map_blocks(change, dtype=array.dtype, meta=meta)


@pytest.mark.parametrize("call", BLOCK_CALLS)
@pytest.mark.parametrize("rows", [2, 6], ids=["chunks", "one chunk"])
def test_blocks_of_another_shape_or_dtype_than_dask_was_told_are_rejected(call, rows):
    name, array = ("grad", TABLE[:2]) if call.endswith("grad") else ("data", TABLE[:6])
    rest = r"and dask was told shape \(\d, \d\) and dtype float64; say what the blocks are where they are made, as map"
    for change, found in [
        (lambda block: block[:1], r"shape \(1, 4\) and dtype float64"),
        (lambda block: block[:, :1], r"shape \(\d, 1\) and dtype float64"),
        (lambda block: block.astype("f4"), r"shape \(\d, 4\) and dtype float32"),
    ]:
        for indices in (ROWS, da.from_array(ROWS)):
            with pytest.raises(gn.InvalidGatherError, match=f"^a block of {name} has {found}, {rest}"):
                BLOCK_CALLS[call](untold(array, change, (rows, 4)), indices).compute()
    lazy = BLOCK_CALLS[call](da.from_array(array, chunks=(rows, 4)), untold(ROWS, lambda block: block[:1], 2))
    message = r"a block of indices has shape \(1,.*\) and dtype int64, and dask was told shape \(2,.*\); say what"
    with pytest.raises(gn.InvalidGatherError, match=message):
        lazy.compute()


@pytest.mark.parametrize("call", BLOCK_CALLS)
def test_blocks_with_masks_that_dask_was_not_told_are_rejected(call):
    name, array = ("grad", TABLE[:2]) if call.endswith("grad") else ("data", TABLE[:6])
    lazy = untold(array, lambda block: np.ma.MaskedArray(block, block > 1), (2, 4))
    with pytest.raises(gn.InvalidGatherError, match=f"a block of {name} is a masked array, and its mask would be lost"):
        BLOCK_CALLS[call](lazy, ROWS).compute()
    lazy = untold(ROWS, lambda block: np.ma.MaskedArray(block, block > 0), 2)
    with pytest.raises(gn.InvalidGatherError, match="a block of indices is a masked array"):
        BLOCK_CALLS[call](array, lazy).compute()


def test_lists_and_other_index_types_are_blocks_too():
    data = untold(TABLE, lambda block: block.tolist(), (2, 4))
    assert gn.gather(data, untold(ROWS, lambda block: block.astype("i1"), 1)).compute().tolist() == TABLE[ROWS].tolist()


class Other:
    """A chunk that is no ndarray."""

    shape, ndim, dtype = (0,), 1, np.dtype(float)

    def __array_function__(self, *ignored):
        return NotImplemented

    def __getitem__(self, place):
        return self


def of_others() -> da.Array:
    data = da.zeros(4, chunks=2)
    data._meta = Other()
    return data


LAZY = da.from_array(TABLE, chunks=4)
UNKNOWN = da.arange(6, chunks=3)[da.arange(6, chunks=3) > 2]
REJECTED = {
    r"out cannot be in memory with dask arrays, whose result is computed later; leave it out, pass a zarr.Array or an "
    "h5py.Dataset, or write the result with dask.array.store": lambda: gn.gather(LAZY, [0], out=np.zeros((1, 4))),
    "out cannot be a dask.Array: it has no memory; leave out away": lambda: gn.gather(TABLE, [0], out=da.zeros((1, 4))),
    r"data has chunks of unknown size, its shape is \(nan,\); find their sizes with data.compute_chunk_sizes\(\)":
        lambda: gn.gather(UNKNOWN, [0]),
    "indices has chunks of unknown size": lambda: gn.gather_reduce(TABLE, UNKNOWN, OFFSETS),
    "grad has chunks of unknown size": lambda: gn.gather_grad(UNKNOWN, [0], (3,)),
    r"axis 2 is out of range \[-2, 1\] for data of rank 2": lambda: gn.gather(LAZY, [0], 2),
    "data has chunks of Other, and gathers need ndarrays": lambda: gn.gather(of_others(), [0]),
    r"masks would be lost; pass dask.array.ma.filled\(data, value\)$":
        lambda: gn.gather(da.ma.masked_greater(LAZY, 5), [1]),
    "indices must be integers, got dtype float64": lambda: gn.gather(TABLE, da.zeros(2)),
    "indices must be integers, got dtype bool": lambda: gn.gather(TABLE, da.from_array(np.array([True]))),
    r"grad must have shape \(9, 4\)": lambda: gn.gather_grad(LAZY, np.zeros(9, int), (20, 4)),
    "grad must have elements that can be added, got dtype bool":
        lambda: gn.gather_grad(LAZY.astype(bool), np.zeros(10, int), (20, 4)),
    "scale must be a whole number": lambda: gn.gather_grad(LAZY.astype(int), np.zeros(10, int), (20, 4), scale=0.5),
    "offsets are a dask array, and they say how bags are cut; pass offsets.compute":
        lambda: gn.gather_reduce(LAZY, [1, 2], da.zeros(1, dtype=int)),
    "data must be float16 to float64": lambda: gn.gather_reduce(LAZY.astype(bool), [[0]]),
    'a gradient of reduce="max" is of arrays in memory, got a dask array; compute data':
        lambda: gn.gather_reduce_grad(LAZY[:1], [[0]], (9, 4), reduce="max"),
    "a weight, a scale or a bias is of arrays in memory": lambda: gn.gather_reduce(LAZY, [[0]], weights=[[1.0]]),
    "padding_index 10 is out of range": lambda: gn.gather_reduce(LAZY, [[0]], padding_index=10),
    "a fill value is for arrays in memory, got a dask array": lambda: gn.gather(LAZY, [0], bounds=gn.Fill(1)),
}  # fmt: skip


@pytest.mark.parametrize("message", REJECTED)
def test_what_dask_arrays_cannot_do_is_rejected_at_once(message):
    with pytest.raises(gn.GathernestError, match=message):
        REJECTED[message]()


def test_without_dask_arrays_no_dask_is_imported_and_its_query_planner_is_rejected():
    code = """
        import sys, gathernest as gn
        gn.gather([1, 2, 3], [2]), gn.gather(memoryview(b"abc"), [2])
        print([name for name in sys.modules if name.startswith(("dask", "distributed"))])
        import dask
        dask.config.set({"array.query-planning": True})
        import dask.array
        try:
            gn.gather(dask.array.arange(5, chunks=2), [0])
        except gn.InvalidGatherError as error:
            print(error)
    """
    ended = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, text=True, capture_output=True)
    assert ended.stdout.splitlines() == [
        "[]",
        "gathers of dask arrays do not work with dask's option 'array.query-planning', which is on; set it to False "
        "before dask.array is imported",
    ]


@pytest.fixture(params=["threads", "cluster"])
def scheduler(request):
    """Run what a test computes on threads, and on processes of a cluster, whose variables do not outlast it."""
    if request.param == "threads":
        with dask.config.set(scheduler="threads", num_workers=2):
            yield
        return
    distributed = pytest.importorskip("distributed")
    with (
        mock.patch.dict(os.environ),
        distributed.LocalCluster(1, threads_per_worker=1, processes=True, dashboard_address=None) as started,
        distributed.Client(started, set_as_default=False) as client,
        dask.config.set(scheduler=client.get),
    ):
        yield


@pytest.mark.draw(1)
def test_results_and_errors_are_the_same_on_every_scheduler(scheduler):
    data, indices = np.arange(400.0).reshape(100, 4), RNG.integers(-100, 100, (6, 50))
    rows, places = da.from_array(data, chunks=(30, 3)), da.from_array(indices, chunks=(3, 50))
    known, apart, tuples, grad, sums = dask.compute(
        gn.gather(rows, indices),
        gn.gather(rows, places),
        gn.gather_nd(rows, places[..., None]),
        gn.gather_grad(da.ones((6, 50, 4), chunks=3), places, (100, 4)),
        gn.gather_reduce(rows, places),
    )
    assert known.tobytes() == apart.tobytes() == tuples.tobytes() == data[indices].tobytes()
    assert grad.sum() == 1200 and (sums == data[indices].sum(1)).all()
    with pytest.raises(gn.BoundsError, match=r"index 100 at position \(7,\) of indices is out of range \[-100, 99\]"):
        gn.gather(rows, da.from_array(np.r_[indices[0, :7], 100], chunks=5)).compute()
