"""Sums of bags that the cases of `kernels.py` have not: of other elements, in calls of the function, on one thread."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .isolated import package

ROWS, ELEMENTS, BAGS, BAG = 50_000, 256, 4096, 16
KINDS = ("float16", "float32 weighted", "uint8 with a scale")


@functools.lru_cache(maxsize=1)
def summed(kind: str) -> Callable[[], Any]:
    """Return a call that sums bags, which was made before."""
    gn = package()
    if not hasattr(gn, "gather_reduce"):
        raise NotImplementedError("this commit has no gather_reduce")
    rng = np.random.default_rng(0)
    data = rng.integers(0, 256, (ROWS, ELEMENTS)).astype(kind.split()[0])
    given: dict[str, Any] = {}
    if kind.endswith("weighted"):
        given = {"weights": rng.random((BAGS, BAG), np.float32)}
    if kind.endswith("scale"):
        given = {"scale": rng.random(ROWS, np.float32), "bias": rng.random(ROWS, np.float32)}
    indices = rng.integers(0, ROWS, (BAGS, BAG))
    call = functools.partial(gn.gather_reduce, data, indices, **given)
    call()
    return call


class Bags:
    """A call of `gather_reduce` that makes its result; 1 to 10 ms."""

    params = KINDS
    param_names = ["kind"]
    number = 1
    rounds = 2
    repeat = (5, 20, 0.5)
    warmup_time = 0.05

    def setup(self, kind: str) -> None:
        self.call = summed(kind)

    def time_bags(self, kind: str) -> None:
        self.call()
