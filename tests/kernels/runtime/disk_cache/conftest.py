"""A kernel that counts how often it is built."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.operator_spec import Gather
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import build_program
from gathernest.kernels.runtime.disk_cache import Loaded, cache_root, load_kernel
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.kernels.runtime.prepare import kernel_numbers
from gathernest.lowering.numba import compiler
from gathernest.lowering.numba.program import Program
from gathernest.lowering.schedule.schedule import Schedule

DATA, INDICES = np.arange(10.0), np.array([3, 1, 4, -1])
WANTED = [3.0, 1.0, 4.0, 9.0]


class Counted:
    """One kernel and how often it was built."""

    def __init__(self) -> None:
        specs = ArraySpec.of(DATA), ArraySpec.of(INDICES)
        self.plan: Plan = make_plan(Problem.checked(Gather(), *specs, Bounds.ERROR), Schedule())
        self.builds = 0

    def build(self):
        self.builds += 1
        return build_program(self.plan)

    def load(self) -> Loaded:
        return load_kernel(self.plan.key, self.plan.pipeline, self.build)

    @staticmethod
    def entry() -> Path:
        """The folder of the only entry."""
        (found,) = (path for path in cache_root().iterdir() if not path.name.startswith("."))
        return found

    def run(self, loaded: Loaded) -> list[float]:
        out = np.zeros(4)
        addresses = [array.ctypes.data for array in (DATA, INDICES, out)]
        assert loaded.entry(*addresses, *kernel_numbers(self.plan, loaded.program), False) == 0
        return out.tolist()


@pytest.fixture(scope="session")
def machine_code() -> dict[tuple[str, str], bytes]:
    """What Numba has made of each source and name."""
    return {}


@pytest.fixture
def new_counted(cache_dir, machine_code, monkeypatch) -> Callable[[], Counted]:
    compile_program = compiler.compile_program

    def compiled(program: Program, name: str) -> bytes:
        if (program.source, name) not in machine_code:
            machine_code[program.source, name] = compile_program(program, name)
        return machine_code[program.source, name]

    monkeypatch.setattr(compiler, "compile_program", compiled)
    return Counted


@pytest.fixture
def counted(new_counted) -> Counted:
    return new_counted()
