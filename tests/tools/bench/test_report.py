"""What a run prints, writes and draws, from figures that are made up."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

from gathernest.kernels.host.cpu import cpu_model
from gathernest.kernels.machine.roofline import Bound
from gathernest.kernels.machine.traffic import Traffic
from gathernest.tools.bench import report as reporting
from gathernest.tools.bench.cases import SUITE, Case
from gathernest.tools.bench.measure import Measured
from gathernest.tools.bench.report import Report, as_json, conditions, ratio_text, summary, table_of
from gathernest.tools.console.terminal import print_table, time_text


def bound_of(time_us: float) -> Bound:
    """A bound of one round: a copy of so long, and lines of half of that."""
    times = Traffic((("output", 1000.0),), 10.0, 2.0, True), time_us, time_us / 2
    ways = {"copy": "non-temporal stores", "random lines": "without prefetching"}
    return Bound(*times, 2, ways, {"copy": [time_us], "random lines": [time_us / 2]})


FAST = Measured(
    Case("rows-256B", "rows", (1000, 64), (100,)),
    {"gathernest": 10.0, "numpy": 40.0, "torch": 25.0},
    {"numpy": 4.0, "torch": 2.5},
    {"gathernest": "kernel", "numpy": "index", "torch": "take"},
    rounds_us={"gathernest": [9.0, 10.0, 11.0], "numpy": [40.0, 40.0, 44.0], "torch": [20.0, 25.0, 30.0]},
)
SLOW = Measured(
    Case("last-axis", "axes", (8192, 4096), (512,), axis=1),
    {"gathernest": 2000.0, "numpy": 1000.0},
    {"numpy": 0.5},
    {"gathernest": "kernel", "numpy": "ndarray.take"},
    rejected={"torch": "has no such operator"},
)
SPOILT = Measured(
    Case("scalars", "scalars", (1000,), (100,)),
    {"gathernest": 5.0, "numpy": 5.0},
    {"numpy": 1.0},
    {"gathernest": "kernel", "numpy": "index"},
    wrong={"torch": "take: gives other bytes at (3,) and 0 other places of 100"},
)
CALL = Measured(
    Case("call-kernel", "call", (5, 4), (3,)),
    {"gathernest": 0.4, "numpy": 0.04},
    {"numpy": 0.1},
    {"gathernest": "kernel", "numpy": "ndarray.take"},
)
NEW = Measured(
    replace(FAST.case, into="new"),
    {"gathernest": 20.0, "numpy": 30.0, "torch": 10.0},
    {"numpy": 1.5, "torch": 0.5},
    {"gathernest": "kernel", "numpy": "index", "torch": "take"},
    rounds_us={"gathernest": [20.0], "numpy": [30.0], "torch": [10.0]},
)
BOTH = replace(FAST, new=NEW)
VERSIONS = {"gathernest": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"}


def report(*measured: Measured, **settings) -> Report:
    return Report(measured, VERSIONS, 2, 9, **settings)


FUNCTION = replace(CALL, case=replace(CALL.case, into="new"))
REPORTS = {
    "three_peers": report(FAST, SLOW, SPOILT),
    "no_peers": report(Measured(FAST.case, {"gathernest": 10.0}, ways={"gathernest": "kernel"})),
    "a_call": report(FAST, SLOW, CALL, Measured(replace(CALL.case, name="alone"), {"gathernest": 1.0})),
    "a_bound": report(Measured(FAST.case, FAST.median_us, FAST.ratios, FAST.ways, bound=bound_of(8.0)), SLOW),
    "a_bound_of_a_peer": report(replace(FAST, bound=bound_of(8.0)), SLOW),
    "new_results": report(BOTH, SLOW),
    "calls_of_new_results": report(BOTH, FUNCTION),
    "wrong_new_results": report(replace(FAST, new=replace(NEW, wrong={"torch": "take: gives other bytes"}))),
    "a_very_long_bar": report(FAST, replace(FAST, ratios={"torch": 80.0})),
    "cut_cases": report(FAST, cut=512),
}


@pytest.fixture
def some_machine(monkeypatch):
    """Give the reports a machine of their own: what they print depends on its caches."""
    monkeypatch.setattr(reporting, "cache_sizes", lambda: {"L1": 2**15, "L3": 2**20})


@pytest.mark.usefixtures("some_machine")
@pytest.mark.parametrize("name", REPORTS)
def test_report_is_the_reviewed_one_in_every_form(name, golden):
    found = REPORTS[name]
    console = Console(file=io.StringIO(), width=80, color_system=None)
    for shown in filter(None, (found, found.of_new_results)):
        print_table(console, *table_of(shown))
    facts = json.loads(json.dumps(as_json(found)))
    assert {"cpu", "usable_cores", "caches_bytes"} <= set(facts.pop("machine"))
    for package in ("python", "numba"):
        del facts["versions"][package]
    del facts["time"]
    shown = conditions(found).replace(cpu_model(), "Some CPU")
    text = re.sub(r"CPU, \d+ cores?|Python [\d.]+, numba [\w.]+, ", "", shown)
    parts = {
        "table": [line.rstrip() for line in console.file.getvalue().splitlines()],
        "summary": [line for shown in filter(None, (found, found.of_new_results)) for line in summary(shown)],
        "wrong": found.wrong,
        "conditions": [text],
        "json": json.dumps(facts, indent=1, ensure_ascii=False).splitlines(),
    }
    golden(f"bench/{name}.txt", "\n".join("\n".join([f"== {part}", *lines]) for part, lines in parts.items()))


ALL_PEERS = ("numpy", "torch", "onnxruntime", "openvino", "tensorflow", "jax")


@pytest.mark.usefixtures("some_machine")
def test_table_of_all_peers_and_the_longest_name_fits_80_columns():
    case = replace(FAST.case, name=max((case.name for case in SUITE), key=len))
    ratios = dict.fromkeys(ALL_PEERS, 99.98)
    wide = Measured(case, dict.fromkeys(("gathernest", *ALL_PEERS), 999.4), ratios, bound=bound_of(8.0))
    console = Console(file=io.StringIO(), width=200, color_system=None)
    found = Report([wide], dict.fromkeys(("gathernest", *ALL_PEERS), "1"), 2, 9)
    print_table(console, *table_of(found))
    console.print("\n".join(summary(found)))
    assert max(len(line.rstrip()) for line in console.file.getvalue().splitlines()) <= 80


def test_times_have_three_digits_and_ratios_two_places():
    times = (0.123, 9.994, 9.996, 99.96, 999.4, 999.6, 25_300.0, None)
    assert [time_text(time) for time in times] == [
        *("0.12 µs", "9.99 µs", "10.0 µs", "100 µs", "999 µs", "1.00 ms", "25.3 ms", "")
    ]
    ratios = (None, 0.019, 1.255, 99.99, 123.4)
    assert [ratio_text(ratio) for ratio in ratios] == ["", "0.02×", "1.25×", "99.99×", "123×"]
