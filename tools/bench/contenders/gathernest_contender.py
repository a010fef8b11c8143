"""gathernest itself: a kernel compiled beforehand, or the function where that call is what is measured."""

from functools import partial

import numpy as np

from ....ir.array_spec import ArraySpec
from ....kernels.gather import gather
from ....kernels.kernel import compile as compile_kernel
from ..cases import Case, Inputs
from .contender import Contender, Variants


class Gathernest(Contender):
    """The compiled kernel; how many threads it uses is a knob."""

    name = "gathernest"

    def refusal(self, case: Case) -> str | None:
        del case
        return None

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        if case.into == "new":
            return {"gather": [partial(gather, inputs.data, picks, case.axis) for picks in inputs.indices]}
        kernel = compile_kernel(
            case.operator,
            ArraySpec(case.data, np.dtype(case.dtype)),
            inputs.indices[0],
            axis=case.axis,
            batch_dims=case.batch_dims,
        )
        return {"kernel": [partial(kernel, inputs.data, picks, inputs.out) for picks in inputs.indices]}
