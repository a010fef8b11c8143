"""Compiled gathers beside `numpy.take`, interleaved in one process, after a comparison of the bytes.

`python asv_bench/benchmarks/run.py` prints the README's table.
"""

import functools
import itertools
import platform
import statistics
import time
from collections.abc import Callable, Iterator

import numba
import numpy as np

import gathernest as gn
from gathernest.kernels.machine import cpu_model, usable_cores
from gathernest.kernels.threads import available_threads

ROUNDS = 15
INDEX_SETS = 4
SHORTEST_NS = 200_000
CASES = {
    "rows of 256 B: 1M×64 f32, 100k random rows": ((1_000_000, 64), 100_000, 0),
    "rows of 64 KB: 2000×16384 f32, 1000 rows": ((2000, 16384), 1000, 0),
    "last axis: 8192×1024 f32, 512 indices": ((8192, 1024), 512, 1),
    "middle axis: 64×1000×32 f32, 500 indices": ((64, 1000, 32), 500, 1),
    "scalars: 16M f32, 4M random": ((16_000_000,), 4_000_000, 0),
    "tiny: 5×4 f32, 3 indices": ((5, 4), 3, 0),
}

Call = Callable[[np.ndarray], np.ndarray]
Calls = dict[str, Call]


@functools.lru_cache(maxsize=2)
def arrays(case: str) -> tuple[np.ndarray, Iterator[np.ndarray], np.ndarray, int]:
    """Return data, sets of indices to use in turn, a touched output and the axis.

    Kept, since asv calls setup before every timing. Indices change, so that nobody learns them by heart.
    """
    shape, count, axis = CASES[case]
    rng = np.random.default_rng(0)
    data = rng.random(shape, dtype=np.float32)
    sets = [rng.integers(0, shape[axis], count) for _ in range(INDEX_SETS)]
    out = np.take(data, sets[0], axis=axis)
    return data, itertools.cycle(sets), out, axis


@functools.cache
def kernel(case: str) -> gn.Kernel:
    data, sets, _, axis = arrays(case)
    return gn.compile("gather", data, next(sets), axis=axis)


def allocating(case: str) -> Calls:
    """Return both contenders, each making its result."""
    data, _, _, axis = arrays(case)
    return {
        "gathernest": lambda indices: gn.gather(data, indices, axis),
        "numpy": lambda indices: np.take(data, indices, axis=axis),
    }


def preallocated(case: str) -> Calls:
    """Return both contenders writing into one array; NumPy in the mode that does not buffer `out`."""
    data, _, out, axis = arrays(case)
    compiled = kernel(case)
    return {
        "gathernest": lambda indices: compiled(data, indices, out),
        "numpy": lambda indices: np.take(data, indices, axis=axis, out=out, mode="clip"),
    }


def check_bytes(case: str, calls: Calls) -> None:
    """Compare the results of the very calls that are timed."""
    _, sets, _, _ = arrays(case)
    indices = next(sets)
    results = {call(indices).tobytes() for call in calls.values()}
    if len(results) != 1:
        raise AssertionError(f"{' and '.join(calls)} do not give the same bytes for {case}")


def median_times(case: str, calls: Calls) -> dict[str, float]:
    """Return the median time of each contender in nanoseconds, interleaved; who goes first changes every round."""
    _, sets, _, _ = arrays(case)
    check_bytes(case, calls)
    times: dict[str, list[int]] = {name: [] for name in calls}
    repeat = 1
    while min(_time(call, next(sets), repeat) for call in calls.values()) < SHORTEST_NS:
        repeat *= 2
    order = list(calls)
    for _ in range(ROUNDS):
        indices = next(sets)
        for name in order:
            times[name].append(_time(calls[name], indices, repeat))
        order.reverse()
    return {name: statistics.median(measured) / repeat for name, measured in times.items()}


def ratio(case: str, contenders: Callable[[str], Calls], threads: int | None = None) -> float:
    """Return the time of `numpy.take` over ours: above 1, gathernest is faster."""
    with gn.knobs.scope(num_threads=threads):
        times = median_times(case, contenders(case))
    return times["numpy"] / times["gathernest"]


def _time(call: Call, indices: np.ndarray, repeat: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(repeat):
        call(indices)
    return time.perf_counter_ns() - start


class Gather:
    params = list(CASES)
    param_names = ["case"]

    def setup(self, case: str) -> None:
        check_bytes(case, allocating(case))

    def time_function(self, case: str) -> None:
        data, sets, _, axis = arrays(case)
        gn.gather(data, next(sets), axis)

    def time_kernel(self, case: str) -> None:
        data, sets, out, _ = arrays(case)
        kernel(case)(data, next(sets), out)

    def track_time_over_numpy(self, case: str) -> float:
        """Median time over that of `numpy.take`; below 1 is faster."""
        return 1 / ratio(case, allocating)

    def track_time_over_numpy_with_out(self, case: str) -> float:
        """The same with `out=` given."""
        return 1 / ratio(case, preallocated)

    def track_time_over_numpy_on_one_thread(self, case: str) -> float:
        """The same with `out=` given and one thread, as NumPy has."""
        return 1 / ratio(case, preallocated, threads=1)

    for track in (track_time_over_numpy, track_time_over_numpy_with_out, track_time_over_numpy_on_one_thread):
        track.unit = "time of numpy.take"  # pyright: ignore[reportFunctionMemberAccess]


def print_table() -> None:
    """Print every case as a row of Markdown: how many times faster than `numpy.take`."""
    print("| case | result allocated | `out=` given | `out=`, one thread |\n|---|---|---|---|")
    for case in CASES:
        ratios = [ratio(case, allocating), ratio(case, preallocated), ratio(case, preallocated, threads=1)]
        print(f"| {case} | {' | '.join(f'{value:.2f}×' for value in ratios)} |")
    print(
        f"\n{cpu_model()}, {usable_cores()} cores, {available_threads()} threads; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}"
    )


if __name__ == "__main__":
    print_table()
