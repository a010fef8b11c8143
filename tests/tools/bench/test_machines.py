"""Stored runs: how a machine is called, what is written, and how pages show several side by side."""

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gathernest.asv_bench.benchmarks.cases import BY_NAME
from gathernest.ir.errors import GathernestError
from gathernest.kernels.host.cpu import cpu_facts, usable_cores
from gathernest.tools.bench import command
from gathernest.tools.bench import report as machines
from gathernest.tools.bench.measure import Measured
from gathernest.tools.bench.report import FORMAT, machine_name, stored_runs

GENOA = {"vendor_id": "AuthenticAMD", "model name": "AMD EPYC", "cpu family": "25", "model": "17"}
STORED = ("rows-8B", "bags-zipf", "call-kernel")
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("facts", "cores", "name"),
    [
        ({"model name": "AMD EPYC", "cpu family": "25", "model": "17"}, 2, "amd-epyc-25-17-2-cores"),
        (
            {"model name": "Intel(R) Xeon(R) Platinum 8581C CPU @ 2.10GHz", "cpu family": "6", "model": "207"},
            1,
            "intel-xeon-platinum-8581c-6-207-1-core",
        ),
        ({**GENOA, "flags": "avx2 avx512f"}, 2, "amd-epyc-25-17-2-cores"),
        ({**GENOA, "flags": "avx2"}, 2, "amd-epyc-25-17-without-avx-512-2-cores"),
        ({**GENOA, "vendor_id": "", "model": "17 without AVX-512"}, 2, "amd-epyc-25-17-without-avx-512-2-cores"),
        ({"model name": "AMD EPYC 7B13 64-Core Processor"}, 8, "amd-epyc-7b13-8-cores"),
        ({}, 4, "cpu-4-cores"),
    ],
)
def test_machine_is_called_by_its_cpu_and_cores(facts, cores, name):
    assert machine_name(facts, cores) == name


@pytest.fixture
def folder(monkeypatch, tmp_path) -> Path:
    """The folder of stored runs; the folder around it is not there."""
    monkeypatch.setattr(machines, "FOLDER", tmp_path / "docs" / "machines")
    return tmp_path / "docs" / "machines"


@pytest.mark.thorough
def test_suite_is_stored_and_a_family_that_no_mean_has_beside_it(gathernest, monkeypatch, folder):
    folder.parent.mkdir()
    ended = gathernest("bench", "--store", "--family", "bags")
    assert ended.status == 2
    assert "which does not exist; store the whole suite first" in ended.err
    words = ("bench", "--peers", "numpy", "--store")
    measured = {name: Measured(BY_NAME[name], {"gathernest": 1.0, "numpy": 2.0}, {"numpy": 2.0}) for name in STORED}
    again = replace(measured["bags-zipf"], ratios={"numpy": 3.0})
    runs = iter([[replace(one, new=one) for one in measured.values()], *[[replace(again, new=again)]] * 2])
    monkeypatch.setattr(command, "_measure_all", lambda *_: next(runs))
    assert gathernest(*words).status == 0
    assert [path.stem for path in folder.iterdir()] == [machine_name(cpu_facts(), usable_cores())]
    assert gathernest(*words, "--family", "bags", "--rounds", "2").status == 0
    (run,) = stored_runs(folder)
    assert [case["name"] for case in run["cases"]] == list(STORED)
    means = {name: mean["geometric_mean"] for name, mean in run["families"].items()}
    assert means == {"rows": 2.0, "bags": pytest.approx(3.0), "call": 2.0}
    assert run["new"]["families"]["bags"]["geometric_mean"] == pytest.approx(3.0)
    assert (run["gathers"]["cases"], run["rounds"], run["later"]["bags"]["rounds"]) == (1, 9, 2)
    (path,) = folder.iterdir()
    path.write_text(path.read_text().replace('"threads": ', '"threads": 1'))
    ended = gathernest(*words, "--family", "bags")
    assert ended.status == 1
    assert "the stored run has threads 1" in ended.err
    assert "store the whole suite, without --family" in ended.err


