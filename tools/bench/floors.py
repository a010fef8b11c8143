"""The least time that a case can take on this machine."""

import numpy as np

from ...ir.array_spec import ArraySpec
from ...kernels.kernel import Kernel
from ...kernels.kernel import compile as compile_gather
from ...lowering.schedule import Schedule
from .cases import Case, Inputs


def floor_us(case: Case, inputs: Inputs) -> float | None:
    """Return the least microseconds that a case's bytes and lines take at this machine's ceilings.

    Ceilings that are not known yet are measured first, which takes some seconds.

    Args:
        case: what is run.
        inputs: its arrays, whose indices say which lines are touched.

    Returns:
        None where only the call is timed, and for gradients, whose table is both read and written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.floor import gather_floor

    kernel = compile_case(case, inputs)
    floor = gather_floor(kernel, inputs.indices[0], data=inputs.data)
    return floor.time_us


def compile_case(case: Case, inputs: Inputs, schedule: Schedule | None = None) -> Kernel:
    """Return the kernel of a case, with the schedule that its sizes ask for when none is given."""
    return compile_gather(
        case.operator,
        inputs.data if not case.is_gradient else ArraySpec(case.data, np.dtype(case.dtype)),
        inputs.indices[0],
        axis=case.axis,
        batch_dims=case.batch_dims,
        schedule=schedule,
    )
