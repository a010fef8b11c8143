"""What a case is held against: the machine's limit, timed in the same rounds."""

from typing import TYPE_CHECKING

from .cases import Case, Inputs
from .compiled import compile_case

if TYPE_CHECKING:
    from ...kernels.limits import Limits


def limits(case: Case, inputs: Inputs) -> "Limits | None":
    """Return the two loops that a case is timed beside, made ready, with as many threads as the knobs say.

    Args:
        case: what is run.
        inputs: its arrays. The first of the sets of indices says which lines are touched, and the loops use as many
            places of their memory in turn as there are sets.

    Returns:
        None where only the call is timed, and for gradients, whose table is both read and written.
    """
    if case.family == "call" or case.is_gradient:
        return None
    from ...kernels.floor import fewest_bytes
    from ...kernels.limits import limits_of

    kernel = compile_case(case, inputs.indices[0])
    traffic = fewest_bytes(kernel, inputs.indices[0], data=inputs.data)
    return limits_of(traffic, case.table_bytes, len(inputs.indices))
