"""The kernel of a case."""

import numpy as np

from ....ir.array_spec import ArraySpec
from ....kernels.kernel import Kernel
from ....kernels.kernel import compile as compile_gather
from ....lowering.schedule.schedule import Schedule
from .case import Case


def compile_case(case: Case, indices: np.ndarray, schedule: Schedule | None = None) -> Kernel:
    """Return the kernel of a case, with the heuristic's schedule when none is given.

    Args:
        case: what is run.
        indices: one of its sets of indices.
        schedule: how.
    """
    return compile_gather(
        case.operator,
        ArraySpec(case.data, np.dtype(case.dtype)),
        indices,
        axis=case.axis,
        batch_dims=case.batch_dims,
        schedule=schedule,
    )
