"""What runs a stage: the interpreter, or machine code of the loops by Numba or by upstream's tools."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ...ir.errors import InvalidGatherError, did_you_mean
from ...lowering.numba.compiler import load_text
from ...lowering.numba.emitter import emit
from ...lowering.upstream.machine_code import compile_upstream, find_tools
from ..host.runtime import RUNTIME
from ..runtime.array_checks import address

ENGINES = ("interpreter", "numba", "upstream")
# The engines that need a module at loops level.
COMPILERS = ENGINES[1:]


def check_engine(engine: str) -> None:
    """Check that there is an engine of that name; raises InvalidGatherError."""
    if engine not in ENGINES:
        raise InvalidGatherError(
            f"there is no engine {engine!r}; use {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
            f"{did_you_mean(engine, ENGINES)}"
        )


def compiled_call(
    module: ModuleOp, engine: str, views: Sequence[np.ndarray], scales: Sequence[tuple[float, Any]]
) -> Callable[[], int]:
    """Compile a module at loops level, and return a call on these arguments, by one thread.

    Args:
        engine: `numba` or `upstream`.
        views, scales: as `bind_arguments` returns them.

    Returns:
        A function that runs it, and returns how many indices are out of range.

    Raises:
        CompileError: the compiler rejects it.
        ScheduleError: it is not at loops level.
        DependencyError: upstream's tools are not installed.
    """
    if engine == "upstream":
        code = RUNTIME.make(lambda: compile_upstream(module, find_tools()).load())
        return code(views, [scale for scale, _ in scales])
    return numba_call(module, views, scales)


def numba_call(module: ModuleOp, views: Sequence[np.ndarray], scales: Sequence[tuple[float, Any]]) -> Callable[[], int]:
    """Do as `compiled_call` by Numba."""
    program = emit(module)
    values = {
        "address": lambda argument, dim: address(views[argument]),
        "size": lambda argument, dim: views[argument].shape[dim],
        "stride": lambda argument, dim: views[argument].strides[dim] // views[argument].itemsize,
        "scale": lambda argument, dim: scales[0][0],
    }
    numbers = [values[entry.kind](entry.argument, entry.dim) for entry in program.parameters]
    return RUNTIME.make(lambda: load_text(program, "stage")).bound(*numbers, 0)
