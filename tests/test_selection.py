"""Which tests a run takes: a covering array of their parameters, a draw, or everything with `--all`."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import conftest
from .selection import covering_array, examples, rest, select

SIZES = {"shape": 5, "bounds": 4, "dtype": 3, "axis": 2}


def items_of(*marks: pytest.Mark, sizes: dict[str, int] = SIZES) -> list[SimpleNamespace]:
    """Return stand-ins for the cases of one test with every combination of some parameters."""
    values = {name: [object() for _ in range(size)] for name, size in sizes.items()}
    by_name = {mark.name: mark for mark in marks}
    return [
        SimpleNamespace(
            nodeid=f"test_of.py::test[{number}]",
            path=Path("test_of.py"),
            get_closest_marker=by_name.get,
            callspec=SimpleNamespace(params=dict(zip(values, row, strict=True))),
        )
        for number, row in enumerate(itertools.product(*values.values()))
    ]


def pairs_of(items) -> set[tuple[int, int]]:
    return {pair for item in items for pair in itertools.combinations(map(id, item.callspec.params.values()), 2)}


def test_every_pair_of_values_of_many_parameters_runs_in_few_cases():
    items = items_of()
    chosen = select(items)
    assert pairs_of(chosen) == pairs_of(items)
    assert 5 * 4 <= len(chosen) <= 30 < len(items)


def test_every_value_of_two_parameters_runs_once():
    assert len(select(items_of(sizes={"shape": 5, "bounds": 4}))) == 5


@pytest.mark.parametrize("sizes", [{"shape": 30}, {"shape": 4, "bounds": 2}], ids=str)
def test_one_parameter_and_few_cases_run_whole(sizes):
    items = items_of(sizes=sizes)
    assert select(items) == items


def test_parameters_that_change_together_count_as_one():
    rows = [tuple((name, each) for name in "abc") for each in range(12)]
    assert covering_array(rows) == list(range(12))


@pytest.mark.parametrize("count", [1, 4, 200])
def test_a_draw_is_spread_over_the_cases_and_the_same_each_time(count):
    items = items_of(pytest.mark.draw(count).mark)
    chosen = select(items)
    assert chosen == select(items)
    assert [items.index(item) for item in chosen] == sorted({index * 120 // count for index in range(count)})


def test_thorough_tests_run_with_all_only():
    assert select(items_of(pytest.mark.thorough.mark)) == []


def test_the_rest_is_what_has_not_passed_and_what_draws_more_examples():
    def plain(): ...

    def drawing():
        return examples(3)

    def random(): ...

    random.is_hypothesis_test = True
    kinds = {"passed": plain, "left": plain, "drawing": drawing, "random": random}
    items = [SimpleNamespace(nodeid=name, function=function) for name, function in kinds.items()]
    found = rest(items, ["passed", "drawing", "random"])
    assert [item.nodeid for item in found] == ["left", "drawing", "random"]


@pytest.mark.parametrize(
    ("option", "arguments", "runs_whole"),
    [("--all", [], True), ("--update-golden", [], True), ("", ["test_of.py::test"], True), ("", ["test_of.py"], False)],
)
def test_all_goldens_and_named_tests_run_whole(option, arguments, runs_whole):
    items, left_out = items_of(pytest.mark.thorough.mark), []
    hook = SimpleNamespace(pytest_deselected=lambda items: left_out.extend(items))
    config = SimpleNamespace(getoption=lambda name: name == option, args=arguments, hook=hook)
    conftest.pytest_collection_modifyitems(config, items)
    assert (len(items), len(left_out)) == ((120, 0) if runs_whole else (0, 120))
