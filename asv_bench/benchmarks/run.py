"""Compiled gathers beside `numpy.take`: nanoseconds a row, and the ratio of the two measured together."""

import functools
import statistics
import time

import numpy as np

import gathernest as gn

ROUNDS = 7
CASES = {
    "rows of 256 bytes": ((1_000_000, 64), 100_000, 0),
    "last axis": ((8192, 1024), 512, 1),
    "scalars": ((1_000_000,), 1_000_000, 0),
    "tiny": ((5, 4), 3, 0),
}


@functools.cache
def arrays(case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return data, indices, a touched output and the axis; kept, since asv calls setup before every timing."""
    shape, count, axis = CASES[case]
    rng = np.random.default_rng(0)
    data = rng.random(shape, dtype=np.float32)
    indices = rng.integers(0, shape[axis], count)
    out = np.take(data, indices, axis=axis)
    return data, indices, out, axis


@functools.cache
def kernel(case: str) -> gn.Kernel:
    data, indices, _, axis = arrays(case)
    return gn.compile("gather", data, indices, axis=axis)


class Gather:
    """A compiled kernel with `out=` given."""

    params = list(CASES)
    param_names = ["case"]

    def setup(self, case: str) -> None:
        self.data, self.indices, self.out, self.axis = arrays(case)
        self.kernel = kernel(case)
        self.kernel(self.data, self.indices, self.out)
        if not np.array_equal(self.out, np.take(self.data, self.indices, axis=self.axis)):
            raise AssertionError("the kernel's result is not numpy.take's")

    def time_kernel(self, case: str) -> None:
        self.kernel(self.data, self.indices, self.out)

    def time_function(self, case: str) -> None:
        gn.gather(self.data, self.indices, self.axis)

    def track_time_over_numpy(self, case: str) -> float:
        """Median time of `gn.gather` over that of `numpy.take`, interleaved; below 1 is faster."""
        contenders = {
            "gathernest": lambda: gn.gather(self.data, self.indices, self.axis),
            "numpy": lambda: np.take(self.data, self.indices, axis=self.axis),
        }
        times: dict[str, list[int]] = {name: [] for name in contenders}
        for _ in range(ROUNDS):
            for name, call in contenders.items():
                start = time.perf_counter_ns()
                call()
                times[name].append(time.perf_counter_ns() - start)
        return statistics.median(times["gathernest"]) / statistics.median(times["numpy"])

    track_time_over_numpy.unit = "ratio"  # type: ignore[attr-defined]
