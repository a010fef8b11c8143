"""The interface of a runtime's adapter."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..cases.case import Case, Inputs

Call = Callable[[], Any]
# Ways to run a case, by what is called: one call for each set of indices.
Variants = Mapping[str, Sequence[Call]]


class Peer(ABC):
    """A runtime that gathers.

    Attributes:
        name: as on the command line.
        index_dtypes: those that it takes; all when empty.
        is_allocating: whether it makes every result, as it can write into none that is given.
        threads: how many it uses.
    """

    name: ClassVar[str]
    index_dtypes: ClassVar[tuple[str, ...]] = ()
    is_allocating: ClassVar[bool] = False
    threads: int = 1

    def start(self, threads: int) -> None:
        """Have it use so many threads; called once, before all cases."""
        self.threads = threads

    def rejection(self, case: Case) -> str | None:
        """Return why it cannot run a case, or None where it can."""
        is_taken = not self.index_dtypes or case.index_dtype in self.index_dtypes
        return None if is_taken else f"has no {case.index_dtype} indices"

    @abstractmethod
    def variants(self, case: Case, inputs: Inputs) -> Variants:
        """Return the ways to run a case that it can run, into what `case.into` says.

        The arrays live at least as long as the calls. Each call of a case into "new" returns a result of its own.
        """

    def result(self, returned: Any, out: np.ndarray) -> np.ndarray:
        """Return the result of a call as an array: its return value, or `out` for None."""
        return out if returned is None else np.asarray(returned)
