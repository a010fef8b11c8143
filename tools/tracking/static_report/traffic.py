"""The fewest bytes that a case moves, as the roofline bound counts them without the values of the indices."""

import numpy as np

from ....asv_bench.benchmarks.cases import Case
from ....ir.array_spec import ArraySpec
from ....kernels.host.knobs import knobs
from ....kernels.machine.traffic import fewest_bytes
from ....kernels.problems.named_problem import problem_of


def bytes_of(case: Case) -> dict[str, int]:
    """Return the bytes of one call by stream, to four digits: the lines are expected ones, by exp and log."""
    data, indices = (
        ArraySpec(shape, np.dtype(dtype))
        for shape, dtype in ((case.data, case.dtype), (case.indices, case.index_dtype))
    )
    problem = problem_of(case.operator, data, indices, case.axis, batch_dims=case.batch_dims)
    with knobs.scope(machine="avx2", tuning="off", override_dir=None):  # none of them plays a part
        streams = fewest_bytes(problem).streams
    return {name: int(float(f"{count:.4g}")) for name, count in streams}
