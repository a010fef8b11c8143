"""gathernest itself: a compiled kernel, or the function in cases that measure the call."""

from functools import partial

from ....kernels.gather import gather
from ..cases.case import Case, Inputs
from ..cases.compiled import compile_case
from .peer import Peer, Variants


class Gathernest(Peer):
    """The compiled kernel; how many threads it uses is a knob."""

    name = "gathernest"

    def rejection(self, case: Case) -> str | None:
        del case
        return None

    def variants(self, case: Case, inputs: Inputs) -> Variants:
        if case.into == "new":
            return {"gather": [partial(gather, inputs.data, picks, case.axis) for picks in inputs.indices]}
        kernel = compile_case(case, inputs.indices[0])
        return {"kernel": [partial(kernel, inputs.data, picks, inputs.out) for picks in inputs.indices]}
