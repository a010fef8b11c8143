"""The public function `step`: one element of a gather's result through one stage, operation by operation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp

from ...ir.array_spec import ArraySpec
from ...ir.errors import InvalidGatherError, did_you_mean
from ...ir.modules.context import make_context
from ...ir.modules.read_module import read_module
from ...lowering.pipeline import parse_passes, record_stages, stages_by_name
from ...lowering.registry import SCHEDULED_NEST
from ...lowering.schedule.schedule import Schedule
from ..problems.named_problem import problem_of
from ..runtime.array_checks import data_array, index_array
from ..runtime.compile import module_of
from ..runtime.plan import make_plan
from ..stepping.stage_steps import step_stage
from ..stepping.steps import Steps
from .run_stage import rest_of
from .stage_file import filled


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
    threads: int | None = None,
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
        threads: how many share parallel loops, 1 or more; as many as a large gather uses here when omitted.

    Returns:
        The steps in the order in which they ran, loops in order; iterable, with `to_json()` and `to_html()`.

    Raises:
        InvalidGatherError: the element is outside of the result, there is no such stage, the result is too large to
            interpret, or the arrays and the attributes do not fit.
        InputError: the module does not parse or is not valid; the message has the place.
        ScheduleError: a pass rejects the gather.
    """
    source, index = _array(data, data_array), _array(indices, index_array)
    if isinstance(operator, str) and operator.endswith("_grad") and data_shape is None:
        raise InvalidGatherError(f"{operator} needs the shape of data, got none; pass data_shape=(...)")
    table = source if data_shape is None else ArraySpec(data_shape, source.dtype)
    problem = problem_of(operator, table, index, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    if seed < 0:
        raise InvalidGatherError(f"seed must be 0 or more, got {seed}")
    rng = np.random.default_rng(seed)
    source, index = filled(source, rng), filled(index, rng, problem)
    if module is None:
        chosen = None if schedule is None else Schedule.parse(schedule)
        passes = make_plan(problem, chosen).pipeline if pipeline is None else pipeline
        name, text = stage_of(module_of(problem), passes, stage or SCHEDULED_NEST, falls_back=stage is None)
    else:
        name = str(module) if isinstance(module, Path) else "<text>"
        text = module.read_text(encoding="utf-8-sig") if isinstance(module, Path) else str(module)
        name, text = stage_of_text(text, name, pipeline, stage)
    return step_stage(text, name, problem, source, index, element, file=name, threads=threads)


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


def _array(given: Any, check: Any) -> Any:
    if isinstance(given, ArraySpec):
        return given
    return ArraySpec.parse(given) if isinstance(given, str) else check(given)
