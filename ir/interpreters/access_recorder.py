"""The reference interpreter with a record of the loads or stores of one array, and the loops around each."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..dialects.gather_dialect import LoopOp
from .scalar import Machine


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store of an element.

    Attributes:
        offset_bytes: from the first element of the array, as its strides count.
        loops: the loops around it, outermost first, each with the values of its induction variables.
        iteration, iterations: the number of the iteration of the `scf.parallel` around it, the last of whose variables
            varies fastest, and how many there are; 0 and 1 where there is none.
    """

    offset_bytes: int
    loops: tuple[tuple[Operation, tuple[int, ...]], ...]
    iteration: int = 0
    iterations: int = 1


def record_accesses(
    module: ModuleOp,
    data: np.ndarray,
    indices: np.ndarray | None,
    out: np.ndarray,
    *,
    of: Literal["data", "out"],
    seed: int = 0,
) -> list[Access]:
    """Run the function `@gather` of a module at the level of nests or loops, and return the accesses of one array.

    Args:
        data, indices, out, seed: as for `interpret`.
        of: whether to record the loads of `data`, or the stores to `out`.

    Raises:
        BoundsError, InternalError: as `interpret` does.
    """
    machine = _Recorder(module, random.Random(seed), data if of == "data" else out, "load" if of == "data" else "store")
    machine.run(data, indices, out)
    return machine.accesses


class _Recorder(Machine):
    def __init__(self, module: ModuleOp, rng: random.Random, array: np.ndarray, kind: str):
        super().__init__(module, rng, None)
        self.kind, self.start = kind, array.ctypes.data
        self.first, self.last = np.lib.array_utils.byte_bounds(array)
        self.accesses: list[Access] = []

    def load(self, memory: np.ndarray, subscripts: Sequence[int]) -> Any:
        value = super().load(memory, subscripts)
        self.note("load", memory, subscripts)
        return value

    def store(self, memory: np.ndarray, subscripts: Sequence[int], value: Any) -> None:
        super().store(memory, subscripts, value)
        self.note("store", memory, subscripts)

    def note(self, kind: str, memory: np.ndarray, subscripts: Sequence[int]) -> None:
        """Record an access where it is of that kind and that array."""
        address = memory.ctypes.data + sum(map(int.__mul__, subscripts, memory.strides))
        if kind == self.kind and self.first <= address < self.last:
            self.accesses.append(Access(address - self.start, self.loops(), *self.share()))

    def loops(self) -> tuple[tuple[Operation, tuple[int, ...]], ...]:
        """Return the loops that run, outermost first, with their induction variables."""
        found: list[tuple[Operation, tuple[int, ...]]] = []
        for block, values in self.around:
            op = block.parent_op()
            if isinstance(op, LoopOp | scf.ForOp):
                found.append((op, (int(values[0]),)))
            elif isinstance(op, scf.ParallelOp):
                found.append((op, tuple(map(int, values))))
        return tuple(found)

    def share(self) -> tuple[int, int]:
        """Return the number of the iteration of the parallel loop that runs, and how many there are."""
        number, count = 0, 1
        for op, point in self.loops():
            if isinstance(op, scf.ParallelOp):
                bounds = zip(op.lowerBound, op.upperBound, op.step, point, strict=True)
                for lower, upper, step, value in bounds:
                    trips = range(*(self.values[id(bound)] for bound in (lower, upper, step)))
                    number, count = number * len(trips) + trips.index(value), count * len(trips)
                break
        return number, count
