"""The first calls of a process: NumPy answers small calls before the modules that plan calls have been imported.

This import takes as long as thousands of small gathers in NumPy. So the first small call does without it, the second
begins it in a thread, and calls are planned when it has ended. A large call imports them at once.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count

from ...ir.operator_spec import Gather
from ...ir.problem import Problem
from ..host.knobs import knobs
from ..host.runtime import RUNTIME, Thread

# A call for which NumPy needs more than this number of seconds imports the planner at once.
LARGE_S = 0.02
# The time that NumPy needs for a byte of the result, a row, an added element, and a step of bags, in nanoseconds.
_BYTE_NS, _ROW_NS, _ADDED_NS, _STEP_NS = 0.5, 10.0, 10.0, 5000.0
# The module that plans and prepares calls, and imports all other modules for that.
_PLANNER = f"{__package__}.prepare"


def predict_numpy_s(problem: Problem) -> float:
    """Return the seconds that NumPy needs for a call, within a factor of about three."""
    shape, dtype = problem.slices.shape, problem.table.dtype
    elements = math.prod(shape)
    if problem.gradient is not None:
        return 1e-9 * (_ADDED_NS * elements + _BYTE_NS * math.prod(problem.table.shape) * dtype.itemsize)
    if problem.reduces:
        bags, rows = problem.indices.shape[-1], math.prod(problem.indices.shape)
        added = rows * math.prod(problem.table.shape[1:])
        return 1e-9 * (_STEP_NS * bags + _ROW_NS * rows + 2 * _BYTE_NS * added * dtype.itemsize)
    rest = problem.table.shape[problem.axes.stop :] if isinstance(problem.operator, Gather) else ()
    return 1e-9 * (_ROW_NS * elements / max(math.prod(rest), 1) + _BYTE_NS * elements * dtype.itemsize)


class FirstCalls:
    """The calls that NumPy has answered before there was a planner.

    Attributes:
        problems: the problems that `take` has not returned yet.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._numbers = count()
        self._import: Thread | None = None

    def takes(self, problem: Problem, see: Callable[[], object]) -> bool:
        """Return whether NumPy is to answer a call without a plan; `see` imports the planner, and takes `problems`."""
        if _PLANNER in sys.modules and not self._is_importing():
            return False
        if knobs.compile == "now" or knobs.asks_for_code() or predict_numpy_s(problem) > LARGE_S:
            return False
        number = next(self._numbers)
        if number == 1:
            self._import = RUNTIME.begin(see)
        if number and not self._is_importing() and not sys.is_finalizing():  # then nothing can be imported
            return False
        self.problems.append(problem)
        return True

    def take(self) -> Counter[Problem]:
        """Return the calls that NumPy has answered since the last call of this, with the number of each."""
        taken, self.problems = self.problems, []
        return Counter(taken)

    def forget(self) -> None:
        """Begin anew in a forked child, where no thread imports."""
        FirstCalls.__init__(self)

    def _is_importing(self) -> bool:
        return self._import is not None and self._import.is_alive()


FIRST_CALLS = FirstCalls()
RUNTIME.in_child.append(FIRST_CALLS.forget)
