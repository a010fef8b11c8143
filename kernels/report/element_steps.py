"""One element of a small instance of a gather, step by step, for the pane of the report."""

from contextlib import suppress

import numpy as np

from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...lowering.pipeline import parse_passes, record_stages, stages_by_name
from ..drawings.small_instance import small_instance, spread_indices
from ..runtime.compile import module_of
from ..runtime.plan import Plan
from ..stepping.stage_steps import step_stage
from ..stepping.steps import Steps

# The scheduled nest, with the bounds handling written out.
STAGE = "hoist-invariants"


def element_steps(plan: Plan) -> Steps | None:
    """Return the steps of the last element of a small gather with the plan's loops.

    None where nothing can be stepped through: the result is empty, or no such stage is there or is legal.
    """
    instance = small_instance(plan)
    problem = instance.problem
    for pipeline in instance.pipelines:
        with suppress(GathernestError):
            stages = stages_by_name(record_stages(module_of(problem), parse_passes(pipeline)))
            name = STAGE if STAGE in stages else list(stages)[-1]
            arrays = _values(problem), spread_indices(problem)
            return step_stage(stages[name].text, name, problem, *arrays, problem.result.size - 1)
    return None


def _values(problem: Problem) -> np.ndarray:
    """Return an array of data, or grad of a gradient: 0, 1, 2 and so on."""
    spec = problem.source
    return np.arange(spec.size).astype(spec.dtype).reshape(spec.shape)
