"""Indices in memory that other processes may write, changed after they were checked: nothing is read outside data."""

import mmap
from multiprocessing import shared_memory

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime import call_cache
from gathernest.kernels.runtime.array_checks import may_be_shared

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)


class Subclass(np.ndarray):
    """An owner of memory that is no plain ndarray."""


@pytest.fixture
def shared():
    """Return a function that copies an array into shared memory."""
    memory = shared_memory.SharedMemory(create=True, size=1 << 16)

    def share(array):
        array = np.asarray(array)
        copied = np.ndarray(array.shape, array.dtype, buffer=memory.buf)
        copied[...] = array
        return copied

    yield share
    memory.unlink()


@pytest.fixture
def mapped(tmp_path):
    """Indices in a file."""
    np.save(tmp_path / "indices.npy", np.array([0, -1, 2]))
    return np.load(tmp_path / "indices.npy", mmap_mode="r+")


def test_memory_of_several_processes_is_told_from_own_memory(shared, mapped):
    memory = shared([0, 1, 2])
    anonymous = np.frombuffer(mmap.mmap(-1, 4096), np.int64)
    for array in (memory, memory[::2], mapped, np.asarray(mapped), np.asarray(mapped)[1:], anonymous):
        assert may_be_shared(array)
    own = np.arange(6)
    for array in (own, own[::2], own.reshape(2, 3).T, np.frombuffer(bytes(16), np.int64)):
        assert not may_be_shared(array)


@pytest.mark.parametrize("view", [lambda array: array, lambda array: array[:], lambda array: array.view(Subclass)[:]])
def test_calls_with_shared_indices_are_found_apart_from_those_with_own_ones(shared, mapped, view):
    own = np.array([0, -1, 2])

    def find(indices):
        return call_cache.CALLS.find(DATA, indices, None, 0, 0, "error")

    for first, second in ((own, shared(own)), (own, np.asarray(mapped)), (shared(own), own)):
        call_cache.CALLS.forget()
        first, second = (np.asarray(view(indices)) for indices in (first, second))
        for _ in range(3):
            gn.gather(DATA, first)
        assert find(first).tolist() == DATA[own].tolist() and find(second) is None
        for _ in range(3):
            gn.gather(DATA, second)
        assert find(second).tolist() == DATA[own].tolist()
        is_shared = [call._prepared.plan.problem.has_shared_indices for call in call_cache.CALLS._calls.values()]
        assert sorted(is_shared) == [False, True]


def test_shared_indices_outside_are_an_error(shared):
    with pytest.raises(gn.BoundsError, match=r"index 5 at position \(1,\) of indices is out of range \[-5, 4\]"):
        gn.gather(DATA, shared([0, 5]))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "i8", "u8"])
def test_shared_indices_mean_what_own_ones_do(shared, dtype):
    data = np.arange(100 * 80, dtype=np.float32).reshape(100, 80)
    least = 0 if dtype[0] == "u" else -80
    indices = np.random.default_rng(3).integers(least, 80, (100, 40)).astype(dtype)
    pairs = indices.reshape(-1, 2)
    assert (gn.gather(data, shared(indices), 1) == data[:, indices]).all()
    assert (gn.gather_nd(data, shared(pairs)) == data[pairs[:, 0], pairs[:, 1]]).all()
    assert (gn.gather_elements(data, shared(indices), 1) == np.take_along_axis(data, indices, 1)).all()
    counts = np.bincount(indices.ravel().astype(np.int64) % 80, minlength=80)
    got = gn.gather_grad(np.ones((100, 100, 40), np.float32), shared(indices), (100, 80), 1)
    assert (got == counts).all()


CHANGED = """
    import sys
    import threading
    from multiprocessing import shared_memory

    import numpy as np

    import gathernest as gn
    from gathernest.kernels.host.runtime import RUNTIME

    N, FAR = 1 << 14, 1 << 30
    gn.knobs.num_threads = 1
    memory = shared_memory.SharedMemory(create=True, size=1 << 25)
    words = np.ndarray(1 << 21, np.int64, buffer=memory.buf)

    def run(name, gather, source, shape, out_shape, at, *arguments, **options):
        # The result lies over the indices that are still to be read: what is written there leads far outside.
        words[:] = 0
        indices, out = words[: np.prod(shape)].reshape(shape), words[at : at + np.prod(out_shape)].reshape(out_shape)
        indices.reshape(-1)[:100] = 1
        RUNTIME.prepared.clear()
        gather(source, indices, *arguments, out=np.empty(out_shape, np.int64), **options)
        (prepared,) = RUNTIME.prepared.values()
        prepared.run(source, indices, out)
        print(name, prepared.plan.schedule, flush=True)
        assert words.max() >= FAR

    def table(*shape):
        return np.full(shape, FAR)

    with gn.knobs.scope(schedule=""):
        run("one by one", gn.gather, table(100), (N,), (N,), 1)
    run("scalars", gn.gather, table(100), (N,), (N,), 1)
    run("rows", gn.gather, table(100, 8), (N,), (N, 8), 1)
    run("prefetched rows", gn.gather, table(1 << 17, 8), (N,), (N, 8), 1)
    run("staged", gn.gather, table(8, 100), (N,), (8, N), 1, 1)
    run("batches", gn.gather, table(100, 4, 8), (100, 50), (100, 50, 8), 1, 1, batch_dims=1)
    run("tuples", gn.gather_nd, table(10, 10, 8), (N, 2), (N, 8), 1)
    run("elements", gn.gather_elements, table(64, 256), (64, 256), (64, 256), 1)
    run("sums", gn.gather_grad, table(N), (N,), (100,), N - 100, (100,))
    run("sums of rows", gn.gather_grad, table(N, 8), (N,), (100, 8), N - 800, (100, 8))

    # Sorted indices: a thread writes to all of them, again and again, while they are counted and placed.
    source, indices, out = table(N), words[:N], np.empty(100, np.int64)
    indices[:] = 0
    RUNTIME.prepared.clear()
    with gn.knobs.scope(schedule="group-indices{loop=indices}"):
        gn.gather_grad(source, indices, (100,), out=out)
    (prepared,) = RUNTIME.prepared.values()
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            indices[:] = 99
            indices[:] = 0

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(500):
        prepared.run(source, indices, out)
        assert out.sum() == N * FAR
    is_over.set()
    writer.join()
    print("sorted", prepared.plan.schedule, flush=True)
"""


def test_indices_that_change_after_the_check_lead_nowhere_outside(python):
    assert len(python(CHANGED).splitlines()) == 11
