"""Every case of the suite, cut small: arrays are what it says, and gathernest gives what the plain reference gives."""

import dataclasses

import numpy as np
import pytest

import gathernest as gn
from gathernest.asv_bench.benchmarks.cases import BY_NAME, bind
from gathernest.ir import reference
from gathernest.tools.bench.cases import APART, FAMILIES, SUITE, Case, chosen, describe, larger_than, problem_of_case
from gathernest.tools.bench.peers import Gathernest, expected
from gathernest.tools.console.terminal import UsageError

SMALL = 9
every_case = pytest.mark.parametrize("case", [case.cut(SMALL) for case in SUITE], ids=lambda case: case.name)


def test_names_are_unique_and_families_stand_together():
    names = [case.name for case in SUITE]
    assert len(set(names)) == len(names)
    families = [case.family for case in SUITE]
    assert [family for place, family in enumerate(families) if family not in families[:place]] == list(FAMILIES)
    assert families == sorted(families, key=FAMILIES.index)
    assert set(APART) <= set(FAMILIES)


@pytest.mark.draw(20)
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


@every_case
def test_bytes_follow_from_the_shapes(case):
    inputs = case.make(sets=1)
    table, gathered = (inputs.out, inputs.data) if case.is_gradient else (inputs.data, inputs.out)
    assert (case.table_bytes, case.gathered_bytes) == (table.nbytes, gathered.nbytes)
    assert case.index_bytes == inputs.indices[0].nbytes
    assert case.rows * case.row_bytes == (case.indices[-1] if case.is_reduction else 1) * gathered.nbytes


@pytest.mark.parametrize(
    "name", ["rows-8B", "few-batches-rows", "nd-batches", "elements-last-axis", "gradient-zipf", "call-function"]
)
def test_bound_call_gives_the_result_of_each_set_of_indices_in_turn(name):
    case = BY_NAME[name].cut(SMALL)
    inputs = case.make(sets=None if case.family == "call" else 2)
    call = bind(case, inputs, gn)
    for number in (0, 1 % len(inputs.indices), 0):
        assert call().tobytes() == expected(case, inputs, number).tobytes()


def test_larger_than_cache_counts_whole_lines_but_no_more_than_the_table():
    scalars = Case("x", "scalars", (1_000_000,), (1000,))
    assert larger_than(scalars, 1000 * 12 + 1000 * 64 - 1)
    assert not larger_than(scalars, 1000 * 12 + 1000 * 64)
    tiny_table = dataclasses.replace(scalars, data=(10,))
    assert not larger_than(tiny_table, 1000 * 12 + 40)


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


def test_patterns_and_families_choose_in_the_order_of_the_suite():
    assert [case.name for case in chosen(["call-kernel", "call-function"], [])] == ["call-function", "call-kernel"]
    assert {case.family for case in chosen([], ["axes", "rows"])} == {"rows", "axes"}
    assert [case.name for case in chosen(["last-*"], ["axes"])][:2] == ["last-axis", "last-axis-in-cache"]
    assert chosen([], []) == SUITE


@pytest.mark.parametrize(
    ("patterns", "families", "text"),
    [
        (
            ["row-8B"],
            [],
            "no case is called 'row-8B'; `gathernest bench --list` prints them, and * stands for anything; "
            "did you mean 'rows-8B'?",
        ),
        (
            [],
            ["scalar"],
            f"there is no family 'scalar'; the families are {', '.join(FAMILIES)}; did you mean 'scalars'?",
        ),
        (["rows-8B"], ["axes"], "no case is left: none of --case rows-8B is of --family axes; leave one out"),
    ],
)
def test_names_that_leave_no_case_are_rejected(patterns, families, text):
    with pytest.raises(UsageError) as rejected:
        chosen(patterns, families)
    assert str(rejected.value) == text
    assert isinstance(rejected.value, gn.GathernestError)
