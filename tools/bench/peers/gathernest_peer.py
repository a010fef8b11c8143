"""gathernest itself: a compiled kernel, or the function in cases that measure the call."""

from functools import partial

import numpy as np

from ....ir.array_spec import ArraySpec
from ....kernels.gather import gather
from ....kernels.kernel import Kernel
from ....kernels.kernel import compile as compile_gather
from ....lowering.schedule.schedule import Schedule
from ..cases.case import Case, Inputs
from .peer import Peer, Variants


class Gathernest(Peer):
    """The compiled kernel; how many threads it uses is a knob."""

    name = "gathernest"

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        if case.family == "call" and case.into == "new":
            return {"gather": [partial(gather, inputs.data, picks, case.axis) for picks in inputs.indices]}
        kernel, given = compile_case(case, inputs.indices[0]), (inputs.out,) if case.into == "out" else ()
        return {"kernel": [partial(kernel, inputs.data, picks, *given) for picks in inputs.indices]}


def compile_case(case: Case, indices: np.ndarray, schedule: Schedule | None = None) -> Kernel:
    """Return the kernel of a case and a set of its indices, with the heuristic's schedule when none is given."""
    data = ArraySpec(case.data, np.dtype(case.dtype))
    return compile_gather(case.operator, data, indices, axis=case.axis, batch_dims=case.batch_dims, schedule=schedule)
