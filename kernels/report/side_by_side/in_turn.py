"""Two kernels timed in turn, for a report with both."""

import functools
from dataclasses import dataclass

import numpy as np

from ...host.timing import time_interleaved
from ...machine.explain import CompiledKernel
from ...tuning.sample_arrays import sample_arrays


@dataclass(frozen=True, slots=True)
class InTurn:
    """The times of two kernels, A and B, in rounds that begin with each in turn.

    Attributes:
        times_us: the median time of a call of each.
        ratio: how many times as fast B is as A: the median of the ratios within each round.
        rounds: how many there were.
    """

    times_us: tuple[float, float]
    ratio: float
    rounds: int

    def __str__(self) -> str:
        rounds = f"{self.rounds} round{'s' * (self.rounds != 1)}"
        said = f"B is {self.ratio:.2f} times as fast as A, the median of the ratios within each round"
        return f"They were timed in turn, {rounds}: {said}."


def timed_in_turn(a: CompiledKernel, b: CompiledKernel, rounds: int) -> InTurn:
    """Time a call of two kernels with made-up arrays, the same ones where both are of one gather.

    Raises:
        SampleError: arrays of these sizes do not fit in memory.
    """
    given = sample_arrays(a.problem)
    calls = {}
    for name, kernel in (("A", a), ("B", b)):
        data, indices = given if kernel.problem == a.problem else sample_arrays(kernel.problem)
        out = np.empty(kernel.problem.result.shape, kernel.problem.result.dtype)
        calls[name] = functools.partial(kernel, data, indices, out)
    timings = time_interleaved(calls, rounds=rounds, settle_s=0)
    times_us = 1e6 * timings.median_s("A"), 1e6 * timings.median_s("B")
    return InTurn(times_us, timings.ratio("B", beside="A"), rounds)
