"""What a case is held against: the machine's limit, timed in the same rounds."""

from typing import TYPE_CHECKING

from .cases import Case, Inputs
from .compiled import compile_case

if TYPE_CHECKING:
    from ...kernels.roofline.reference_loops import Limits


def limits(case: Case, inputs: Inputs) -> "Limits | None":
    """Return the loops that a case is timed beside, made ready, with as many threads as the knobs say.

    Args:
        case: what is run.
        inputs: its arrays. The first of the sets of indices says which lines are touched and in what order, and the
            loops use as many places of their memory in turn as there are sets.

    Returns:
        None where only the call is timed, and for gradients, whose table is both read and written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.roofline.reference_loops import limits_beside

    indices, sets = inputs.indices[0], len(inputs.indices)
    kernel = compile_case(case, indices)
    return limits_beside(kernel, indices, data=inputs.data, table_bytes=case.table_bytes, sets=sets)
