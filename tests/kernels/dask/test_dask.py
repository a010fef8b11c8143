"""Gathers of dask arrays: lazy, chunk by chunk, with the same answers and errors, wherever the tasks run."""

import pickle

import ml_dtypes
import numpy as np
import pytest

import gathernest as gn

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

DATA = np.arange(120).reshape(6, 5, 4)
INDICES = np.array([[5, 0, -1], [2, 2, -6]])
TABLE = np.arange(40.0).reshape(10, 4)


@pytest.fixture(autouse=True)
def _here():
    """Run tasks in this thread, under the empty schedule, unless a test says otherwise."""
    with dask.config.set(scheduler="sync"), gn.knobs.scope(schedule=""):
        yield


class Source:
    """An array that is not in memory: it knows its shape, and notes every part of it that is read."""

    def __init__(self, array: np.ndarray):
        self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim
        self.reads: list[tuple[slice, ...]] = []

    def __getitem__(self, place: tuple[slice, ...]) -> np.ndarray:
        if not all(part == slice(0, 0) for part in place):
            self.reads.append(place)
        return self.array[place]

    def rows_read(self) -> list[int]:
        """Return the first row of every chunk that was read, in order."""
        return sorted(place[0].start for place in self.reads)


def test_import_and_a_call_with_ndarrays_import_no_dask(python):
    out = python("""
        import sys, gathernest as gn
        gn.gather([1, 2, 3], [2])
        print([name for name in sys.modules if name.startswith(("dask", "distributed"))])
    """)
    assert out.strip() == "[]"


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("chunks", [(6, 5, 4), (2, 5, 4), (6, 2, 4), (2, 2, 3), ((4, 0, 2), (5,), (1, 3))], ids=str)
def test_a_gather_is_a_dask_array_with_the_answer_of_ndarrays(axis, chunks):
    data, indices = da.from_array(DATA, chunks=chunks), INDICES % DATA.shape[axis]
    wanted = DATA.take(indices, axis)
    got = gn.gather(data, indices, axis)
    assert isinstance(got, da.Array)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert got.compute().tobytes() == wanted.tobytes()


def test_chunks_off_the_axis_and_of_indices_are_chunks_of_the_result():
    data = da.from_array(DATA, chunks=((4, 2), (2, 3), (1, 3)))
    indices = da.from_array(np.zeros((3, 4), int), chunks=((2, 1), (4,)))
    assert gn.gather(data, indices, 1).chunks == ((4, 2), (2, 1), (4,), (1, 3))
    assert gn.gather_nd(data, indices.rechunk((2, 2))[:, :2]).chunks == ((2, 1), (1, 3))
    assert gn.gather_elements(data, da.zeros((5, 5, 2), dtype=int, chunks=3), 1).chunks == ((3, 1, 1), (3, 2), (1, 1))


@pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])
def test_shared_dimensions_are_cut_alike(operator):
    attributes = {
        "gather": {"axis": 1, "batch_dims": 1},
        "gather_nd": {"batch_dims": 1},
        "gather_elements": {"axis": 1},
    }
    indices = np.random.default_rng(0).integers(0, 3, (6, 5, 3))
    data = np.arange(6 * 5 * 3 * 3).reshape(6, 5, 3, 3) if operator == "gather_nd" else np.arange(90).reshape(6, 5, 3)
    lazy = da.from_array(data, chunks=(4, 2, *(1,) * (data.ndim - 2))), da.from_array(indices, chunks=(3, 5, 1))
    got = getattr(gn, operator)(*lazy, **attributes[operator])
    assert got.chunks[0] == (3, 1, 2)
    assert got.compute().tolist() == getattr(gn, operator)(data, indices, **attributes[operator]).tolist()


def test_data_may_be_an_ndarray_or_a_list_when_indices_are_dask():
    indices = da.from_array(INDICES, chunks=(1, 2))
    assert gn.gather(DATA, indices).compute().tobytes() == DATA[INDICES].tobytes()
    assert gn.gather([5, 6, 7], da.arange(3, chunks=2)).compute().tolist() == [5, 6, 7]


def test_indices_of_rank_0_drop_the_axis():
    data = da.from_array(DATA, chunks=2)
    assert gn.gather(data, 4).compute().tolist() == DATA[4].tolist()
    assert gn.gather(da.arange(5, chunks=2), da.from_array(np.array(3))).compute() == 3


@pytest.mark.parametrize("chunks", [10, 3])
def test_nothing_is_read_before_it_is_computed_and_then_every_chunk_once(chunks):
    source = Source(TABLE)
    data = da.from_array(source, chunks=(chunks, 4), meta=np.empty((0, 0)))
    got = gn.gather(data, da.from_array(np.array([9, 0, 5, 5, 1]), chunks=2))
    assert source.reads == []
    assert got.compute().tolist() == TABLE[[9, 0, 5, 5, 1]].tolist()
    assert source.rows_read() == list(range(0, 10, chunks))


