"""C functions that take the number of indices: which problems can, and how a kernel's arguments follow from it."""

from collections.abc import Sequence

from ...ir.errors import InternalError, InvalidGatherError
from ...ir.operator_spec import GatherElements, GatherNd
from ...ir.problem import Problem

# A kernel for a size of 1 lacks a loop that other sizes have.
LEAST_COUNT = 2


def with_count(problem: Problem, count: int) -> Problem:
    """Return the problem of contiguous arrays with another size of the first dimension of indices."""
    return problem.resized(problem.table.shape, (count, *problem.indices.shape[1:]))


def counts_of(problem: Problem) -> tuple[int, int, int]:
    """Return the count of a problem and two more, from which `by_count` concludes."""
    count = problem.indices.shape[0]
    return count, count + 7, 2 * count + 5


def check_takes_count(problem: Problem) -> None:
    """Check that the size of the first dimension of indices may be any; raises InvalidGatherError."""
    operator, indices = problem.operator, problem.indices
    why = None
    if not indices.shape:
        why = "indices have no dimension"
    elif operator.attributes().get("batch_dims"):
        why = "it is a batch, which data has as well"
    elif isinstance(operator, GatherElements) and operator.axis:
        why = f"data has it as well, beside axis {operator.axis}"
    elif isinstance(operator, GatherNd) and indices.rank == 1:
        why = "it is the length of one tuple"
    elif not problem.table.is_contiguous or not indices.is_contiguous:
        why = "arrays must be C-contiguous for that"
    elif 0 in problem.axis_sizes:
        why = "the axis is empty, so no index is valid"
    if why is not None:
        raise InvalidGatherError(f"the first dimension of indices {indices} cannot be of any size: {why}")


def by_count(counts: Sequence[int], numbers: Sequence[Sequence[float]]) -> list[tuple[float, int]]:
    """Return base and slope of each of a kernel's arguments, which are numbers[k] for counts[k].

    Raises:
        InternalError: one is no linear function of the count.
    """
    found: list[tuple[float, int]] = []
    for first, second, third in zip(*numbers, strict=True):
        slope = 0 if isinstance(first, float) else int(second - first) // (counts[1] - counts[0])
        base = first - slope * counts[0] if slope else first
        if [base + slope * count for count in counts] != [first, second, third]:
            raise InternalError(f"an argument of a kernel is {first}, {second}, {third} for {counts} indices")
        found.append((base, slope))
    return found
