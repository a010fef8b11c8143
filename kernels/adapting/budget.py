"""What calls have cost, and what adapting has cost: never more than 2 % of it. Pure: others read the clocks."""

from _thread import RLock  # a signal handler that gathers may come while it is held
from dataclasses import dataclass, field
from typing import Any

SHARE = 0.02
# What timing a call costs beyond the fast call, with two readings of a clock in Python (Zen 4: 1.3 to 1.8 µs).
WATCHING_S = 2e-6


@dataclass(slots=True)
class Budget:
    """The time of one process, in seconds.

    Attributes:
        calls_s: what the watched calls took.
        watching_s: what timing them cost.
        compiling_s: CPU time of the threads that choose and compile candidates.
        racing_s: how much longer calls took under candidates, and the comparison of their bytes.
    """

    calls_s: float = 0.0
    watching_s: float = 0.0
    compiling_s: float = 0.0
    racing_s: float = 0.0
    _lock: Any = field(default_factory=RLock, repr=False, compare=False)

    @property
    def overhead_s(self) -> float:
        """What adapting has cost."""
        return self.watching_s + self.compiling_s + self.racing_s

    @property
    def share(self) -> float:
        """The part of the calls' time that adapting has cost."""
        return self.overhead_s / self.calls_s if self.calls_s else 0.0

    def allows(self, cost_s: float) -> bool:
        """Return whether something that may cost so much more stays within the share."""
        return self.overhead_s + cost_s <= SHARE * self.calls_s

    def add(
        self, *, calls_s: float = 0.0, watching_s: float = 0.0, compiling_s: float = 0.0, racing_s: float = 0.0
    ) -> None:
        """Add what has been spent; several threads may."""
        with self._lock:
            self.calls_s += calls_s
            self.watching_s += watching_s
            self.compiling_s += compiling_s
            self.racing_s += racing_s
