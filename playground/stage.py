"""Run the module of any stage, edited by hand or not, on arrays: by the interpreter or compiled."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import MemRefType, ModuleOp

from ..ir.array_spec import ArraySpec
from ..ir.dialects.attributes import VIEW
from ..ir.dialects.gather_dialect import LoopOp, OperatorOp, ResolveOp
from ..ir.element_types import NARROW_INTEGERS
from ..ir.errors import (
    BoundsError,
    GathernestError,
    InternalError,
    InvalidGatherError,
    did_you_mean,
    out_of_range,
    show,
)
from ..ir.interpreters.argument_views import bind_arguments, index_argument, unwritten
from ..ir.interpreters.interpreter import interpret
from ..ir.modules.context import find_function, make_context
from ..ir.modules.read_module import InputError, read_module
from ..ir.operator_spec import GatherWeighted
from ..ir.problem import Problem
from ..ir.semantics import Bounds, integer_argument
from ..kernels.host.files import read_text
from ..kernels.host.runtime import RUNTIME
from ..kernels.problems.named_problem import problem_of
from ..kernels.runtime.array_checks import address, data_array, index_array
from ..kernels.tuning.sample_arrays import fill_weights, strided_array
from ..lowering.numba.compiler import load_text
from ..lowering.numba.emitter import emit
from ..lowering.pipeline import parse_passes, record_stages
from ..lowering.registry import CHECKS, LOOP_NAMES, PIPELINES
from ..lowering.upstream.machine_code import compile_upstream, find_tools

FORMS = "sizes and element type (5x4xf32), values ([[1,2],[3,4]]xi64), or a file.npy"


def read_array(text: str) -> np.ndarray | ArraySpec:
    """Return the array that a text gives, or the spec of one to fill.

    Raises:
        InvalidGatherError: the text is none of the three forms, or the file cannot be read.
    """
    try:
        if text.endswith(".npy"):
            return _stored(Path(text))
        return _values(text) if text.startswith("[") else ArraySpec.parse(text)
    except (GathernestError, ValueError, OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if not text.startswith("[") and os.path.isdir(text):
            reason = "this is a folder"
        elif not text.startswith("[") and not text.endswith(".npy") and os.path.exists(text):
            reason = "this is a file whose name does not end in .npy"
        raise InvalidGatherError(f"{text}: {reason}; give {FORMS}") from None


def _stored(path: Path) -> np.ndarray:
    """Return the array of a `.npy` file; raises OSError or ValueError."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:  # of NumPy, zipfile or Python's tokenizer, which reads headers
        raise ValueError(str(error)) from None
    if not isinstance(array, np.ndarray):
        raise ValueError("it holds several arrays, as a .npz does")
    return array


def _values(text: str) -> np.ndarray:
    """Return the array of values in brackets with an element type; raises ValueError or InvalidGatherError."""
    values, bracket, kind = text.rpartition("]")
    if not bracket:
        raise ValueError("a ] is missing")
    dtype = ArraySpec.parse(f"1{kind}").dtype if kind else None
    try:
        given = json.loads(f"{values}]")
        array = np.asarray(given, dtype)
    except json.JSONDecodeError as error:
        if error.pos > len(values):
            raise ValueError("a ] is missing") from None
        wrong = f"{text[error.pos]!r} at position {error.pos + 1}"
        raise ValueError(f"{wrong} is wrong, as values are numbers with commas between") from None
    except OverflowError:
        raise ValueError(f"a value is outside the range of {kind[1:]}") from None
    except (ValueError, TypeError, RecursionError):
        raise ValueError("values are numbers, in rows of one length") from None
    is_whole = array.dtype.kind in "iub" or array.dtype.name in NARROW_INTEGERS
    if is_whole and array.tolist() != given:
        raise ValueError(f"a value is no {kind[1:]}")
    return array


