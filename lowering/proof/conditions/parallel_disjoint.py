"""No two iterations of a parallel loop write one element."""

from collections.abc import Sequence

import islpy as isl

from ..relations.integer_sets import equal_tuple, only, parameter, renamed
from ..relations.meaning import Loop, Meaning, StagedPosition, Write
from .failure import Failure, failure_at


def parallel_disjoint(meaning: Meaning) -> list[Failure]:
    """Check that no two iterations of a parallel loop write the same element."""
    failures = [Failure(problem, dict.fromkeys(meaning.sizes, 2)) for problem in meaning.problems]
    memories = {store.memory for store in meaning.staged}
    groups = [[store for store in meaning.staged if store.memory == memory] for memory in memories]
    for writes, what in ((meaning.writes, "write one element"), *((group, "stage one position") for group in groups)):
        for loop in {loop.parameter: loop for write in writes for loop in write.loops if loop.parallel}.values():
            bad = _shared(loop, [write for write in writes if loop in write.loops], meaning)
            if not bad.is_empty():
                failures.append(failure_at(f"two iterations of the parallel loop {loop.label} {what}", bad, meaning))
    return failures[:1]


def _shared(loop: Loop, writes: Sequence[Write | StagedPosition], meaning: Meaning) -> isl.Set:
    """Return the elements that two iterations of a loop write, in one iteration of the loops around it."""
    outer = [each.parameter for each in writes[0].loops[: writes[0].loops.index(loop)]]
    touched = isl.Set("{ : }").complement()
    for write in writes:
        places = [(f"e{dim}", place) for dim, place in enumerate(write.subscripts) if isinstance(place, isl.PwAff)]
        held = write.domain.intersect(equal_tuple([name for name, _ in places], [place for _, place in places]))
        touched = touched.union(only(held, [loop.parameter, *outer, *(name for name, _ in places), *meaning.sizes]))
    twin = renamed(touched, {loop.parameter: "twin"})
    return touched.intersect(twin).intersect(parameter("twin").lt_set(parameter(loop.parameter)))
