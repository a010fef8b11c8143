"""The least time that a case can take on this machine, where it is known."""

from .cases import Case


def floor_us(case: Case) -> float | None:
    """Return the least microseconds that a case's bytes and lines take at this machine's ceilings.

    Returns:
        None where no ceilings have been measured, which is always so as yet.
    """
    del case
    return None