def filled(array: np.ndarray | ArraySpec, rng: np.random.Generator, problem: Problem | None = None) -> np.ndarray:
    """Return an array, or one of a spec filled at random: data with small numbers, a problem's indices with valid ones.

    Valid indices count from both ends of the indexed axes; unchecked indices count from the first element alone.
    """
    if not isinstance(array, ArraySpec):
        return array
    result = strided_array(array)
    if problem is None:
        result[...] = rng.integers(0, 100, array.shape).astype(array.dtype)
        return result
    kind, sizes = np.iinfo(array.dtype), problem.axis_sizes
    low = [0 if problem.bounds is Bounds.UNCHECKED else max(-size, int(kind.min)) for size in sizes]
    high = [max(min(size, int(kind.max) + 1), least + 1) for size, least in zip(sizes, low, strict=True)]
    limits = (low, high) if len(sizes) > 1 else (low[0], high[0])
    result[...] = rng.integers(*limits, array.shape).astype(array.dtype)
    if isinstance(problem.operator, GatherWeighted):
        fill_weights(result, rng)
    return result


ENGINES = ("interpreter", "numba", "upstream")


def numba_call(module: ModuleOp, views: Sequence[np.ndarray], scales: Sequence[tuple[float, Any]]) -> Callable[[], int]:
    """Compile a module at loops level by Numba, and return a call on these arguments, by one thread.

    Args:
        views, scales: as `bind_arguments` returns them.

    Returns:
        A function that runs it, and returns how many indices are out of range.

    Raises:
        CompileError: the compiler rejects it.
        ScheduleError: it is not at loops level.
    """
    program = emit(module)
    values = {
        "address": lambda argument, dim: address(views[argument]),
        "size": lambda argument, dim: views[argument].shape[dim],
        "stride": lambda argument, dim: views[argument].strides[dim] // views[argument].itemsize,
        "scale": lambda argument, dim: scales[0][0],
    }
    numbers = [values[entry.kind](entry.argument, entry.dim) for entry in program.parameters]
    return RUNTIME.make(lambda: load_text(program, "stage")).bound(*numbers, 0)


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
        module: MLIR text, the path of a file, or a module.
        data, indices: the operator's own arrays, whatever the level; of a gradient, `data` is grad.
        axis, operator, batch_dims, bounds, scale: the gather of the stage, as for `gathernest.compile`.
        data_shape: of a gradient, the shape of data.
        pipeline: passes to run first; to compile it, `rest_of` the module when omitted.
        engine: `interpreter` runs one operation at a time, and checks every access; `numba` compiles it; `upstream`
            compiles it by `mlir-opt` and LLVM.
        seed: picks the order in which the interpreter runs parallel iterations.

    Returns:
        A new array of the operator's result. Elements that the stage does not write have the bytes A5.

    Raises:
        BoundsError: an index is not valid under the stage's bounds mode.
        InternalError: an access is outside its array; names the operation, its line and the iteration.
        InputError: the text does not parse or is not valid, or is no stage of a gather; names the line and the column.
        InvalidGatherError: the arrays and the attributes do not fit one another or the stage.
        ScheduleError: a pass rejects the module.
        CompileError: `mlir-opt` or LLVM rejects it.
        DependencyError: of `upstream`, a program is not installed.
    """
    attributes: dict[str, Any] = {"batch_dims": batch_dims, "bounds": bounds, "scale": scale}
    problem, array, index = problem_with_arrays(
        operator, data_array(data), index_array(indices), axis, data_shape=data_shape, seed=seed, **attributes
    )
    return execute(lowered(parsed(module), pipeline, engine), problem, array, index, engine, seed=seed)


def problem_with_arrays(
    operator: Any,
    data: ArrayLike | ArraySpec,
    indices: ArrayLike | ArraySpec,
    axis: Any = 0,
    *,
    data_shape: tuple[int, ...] | None = None,
    seed: Any = 0,
    **attributes: Any,
) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Return a problem with its arrays; an array of which only the spec is given is filled at random.

    Args:
        operator, axis, attributes: as for `gathernest.compile`.
        data, indices: arrays, specs or texts of specs; of a gradient, `data` is grad.
        data_shape: of a gradient, the shape of data.
        seed: fills the arrays.

    Raises:
        InvalidGatherError: a gradient comes without the shape of data, another operator with it, or grad has another
            shape than the result of the gather.
    """
    source = ArraySpec.parse(data) if isinstance(data, str) else data
    source = source if isinstance(source, ArraySpec) else data_array(source)
    index = ArraySpec.parse(indices) if isinstance(indices, str) else indices
    index = index if isinstance(index, ArraySpec) else index_array(index)
    is_gradient = isinstance(operator, str) and operator.endswith("_grad")
    if is_gradient and data_shape is None:
        raise InvalidGatherError(f"{operator} needs the shape of data, got none; pass data_shape=(...)")
    if not is_gradient and data_shape is not None:
        raise InvalidGatherError(f"data_shape is for gradients, and {show(operator)} is none; leave it out")
    table = source if data_shape is None else ArraySpec(data_shape, source.dtype)
    problem = problem_of(operator, table, index, axis, **attributes)
    rng = np.random.default_rng(integer_argument(seed, "seed", least=0))
    source = filled(source, rng)
    if (source.shape, source.dtype) != ((wanted := problem.source).shape, wanted.dtype):
        raise InvalidGatherError(f"data must be grad of {wanted}, got {ArraySpec.of(source)}")
    return problem, source, filled(index, rng, problem)