def test_chunks_that_known_indices_do_not_point_into_are_not_read():
    source = Source(TABLE)
    data = da.from_array(source, chunks=(2, 4), meta=np.empty((0, 0)))
    got = gn.gather(data, [9, 2, -1, 3, 12], bounds="zero")
    assert got.compute()[:, 0].tolist() == [36, 8, 36, 12, 0]
    assert source.rows_read() == [2, 8]


def test_a_part_of_the_result_reads_its_part_of_the_data():
    source = Source(TABLE)
    data = da.from_array(source, chunks=(10, 1), meta=np.empty((0, 0)))
    assert gn.gather(data, [3, 1])[:, 2].compute().tolist() == [14, 6]
    assert [place[1].start for place in source.reads] == [2]


def test_known_indices_are_cut_so_that_a_block_of_the_result_fits_a_chunk():
    data = da.zeros((1000, 100), chunks=(100, 50))
    with dask.config.set({"array.chunk-size": "40 kB"}):
        got = gn.gather(data, np.zeros((20, 30), int))
    assert got.chunks[-1] == (50, 50)
    assert max(got.chunks[0]) * max(got.chunks[1]) * 50 * 8 <= 40_000
    assert len(gn.gather(data, np.zeros(600, int)).chunks[0]) == 1


def test_a_chunk_gives_no_more_than_its_share():
    data = da.from_array(TABLE, chunks=(2, 4))
    graph = gn.gather(data, da.from_array(np.array([0, 9, 1, 8]))).__dask_graph__()
    parts = [key for key in graph if str(key[0]).startswith("part-")]
    rows = dask.get(dict(graph), parts)
    assert [0 if part is None else len(part.rows) for part in rows] == [2, 0, 0, 0, 2]


def test_a_task_is_small_however_many_chunks_there_are():
    data, indices = da.zeros((5000, 2), chunks=(1, 2)), da.zeros(4, dtype=int, chunks=2)
    lazy = gn.gather(data, indices)
    tasks = dict(lazy.__dask_graph__().layers[lazy.name])
    parts = [task for key, task in tasks.items() if key[0].startswith("part-")]
    assert len(parts) == 2 * 5000
    assert len(pickle.dumps(parts[-1])) < 2000


def outside(lazy) -> str:
    with pytest.raises(gn.BoundsError) as caught:
        lazy.compute()
    return str(caught.value)


@pytest.mark.parametrize("chunks", [10, 3])
@pytest.mark.parametrize("index_chunks", [None, 2])
def test_an_index_outside_is_rejected_in_the_words_of_ndarrays(chunks, index_chunks):
    indices = np.array([[0, 1, 2], [3, -11, 4]])
    data = da.from_array(TABLE, chunks=chunks)
    with pytest.raises(gn.BoundsError) as caught:
        gn.gather(TABLE, indices)
    lazy = gn.gather(data, indices if index_chunks is None else da.from_array(indices, chunks=(1, index_chunks)))
    assert outside(lazy) == str(caught.value)
    assert str(caught.value).startswith("index -11 at position (1, 1) of indices is out of range [-10, 9] for axis 0")


@pytest.mark.parametrize("chunks", [10, 3])
def test_several_indices_outside_are_counted_in_their_block(chunks):
    lazy = gn.gather(da.from_array(TABLE, chunks=chunks), da.from_array(np.array([0, 1, 2, 10, 11, 3]), chunks=3))
    assert "index 10 at position (3,) of indices is out of range [-10, 9] for axis 0 of size 10 (2 of 3 " in outside(
        lazy
    )
    assert "2 of 3 indices of its block are out of range" in outside(lazy)


@pytest.mark.parametrize("chunks", [10, 3])
def test_a_component_outside_is_named_with_its_own_axis(chunks):
    indices = np.array([[0, 1], [9, 3], [9, 4]])
    lazy = gn.gather_nd(da.from_array(TABLE, chunks=chunks), da.from_array(indices, chunks=(2, 1)))
    assert "index 4 at position (2, 1) of indices is out of range [-4, 3] for axis 1 of size 4" in outside(lazy)


