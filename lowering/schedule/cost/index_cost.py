"""Predicting what the indices of a nest cost, by themselves: to check, to read and to resolve. Plain Python."""

from typing import NamedTuple

from .. import thresholds as fixed
from ..loop_sizes import NestShape, trips
from ..machine_model import MachineModel


class IndexCosts(NamedTuple):
    """What the indices of a nest cost.

    Attributes:
        resolve_uops: the instructions that make a position of those of one slice.
        read_bytes: that the nest behind the check reads for all positions.
        check_ns: of the check, without what it reads; 0 where nothing is checked.
    """

    resolve_uops: float
    read_bytes: int
    check_ns: float


def index_costs(nest: NestShape, machine: MachineModel, staged: int | None) -> IndexCosts:
    """Return what indices cost, whose check may stage positions of so many bits: it resolves them then, too."""
    check_ns = trips(nest.checked) * machine.check_ns if nest.checked else 0.0
    if staged is None:
        return IndexCosts(resolve_uops(nest), nest.all_index_bytes * nest.tuple_size, check_ns)
    return IndexCosts(1, staged * nest.indices // 8, 2 * check_ns)


def resolve_uops(nest: NestShape) -> float:
    """Return the instructions that make a position of the indices of one slice."""
    return fixed.RESOLVE_UOPS * nest.tuple_size + fixed.COMBINE_UOPS * (nest.tuple_size - 1)
