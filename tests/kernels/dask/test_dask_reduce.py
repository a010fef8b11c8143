"""Sums of bags of dask arrays: by chunks of rows, then in the order of the chunks."""

import tracemalloc

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.chunks import sums
from gathernest.kernels.reduction import chunked_bags

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((23, 4)).astype(np.float32)
WHOLE = RNG.integers(-5, 5, (23, 4)).astype(np.float32)  # sums are exact in any order
ROWS = RNG.integers(-23, 23, (9, 2, 5))
FLAT, OFFSETS = RNG.integers(0, 23, 40), np.array([0, 0, 3, 17, 17, 30, 40])


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Run tasks in this thread, and sum in plain NumPy, in the order in which kernels do."""

    def sum_bags(data, bags):
        return add(data[bags.positions], np.repeat(np.arange(len(bags.lengths)), bags.lengths), len(bags.lengths))

    def add(rows, keys, size):
        total = np.zeros((size, *rows.shape[1:]), rows.dtype)
        np.add.at(total, keys, rows)
        return total

    monkeypatch.setattr(chunked_bags, "sum_bags", sum_bags)
    monkeypatch.setattr(sums, "_added", add)
    with dask.config.set(scheduler="sync"):
        yield


@pytest.mark.parametrize("reduce", ["sum", "mean"])
@pytest.mark.parametrize("size", ["128MiB", "64B"])
@pytest.mark.parametrize("offsets", [None, OFFSETS], ids=["rows", "offsets"])
def test_sums_and_gradients_are_those_of_arrays_in_memory(reduce, size, offsets):
    indices, cut = (ROWS, (4, 1, 2)) if offsets is None else (FLAT, 11)
    options = {"offsets": offsets, "reduce": reduce, "padding_index": 3}
    wanted = gn.gather_reduce(WHOLE, indices, **options)
    wanted_grad = gn.gather_reduce_grad(np.trunc(wanted), indices, WHOLE.shape, **options)
    with dask.config.set({"array.chunk-size": size}):
        for given in (indices, da.from_array(indices, chunks=cut)):
            got = gn.gather_reduce(da.from_array(WHOLE, chunks=(7, 3)), given, **options)
            assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
            assert got.compute().tobytes() == wanted.tobytes()
            grad = da.from_array(np.trunc(wanted), chunks=3)
            got = gn.gather_reduce_grad(grad, given, WHOLE.shape, **options)
            assert (got.shape, got.dtype) == (WHOLE.shape, WHOLE.dtype)
            np.testing.assert_allclose(got.compute(), wanted_grad, rtol=1e-5, atol=1e-5)


def test_bytes_are_those_of_the_chunks_in_their_order():
    whole = gn.gather_reduce(da.from_array(TABLE, chunks=(23, 4)), ROWS)
    assert whole.compute().tobytes() == gn.gather_reduce(TABLE, ROWS).tobytes()
    below = gn.gather_reduce(TABLE[:12], np.where(ROWS % 23 < 12, ROWS % 23, 99), bounds="zero")
    above = gn.gather_reduce(TABLE[12:], np.where(ROWS % 23 < 12, 99, ROWS % 23 - 12), bounds="zero")
    apart = gn.gather_reduce(da.from_array(TABLE, chunks=(12, 4)), da.from_array(ROWS, chunks=(2, 2, 5)))
    assert apart.compute().tobytes() == apart.compute(scheduler="threads").tobytes() == (below + above).tobytes()


def test_chunks_that_no_bag_points_into_are_not_read():
    lazy = gn.gather_reduce(da.from_array(TABLE, chunks=(2, 4)), [[3, 2], [22, -1]])
    assert sorted(key[-1] for key in lazy.__dask_graph__() if str(key[0]).startswith("part-")) == [1, 11]


@pytest.mark.parametrize("kind", ["known", "of dask"])
def test_several_blocks_of_bags_do_not_hold_the_table(kind):
    rows, chunks, block_bytes = 256, 40, 2**18
    table = da.zeros((chunks * rows, 256), chunks=(rows, 256), dtype="f4").map_blocks(lambda block: block + 1)
    bags = RNG.integers(0, len(table), (2 * rows, 2))
    with dask.config.set({"array.chunk-size": f"{block_bytes}B"}):
        sums = gn.gather_reduce(table, bags if kind == "known" else da.from_array(bags, chunks=rows))
    assert sums.chunks[0] == (rows, rows)
    seen = sums.map_blocks(lambda block: block[:, :1].copy(), dtype="f4", chunks=(sums.chunks[0], (1,)))
    tracemalloc.start()
    assert (seen.compute() == 2).all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * block_bytes


def test_wrong_arguments_have_one_error_each():
    table, outside = da.from_array(TABLE, chunks=(7, 4)), ROWS.copy()
    outside[8, 1, 3] = 23
    for indices in (outside, da.from_array(outside, chunks=(4, 1, 5))):
        with pytest.raises(gn.BoundsError, match=r"index 23 at position \(8, 1, 3\) of indices is out of range \[-23,"):
            gn.gather_reduce(table, indices).compute()
    for arguments, options, message in [
        ((table, ROWS), {"out": np.zeros((9, 2, 4), "f4")}, "out cannot be in memory with dask arrays"),
        ((table, FLAT, da.from_array(OFFSETS)), {}, r"offsets are a dask array, and they say how bags are cut; pass"),
        ((table[table[:, 0] > 0], ROWS), {}, r"data has chunks of unknown size, its shape is \(nan, 4\); find their"),
        ((table, da.from_array(FLAT)[da.from_array(FLAT) > 3], OFFSETS), {}, "indices has chunks of unknown size"),
        ((table.astype(bool), ROWS), {}, "data must be float16 to float64"),
        ((table, ROWS), {"reduce": "max"}, 'reduce="max" is of arrays in memory, got a dask array; compute data'),
        ((table, ROWS), {"padding_index": 23}, "padding_index 23 is out of range"),
    ]:
        with pytest.raises(gn.InvalidGatherError, match=message):
            gn.gather_reduce(*arguments, **options)
