"""All that must hold of a stage, each decided for all sizes."""

from .conditions.accesses_inside import accesses_inside, streams_aligned
from .conditions.failure import Failure
from .conditions.index_checks import guard_complete
from .conditions.parallel_disjoint import parallel_disjoint
from .conditions.same_copies import same_copies
from .relations.meaning import Meaning
from .specification import Wanted


def failures_of(meaning: Meaning, wanted: Wanted | None) -> list[Failure]:
    """Return what does not hold of a stage; raises Undecided where something cannot be decided."""
    failures = parallel_disjoint(meaning) or accesses_inside(meaning, wanted) or streams_aligned(meaning)
    if failures or wanted is None:
        return failures
    return guard_complete(meaning, wanted) or same_copies(meaning, wanted)
