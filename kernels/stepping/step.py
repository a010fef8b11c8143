"""The public function `step`: one element of a gather's result through one stage, operation by operation."""

import math
import operator as operators
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp

from ...ir.array_spec import ArraySpec
from ...ir.errors import BoundsError, InvalidGatherError, did_you_mean
from ...ir.modules.context import make_context
from ...ir.modules.read_module import read_module
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.pipeline import parse_passes, record_stages, stages_by_name
from ...lowering.schedule.schedule import Schedule
from ..kernel import problem_of
from ..playground.check_stage import expected_result
from ..playground.run_stage import rest_of
from ..playground.stage_file import filled
from ..runtime.array_checks import data_array, index_array
from ..runtime.compile import module_of
from ..runtime.plan import make_plan
from .remarks import remarks
from .stage_run import StageRun
from .steps import Shape, Steps

# The stage that is stepped through when none is named: the scheduled nest, with the bounds handling written out.
DEFAULT_STAGE = "hoist-invariants"
# An operation takes some 15 microseconds, and an element some ten operations.
MOST_ELEMENTS = 300_000


def step(
    operator: str,
    data: ArrayLike | str | ArraySpec,
    indices: ArrayLike | str | ArraySpec,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: Any = "error",
    scale: float = 1.0,
    data_shape: tuple[int, ...] | None = None,
    element: int | Sequence[int] = 0,
    stage: str | None = None,
    schedule: Schedule | str | None = None,
    pipeline: str | None = None,
    module: str | Path | ModuleOp | None = None,
    seed: int = 0,
) -> Steps:
    """Step through one element of a gather's result: the operations of a stage that it depends on, with their values.

    Args:
        operator, axis, batch_dims, bounds, scale: as for `gathernest.compile`.
        data, indices: arrays, or specs such as "5x4xf32" to fill at random; of a gradient, `data` is grad.
        data_shape: of a gradient, the shape of data.
        element: its position in the result, or its number in C order.
        stage: `operator` or the name of a pass; when omitted, the scheduled nest, or `module` as it is.
        schedule: a schedule; chosen by the sizes when this and `pipeline` are omitted.
        pipeline: the whole pipeline instead, as text; of a `module`, passes to run first.
        module: a stage to step through instead of one made here: MLIR text, a file of it, or a module.
        seed: fills arrays of which only the spec is given.

    Returns:
        The steps in the order in which they ran, loops in order; iterable, with `to_json()` and `to_html()`.

    Raises:
        InvalidGatherError: the element is outside of the result, there is no such stage, the result is too large to
            interpret, or the arrays and the attributes do not fit.
        InputError: the module does not parse or is not valid; the message has the place.
        ScheduleError: a pass rejects the gather.
    """
    source, index = _array(data, data_array), _array(indices, index_array)
    if operator.endswith("_grad") and data_shape is None:
        raise InvalidGatherError(f"{operator} needs the shape of data, got none; pass data_shape=(...)")
    table = source if data_shape is None else ArraySpec(data_shape, source.dtype)
    problem = problem_of(operator, table, index, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    rng = np.random.default_rng(seed)
    source, index = filled(source, rng), filled(index, rng, problem.axis_sizes)
    if module is None:
        chosen = None if schedule is None else Schedule.parse(schedule)
        passes = make_plan(problem, chosen).pipeline if pipeline is None else pipeline
        name, text = stage_of(module_of(problem), passes, stage or DEFAULT_STAGE, falls_back=stage is None)
    else:
        name = str(module) if isinstance(module, Path) else "<text>"
        text = module.read_text(encoding="utf-8") if isinstance(module, Path) else str(module)
        name, text = stage_of_text(text, name, pipeline, stage)
    return step_stage(text, name, problem, source, index, element, file=name)


def stage_of(module: ModuleOp, pipeline: str, name: str | None, *, falls_back: bool = False) -> tuple[str, str]:
    """Run a pipeline on a module, and return the name and the text of a stage.

    Args:
        name: of the stage; the last one when omitted.
        falls_back: whether the last stage stands in for one that is not there.

    Raises:
        InvalidGatherError: there is no such stage.
    """
    stages = stages_by_name(record_stages(module, parse_passes(pipeline) if pipeline else []))
    last = list(stages)[-1]
    name = last if name is None or (falls_back and name not in stages) else name
    if name not in stages:
        raise InvalidGatherError(
            f"there is no stage {name!r}; the stages are {', '.join(stages)}{did_you_mean(name, stages)}"
        )
    return name, stages[name].text


def stage_of_text(text: str, file: str, pipeline: str | None, name: str | None) -> tuple[str, str]:
    """Return the name and the text of a stage of a module that is given as text: as it is where nothing is to run.

    Args:
        pipeline: passes to run; where omitted and a stage is named, those that are left.
        name: of the stage; the last one when omitted.

    Raises:
        InputError: the text does not parse or is not valid.
        InvalidGatherError: there is no such stage.
    """
    module = read_module(text, file, make_context())
    passes = ("" if name is None else rest_of(module)) if pipeline is None else pipeline
    return stage_of(module, passes, name) if passes or name is not None else (file, text)


def step_stage(
    text: str,
    stage: str,
    problem: Problem,
    data: np.ndarray,
    indices: np.ndarray,
    element: int | Sequence[int] = 0,
    *,
    file: str = "<text>",
) -> Steps:
    """Step through one element of a problem's result in the text of a stage; see `step`."""
    position = element_position(element, problem.result.shape)
    work = max(problem.result.size, problem.source.size if problem.gradient is not None else 0)
    if work > MOST_ELEMENTS:
        raise InvalidGatherError(
            f"the gather has {work} elements, and a stage is interpreted one operation at a time: at most "
            f"{MOST_ELEMENTS}; give smaller sizes"
        )
    steps, sources, error, value = StageRun(text, file, problem, data, indices, position).steps()
    undefined = problem.bounds is Bounds.UNCHECKED and _breaks_promise(problem, indices)
    expected: Any = None
    must_fail = False
    if not undefined:
        try:
            expected = expected_result(problem, data, indices)[position]
        except BoundsError:
            must_fail = True
    same = value is not None and expected is not None and np.asarray(value).tobytes() == np.asarray(expected).tobytes()
    is_right = undefined or (isinstance(error, BoundsError) if must_fail else error is None and same)
    said = remarks(problem, indices, position, steps, value, expected, error, is_right=is_right, undefined=undefined)
    failed = None if error is None else str(error)
    gather = gather_line(problem)
    return Steps(gather, stage, text, position, value, expected, sources, said, failed, is_right, steps)


def element_position(element: int | Sequence[int], shape: Shape) -> Shape:
    """Return the position of an element that is given by its position or its number in C order.

    Raises:
        InvalidGatherError: it is outside of the result, or the result is empty.
    """
    size = math.prod(shape)
    if not size:
        raise InvalidGatherError(f"the result of shape {shape} is empty; give sizes from 1 on")
    try:
        if isinstance(element, Sequence) and not isinstance(element, str):
            position = tuple(operators.index(part) for part in element)
            is_inside = len(position) == len(shape) and all(
                0 <= part < size for part, size in zip(position, shape, strict=True)
            )
        else:
            number = operators.index(element)  # type: ignore[arg-type]
            is_inside = 0 <= number < size
            position = tuple(int(part) for part in np.unravel_index(number, shape)) if is_inside else ()
    except TypeError:
        is_inside, position = False, ()
    if not is_inside:
        given = ",".join(map(str, element)) if isinstance(element, Sequence) else element
        last = ",".join(str(size - 1) for size in shape)
        position_form = f"a position up to {last}, or " if shape else ""
        raise InvalidGatherError(
            f"element {given} is outside of the result of shape {shape}; give {position_form}a number from 0 to "
            f"{size - 1}"
        )
    return position


def gather_line(problem: Problem) -> str:
    """Return a problem in a line."""
    attributes = [f"{name} {value}" for name, value in problem.operator.attributes().items()]
    attributes += [f"scale {problem.gradient.scale:g}"] if problem.gradient is not None else []
    attributes.append(f"bounds {problem.bounds}")
    return f"{problem.name} {problem.source} by {problem.indices} -> {problem.result}, {', '.join(attributes)}"


def _array(given: Any, check: Any) -> Any:
    if isinstance(given, ArraySpec):
        return given
    return ArraySpec.parse(given) if isinstance(given, str) else check(given)


def _breaks_promise(problem: Problem, indices: np.ndarray) -> bool:
    sizes = np.array(problem.axis_sizes, object)
    parts = indices.reshape(-1, len(sizes)) if len(sizes) > 1 else indices.reshape(-1, 1)
    return bool(((parts < 0) | (parts >= sizes)).any())
