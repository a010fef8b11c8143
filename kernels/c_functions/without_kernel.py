"""What a C function does where the sizes of its problem leave nothing for a kernel."""

import math

from ...lowering.native.kernel_code import NoKernel
from ..runtime.plan import Plan


def without_kernel(plan: Plan) -> NoKernel:
    """Return what is done in the place of running a kernel; the plan's action is another than `run`."""
    problem = plan.problem
    if plan.action == "zeros":
        return NoKernel(math.prod(problem.result.shape) * problem.result.dtype.itemsize, 0)
    return NoKernel(0, math.prod(problem.indices.shape) if plan.action == "reject" else 0)
