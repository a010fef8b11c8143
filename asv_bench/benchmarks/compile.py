"""The cost of a kernel: the pipeline to generated source, and all of it to machine code without a cache."""

import functools
from typing import Any

from .cases import BY_NAME, Inputs, compiled
from .isolated import package

CASES = ["rows-256B", "elements-middle-axis", "gradient-rows-256B"]


@functools.lru_cache(maxsize=1)
def inputs_of(name: str) -> Inputs:
    return BY_NAME[name].make(sets=1, zeros=True)


@functools.lru_cache(maxsize=1)
def kernel_of(name: str) -> Any:
    kernel = compiled(BY_NAME[name], inputs_of(name), package())
    dict(kernel.stages)
    return kernel


class Pipeline:
    """Every pass from operator to loops, with the verification and the text of each stage; no Numba."""

    params = CASES
    param_names = ["case"]
    number = 1
    rounds = 2
    repeat = (3, 10, 2.0)
    warmup_time = 0

    def setup(self, case: str) -> None:
        self.kernel = kernel_of(case)

    def time_stages(self, case: str) -> None:
        dict(self.kernel.stages)


class ColdCompile:
    """Operator to machine code, with no cache to read or write; libraries are imported."""

    params = CASES[:2]
    param_names = ["case"]
    number = 1
    rounds = 2
    repeat = (2, 4, 4.0)
    warmup_time = 0

    def setup(self, case: str) -> None:
        self.gn, self.inputs = package(), inputs_of(case)
        kernel_of(case)

    def time_compile(self, case: str) -> None:
        with self.gn.knobs.scope(always_compile=True):
            compiled(BY_NAME[case], self.inputs, self.gn)
