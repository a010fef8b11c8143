"""Run the module of any stage, edited by hand or not, by the interpreter or compiled."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from ...ir.array_spec import ArraySpec
from ...ir.dialects.attributes import VIEW
from ...ir.dialects.gather_dialect import LoopOp, OperatorOp, ResolveOp
from ...ir.errors import BoundsError, InternalError, InvalidGatherError, out_of_range, show
from ...ir.interpreters.argument_views import bind_arguments, index_argument, unwritten
from ...ir.interpreters.interpreter import interpret
from ...ir.modules.context import find_function, make_context
from ...ir.modules.read_module import InputError, read_module
from ...ir.problem import Problem
from ...lowering.pipeline import parse_passes, record_stages
from ...lowering.registry import CHECKS, LOOP_NAMES, PIPELINES
from ..problems.named_problem import problem_of
from ..runtime.array_checks import data_array, index_array
from .engines import COMPILERS, check_engine, compiled_call


def run_stage(
    module: str | Path | ModuleOp,
    data: ArrayLike,
    indices: ArrayLike,
    axis: Any = 0,
    *,
    operator: str = "gather",
    batch_dims: int = 0,
    bounds: Any = "error",
    scale: float = 1.0,
    data_shape: tuple[int, ...] | None = None,
    pipeline: str | None = None,
    engine: Literal["interpreter", "numba", "upstream"] = "interpreter",
    seed: int = 0,
) -> np.ndarray:
    """Run a stage of a gather on arrays: any level, edited or not.

    Args:
        module: MLIR text, a file of it, or a module.
        data, indices: the operator's own arrays, whatever the level; of a gradient, `data` is grad.
        axis, operator, batch_dims, bounds, scale: what the stage came from, as for `gathernest.compile`.
        data_shape: of a gradient, the shape of data.
        pipeline: passes to run first; to compile it, `rest_of` the module when omitted.
        engine: `interpreter` runs one operation at a time, and checks every access; `numba` compiles it; `upstream`
            compiles it by `mlir-opt` and LLVM.
        seed: picks the order in which the interpreter runs parallel iterations.

    Returns:
        A new array of the operator's result. What the stage does not write has the bytes A5.

    Raises:
        BoundsError: an index is not valid under the stage's bounds mode.
        InternalError: an access is outside its array; names the operation, its line and the iteration.
        InputError: the text does not parse or is not valid, or is no stage of a gather; names the line and the column.
        InvalidGatherError: the arrays and the attributes do not fit one another or the stage.
        ScheduleError: a pass rejects the module.
        CompileError: `mlir-opt` or LLVM rejects it.
        DependencyError: of `upstream`, a program is not installed.
    """
    array, index = data_array(data), index_array(indices)
    if operator.endswith("_grad") and data_shape is None:
        raise InvalidGatherError(f"{operator} needs the shape of data, got none; pass data_shape=(...)")
    table = array if data_shape is None else ArraySpec(data_shape, array.dtype)
    problem = problem_of(operator, table, index, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    return execute(lowered(parsed(module), pipeline, engine), problem, array, index, engine, seed=seed)


def parsed(module: str | Path | ModuleOp) -> ModuleOp:
    """Return a module, read from text or a file where it is one; operations have their lines as locations.

    Raises:
        InputError: it does not parse or is not valid, or has no function of a gather.
    """
    if isinstance(module, ModuleOp):
        return module.clone()
    if not isinstance(module, str | Path):
        raise InvalidGatherError(f"a module is MLIR text, a pathlib.Path of a file, or a ModuleOp, got {show(module)}")
    name, text = (str(module), module.read_text()) if isinstance(module, Path) else ("<text>", module)
    result = read_module(text, name, make_context())
    try:
        find_function(result, "gather")
    except InternalError:
        raise InputError("there is no function @gather, which every stage of a gather has", name) from None
    return result


def lowered(module: ModuleOp, pipeline: str | None, engine: str) -> ModuleOp:
    """Run passes on a module in place, and return it; to compile it without a pipeline, those that are left."""
    for _ in record_stages(module, passes_to_run(module, pipeline, engine)):
        pass
    return module


def passes_to_run(module: ModuleOp, pipeline: str | None, engine: str) -> list[ModulePass]:
    """Return the passes that `lowered` runs."""
    check_engine(engine)
    text = (rest_of(module) if engine in COMPILERS else "") if pipeline is None else pipeline
    return parse_passes(text) if text else []


def rest_of(module: ModuleOp) -> str:
    """Return the passes of the default pipeline that take a module of any level to loops, as text."""
    ops = list(module.walk())
    operator = next((op for op in ops if isinstance(op, OperatorOp)), None)
    if operator is not None:
        default = PIPELINES["default"].split(",")
        return ",".join(default[_first_to_run(module, operator, default) :])
    if not any(isinstance(op, LoopOp | ResolveOp) for op in ops):
        return ""
    folding = ["fold-bounds"] if any(isinstance(op, ResolveOp) for op in ops) else []
    loops = [name for name in LOOP_NAMES if name not in CHECKS]
    return ",".join([*folding, *loops, "canonicalize", "cse"])


def _first_to_run(module: ModuleOp, operator: Operation, passes: list[str]) -> int:
    """Return the place of the first pass that an operator has yet to go through."""
    if not isinstance(operator.operands[0].type, MemRefType):
        return 0
    attributes = find_function(module, "gather").arg_attrs
    has_views = attributes is not None and any(VIEW in entry.data for entry in attributes.data)
    return passes.index("collapse-dims") + has_views


def execute(
    module: ModuleOp, problem: Problem, data: np.ndarray, indices: np.ndarray, engine: str, *, seed: int = 0
) -> np.ndarray:
    """Run a module by an engine, and return a new array of a problem's result; see `run_stage`."""
    out = unwritten(problem.result.shape, problem.result.dtype)
    inputs, function = index_argument(module, indices), find_function(module, "gather")
    try:
        views, scales = bind_arguments(function, [data, out] if inputs is None else [data, inputs, out])
    except InternalError as error:
        raise InvalidGatherError(f"{error}; the stage is of other arrays: pass those that it was made for") from None
    if engine == "interpreter":
        interpret(module, data, inputs, out, seed=seed)
        return out
    if outside := compiled_call(module, engine, views, scales)():
        raise BoundsError(out_of_range(outside))
    return out
