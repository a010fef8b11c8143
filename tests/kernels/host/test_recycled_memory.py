"""Memory for large results: used again when the last view has died, never before, and within its bound."""

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host.recycled_memory import LEAST_BYTES, RECYCLED, RecycledMemory


@pytest.fixture
def memory():
    """Return memory of its own, which holds eight of the smallest arrays that it serves."""
    with gn.knobs.scope(recycle_mb=8 * LEAST_BYTES >> 20):
        memory = RecycledMemory()
        assert memory.serves(LEAST_BYTES)
        yield memory


def address(array):
    return array.__array_interface__["data"][0]


def held(memory):
    return sum(block.size_bytes for block in memory._blocks)


def test_the_next_array_of_the_same_size_gets_the_memory_of_a_dead_one(memory):
    first = memory.empty((LEAST_BYTES // 2048, 512), np.dtype("f4"))
    place = address(first)
    assert place % 64 == 0 and first.flags.c_contiguous and first.flags.writeable
    del first
    second = memory.empty((LEAST_BYTES // 1024, 128), np.dtype("c8"))
    assert address(second) == place and second.shape == (LEAST_BYTES // 1024, 128) and held(memory) == 0


@pytest.mark.parametrize("view_of", [lambda array: array[:9], memoryview, lambda array: array.reshape(2, -1).T])
def test_memory_is_not_used_again_while_a_view_lives(memory, view_of):
    first = memory.empty((LEAST_BYTES,), np.dtype("u1"))
    first[:10] = 7
    place, view = address(first), view_of(first)
    del first
    other = memory.empty((LEAST_BYTES,), np.dtype("u1"))
    other[:10] = 0
    assert address(other) != place and np.asarray(view).ravel()[0] == 7
    del view
    assert address(memory.empty((LEAST_BYTES,), np.dtype("u1"))) == place


def test_the_least_recently_used_blocks_go_first(memory):
    arrays = [memory.empty((size * LEAST_BYTES,), np.dtype("u1")) for size in (3, 2, 2, 4)]
    while arrays:
        del arrays[0]
        assert held(memory) <= 8 * LEAST_BYTES
    assert [block.size_bytes // LEAST_BYTES for block in memory._blocks] == [2, 2, 4]


def test_only_large_results_that_fit_are_served(memory):
    most = 8 * LEAST_BYTES
    assert not memory.serves(LEAST_BYTES - 1) and memory.serves(most) and not memory.serves(most + 1)
    with gn.knobs.scope(recycle_mb=0):
        assert not memory.serves(LEAST_BYTES)


def test_threads_never_share_a_block(memory):
    wrong = []

    def work(mark):
        for _ in range(200):
            array = memory.empty((LEAST_BYTES,), np.dtype("u1"))
            array[::65536] = mark
            if not (array[::65536] == mark).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and held(memory) <= 8 * LEAST_BYTES


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_recycles_nothing(memory):
    alive, dead = (memory.empty((LEAST_BYTES,), np.dtype("u1")) for _ in range(2))
    del dead
    child = os.fork()
    if child == 0:
        was_served = memory.serves(LEAST_BYTES)
        del alive
        os._exit(was_served or bool(memory._blocks))
    assert os.waitpid(child, 0)[1] == 0 and len(memory._blocks) == 1


@pytest.mark.thorough
def test_large_results_of_a_gather_are_recycled():
    data, indices = np.arange(1024, dtype=np.float32).reshape(16, 64), np.arange(LEAST_BYTES // 256) % 16
    wanted = data[indices]
    RECYCLED._blocks.clear()
    places = set()
    for _ in range(3):
        result = gn.gather(data, indices)
        assert np.array_equal(result, wanted)
        places.add(address(result))
        result[:] = 0
        del result
        gc.collect()
    assert len(places) == 1 and held(RECYCLED) == LEAST_BYTES
    with gn.knobs.scope(recycle_mb=0):
        assert gn.gather(data, indices).base is None
    RECYCLED._blocks.clear()


@pytest.mark.thorough
def test_results_that_live_to_the_end_of_python_say_nothing():
    code = (
        "import sys, numpy as np, gathernest as gn\n"
        f"sys.alive = [gn.gather(np.zeros((4, 64), 'f4'), np.zeros({LEAST_BYTES // 256}, 'i8')) for _ in range(2)]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
