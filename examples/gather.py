"""The function, the operators by name, and the bounds modes."""

import numpy as np

import gathernest as gn

table = np.arange(20, dtype=np.float32).reshape(5, 4)

print(gn.gather(table, [0, -1, 2]))
print(gn.gather(table, [0, 3], axis=1))
print(gn.gather(np.arange(10).reshape(2, 5), [[0, 0, 4], [4, 0, 0]], axis=1, batch_dims=1))

for bounds in ("zero", "clip", "wrap"):
    print(bounds, gn.gather(np.arange(1, 6), [3, 10, -20], bounds=bounds))
try:
    gn.gather(np.arange(1, 6), [3, 10, -20])
except gn.BoundsError as error:
    print("error", error)

print(gn.ops["openvino.Gather-8"](np.arange(1, 6), [3, 10, -20], 0))
