"""Schedules that take memory of their own: where the system has none, the call fails, and nothing is written."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn

MB = 1 << 20
COUNT = 6 * MB  # 48 MB for a word of each, which malloc takes from the system and gives back


def used_bytes() -> int:
    """Return the size of this process's address space."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.fixture
def left():
    """Return a function that leaves this process so many more bytes of address space."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    yield lambda size: resource.setrlimit(resource.RLIMIT_AS, (used_bytes() + size, before[1]))
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("positions", "count", "left_bytes"),
    [(COUNT, 10, 24 * MB), (10, COUNT, 24 * MB), (10, COUNT, 72 * MB)],
    ids=["ends", "places", "positions"],
)
def test_a_sort_without_memory_is_an_error_that_leaves_out_and_memory_as_they_were(
    left, positions, count, left_bytes, threads
):
    grad, indices = np.ones((count, 2), np.int8), np.zeros(count, np.int32)
    out = np.full((positions, 2), 7, np.int8)
    message = f"sorts its {count} indices by position, and the system has no memory for that; free some, or set"
    with gn.knobs.scope(schedule="group-indices{loop=indices}", num_threads=threads):
        for _ in range(3):
            gn.gather_grad(grad, indices, out.shape, out=out)
        assert (out[0] == np.array(count).astype(np.int8)).all() and not out[1:].any()
        out[...] = 7
        left(left_bytes)
        before = used_bytes()
        for _ in range(3):
            with pytest.raises(gn.OutOfMemoryError, match=re.escape(message)):
                gn.gather_grad(grad, indices, out.shape, out=out)
        assert (out == 7).all() and used_bytes() < before + 20 * MB
    assert issubclass(gn.OutOfMemoryError, MemoryError)
