"""Six schedules of one gather: the nest that each makes, the size of its machine code, and its time."""

import time

import numpy as np

import gathernest as gn

rng = np.random.default_rng(0)
data = rng.random((8, 4000, 64), dtype=np.float32)
indices = rng.integers(0, 4000, 6000)
wanted = np.take(data, indices, axis=1)
out = np.empty_like(wanted)


def begin() -> gn.ScheduleScript:
    return gn.schedule("gather", data, indices, axis=1, bounds="unchecked")


as_it_stands = begin()

vectors = begin()
vectors.vectorize("inner", 8)

threads = begin()
threads.parallel("outer", "indices").vectorize("inner", 8)

tiles = begin()
outer_tile, inner_tile = tiles.tile("indices", 250)
tiles.interchange(outer_tile, "outer").parallel(outer_tile)
tiles.vectorize("inner", 8)

staged = begin()
outer_tile, inner_tile = staged.tile("indices", 250)
staged.interchange(outer_tile, "outer").parallel(outer_tile)
staged.stage_indices("outer").vectorize("inner", 8).prefetch(inner_tile, ahead=16, lines=4)

streamed = begin().from_transform(staged.to_transform())  # the same steps, and one more
streamed.stream()

schedules = {
    "as it stands": as_it_stands,
    "vectors": vectors,
    "threads": threads,
    "tiles": tiles,
    "staged indices, prefetch": staged,
    "non-temporal stores": streamed,
}
kernels = {name: schedule.compile() for name, schedule in schedules.items()}
times_us: dict[str, list[float]] = {name: [] for name in schedules}
for _ in range(9):  # in turn, so that what else the machine does meets all of them
    for name, kernel in kernels.items():
        start = time.perf_counter()
        kernel(data, indices, out)
        times_us[name].append((time.perf_counter() - start) * 1e6)
        assert out.tobytes() == wanted.tobytes()

for name, schedule in schedules.items():
    print(f"{name}\n", *(f"  s.{call}\n" for call in schedule.calls), sep="")
    print(schedule.nest)
print(f"{'schedule':<26}{'instructions':>14}{'median':>14}")
for name, kernel in kernels.items():
    instructions = sum(line.startswith("\t") and not line.startswith("\t.") for line in kernel.asm().splitlines())
    print(f"{name:<26}{instructions:>14}{np.median(times_us[name]):>11.0f} us")
