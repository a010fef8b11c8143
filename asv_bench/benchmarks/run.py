"""Compiled gathers beside `numpy.take`, interleaved in one process, after a comparison of the bytes.

`python asv_bench/benchmarks/run.py` prints the README's table.
"""

import functools
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np

import gathernest as gn

ROUNDS = 15
CASES = {
    "rows of 256 B: 1M×64 f32, 100k random rows": ((1_000_000, 64), 100_000, 0),
    "rows of 64 KB: 2000×16384 f32, 1000 rows": ((2000, 16384), 1000, 0),
    "last axis: 8192×1024 f32, 512 indices": ((8192, 1024), 512, 1),
    "middle axis: 64×1000×32 f32, 500 indices": ((64, 1000, 32), 500, 1),
    "scalars: 16M f32, 4M random": ((16_000_000,), 4_000_000, 0),
    "tiny: 5×4 f32, 3 indices": ((5, 4), 3, 0),
}

Calls = dict[str, Callable[[], object]]


@functools.lru_cache(maxsize=2)
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


def allocating(case: str) -> Calls:
    """Return both contenders, each making its result."""
    data, indices, _, axis = arrays(case)
    return {
        "gathernest": lambda: gn.gather(data, indices, axis),
        "numpy": lambda: np.take(data, indices, axis=axis),
    }


def preallocated(case: str) -> Calls:
    """Return both contenders writing into one array; NumPy in the mode that does not buffer `out`."""
    data, indices, out, axis = arrays(case)
    compiled = kernel(case)
    return {
        "gathernest": lambda: compiled(data, indices, out),
        "numpy": lambda: np.take(data, indices, axis=axis, out=out, mode="clip"),
    }


def check_bytes(case: str) -> None:
    """Compare the results before anything is timed."""
    data, indices, _, axis = arrays(case)
    if kernel(case)(data, indices).tobytes() != np.take(data, indices, axis=axis).tobytes():
        raise AssertionError("the kernel's result is not numpy.take's")


def median_times(calls: Calls) -> dict[str, float]:
    """Return the median time of each contender in nanoseconds, interleaved round by round."""
    times: dict[str, list[int]] = {name: [] for name in calls}
    repeat = 1
    while _time(calls["numpy"], repeat) < 200_000:
        repeat *= 2
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(_time(call, repeat))
    return {name: statistics.median(measured) / repeat for name, measured in times.items()}


def _time(call: Callable[[], object], repeat: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(repeat):
        call()
    return time.perf_counter_ns() - start


class Gather:
    params = list(CASES)
    param_names = ["case"]

    def setup(self, case: str) -> None:
        check_bytes(case)

    def time_function(self, case: str) -> None:
        data, indices, _, axis = arrays(case)
        gn.gather(data, indices, axis)

    def time_kernel(self, case: str) -> None:
        data, indices, out, _ = arrays(case)
        kernel(case)(data, indices, out)

    def track_time_over_numpy(self, case: str) -> float:
        """Median time over that of `numpy.take`; below 1 is faster."""
        times = median_times(allocating(case))
        return times["gathernest"] / times["numpy"]

    def track_time_over_numpy_with_out(self, case: str) -> float:
        """The same with `out=` given."""
        times = median_times(preallocated(case))
        return times["gathernest"] / times["numpy"]


def print_table() -> None:
    """Print every case as a row of Markdown: how many times faster than `numpy.take`."""
    print("| case | result allocated | `out=` given |\n|---|---|---|")
    for case in CASES:
        check_bytes(case)
        ratios = []
        for contenders in (allocating, preallocated):
            times = median_times(contenders(case))
            ratios.append(f"{times['numpy'] / times['gathernest']:.2f}×")
        print(f"| {case} | {' | '.join(ratios)} |")
    print(f"\nPython {platform.python_version()}, NumPy {np.__version__}")


if __name__ == "__main__":
    print_table()
