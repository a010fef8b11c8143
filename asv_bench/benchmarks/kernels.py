"""Kernels on one thread: every gather and gradient of `cases.py`, and a few on two threads."""

from .cases import SUITE
from .isolated import package, ready


class Kernels:
    """A call of a compiled kernel into a result that is given; 40 µs to 25 ms."""

    params = [case.name for case in SUITE if case.family != "call"]
    param_names = ["case"]
    number = 1
    rounds = 2
    repeat = (5, 20, 0.5)
    warmup_time = 0.05

    def setup(self, case: str) -> None:
        self.call = ready(case)

    def time_kernel(self, case: str) -> None:
        self.call()


class TwoThreads(Kernels):
    """The same with a second thread, for what bounds gathers differently: latency, bandwidth, instructions."""

    params = ["rows-256B", "rows-64KB", "last-axis-in-cache"]

    def setup(self, case: str) -> None:
        package().knobs.num_threads = 2
        super().setup(case)
