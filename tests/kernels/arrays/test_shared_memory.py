"""Indices that other threads or processes write, after they were checked: nothing is read outside data."""

import os
from multiprocessing import shared_memory

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime import dispatch


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


def test_shared_indices_outside_are_an_error(shared):
    with pytest.raises(gn.BoundsError, match=r"index 5 at position \(1,\) of indices is out of range \[-5, 4\]"):
        gn.gather(np.zeros((5, 4)), shared([0, 5]))


@pytest.mark.thorough
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
    import os
    import threading

    import numpy as np

    import gathernest as gn
    from gathernest.kernels.host.runtime import RUNTIME

    N, FAR = 1 << 14, 1 << 30
    gn.knobs.num_threads = 1
    words = np.empty(1 << 21, np.int64)

    def run(name, gather, source, shape, out_shape, at, *arguments, **options):
        # The result lies over the indices that are still to be read: what is written there leads far outside.
        if os.environ["KERNELS"] not in ("all", name):
            return
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
    for _ in range(500 if os.environ["KERNELS"] == "all" else 100):
        prepared.run(source, indices, out)
        assert out.sum() == N * FAR
    is_over.set()
    writer.join()
    print("sorted", prepared.plan.schedule, flush=True)
"""


@pytest.mark.parametrize(("kernels", "count"), [("staged", 2), pytest.param("all", 11, marks=pytest.mark.thorough)])
def test_indices_that_change_after_the_check_lead_nowhere_outside(python, kernels, count):
    """Quickly, of one kernel and of sorted indices; tests/oracles/test_changing_indices.py interprets every other."""
    assert len(python(CHANGED, KERNELS=kernels).splitlines()) == count


# A writer makes the last index lead far away and back, so often that some check finds it right and the copy would not.
WRITTEN = """
    import ctypes
    import multiprocessing
    import threading

    import numpy as np

    import gathernest as gn

    COUNT, FAR = 1 << 16, 1 << 45
    DATA, OUT = np.zeros((1000, 16), np.float32), np.empty((COUNT, 16), np.float32)

    class Interface:
        def __init__(self, array):
            self.array, self.__array_interface__ = array, array.__array_interface__

    class Exchanged:
        def __init__(self, array):
            self.array, self.__dlpack__, self.__dlpack_device__ = array, array.__dlpack__, array.__dlpack_device__

    mapped = np.lib.format.open_memmap("indices.npy", "w+", np.int64, (COUNT,))
    own = [np.zeros(COUNT, np.int64) for _ in range(3)]
    raw = np.frombuffer(multiprocessing.RawArray("q", COUNT), np.int64)
    buffer = np.ctypeslib.as_array((ctypes.c_int64 * COUNT)())
    view = np.lib.stride_tricks.as_strided(mapped, (COUNT,), (8,))
    written = [(own[0], own[0]), (raw, raw), (buffer, buffer), (view, mapped)]
    for given, array in [*written, (Interface(own[1]), own[1]), (Exchanged(own[2]), own[2])]:
        is_over = threading.Event()

        def write(last=array[-1:], is_over=is_over):
            while not is_over.is_set():
                for _ in range(50):
                    last[0] = FAR
                    last[0] = 0

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(40):
            try:
                gn.gather(DATA, given, out=OUT)
            except gn.BoundsError:
                pass
        is_over.set()
        writer.join()
        print(type(given).__name__, flush=True)
"""


@pytest.mark.thorough
def test_indices_in_any_memory_may_be_written_by_another_thread(python):
    assert len(python(WRITTEN).splitlines()) == 6


# Another process makes every other index lead far away and back. Data have ones alone.
READ_TWICE = """
    import contextlib
    import mmap
    import os
    import signal

    import numpy as np

    import gathernest as gn

    gn.knobs.compile = "never"
    data, table, fill = np.ones((100, 4)), np.ones((100, 100)), gn.Fill(1)
    words = np.frombuffer(mmap.mmap(-1, 1 << 14), np.int64)
    pairs, rows = words.reshape(-1, 2), words.reshape(-1, 4)[:100]
    calls = {
        "gather": lambda: gn.gather(data, words),
        "fill": lambda: gn.gather(data, words, bounds=fill),
        "take": lambda: gn.take(data, words, 0, mode="fill", fill_value=1),
        "tuples": lambda: gn.gather_nd(table, pairs),
        "elements": lambda: gn.gather_elements(data, rows, 0),
        "sums": lambda: gn.gather_reduce(data, pairs, padding_index=7) / 2,
    }
    parent, child = os.getpid(), os.fork()
    while not child and os.getppid() == parent:
        words[::2] = 1 << 45
        words[::2] = 3
    if child:
        try:
            for name, call in calls.items():
                for _ in range(100):
                    with contextlib.suppress(gn.BoundsError):
                        assert (call() == 1).all(), name
            print("done", flush=True)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_numpy_gives_elements_of_data_or_an_error_where_indices_change(python):
    assert python(READ_TWICE) == "done\n"


@pytest.mark.parametrize("name", ["data", "indices", "out"])
def test_a_call_keeps_the_shapes_and_dtypes_that_it_began_with(name, monkeypatch):
    """Another thread may assign to `dtype` or `shape` of an array; here that comes right after the call has begun."""
    arrays = {"data": np.arange(24.0).reshape(3, 8), "indices": np.array([2, 0]), "out": np.zeros((2, 8))}
    wanted, memory = arrays["data"][arrays["indices"]], arrays["out"].view("u1")

    def readable(request, source, readable=dispatch._readable):
        arrays[name].dtype = "u1"
        return readable(request, source)

    monkeypatch.setattr(dispatch, "_readable", readable)
    result = gn.gather(**arrays)
    assert result is arrays["out"]
    assert memory.tobytes() == wanted.tobytes()
