"""How much of this machine other processes use meanwhile, as Linux counts it."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
# Columns of a line of /proc/stat in which a core does nothing: idle, and waiting for a disk.
IDLE = (3, 4)


class OtherLoad:
    """Counts from where it is made.

    Args:
        stat: the file with the time that each core has spent, in the form of /proc/stat.
    """

    def __init__(self, stat: Path = STAT):
        self._stat = stat
        self._start = self._now()

    def cores(self) -> float:
        """Return how many of this process's cores other processes have used since, on average; 0 where unknown."""
        (busy_s, own_s, clock_s), (was_busy_s, was_own_s, was_clock_s) = self._now(), self._start
        if clock_s <= was_clock_s:
            return 0.0
        return max(0.0, (busy_s - was_busy_s - (own_s - was_own_s)) / (clock_s - was_clock_s))

    def _now(self) -> tuple[float, float, float]:
        """Return seconds: what the cores have worked, what this process has, and the clock."""
        own = os.times()
        return self._busy_s(), own.user + own.system, time.monotonic()

    def _busy_s(self) -> float:
        try:
            ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
            lines = [line.split() for line in self._stat.read_text().splitlines() if line.startswith("cpu")]
            ticks = sum(
                int(value)
                for name, *values in lines
                if name in ours
                for column, value in enumerate(values[:8])
                if column not in IDLE
            )
            return ticks / os.sysconf("SC_CLK_TCK")
        except (OSError, AttributeError, ValueError):
            return 0.0
