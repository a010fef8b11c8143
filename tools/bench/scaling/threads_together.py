"""How many times as fast as one thread all threads are at this moment, in loops that share nothing but the machine.

The cores of a virtual machine move while it runs: they are cores of two chiplets, or of one, whose way to memory they
share, or two hardware threads of one core. Runs that met different ones are not alike. Imports Numba.
"""

import itertools
import statistics

from ....kernels.host.knobs import knobs
from ....kernels.machine.probes import LINE_BYTES, STREAMED, aligned, copy_ways, touch
from ....kernels.runtime.array_checks import address
from ..report import Together
from .compare import scale_calls
from .compute_loops import UNITS, compute_loops

# As much as no last cache of two chiplets holds, in source and target each.
COPIED_BYTES = 64 * 1024**2
ROUNDS = 9


def threads_together(threads: int) -> Together | None:
    """Return how many times as fast so many threads are as one; None of one thread."""
    if threads == 1:
        return None
    memory = aligned(2 * COPIED_BYTES + LINE_BYTES)
    with knobs.scope(num_threads=threads):
        touch(memory, threads)
    window = address(memory), 0, address(memory) + COPIED_BYTES, 0, COPIED_BYTES
    copy = copy_ways(itertools.repeat(window), [memory], threads)[STREAMED]
    calls = {("units", UNITS): compute_loops()[UNITS], ("bandwidth", "copy"): copy}
    scaled = scale_calls(calls, rounds=ROUNDS, threads=threads)
    return Together(*[statistics.median(one.gains) for one in scaled])