@pytest.mark.parametrize("words", [["--case", "rows-8B"], ["--family", "rows"], ["--quick"], ["--no-new-results"]])
def test_part_of_the_suite_is_not_stored(gathernest, words):
    ended = gathernest("bench", "--store", *words)
    assert ended.status == 2
    assert (
        "--store writes the whole suite in full, or beside what was stored the families that no mean over others has, "
        "--family gradient,bags,call; leave --case, other families, --quick and --no-new-results out"
    ) in ended.err.replace("\n", " ")


def test_package_without_its_pages_stores_nothing(gathernest, folder):
    ended = gathernest("bench", "--store")
    assert ended.status == 1
    assert "--store writes to docs/machines of a checkout, and " in ended.err
    assert ended.err.rstrip().endswith("is none; use --json FILE")


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("machines_of_pages", ROOT / "docs" / "generator" / "machines.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("number", "part"), [(2, None), (3, 0.5)])
def test_bounds_that_were_too_short_are_left_out(tmp_path, number, part):
    run = run_of("17", 2.0, 0.5) | {"format": number}
    run["cases"][0] |= dict.fromkeys(("bound_us", "of_bound"), 0.5) | {"bound": {}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (found,) = stored_runs(tmp_path)
    assert found["of_bound_beyond_cache"] == part
    assert [found["cases"][0][name] for name in ("bound_us", "of_bound")] == [part] * 2
    assert (found["cases"][0]["bound"] is None) == (part is None)


def test_families_that_are_added_to_a_run_of_an_older_format_keep_their_bounds(tmp_path):
    file, bound = tmp_path / "run.json", {"of_bound": 0.5, "bound_us": 1.0, "bound": {}}
    stored = run_of("17", 2.0, 0.5) | {"format": 2, "new": {"families": {}, "gathers": None}}
    stored["cases"][0] |= bound
    file.write_text(json.dumps(stored))
    bags = run_of("17", 3.0, 0.5) | {"format": FORMAT, "new": {"families": {}, "gathers": None}}
    bags["cases"][0] |= bound | {"name": "bags-zipf", "family": "bags"}
    bags["families"] = {}
    file.write_text(json.dumps(machines.with_families(stored_runs(tmp_path)[0], bags, ["bags"])))
    (found,) = stored_runs(tmp_path)
    assert {case["name"]: case["of_bound"] for case in found["cases"]} == {"rows-8B": None, "bags-zipf": 0.5}


def test_run_of_a_newer_format_is_rejected(tmp_path):
    (tmp_path / "next.json").write_text(json.dumps({"format": FORMAT + 1, "cases": []}))
    with pytest.raises(GathernestError) as rejected:
        stored_runs(tmp_path)
    said = f"is a run of format {FORMAT + 1}, and formats to {FORMAT} can be read; update gathernest"
    assert str(rejected.value) == f"{tmp_path / 'next.json'} {said}"


def run_of(model: str, ratio: float, load: float | None) -> dict:
    case = {"name": "rows-8B", "family": "rows", "data": [80, 2], "indices": [10], "operator": "gather"}
    case |= {"dtype": "float32", "index_dtype": "int64", "axis": 0, "batch_dims": 0, "distribution": "uniform"}
    case |= {"into": "out", "median_us": {"gathernest": 10.0, "numpy": 10.0 * ratio}, "ratios": {"numpy": ratio}}
    case |= {"best_peer": "numpy", "ratio": ratio, "ways": {"numpy": "take"}}
    mean = {"cases": 1, "geometric_mean": ratio, "worst_case": "rows-8B", "worst_ratio": ratio}
    return {
        "machine": {"cpu": "AMD EPYC", "family": "25", "model": model, "usable_cores": 2},
        "versions": {"numpy": "2.4.6"},
        "time": "2026-11-22T11:41:25+0000",
        "load": load,
        "threads": 2,
        "rounds": 7,
        "cases": [case],
        "families": {"rows": mean},
        "gathers": mean,
        "of_bound_beyond_cache": 0.5,
    }


def test_machines_stand_side_by_side(pages):
    runs = [run_of("17", 2.0, 0.5), run_of("1", 0.5, 7.25)]
    runs = [{**run, "new": None} for run in runs]
    cases = pages.PARTS["cases"](runs).splitlines()
    assert cases[0] == (
        "| case | shapes | AMD EPYC 25-17, 2 cores | best peer | ratio | AMD EPYC 25-1, 2 cores | best peer | ratio |"
    )
    shown = "10.0 µs | numpy take, 20.0 µs | 2.00× | 10.0 µs | numpy take, 5.00 µs | **0.50×** |"
    assert cases[2] == f"| rows-8B | 80x2xf32 by 10xi64 | {shown}"
    assert "| rows | 1 | 2.00× | 2.00×, rows-8B | 1 | 0.50× | 0.50×, rows-8B |" in pages.PARTS["families"](runs)
    conditions = " ".join(pages.PARTS["conditions"](runs).split())
    assert conditions.count("busy (load 7.2)") == 1
    assert conditions.count("A peer wins `rows-8B` 0.50× (numpy).") == 1


def test_plot_of_families_has_a_column_for_each_machine_with_its_values(pages):
    runs = [{**run_of(model, ratio, 0.5), "new": None} for model, ratio in (("17", 2.0), ("1", 0.5))]
    del runs[1]["families"]["rows"]
    plot = pages.families_plot(runs, ["AMD 17", "AMD 1"], title="Faster", notes=["A note"])
    texts = re.findall(r"<text[^>]*>([^<]+)<", plot)
    assert texts == [
        "Faster",
        "all gathers (1 case)",
        "rows (1 case)",
        "AMD 17",
        "2.00×",
        "2.00×",
        "AMD 1",
        "0.50×",
        "A note",
    ]
    assert "worst 2.00× rows-8B" in plot
    told = "AMD EPYC 25-17: all gathers 2.00×, rows 2.00×; AMD EPYC 25-1: all gathers 0.50×](docs/images/families.svg)"
    assert f"as fast as the best of NumPy. {told}" in pages.PARTS["families_plot"](runs)


def test_summary_has_means_and_every_case_that_a_peer_wins(pages):
    slow, fast = run_of("17", 0.5, 0.5), run_of("1", 2.0, 0.5) | {"new": None}
    slow["cases"][0]["new"] = {"ratio": 0.8, "best_peer": "jax"}
    slow["new"] = {"families": {}, "gathers": slow["gathers"] | {"geometric_mean": 0.8}}
    lines = pages.PARTS["summary"]([slow, fast]).splitlines()
    lost = "`rows-8B` 0.50× (numpy); new results: `rows-8B` 0.80× (jax)"
    assert lines[2] == f"| AMD EPYC 25-17, 2 cores | 0.50× / 0.80× | – / – | – / – | {lost} |"
    assert lines[3] == "| AMD EPYC 25-1, 2 cores | 2.00× / – | – / – | – / – | nowhere |"


def test_new_results_stand_in_a_column_behind_the_others(pages, tmp_path):
    old, run = run_of("17", 2.0, 0.5), run_of("1", 2.0, 0.5)
    (case,) = run["cases"]
    case["new"] = {"median_us": {"gathernest": 40.0}, "ratio": 0.8, "best_peer": "jax"}
    means = {name: mean | {"geometric_mean": 0.8} for name, mean in run["families"].items()}
    run |= {"format": 2, "new": {"families": means, "gathers": means["rows"]}}
    for name, each in (("a", old), ("b", run)):
        (tmp_path / f"{name}.json").write_text(json.dumps(each))
    runs = stored_runs(tmp_path)
    cases = pages.PARTS["cases"](runs).splitlines()
    assert cases[0].endswith("| AMD EPYC 25-1, 2 cores | best peer | ratio | new result |")
    assert cases[2].endswith("| 10.0 µs | numpy take, 20.0 µs | 2.00× | 40.0 µs, **0.80×** jax |")
    assert "| rows | 1 | 2.00× | 2.00×, rows-8B | 1 | 2.00× | 2.00×, rows-8B | 0.80× |" in pages.PARTS["families"](runs)
    conditions = " ".join(pages.PARTS["conditions"](runs).split())
    assert conditions.count("With a new result a peer wins `rows-8B` 0.80× (jax).") == 1
