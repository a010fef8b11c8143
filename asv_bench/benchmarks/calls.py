"""What a call costs beside the copy: tiny gathers, a thousand calls each, so that nanoseconds read as microseconds."""

import functools
from collections.abc import Callable

import numpy as np

from .isolated import package

CALLS = 1000
TINY = (
    "gather",
    "gather out",
    "gather list",
    "Gather-8",
    "kernel",
    "kernel out",
    "gather_nd",
    "gather_elements",
    "another shape",
)


@functools.lru_cache(maxsize=1)
def thousand(name: str) -> Callable[[], None]:
    """Return a function that makes a thousand calls; it was run once."""
    call = _call(name)

    def calls() -> None:
        for _ in range(CALLS):
            call()

    calls()
    return calls


def _call(name: str) -> Callable[[], object]:
    gn = package()
    data, indices = np.arange(20, dtype=np.float32).reshape(5, 4), np.array([0, 4, 2])
    out, tuples = np.empty((3, 4), np.float32), np.array([[0, 1], [4, 2], [2, 3]])
    elements = np.array([[0, 1, 2, 3], [4, 3, 2, 1]])
    if name == "Gather-8":
        operator = gn.ops["openvino.Gather-8"]
        return lambda: operator(data, indices, 0)
    if name.startswith("kernel"):
        kernel = gn.compile("gather", data, indices)
        return (lambda: kernel(data, indices, out)) if name == "kernel out" else lambda: kernel(data, indices)
    if name == "another shape":
        following = _shapes().__next__
        return lambda: gn.gather(data, following())
    calls: dict[str, Callable[[], object]] = {
        "gather": lambda: gn.gather(data, indices),
        "gather out": lambda: gn.gather(data, indices, out=out),
        "gather list": lambda: gn.gather(data, [0, 4, 2]),
        "gather_nd": lambda: gn.gather_nd(data, tuples),
        "gather_elements": lambda: gn.gather_elements(data, elements),
    }
    return calls[name]


def _shapes():
    """Give indices that never have the shape of those before, in a cycle of 250, of which four make a thousand."""
    sets = [np.zeros(count, np.int64) for count in range(1, 251)]
    while True:
        yield from sets


class Calls:
    """A thousand calls: milliseconds are microseconds a call."""

    params = TINY
    param_names = ["call"]
    number = 1
    rounds = 2
    repeat = (10, 50, 0.3)
    warmup_time = 0.05

    def setup(self, call: str) -> None:
        self.calls = thousand(call)

    def time_1000_calls(self, call: str) -> None:
        self.calls()
