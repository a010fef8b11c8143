"""Gradients beside `numpy.add.at`, after a comparison of the bytes: both add in the order of the indices."""

import functools
import statistics
import time

import numpy as np

import gathernest as gn

ROUNDS = 7
CASES = {
    "rows of 256 B: 100k×64 f32, 100k random rows": ((100_000, 64), 100_000),
    "rows of 32 B: 1M×8 f32, 400k random rows": ((1_000_000, 8), 400_000),
    "few rows of 256 B: 100×64 f32, 200k rows": ((100, 64), 200_000),
    "scalars: 1M f32, 4M random": ((1_000_000,), 4_000_000),
}


@functools.lru_cache(maxsize=2)
def arrays(case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return grad, indices, and a touched array for the result."""
    shape, count = CASES[case]
    rng = np.random.default_rng(0)
    grad = rng.standard_normal((count, *shape[1:]), dtype=np.float32)
    return grad, rng.integers(0, shape[0], count), np.zeros(shape, np.float32)


def ours(case: str) -> np.ndarray:
    grad, indices, out = arrays(case)
    return gn.gather_grad(grad, indices, out.shape, out=out)


def numpy_s(case: str) -> np.ndarray:
    grad, indices, out = arrays(case)
    out.fill(0)
    np.add.at(out, indices, grad)
    return out


class Gradient:
    params = list(CASES)
    param_names = ["case"]

    def setup(self, case: str) -> None:
        if ours(case).tobytes() != numpy_s(case).tobytes():
            raise AssertionError(f"gathernest and numpy.add.at do not give the same bytes for {case}")

    def time_gradient(self, case: str) -> None:
        ours(case)

    def track_time_over_numpy(self, case: str) -> float:
        """Median time over that of `numpy.add.at`, interleaved; below 1 is faster."""
        times: dict[str, list[float]] = {"ours": [], "numpy": []}
        contenders = [("ours", ours), ("numpy", numpy_s)]
        for _ in range(ROUNDS):
            for name, call in contenders:
                start = time.perf_counter()
                call(case)
                times[name].append(time.perf_counter() - start)
            contenders.reverse()
        return statistics.median(times["ours"]) / statistics.median(times["numpy"])

    track_time_over_numpy.unit = "time of numpy.add.at"  # pyright: ignore[reportFunctionMemberAccess]


if __name__ == "__main__":
    benchmark = Gradient()
    for case in CASES:
        benchmark.setup(case)
        print(f"{case}: {1 / benchmark.track_time_over_numpy(case):.1f}×")
