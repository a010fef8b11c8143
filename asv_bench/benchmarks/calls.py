"""The overhead of a call: tiny and medium gathers and NumPy's, interleaved in one process.

`python asv_bench/benchmarks/calls.py` prints every case as a row of Markdown.
"""

import functools
import statistics
import time
from collections.abc import Callable

import numpy as np

import gathernest as gn

ROUNDS = 9
SHORTEST_NS = 2_000_000
ROW_FLOATS = 32
MEDIUM_BYTES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20)
TINY = ("gather", "gather, out=", "gather of a list", "Gather-8", "kernel", "kernel, out", "kernel, out, clip")
CASES = [*TINY, "gather_nd", "gather_elements", *(f"kernel, {size >> 10} KB" for size in MEDIUM_BYTES)]

Call = Callable[[], object]


@functools.cache
def pairs() -> dict[str, tuple[Call, Call]]:
    """Return for every case our call and NumPy's, which give the same bytes; cached, since asv repeats `setup`."""
    data, indices = np.arange(20, dtype=np.float32).reshape(5, 4), np.array([0, 4, 2])
    out, kernel = np.empty((3, 4), np.float32), gn.compile("gather", data, indices)
    tuples, elements = np.array([[0, 1], [4, 2], [2, 3]]), np.array([[0, 1, 2, 3], [4, 3, 2, 1]])
    gather_8 = gn.ops["openvino.Gather-8"]
    found: dict[str, tuple[Call, Call]] = {
        "gather": (lambda: gn.gather(data, indices), lambda: np.take(data, indices, axis=0)),
        "gather, out=": (lambda: gn.gather(data, indices, out=out), lambda: data.take(indices, 0, out)),
        "gather of a list": (lambda: gn.gather(data, [0, 4, 2]), lambda: np.take(data, [0, 4, 2], axis=0)),
        "Gather-8": (lambda: gather_8(data, indices, 0), lambda: np.take(data, indices, axis=0)),
        "kernel, out": (lambda: kernel(data, indices, out), lambda: data.take(indices, 0, out)),
        "kernel, out, clip": (lambda: kernel(data, indices, out), lambda: data.take(indices, 0, out, "clip")),
        "kernel": (lambda: kernel(data, indices), lambda: data.take(indices, 0)),
        "gather_nd": (lambda: gn.gather_nd(data, tuples), lambda: data[tuples[:, 0], tuples[:, 1]]),
        "gather_elements": (lambda: gn.gather_elements(data, elements), lambda: np.take_along_axis(data, elements, 0)),
    }
    for size in MEDIUM_BYTES:
        found[f"kernel, {size >> 10} KB"] = _medium(size)
    return found


def _medium(size_bytes: int) -> tuple[Call, Call]:
    rng = np.random.default_rng(0)
    data = rng.random((4000, ROW_FLOATS), np.float32)
    indices = rng.integers(0, len(data), size_bytes // (4 * ROW_FLOATS))
    out, kernel = np.take(data, indices, axis=0), gn.compile("gather", data, indices)
    return lambda: kernel(data, indices, out), lambda: np.take(data, indices, axis=0, out=out, mode="clip")


def times_ns(case: str) -> tuple[float, float]:
    """Return the median times of a call of ours and of NumPy's, interleaved, after a comparison of the bytes."""
    ours, numpys = pairs()[case]
    if np.asarray(ours()).tobytes() != np.asarray(numpys()).tobytes():
        raise AssertionError(f"gathernest and NumPy do not give the same bytes for {case}")
    for _ in range(3):  # the second like call is remembered, and found from the third on
        ours()
    repeat = 1
    while _time_ns(ours, repeat) < SHORTEST_NS:
        repeat *= 2
    rounds = [(_time_ns(ours, repeat), _time_ns(numpys, repeat)) for _ in range(ROUNDS)]
    mine, theirs = (statistics.median(times) / repeat for times in zip(*rounds, strict=True))
    return mine, theirs


def _time_ns(call: Call, repeat: int) -> int:
    start = time.perf_counter_ns()
    for _ in range(repeat):
        call()
    return time.perf_counter_ns() - start


def another_shape_ns() -> float:
    """Return the time of a call whose shape is never that of the call before, in a cycle of 300 shapes."""
    data = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    sets = [np.arange(count) for count in range(1, 301)]

    def cycle() -> None:
        for indices in sets:
            gn.gather(data, indices)

    for _ in range(3):
        cycle()
    return statistics.median(_time_ns(cycle, 10) for _ in range(ROUNDS)) / 10 / len(sets)


class Calls:
    params = CASES
    param_names = ["case"]

    def track_time_over_numpy(self, case: str) -> float:
        """Median time over that of NumPy; below 1 is faster."""
        ours, numpys = times_ns(case)
        return ours / numpys

    track_time_over_numpy.unit = "time of NumPy"  # pyright: ignore[reportFunctionMemberAccess]


class Shapes:
    def track_another_shape(self) -> float:
        """Nanoseconds of a call that has another shape than the one before."""
        return another_shape_ns()

    track_another_shape.unit = "ns"  # pyright: ignore[reportFunctionMemberAccess]


def print_table() -> None:
    """Print every case as a row of Markdown."""
    print("| call | gathernest | NumPy | ratio |\n|---|---|---|---|")
    for case in CASES:
        ours, numpys = times_ns(case)
        print(f"| {case} | {ours:.0f} ns | {numpys:.0f} ns | {numpys / ours:.1f}× |")
    print(f"| another shape on every call | {another_shape_ns():.0f} ns | | |")


if __name__ == "__main__":
    print_table()
