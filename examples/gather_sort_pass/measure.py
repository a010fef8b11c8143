"""Time the default schedule, staged indices, and staged indices in sorted order, in turn; print a row a table size."""

from functools import partial

import numpy as np

import gathernest as gn
from gathernest.kernels.host.cpu import cpu_model
from gathernest.kernels.host.timing import time_interleaved

STAGED = (
    "tile-loops{{loops=indices sizes={tile}}},interchange-loops{{order=indices_o,indices_i,inner}},"
    "parallelize-loops{{loops=indices_o}},hoist-indices{{before=indices_i}},vectorize-inner{{lanes=16}}"
)
COUNT, ROW, TILE, PAGES, ROUNDS = 200_000, 64, 4096, 512, 31


def main() -> None:
    rng = np.random.default_rng(0)
    staged = STAGED.format(tile=TILE)
    schedules = {"default": None, "staged": staged, "sorted": f"{staged},sort-indices{{pages={PAGES}}}"}
    print(f"{cpu_model()}; {COUNT:,} random rows of {4 * ROW} bytes, tiles of {TILE}, {PAGES} pages, {ROUNDS} rounds")
    for rows in (2_000, 20_000, 200_000, 2_000_000):
        data, indices = np.ones((rows, ROW), np.float32), rng.integers(0, rows, COUNT)
        arrays = data, indices, np.empty((COUNT, ROW), np.float32)
        kernels = {
            name: gn.compile("gather", data, indices, bounds="unchecked", schedule=schedule)
            for name, schedule in schedules.items()
        }
        calls = {name: partial(kernel, *arrays) for name, kernel in kernels.items()}
        times = time_interleaved(calls, rounds=ROUNDS)
        cells = [f"{name} {1e3 * times.median_s(name):6.2f} ms ({times.ratio(name, 'default'):.2f}x)" for name in calls]
        print(f"{rows * ROW * 4 / 1e6:8.1f} MB  {'  '.join(cells)}")


if __name__ == "__main__":
    main()
