"""The cases that a command line selects from the suite, which is `asv_bench.benchmarks.cases`."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from ....asv_bench.benchmarks.cases import APART, BY_NAME, FAMILIES, SUITE, Case
from ....ir.errors import did_you_mean
from ...console.terminal import UsageError

__all__ = ["APART", "BY_NAME", "FAMILIES", "SUITE", "chosen"]


def chosen(patterns: Sequence[str], families: Sequence[str], more: Sequence[Case] = ()) -> tuple[Case, ...]:
    """Return the cases that a command line selects by patterns of names and by families, in the order of the suite.

    Empty ones select all. `more` are cases beside the suite's. Raises UsageError where a name or family does not exist,
    or no case is left.
    """
    names = [case.name for case in (*SUITE, *more)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(
                f"no case is called {pattern!r}; `gathernest bench --list` prints them, and * stands for anything"
                f"{did_you_mean(pattern, names)}"
            )
    for family in families:
        if family not in FAMILIES:
            raise UsageError(
                f"there is no family {family!r}; the families are {', '.join(FAMILIES)}{did_you_mean(family, FAMILIES)}"
            )
    left = tuple(
        case
        for case in (*SUITE, *more)
        if (not patterns or any(fnmatchcase(case.name, pattern) for pattern in patterns))
        and (not families or case.family in families)
    )
    if not left:
        raise UsageError(
            f"no case is left: none of --case {','.join(patterns)} is of --family {','.join(families)}; leave one out"
        )
    return left
