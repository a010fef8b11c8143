"""Results as plain files: what is read of asv's own and of comparisons, and what a damaged file leaves."""

import datetime
import json

import pytest

from gathernest.tools.tracking.history.result_files import read

from .conftest import write_asv

Results = pytest.importorskip("asv.results").Results
BenchmarkResult = pytest.importorskip("asv.runner").BenchmarkResult


def save_by_asv(folder, commit, benchmarks, started=0):
    """Save results by asv itself: (value or values, params) by name."""
    (folder / "quiet").mkdir(parents=True, exist_ok=True)
    results = Results({"machine": "quiet"}, {"numpy": "2.4"}, commit, 0, "3.11", "virtualenv-py3.11-numpy2.4", {})
    for name, (values, params) in benchmarks.items():
        none = [None] * len(values)
        result = BenchmarkResult(values, none, none, 0, "", None)
        benchmark = {"name": name, "version": "1", "params": params}
        results.add_result(benchmark, result, datetime.datetime.fromtimestamp(started, datetime.UTC))
    results.save(str(folder))


def compared(head, *, changed=0, ratio: object = 1.25, revision="main"):
    """Return what `gathernest bench compare --json` writes, as far as it is read."""
    side = {"revision": "main", "commit": "b" * 40, "changed_files": 0}
    found = {"ratio": ratio, "interval": [1.2, 1.3], "verdict": "slower", "family": "kernel"}
    few = {"ratio": 3.0, "interval": [None, None], "verdict": "cannot tell", "family": "kernel"}
    sides = {"base": side, "head": {"revision": revision, "commit": head, "changed_files": changed}}
    return {
        "kind": "gathernest paired comparison",
        **sides,
        "machine": "a CPU",
        "benchmarks": {"rows": found, "few restarts": few},
    }


def test_numbers_and_parameters_are_read_from_files_of_asv(tmp_path):
    params = [["'rows'", "'lanes'"], ["8", "16"]]
    save_by_asv(
        tmp_path, "a" * 40, {"m.T.track_lines": ([5.0], []), "m.T.track_calls": ([1.0, 2.0, None, 4.0], params)}
    )
    names = {series.name: series.values for series in read([tmp_path]).along(["a" * 40])}
    assert names == {
        "m.T.track_lines": (5.0,),
        "m.T.track_calls(rows, 8)": (1.0,),
        "m.T.track_calls(rows, 16)": (2.0,),
        "m.T.track_calls(lanes, 16)": (4.0,),
    }
    assert {series.group for series in read([tmp_path]).along(["a" * 40])} == {"quiet, Python 3.11, numpy 2.4"}


def test_times_are_left_to_the_pages_of_asv(tmp_path):
    write_asv(tmp_path, "a" * 40, {"m.T.time_call": 1e-6, "m.T.peakmem_call": 2e8})
    (series,) = read([tmp_path]).along(["a" * 40])
    assert (series.name, series.unit) == ("m.T.peakmem_call", "bytes")


def test_files_merge_by_copying_and_stay_apart_by_machine(tmp_path):
    write_asv(tmp_path / "one", "a" * 40, {"m.track_x": 1.0})
    write_asv(tmp_path / "two", "b" * 40, {"m.track_x": 2.0})
    write_asv(tmp_path / "two", "b" * 40, {"m.track_x": 9.0}, machine="other")
    found = {series.group: series.values for series in read([tmp_path / "two", tmp_path / "one"]).along("ab")}
    assert found == {}
    found = read([tmp_path / "two", tmp_path / "one"]).along(["a" * 40, "b" * 40])
    assert {series.group: series.values for series in found} == {
        "quiet, Python 3.11": (1.0, 2.0),
        "other, Python 3.11": (9.0,),
    }


def test_later_of_two_results_for_a_commit_counts(tmp_path):
    save_by_asv(tmp_path / "late", "a" * 40, {"m.track_x": ([2.0], [])}, started=2)
    save_by_asv(tmp_path / "soon", "a" * 40, {"m.track_x": ([1.0], [])}, started=1)
    (series,) = read([tmp_path]).along(["a" * 40])
    assert series.values == (2.0,)


def test_series_begins_anew_where_the_benchmark_changed(tmp_path):
    for number, version in enumerate("1122"):
        write_asv(tmp_path, str(number) * 40, {"m.track_x": float(number)}, version=version)
    (series,) = read([tmp_path]).along([str(number) * 40 for number in range(4)])
    assert series.values == (2.0, 3.0)


def test_unit_is_that_of_the_file_of_benchmarks(tmp_path):
    write_asv(tmp_path, "a" * 40, {"m.track_x": 1.0})
    (tmp_path / "benchmarks.json").write_text(json.dumps({"m.track_x": {"unit": "calls"}, "version": 2}))
    (series,) = read([tmp_path]).along(["a" * 40])
    assert series.unit == "calls"


def test_ratios_of_a_comparison_are_a_series_of_their_base(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(compared("a" * 40)))
    (series,) = read([tmp_path]).along(["a" * 40])
    assert (series.name, series.group) == ("rows", "times beside bbbbbbbbbb, a CPU")
    assert (series.unit, series.values) == ("times the base", (1.25,))


def test_later_of_two_comparisons_of_the_same_commits_counts(tmp_path):
    for name, facts in {"a": {"measured": 2.0}, "b": {"measured": 1.0}, "c": {}}.items():
        found = {**compared("a" * 40, ratio=1.25 if name == "a" else 1.5), **facts}
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    (series,) = read([tmp_path]).along(["a" * 40])
    assert series.values == (1.25,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"result_columns": [', "Expecting value: line 1 column 21 (char 20)"),
        ("[]", "it is no JSON object"),
        ("{}", "'base' is missing"),
        ('{"result_columns": [], "results": {}, "params": {}, "requirements": {}}', "'machine' is missing"),
        (json.dumps(compared("a" * 40, ratio="no")), "could not convert string to float: 'no'"),
        (json.dumps(compared("a" * 40, changed=2)), f"it measured files that differ from commit {'a' * 10}"),
        (json.dumps(compared("a" * 40, revision="numba==9.9")), "it measured numba==9.9, not a commit"),
        ('{"base": 1, "head": 2}', "'int' object is not subscriptable"),
    ],
)  # fmt: skip
def test_damaged_file_is_one_line_and_the_others_are_read(tmp_path, text, reason):
    write_asv(tmp_path, "a" * 40, {"m.track_x": 1.0})
    (tmp_path / "damaged.json").write_text(text)
    results = read([tmp_path])
    assert results.notes == [
        f"{tmp_path}/damaged.json cannot be read as results ({reason}), so it is left out; remove it, or measure again"
    ]
    assert len(results.along(["a" * 40])) == 1
