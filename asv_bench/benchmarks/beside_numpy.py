"""The base of the benchmarks: a case of the suite of `gathernest bench`, measured with NumPy, bytes first."""

import functools

from gathernest.kernels.runtime.launch import available_threads
from gathernest.tools.bench.cases.case import Inputs
from gathernest.tools.bench.cases.suite import SUITE
from gathernest.tools.bench.measure import Measured, measure
from gathernest.tools.bench.peers.gathernest_peer import Gathernest
from gathernest.tools.bench.peers.numpy_peer import NumPy

ROUNDS = 5
BY_NAME = {case.name: case for case in SUITE}


@functools.lru_cache(maxsize=1)
def inputs_of(name: str) -> Inputs:
    """Return the arrays of a case; cached, since asv calls setup before every timing."""
    return BY_NAME[name].make()


@functools.lru_cache(maxsize=1)
def measured(name: str, threads: int | None = None) -> Measured:
    """Measure a case in interleaved rounds, with all threads or with so many.

    Raises:
        AssertionError: the bytes differ.
    """
    result = measure(BY_NAME[name], [Gathernest(), NumPy()], rounds=ROUNDS, threads=threads or available_threads())
    if result.wrong:
        raise AssertionError(f"{name}: {result.wrong}")
    return result


def relative_time(name: str, threads: int | None = None) -> float:
    """Return the time as a multiple of NumPy's: below 1 is faster."""
    return 1 / measured(name, threads).ratios["numpy"]


def ns_per_row(name: str) -> float:
    """Return nanoseconds for each row that is read."""
    return measured(name).median_us["gathernest"] * 1e3 / BY_NAME[name].rows
