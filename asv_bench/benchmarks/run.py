"""Compiled gathers against NumPy: every case of the suite of `gathernest bench` but gradients and calls."""

import statistics

from gathernest.kernels.runtime.launch import available_threads
from gathernest.tools.bench.cases.suite import APART
from gathernest.tools.bench.scaling import scale

from .beside_numpy import BY_NAME, ROUNDS, ns_per_row, relative_time

ON_ONE_THREAD = ["rows-256B", "rows-64KB", "scalars-256MB-table", "scalars-256KB-table", "last-axis"]


class Gather:
    params = [name for name, case in BY_NAME.items() if case.family not in APART]
    param_names = ["case"]

    def track_time_over_numpy(self, case: str) -> float:
        return relative_time(case)

    track_time_over_numpy.unit = "time of NumPy"  # pyright: ignore[reportFunctionMemberAccess]

    def track_ns_per_row(self, case: str) -> float:
        return ns_per_row(case)

    track_ns_per_row.unit = "ns"  # pyright: ignore[reportFunctionMemberAccess]


class GatherOnOneThread:
    """The work of one core, as NumPy has one."""

    params = ON_ONE_THREAD
    param_names = ["case"]

    def track_time_over_numpy(self, case: str) -> float:
        return relative_time(case, threads=1)

    track_time_over_numpy.unit = "time of NumPy"  # pyright: ignore[reportFunctionMemberAccess]


class GatherOnAllThreads:
    """What the other threads leave of the time of one; 1 where there is one thread."""

    params = ON_ONE_THREAD
    param_names = ["case"]

    def track_time_over_one_thread(self, case: str) -> float:
        scaled = scale([BY_NAME[case]], rounds=ROUNDS, threads=available_threads(), advance=lambda done: None)
        return 1 / statistics.median(scaled[-1].gains)

    track_time_over_one_thread.unit = "time of one thread"  # pyright: ignore[reportFunctionMemberAccess]
