"""What a case is held against: the machine's limit, timed in the same rounds."""

from typing import TYPE_CHECKING

from .cases import Case, Inputs
from .compiled import compile_case

if TYPE_CHECKING:
    from ...kernels.limits import Limits


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
    from ...kernels.floor import fewest_bytes
    from ...kernels.limits import limits_of
    from ...kernels.refetched_lines import lines_in_order
    from ...kernels.threads import available_threads

    indices, data, table_bytes = inputs.indices[0], inputs.data, case.table_bytes
    kernel = compile_case(case, indices)
    traffic = fewest_bytes(kernel, indices, data=data)
    in_order = lines_in_order(kernel, indices, traffic, table_bytes=table_bytes, threads=available_threads(), data=data)
    return limits_of(traffic, table_bytes, len(inputs.indices), in_order)