@pytest.mark.parametrize("chunks", [(0,), ((0, 0),)])
@pytest.mark.parametrize("bounds", ["error", "clip", "wrap", "unchecked"])
def test_an_empty_axis_is_rejected_when_there_are_indices(chunks, bounds):
    data = da.from_array(np.zeros(0), chunks=chunks)
    lazy = gn.gather(data, da.zeros(5, dtype=int, chunks=2), bounds=bounds)
    assert "axis 0 of data has size 0, so none of the 5 indices is valid" in outside(lazy)
    assert gn.gather(data, np.zeros(0, int), bounds=bounds).compute().shape == (0,)
    assert gn.gather(data, [1, 2], bounds="zero").compute().tolist() == [0, 0]


def test_indices_are_checked_when_the_result_is_empty():
    lazy = gn.gather(da.zeros((6, 0), chunks=(2, 0)), [6])
    assert "index 6 at position (0,)" in outside(lazy)


@pytest.mark.parametrize("name", sorted(gn.ops))
@pytest.mark.parametrize("chunks", [10, 3])
def test_every_operator_version_takes_dask_arrays(name, chunks):
    indices = np.array([[9, 0], [1, 2], [1, 3]])
    arguments = [0] if name in ("openvino.Gather-7", "openvino.Gather-8", "openvino.GatherElements-6") else []
    options = {"training": False} if name == "labview.GatherND" else {}
    lazy = gn.ops[name](da.from_array(TABLE, chunks=chunks), da.from_array(indices, chunks=2), *arguments, **options)
    wanted = gn.ops[name](TABLE, indices, *arguments, **options)
    got, wanted = (lazy.output, wanted.output) if options else (lazy, wanted)
    assert isinstance(got, da.Array)
    assert got.compute().tolist() == wanted.tolist()


def test_a_layer_that_trains_takes_no_dask_array():
    with pytest.raises(gn.InvalidGatherError, match=r"a layer in training mode keeps .* pass training=False"):
        gn.ops["labview.GatherND"](da.from_array(TABLE), [[0, 1]])


def test_gather_nd_5_makes_its_batch_dimensions_one():
    data, indices = np.arange(48).reshape(2, 3, 4, 2), np.arange(6).reshape(2, 3, 1) % 4
    got = gn.ops["openvino.GatherND-5"](da.from_array(data, chunks=1), da.from_array(indices, chunks=2), 2)
    assert got.compute().tolist() == gn.ops["openvino.GatherND-5"](data, indices, 2).tolist()


@pytest.mark.parametrize("chunks", [10, 3])
def test_gather_7_rejects_a_negative_index_when_it_is_computed(chunks):
    lazy = gn.ops["openvino.Gather-7"](
        da.from_array(TABLE, chunks=chunks), da.from_array(np.array([0, 1, -1]), chunks=2), 0
    )
    assert outside(lazy).startswith(
        "index -1 at position (2,) of indices is negative, and openvino.Gather-7 allows none"
    )


def test_a_kernel_is_called_with_dask_arrays_and_compiled_for_them():
    data, indices = da.from_array(TABLE, chunks=3), da.arange(4, chunks=2)
    kernel = gn.compile("gather", data, indices)
    assert kernel(data, indices).compute().tolist() == TABLE[:4].tolist()