def stage_text(module: str | Path | ModuleOp) -> tuple[str, str]:
    """Return the name of a stage for messages, and its text.

    Raises:
        InvalidGatherError: it is none of the three.
        InputError: the file cannot be read.
    """
    if isinstance(module, Path):
        try:
            return str(module), read_text(module)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"cannot be read: {reason}; give the path of a file with MLIR", show(str(module))
            ) from None
    if not isinstance(module, str | ModuleOp):
        raise InvalidGatherError(f"a module is MLIR text, a pathlib.Path of a file, or a ModuleOp, got {show(module)}")
    return "<text>", str(module)


def parsed(module: str | Path | ModuleOp) -> ModuleOp:
    """Return a module, read from text or a file where it is one; operations have their lines as locations.

    Raises:
        InputError: it does not parse or is not valid, or has no function of a gather.
    """
    if isinstance(module, ModuleOp):
        return module.clone()
    name, text = stage_text(module)
    result = read_module(text, name, make_context())
    try:
        find_function(result, "gather")
    except InternalError:
        raise InputError("there is no function @gather, which every stage of a gather has", name) from None
    return result


def lowered(module: ModuleOp, pipeline: str | None, engine: str) -> ModuleOp:
    """Run passes on a module in place, and return it; to compile it without a pipeline, the passes that are left.

    Raises:
        InvalidGatherError: there is no such engine.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise InvalidGatherError(
            f"there is no engine {show(engine)}; use {', '.join(ENGINES[:-1])} or {ENGINES[-1]}"
            f"{did_you_mean(engine, ENGINES)}"
        )
    left = rest_of(module) if pipeline is None and engine != "interpreter" else ""
    for _ in record_stages(module, parse_passes(left if pipeline is None else pipeline)):
        pass
    return module


def rest_of(module: ModuleOp) -> str:
    """Return the passes of the default pipeline that take a module of any level to loops, as text."""
    ops = list(module.walk())
    operator = next((op for op in ops if isinstance(op, OperatorOp)), None)
    if operator is not None:
        default, first = PIPELINES["default"].split(","), 0
        if isinstance(operator.operands[0].type, MemRefType):
            attributes = find_function(module, "gather").arg_attrs
            has_views = attributes is not None and any(VIEW in entry.data for entry in attributes.data)
            first = default.index("collapse-dims") + has_views
        return ",".join(default[first:])
    if not any(isinstance(op, LoopOp | ResolveOp) for op in ops):
        return ""
    folding = ["fold-bounds"] if any(isinstance(op, ResolveOp) for op in ops) else []
    loops = [name for name in LOOP_NAMES if name not in CHECKS]
    return ",".join([*folding, *loops, "canonicalize", "cse"])


def execute(
    module: ModuleOp, problem: Problem, data: np.ndarray, indices: np.ndarray, engine: str, *, seed: int = 0
) -> np.ndarray:
    """Run a module by an engine, and return a new array of a problem's result; see `run_stage`."""
    out = unwritten(problem.result.shape, problem.result.dtype)
    inputs, function = index_argument(module, indices), find_function(module, "gather")
    try:
        views, scales = bind_arguments(function, [data, out] if inputs is None else [data, inputs, out])
    except InternalError as error:
        raise InvalidGatherError(f"{error}; the stage is of other arrays: pass the arrays of its gather") from None
    if engine == "interpreter":
        interpret(module, data, inputs, out, seed=seed)
        return out
    if engine == "upstream":
        code = RUNTIME.make(lambda: compile_upstream(module, find_tools()).load())
        call = code(views, [scale for scale, _ in scales])
    else:
        call = numba_call(module, views, scales)
    if outside := call():
        raise BoundsError(out_of_range(outside))
    return out
