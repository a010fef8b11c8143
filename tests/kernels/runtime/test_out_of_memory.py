"""Schedules that take memory of their own: where the system has none, the call fails, and nothing is written."""

import sys

import pytest

import gathernest as gn

# In a process of its own: in one that ran other tests, the heap can have a hole as large as what the sort takes.
FROM_THE_SYSTEM = """
import ctypes

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8  # so that malloc takes memory from the system alone, and gives it back
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)
ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
"""

CODE = """
import resource
from pathlib import Path

import numpy as np

import gathernest as gn

MB = 1 << 20
COUNT = 6 * MB  # 48 MB for a word of each
BEFORE = resource.getrlimit(resource.RLIMIT_AS)

def used_bytes():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

def check(positions, count, left_bytes):
    grad, indices = np.ones((count, 2), np.int8), np.zeros(count, np.int32)
    out = np.full((positions, 2), 7, np.int8)
    for _ in range(3):
        gn.gather_grad(grad, indices, out.shape, out=out)
    assert (out[0] == np.array(count).astype(np.int8)).all() and not out[1:].any()
    out[...] = 7
    before = used_bytes()
    resource.setrlimit(resource.RLIMIT_AS, (before + left_bytes, BEFORE[1]))
    for _ in range(3):
        try:
            gn.gather_grad(grad, indices, out.shape, out=out)
        except gn.OutOfMemoryError as error:
            wanted = f"gradient keeps positions of its {count} indices, or its result, in memory of its own"
            assert wanted in str(error), error
        else:
            raise AssertionError("the sort found memory")
    assert (out == 7).all() and used_bytes() < before + 20 * MB
    resource.setrlimit(resource.RLIMIT_AS, BEFORE)

for threads in (1, 2):
    with gn.knobs.scope(schedule="group-indices{loop=indices}", num_threads=threads):
        check(COUNT, 10, 24 * MB)  # the ends of the positions
        check(10, COUNT, 24 * MB)  # the places of the sorted indices
        check(10, COUNT, 72 * MB)  # and their positions
print("failed")
"""


OF_A_CHECK = """
import resource
from pathlib import Path

import numpy as np

import gathernest as gn
from gathernest.kernels.host.machine import machine_model

count = max(8 << 20, machine_model().l3_bytes // 4) // 64
data, indices = np.ones((count, 64), np.int8), np.zeros((count, 64), np.int64)
out = np.full(indices.shape, 7, np.int8)
before = resource.getrlimit(resource.RLIMIT_AS)
for threads in (1, 2):
    with gn.knobs.scope(num_threads=threads):
        gn.gather_elements(data, indices, 1, out=out)
        assert (out == 1).all()
        out[...] = 7
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20), before[1]))
        for _ in range(3):
            try:
                gn.gather_elements(data, indices, 1, out=out)
            except gn.OutOfMemoryError as error:
                wanted = f"gather keeps positions of its {indices.size} indices, or its result, in memory of its own"
                assert wanted in str(error), error
            else:
                raise AssertionError("the check found memory")
        resource.setrlimit(resource.RLIMIT_AS, before)
        assert (out == 7).all()
        with gn.knobs.scope(schedule=""):
            gn.gather_elements(data, indices, 1, out=out)
        assert (out == 1).all()
print("failed")
"""


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_check_without_memory_for_positions_is_an_error_that_leaves_out_as_it_was(python):
    assert python(FROM_THE_SYSTEM + OF_A_CHECK).strip() == "failed"


@pytest.mark.thorough
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_sort_without_memory_is_an_error_that_leaves_out_and_memory_as_they_were(python):
    assert python(FROM_THE_SYSTEM + CODE).strip() == "failed"
    assert issubclass(gn.OutOfMemoryError, MemoryError)