DTYPES = [
    *("?", "f4", ">f8", "c16", "g", "S5", "U3", "M8[ns]", "m8[D]", "V3", "V0"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
    np.dtype([("a", "i1"), ("b", "f8"), ("c", "S3", (2,))]),
]


@pytest.mark.parametrize("chunks", [7, 3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_keeps_its_bytes(dtype, chunks):
    dtype = np.dtype(dtype)
    data = np.zeros(7, dtype)
    if dtype.itemsize:
        raw = np.random.default_rng(0).integers(0, 2, 7 * dtype.itemsize, np.uint8)
        data = raw.view(dtype)
    for bounds, indices in (("error", [6, 0, -3]), ("zero", [6, 9, 0])):
        wanted = gn.gather(data, indices, bounds=bounds)
        got = gn.gather(da.from_array(data, chunks=chunks), indices, bounds=bounds)
        assert got.dtype == dtype
        assert (got.compute().dtype, got.compute().tobytes()) == (dtype, wanted.tobytes())


@pytest.mark.parametrize("chunks", [7, 2])
@pytest.mark.parametrize("dtype", [object, np.dtypes.StringDType(), np.dtypes.StringDType(na_object=None)], ids=repr)
def test_strings_are_gathered_and_empty_outside(dtype, chunks):
    data = np.array(["a", "bc", "", "a string that is too long for the inline form", "é"], dtype)
    got = gn.gather(da.from_array(data, chunks=chunks), [4, 3, 7, -5], bounds="zero")
    assert got.dtype == dtype
    assert got.compute().tolist() == ["é", data[3], "", "a"]


@pytest.mark.parametrize("indices", [da.zeros(2), da.from_array(np.array([True]))], ids=str)
def test_indices_that_are_no_integers_are_rejected_at_once(indices):
    with pytest.raises(gn.IndexTypeError, match=r"indices must be integers, got dtype (float64|bool)"):
        gn.gather(TABLE, indices)


def test_out_is_rejected():
    with pytest.raises(gn.InvalidGatherError) as caught:
        gn.gather(da.from_array(TABLE), [0], out=np.zeros((1, 4)))
    assert str(caught.value) == (
        "out cannot be in memory with dask arrays, whose result is computed later; leave it out, pass a zarr.Array or "
        "an h5py.Dataset, or write the result with dask.array.store"
    )


def test_a_dask_array_is_no_out():
    with pytest.raises(gn.InvalidGatherError, match=r"out cannot be a dask.Array: it has no memory; leave out away"):
        gn.gather(TABLE, [0], out=da.zeros((1, 4)))


@pytest.mark.parametrize("name", ["data", "indices"])
def test_chunks_of_unknown_size_are_rejected(name):
    numbers = da.arange(6, chunks=3)
    arrays = {"data": numbers, "indices": numbers} | {name: numbers[numbers > 2]}
    with pytest.raises(gn.InvalidGatherError) as caught:
        gn.gather(**arrays)
    assert str(caught.value) == (
        f"{name} has chunks of unknown size, its shape is (nan,); find their sizes with {name}.compute_chunk_sizes()"
    )


def test_attributes_are_checked_at_once():
    with pytest.raises(gn.InvalidGatherError, match=r"axis 2 is out of range \[-2, 1\] for data of rank 2"):
        gn.gather(da.from_array(TABLE), [0], 2)


def test_chunks_that_are_no_ndarrays_are_rejected():
    class Other:
        shape, ndim, dtype = (0,), 1, np.dtype(float)

        def __array_function__(self, *ignored):
            return NotImplemented

        def __getitem__(self, place):
            return self

    data = da.zeros(4, chunks=2)
    data._meta = Other()
    with pytest.raises(gn.InvalidGatherError, match="data has chunks of Other, and gathers need ndarrays"):
        gn.gather(data, [0])


def test_the_arrays_of_dasks_query_planner_are_rejected(python):
    out = python("""
        import dask
        dask.config.set({"array.query-planning": True})
        import dask.array, gathernest as gn
        try:
            gn.gather(dask.array.arange(5, chunks=2), [0])
        except gn.InvalidGatherError as error:
            print(error)
    """)
    assert out.strip() == (
        "gathers of dask arrays do not work with dask's option 'array.query-planning', which is on; set it to False "
        "before dask.array is imported"
    )


def test_indices_written_to_before_the_gather_is_computed_are_those_that_were_passed():
    indices = np.array([9, 0])
    lazy = gn.gather(da.from_array(TABLE, chunks=3), indices)
    indices[:] = 4
    assert lazy.compute().tolist() == TABLE[[9, 0]].tolist()


def test_a_file_of_indices_written_to_before_the_gather_is_computed_is_rejected(tmp_path):
    np.array([9, 0]).tofile(tmp_path / "indices")
    indices = np.memmap(tmp_path / "indices", int, "r+")
    lazy = gn.gather(da.from_array(TABLE, chunks=3), indices)
    assert lazy.compute().tolist() == TABLE[[9, 0]].tolist()
    indices[:] = 4
    with pytest.raises(gn.InvalidGatherError, match="indices were written to after the gather was made and before it"):
        lazy.compute()


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


def test_graphs_are_no_larger_than_those_of_take_and_vindex():
    data, indices = da.zeros((800, 3), chunks=(50, 3)), np.random.default_rng(0).integers(0, 800, 600)
    with dask.config.set({"array.chunk-size": "2kB"}):
        made = [gn.gather(data, indices), da.take(data, indices, axis=0), data.vindex[indices]]
    lazy = da.from_array(indices, chunks=150)
    made += [gn.gather(data, lazy), data[lazy]]
    sizes = [len(dict(dask.optimize(array)[0].__dask_graph__())) for array in made]
    assert sizes[0] <= min(sizes[1:3]) and sizes[3] <= sizes[4], sizes


def test_equal_gathers_have_equal_names_and_different_ones_do_not():
    data = da.from_array(TABLE, chunks=3)
    first = gn.gather(data, [1, 2])
    assert first.name == gn.gather(data, [1, 2]).name
    others = [
        gn.gather(data, [1, 3]),
        gn.gather(data, [1, 2], 1),
        gn.gather(data, [1, 2], bounds="zero"),
        gn.gather(data.rechunk(2), [1, 2]),
        gn.gather_elements(data, [[1, 2]]),
    ]
    assert len({first.name, *(other.name for other in others)}) == 6
