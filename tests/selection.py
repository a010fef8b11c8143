"""Which tests run: all of them with `--all`, and else a part of them that takes minutes; with `--rest` what that left.

Without `--all`, tests marked `thorough` are left out, and so are most combinations of a test with several parameters:
what stays is a covering array, in which every pair of values of two parameters occurs (of a test with two parameters,
every value). A test marked `draw(count)` keeps `count` of its cases, spread over all of them. The choice depends on
nothing but the tests, so that every process of a run and every run makes the same one.
"""

import itertools
import os
from collections.abc import Collection, Sequence

import pytest

# The fewest cases of a test from which combinations are left out.
MIN_PRODUCT = 9


def example_ratio() -> float:
    """Return the share of the examples of random tests to draw: 1 by `make test-all`, more by `make fuzz`."""
    return float(os.environ["GATHERNEST_TEST_EXAMPLES"])


def examples(count: int) -> int:
    """Return how many of `count` random examples, or repetitions, this run takes."""
    return max(1, round(count * example_ratio()))


def select(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests to run without `--all`, in their order."""
    tests: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("thorough") is None:
            tests.setdefault((item.nodeid.partition("[")[0], str(item.path)), []).append(item)
    kept = {id(item) for cases in tests.values() for item in _cases(cases)}
    return [item for item in items if id(item) in kept]


def rest(items: Sequence[pytest.Item], passed: Collection[str]) -> list[pytest.Item]:
    """Return the tests that have not passed, and those that draw fewer examples without `--all`."""
    names = set(passed)
    return [
        item
        for item in items
        if item.nodeid not in names
        or "examples" in item.function.__code__.co_names
        or getattr(item.function, "is_hypothesis_test", False)
    ]


def _cases(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of one test to run."""
    draw = cases[0].get_closest_marker("draw")
    if draw is not None:
        (count,) = draw.args
        return [cases[place] for place in sorted({index * len(cases) // count for index in range(count)})]
    return [cases[place] for place in covering_array([_values(case) for case in cases])]


def _values(case: pytest.Item) -> tuple[tuple[str, int], ...]:
    """Return the parameters of a case with their values, by the identity of the object that cases share."""
    parameters = case.callspec.params if hasattr(case, "callspec") else {}
    return tuple((name, id(value)) for name, value in parameters.items())


def covering_array(rows: Sequence[tuple[tuple[str, int], ...]]) -> list[int]:
    """Return places of rows that have all pairs of values: of two parameters, all values.

    Parameters that always change together, as those of one `parametrize` with several names, count as one. Each step
    takes the row with the most pairs that no row before it has.
    """
    columns = {_partition(column): column for column in zip(*rows, strict=True)} if rows[0] else {}
    strength = 1 if len(columns) < 3 else 2
    if len(columns) < 2 or len(rows) < MIN_PRODUCT:
        return list(range(len(rows)))
    names = {column[0][0] for column in columns.values()}
    distinct = [tuple(value for value in row if value[0] in names) for row in rows]
    pairs = [set(itertools.combinations(row, strength)) for row in distinct]
    missing, taken = set().union(*pairs), list[int]()
    while missing:
        best = max(range(len(rows)), key=lambda place: (len(pairs[place] & missing), -place))
        missing -= pairs[best]
        taken.append(best)
    return sorted(taken)


def _partition(column: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Return which cases have equal values of a parameter."""
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(value, len(numbers)) for _, value in column)
