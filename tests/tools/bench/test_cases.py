"""Every case of the suite, cut small: arrays are what it says, and gathernest gives what the plain reference gives."""

import numpy as np
import pytest

from gathernest.ir import reference
from gathernest.tools.bench.cases import APART, FAMILIES, SUITE, Case, describe, larger_than, problem_of_case
from gathernest.tools.bench.peers import Gathernest, expected

SMALL = 9
every_case = pytest.mark.parametrize("case", [case.cut(SMALL) for case in SUITE], ids=lambda case: case.name)


def test_names_are_unique_and_families_stand_together():
    names = [case.name for case in SUITE]
    assert len(set(names)) == len(names)
    families = [case.family for case in SUITE]
    assert [family for place, family in enumerate(families) if family not in families[:place]] == list(FAMILIES)
    assert families == sorted(families, key=FAMILIES.index)
    assert set(APART) <= set(FAMILIES)


@pytest.mark.draw(10)
@every_case
def test_gathernest_gives_the_bytes_of_the_reference(case):
    inputs = case.make(sets=2)
    for number, calls in enumerate(zip(*Gathernest().variants(case, inputs).values(), strict=True)):
        for call in calls:
            wanted = reference_of(case, inputs.data, inputs.indices[number])
            got = call()
            assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
            assert got.tobytes() == wanted.tobytes()
            assert (got is inputs.out) == (case.into == "out")


@every_case
def test_expected_bytes_are_those_of_the_reference(case):
    inputs = case.make(sets=2)
    for number, indices in enumerate(inputs.indices):
        wanted = reference_of(case, inputs.data, indices)
        assert expected(case, inputs, number).tobytes() == wanted.tobytes()


def reference_of(case: Case, data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return reference.of_problem(problem_of_case(case), data, indices)


@every_case
def test_arrays_are_seeded_and_of_the_shapes_that_the_case_says(case):
    first, second = case.make(), case.make()
    assert first.data.tobytes() == second.data.tobytes()
    assert all(one.tobytes() == other.tobytes() for one, other in zip(first.indices, second.indices, strict=True))
    assert {(one.shape, str(one.dtype)) for one in first.indices} == {(case.indices, case.index_dtype)}
    given, result = (case.gathered, case.data) if case.is_gradient else (case.data, case.gathered)
    assert (first.data.shape, first.out.shape) == (given, result)
    assert str(first.data.dtype) == str(first.out.dtype) == case.dtype
    assert first.data.flags.c_contiguous and first.out.flags.c_contiguous
    table, gathered = (first.out, first.data) if case.is_gradient else (first.data, first.out)
    assert (case.table_bytes, case.gathered_bytes) == (table.nbytes, gathered.nbytes)
    assert case.index_bytes == first.indices[0].nbytes
    assert case.rows * case.row_bytes == (case.indices[-1] if case.is_reduction else 1) * gathered.nbytes


def test_larger_than_cache_counts_whole_lines_but_no_more_than_the_table():
    scalars, few = (Case("x", "scalars", (size,), (1000,)) for size in (1_000_000, 10))
    assert larger_than(scalars, 1000 * 12 + 1000 * 64 - 1)
    assert not larger_than(scalars, 1000 * 12 + 1000 * 64)
    assert not larger_than(few, 1000 * 12 + 40)


def drawn(distribution: str, size: int = 1000, count: int = 4000) -> np.ndarray:
    return Case("x", "rows", (size,), (count,), distribution=distribution).make(sets=1).indices[0]


def test_sorted_indices_are_sorted():
    assert (np.diff(drawn("sorted")) >= 0).all()


def test_zipf_indices_prefer_few_places_that_lie_apart():
    counts = np.sort(np.bincount(drawn("zipf"), minlength=1000))[::-1]
    assert counts[0] > 5 * counts[20] > 0
    often = np.sort(np.argsort(np.bincount(drawn("zipf"), minlength=1000))[-10:])
    assert (np.diff(often) > 1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("distribution", ["uniform", "zipf", "sorted", "repeated"])
def test_indices_are_in_range_of_any_size(distribution, size):
    indices = drawn(distribution, size)
    assert (indices >= 0).all() and (indices < size).all()


def test_description_names_what_is_not_usual():
    case = Case("x", "axes", (4, 5), (4, 2), axis=1, batch_dims=1, index_dtype="int32", distribution="zipf")
    assert describe(case) == "4x5xf32 by 4x2xi32, axis 1, batch_dims 1, zipf"
    assert describe(Case("x", "rows", (4, 5), (3,))) == "4x5xf32 by 3xi64"
    assert describe(Case("x", "bags", (4, 5), (3, 2), "gather_max")) == "maxima, 4x5xf32 by 3x2xi64"
