"""The most memory that a process had, with what `setup` made; `counts.py` has the memory of a call by itself."""

import numpy as np

from .isolated import package


class Peak:
    """Python, NumPy, gathernest and, in the last, 64 MB of table, 64 MB of result and 2 MB of indices."""

    def setup(self) -> None:
        self.gn = package()
        self.table, self.rows = np.ones((250_000, 64), np.float32), np.arange(250_000)

    def peakmem_small_gather(self) -> None:
        self.gn.gather(self.table[:5], self.rows[:3])

    def peakmem_gather(self) -> None:
        self.gn.gather(self.table, self.rows)
