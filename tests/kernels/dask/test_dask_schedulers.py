"""Gathers of dask arrays on threads, on processes and on a cluster."""

import os
import signal
import tracemalloc

import numpy as np
import pytest

import gathernest as gn

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
Client = pytest.importorskip("distributed").Client
LocalCluster = pytest.importorskip("distributed").LocalCluster

DATA = np.arange(4000.0).reshape(100, 40)
INDICES = np.random.default_rng(0).integers(-100, 100, (6, 50))


@pytest.fixture(scope="module")
def cluster():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as started,
        Client(started, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "processes", "cluster"])
def scheduler(request):
    """Run what a test computes on every kind of worker."""
    if request.param == "cluster":
        with dask.config.set(scheduler=request.getfixturevalue("cluster").get):
            yield request.param
    else:
        with dask.config.set(scheduler=request.param, num_workers=2 if request.param == "threads" else 1):
            yield request.param


@pytest.mark.draw(1)
def test_gathers_run_there_and_give_the_same(scheduler):
    data = da.from_array(DATA, chunks=(30, 25))
    indices = da.from_array(INDICES, chunks=(3, 50))
    whole, apart, tuples, elements = dask.compute(
        gn.gather(data.rechunk({0: -1}), indices),
        gn.gather(data, indices),
        gn.gather_nd(data, indices[..., None]),
        gn.gather_elements(data, indices[:, :40]),
    )
    assert whole.tobytes() == apart.tobytes() == tuples.tobytes() == DATA[INDICES].tobytes()
    assert elements.tobytes() == np.take_along_axis(DATA, INDICES[:, :40] % 100, 0).tobytes()


@pytest.mark.draw(1)
def test_an_error_comes_back_from_there(scheduler):
    indices = INDICES.copy()
    indices[4, 7] = 100
    lazy = gn.gather(da.from_array(DATA, chunks=30), da.from_array(indices, chunks=(3, 25)))
    with pytest.raises(gn.BoundsError, match=r"index 100 at position \(4, 7\) of indices is out of range \[-100, 99\]"):
        lazy.compute()


ROWS = np.random.default_rng(0).integers(0, 4000, 4000)
OPERATORS = {
    "gather": lambda rows: gn.gather(rows, ROWS),
    "gather, indices of dask": lambda rows: gn.gather(rows, da.from_array(ROWS, chunks=1000)),
    "gather_grad": lambda rows: gn.gather_grad(rows, ROWS, rows.shape),
    "gather_reduce": lambda rows: gn.gather_reduce(rows, ROWS.reshape(-1, 4)),
    "gather_reduce_grad": lambda rows: gn.gather_reduce_grad(rows[:1000], ROWS.reshape(-1, 4), rows.shape),
}


@pytest.mark.skipif("GATHERNEST_TEST_CLUSTER" not in os.environ, reason="takes a minute; GATHERNEST_TEST_CLUSTER=1")
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_worker_that_dies_in_the_middle_changes_no_byte(operator):
    lazy = OPERATORS[operator](da.random.default_rng(0).standard_normal((4000, 400), chunks=(50, 400)))
    wanted = lazy.compute(scheduler="threads")

    def parts_of(dask_scheduler, worker):
        kept = dask_scheduler.workers[worker].has_what
        return sum(task.key[0].startswith("part-") for task in kept if isinstance(task.key, tuple))

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as started,
        Client(started, set_as_default=False) as client,
    ):
        victim = started.workers[0]
        future = client.compute(lazy)
        while client.run_on_scheduler(parts_of, worker=victim.worker_address) < 2:
            assert not future.done()
        os.kill(victim.pid, signal.SIGKILL)
        assert not future.done()
        assert future.result(timeout=120).tobytes() == wanted.tobytes()


@pytest.mark.draw(1)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["known", "of dask"])
def test_a_gather_needs_no_more_than_its_result_and_three_blocks_a_thread(kind, threads):
    chunk_bytes, chunks, result_chunks = 2**20, 24, 6
    rows = chunk_bytes // 1024
    data = da.zeros((chunks * rows, 256), chunks=(rows, 256), dtype="f4")
    data = data.map_blocks(lambda block: block + 1, dtype="f4")
    indices = np.random.default_rng(0).integers(0, len(data), result_chunks * rows)
    with dask.config.set({"array.chunk-size": f"{chunk_bytes}B"}):
        gathered = gn.gather(data, indices if kind == "known" else da.from_array(indices, chunks=rows))
    assert gathered.chunksize == (rows, 256)
    seen = gathered.map_blocks(lambda block: block[:, :1].copy(), dtype="f4", chunks=(gathered.chunks[0], (1,)))
    seen.compute(scheduler="threads", num_workers=threads)  # compiles
    tracemalloc.start()
    seen.compute(scheduler="threads", num_workers=threads)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (result_chunks + 3 * threads + 0.5) * chunk_bytes
