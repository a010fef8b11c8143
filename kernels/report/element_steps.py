"""One element of a small instance of a gather, step by step, for the pane of the report."""

from contextlib import suppress

import numpy as np

from ...ir.errors import GathernestError
from ...ir.problem import Problem
from ...lowering.pipeline import stages_by_name
from ...lowering.registry import SCHEDULED_NEST
from ..drawings.small_instance import small_instance, spread_indices
from ..runtime.plan import Plan
from ..stepping.stage_steps import step_stage
from ..stepping.steps import Steps

# As many as the drawing of the accesses has.
THREADS = 4


def element_steps(plan: Plan) -> Steps | None:
    """Return the steps of the last element of a small gather with the plan's loops.

    None where nothing can be stepped through: the result is empty, or no such stage is there or is legal.
    """
    instance = small_instance(plan)
    problem = instance.problem
    with suppress(GathernestError):
        stages = stages_by_name(instance.stages())
        name = SCHEDULED_NEST if SCHEDULED_NEST in stages else list(stages)[-1]
        arrays = _values(problem), spread_indices(problem)
        return step_stage(stages[name].text, name, problem, *arrays, problem.result.size - 1, threads=THREADS)
    return None


def _values(problem: Problem) -> np.ndarray:
    """Return an array of data, or grad of a gradient: 0, 1, 2 and so on."""
    spec = problem.source
    return np.arange(spec.size).astype(spec.dtype).reshape(spec.shape)
