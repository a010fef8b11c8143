"""Repeated calls: a table that starts and ends empty, and one that has two calls."""

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.runtime import call_cache, dispatch

DATA = np.arange(20, dtype=np.float32).reshape(5, 4)
INDICES = np.array([0, -1, 2])
WANTED = DATA[INDICES]


def find(data, indices, out=None, axis=0, batch_dims=0, bounds="error"):
    """Return what the native table finds, without any other way."""
    return call_cache.CALLS.find(data, indices, out, axis, batch_dims, bounds)


@pytest.fixture(autouse=True)
def _forget_calls():
    call_cache.CALLS.forget()
    yield
    call_cache.CALLS.forget()


@pytest.fixture
def warm():
    """The plain call and the one with `out`, both in the table."""
    out = np.empty_like(WANTED)
    for _ in range(3):
        gn.gather(DATA, INDICES)
        gn.gather(DATA, INDICES, out=out)
    assert find(DATA, INDICES) is not None
    assert find(DATA, INDICES, out) is out
    return out


class Count:
    """Counts how often a function is called."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *arguments, **rest):
        self.calls += 1
        return self.function(*arguments, **rest)


@pytest.fixture
def planned(monkeypatch):
    """How often a call was not found by machine code, from here on."""
    count = Count(dispatch._readable)
    monkeypatch.setattr("gathernest.kernels.runtime.dispatch._readable", count)
    return count
