"""A schedule of one's own: the same bytes, another order of work. An illegal one says why."""

import numpy as np

import gathernest as gn

rng = np.random.default_rng(0)
data = rng.random((64, 300, 32), dtype=np.float32)
indices = rng.integers(0, 300, 100)

chosen = gn.compile("gather", data, indices, axis=1)
print("chosen:", chosen.schedule)

mine = (
    "tile-loops{loops=indices sizes=25},"
    "interchange-loops{order=indices_o,outer,indices_i,inner},"
    "parallelize-loops{loops=indices_o}"
)
kernel = gn.compile("gather", data, indices, axis=1, schedule=mine)
assert kernel(data, indices).tobytes() == chosen(data, indices).tobytes()
print("mine:  ", kernel.schedule)

try:
    gn.compile("gather", data, indices, axis=1, schedule="parallelize-loops{loops=indices}")
except gn.ScheduleError as error:
    print("rejected:", error)
