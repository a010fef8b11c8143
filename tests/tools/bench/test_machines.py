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
from gathernest.tools.bench import cases
from gathernest.tools.bench import measure as measuring
from gathernest.tools.bench import report as machines
from gathernest.tools.bench.measure import Measured
from gathernest.tools.bench.report import FORMAT, machine_name

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
def test_suite_is_stored(gathernest, monkeypatch, folder, pages):
    folder.parent.mkdir()

    def measure(case, *_, **__):
        found = Measured(case, {"gathernest": 1.0, "numpy": 2.0}, {"numpy": 2.0})
        return replace(found, new=found)

    monkeypatch.setattr(cases, "chosen", lambda *_: [BY_NAME[name] for name in STORED])
    monkeypatch.setattr(measuring, "measure", measure)
    assert gathernest("bench", "--peers", "numpy", "--store").status == 0
    assert [path.stem for path in folder.iterdir()] == [machine_name(cpu_facts(), usable_cores())]
    (run,) = pages.stored_runs(folder)
    assert [case["name"] for case in run["cases"]] == list(STORED)
    assert [mean["geometric_mean"] for mean in run["families"].values()] == [2.0, 2.0, 2.0]
    assert (run["gathers"]["cases"], run["rounds"]) == (1, 9)


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
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(ROOT / "docs" / "generator")
        patched.setitem(sys.modules, spec.name, module)
        spec.loader.exec_module(module)
        yield module


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_run_of_another_format_is_rejected(pages, tmp_path, number):
    (tmp_path / "next.json").write_text(json.dumps({"format": number, "cases": []}))
    with pytest.raises(GathernestError) as rejected:
        pages.stored_runs(tmp_path)
    said = f"is a run of format {number}, and format {FORMAT} can be read; store it again with gathernest bench --store"
    assert str(rejected.value) == f"{tmp_path / 'next.json'} {said}"


def run_of(model: str, ratio: float, load: float | None) -> dict:
    case = {"name": "rows-8B", "family": "rows", "data": [80, 2], "indices": [10], "operator": "gather"}
    case |= {"dtype": "float32", "index_dtype": "int64", "axis": 0, "batch_dims": 0, "distribution": "uniform"}
    case |= {"into": "out", "median_us": {"gathernest": 10.0, "numpy": 10.0 * ratio}, "ratios": {"numpy": ratio}}
    case |= {"best_peer": "numpy", "ratio": ratio, "ways": {"numpy": "take"}}
    mean = {"cases": 1, "geometric_mean": ratio, "worst_case": "rows-8B", "worst_ratio": ratio}
    return {
        "format": FORMAT,
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


def test_pages_of_machines_are_the_reviewed_ones(pages, tmp_path, golden):
    """Two runs without new results, and one whose new results a peer wins beside a run of the first format."""
    without = [{**run_of("17", 2.0, 0.5), "new": None}, {**run_of("1", 0.5, 7.25), "new": None}]
    run = run_of("1", 2.0, 0.5)
    run["cases"][0]["new"] = {"median_us": {"gathernest": 40.0}, "ratio": 0.8, "best_peer": "jax"}
    means = {name: mean | {"geometric_mean": 0.8} for name, mean in run["families"].items()}
    run |= {"new": {"families": means, "gathers": means["rows"]}}
    for name, each in (("a", run_of("17", 0.5, 0.5)), ("b", run)):
        (tmp_path / f"{name}.json").write_text(json.dumps(each))
    parts = [
        pages.PARTS[part](runs)
        for runs in (without, pages.stored_runs(tmp_path))
        for part in ("summary", "cases", "families", "conditions")
    ]
    plot = pages.families_plot(without, ["AMD 17", "AMD 1"], title="Faster", notes=["A note"])
    parts += [pages.PARTS["families_plot"](without), "\n".join(re.findall(r"<text[^>]*>[^<]+<|worst [^<]+", plot))]
    golden("bench/machines.txt", "\n\n".join(parts))
