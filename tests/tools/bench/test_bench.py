"""`gathernest bench` as people type it, on cases cut small and beside NumPy."""

import json
import sys
from functools import partial

import numpy as np
import pytest

from gathernest.tools.bench import command, peers
from gathernest.tools.bench.cases.suite import SUITE
from gathernest.tools.bench.peers import Entrants
from gathernest.tools.bench.peers.gathernest_peer import Gathernest
from gathernest.tools.bench.peers.peer import Peer

QUICK = ("bench", "--quick", "--rounds", "1")
BESIDE_NUMPY = (*QUICK, "--peers", "numpy")


@pytest.fixture(autouse=True)
def little(monkeypatch):
    monkeypatch.setattr(command, "QUICK_SIZE", 16)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


@pytest.mark.thorough
def test_table_has_the_cases_that_were_asked_for(gathernest, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")  # the table is not cut
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B,call-*")
    assert (ended.status, ended.err) == (0, "")
    assert [line.split()[0] for line in ended.out.splitlines() if line.startswith("  ") and "worst" not in line] == [
        "rows-8B",
        "call-function",
        "call-kernel",
    ]
    assert "geometric means" in ended.out
    assert "no dimension above 16" in ended.out


def test_json_on_standard_output_is_all_there_is(gathernest):
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B", "--json", "-", "--threads", "1")
    found = json.loads(ended.out)
    assert (found["rounds"], found["threads"], found["cut"]) == (1, 1, 16)
    assert [case["name"] for case in found["cases"]] == ["rows-8B"]
    (case,) = found["cases"]
    assert set(case["median_us"]) == set(case["new"]["median_us"]) == {"gathernest", "numpy"}
    assert set(found["new"]["families"]) == {"rows"}


@pytest.mark.thorough
def test_json_in_a_file_leaves_the_table(gathernest, tmp_path):
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B", "--json", str(tmp_path / "run.json"))
    assert "rows-8B" in ended.out
    assert json.loads((tmp_path / "run.json").read_text())["cases"][0]["name"] == "rows-8B"


@pytest.mark.thorough
def test_markdown_is_a_table_of_markdown(gathernest):
    ended = gathernest(*BESIDE_NUMPY, "--family", "gather_nd", "--markdown")
    assert ended.out.startswith("| case | shapes | time | best peer | ratio | new result |\n")
    assert "| nd-pairs-rows | 16x16x16xf32 by 16x2xi64 |" in ended.out


@pytest.mark.thorough
def test_plot_is_written(gathernest, tmp_path):
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B", "--plot", str(tmp_path / "run.svg"))
    assert (ended.status, ended.err) == (0, "")
    assert "<svg" in (tmp_path / "run.svg").read_text()


@pytest.mark.thorough
def test_busy_machine_is_told(gathernest, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (7.25, 0.0, 0.0))
    monkeypatch.setattr(command, "usable_cores", lambda: 4)
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B")
    assert ended.status == 0
    assert ended.err == "gathernest: note: the machine is busy (load 7.2 on 4 cores), so the figures say little\n"


def test_list_names_every_case_and_runs_none(gathernest):
    lines = gathernest("bench", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == [case.name for case in SUITE]
    assert "gather_nd: 1000x1000x16xf32 by 300000x2xi64" in next(line for line in lines if "nd-pairs-rows" in line)


@pytest.mark.thorough
def test_rounds_and_sizes_are_those_of_the_suite_unless_it_is_quick(gathernest, monkeypatch):
    asked = []

    def measure_all(cases, candidates, rounds, threads, has_new):
        asked.append((cases[0].data, rounds, has_new))
        return []

    monkeypatch.setattr(command, "_measure_all", measure_all)
    for words in ([], ["--quick"], ["--rounds", "4"], ["--quick", "--rounds", "5", "--no-new-results"]):
        assert gathernest("bench", "--case", "rows-8B", "--peers", "numpy", *words).status == 0
    whole, cut = (8_000_000, 2), (16, 2)
    assert asked == [(whole, 9, True), (cut, 3, True), (whole, 4, True), (cut, 5, False)]


class Spoilt(Peer):
    name = "spoilt"

    def rejection(self, case):
        return None

    def variants(self, case, inputs):
        return {"take": [partial(np.add, inputs.out, 1) for _ in inputs.indices]}


@pytest.mark.thorough
def test_peer_that_gives_other_bytes_makes_the_status_1_and_is_told(gathernest, monkeypatch):
    entrants = Entrants((Gathernest(), Spoilt()), (), {}, {"gathernest": "1", "spoilt": "2"})
    monkeypatch.setattr(peers, "enter", lambda asked, threads: entrants)
    ended = gathernest(*QUICK, "--case", "rows-8B")
    assert ended.status == 1
    assert ended.err.startswith("gathernest: wrong: rows-8B: spoilt take: gives other bytes at (0, 0) and ")
    assert "wrong" in ended.out


def test_peers_that_are_not_there_are_named_once(gathernest, monkeypatch):
    entrants = Entrants((Gathernest(),), ("torch", "jax"), {"openvino": "is broken"}, {"gathernest": "1"})
    monkeypatch.setattr(peers, "enter", lambda asked, threads: entrants)
    ended = gathernest(*QUICK, "--case", "rows-8B", "--threads", "1")
    assert ended.status == 0
    assert ended.err.splitlines() == [
        "gathernest: note: without torch, jax, not installed here: pip install 'gathernest[peers]'",
        "gathernest: note: without openvino, which is broken",
    ]


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--case", "last-axs"], 2, "no case is called 'last-axs'"),
        (["--family", "axis"], 2, "did you mean 'axes'?"),
        (["--peers", "numpi"], 2, "did you mean 'numpy'?"),
        (["--case", "rows-*", "--family", "axes"], 2, "no case is left: none of --case rows-* is of --family axes"),
        (["--case", "a,,b"], 2, "argument --case: expected names with commas between, got 'a,,b'"),
        (["--rounds", "0"], 2, "argument --rounds: expected a whole number from 1, got '0'"),
        (["--threads", "x"], 2, "argument --threads: expected a whole number from 1, got 'x'"),
        (["--round", "3"], 2, "there is no option --round; did you mean '--rounds'?"),
        (["--plot", "a.pdf"], 2, "--plot 'a.pdf' must end in .png or .svg, as in --plot ratios.svg"),
        (["--markdown", "--json", "-"], 2, "--markdown and --json - both write to standard output; give --json a file"),
        (["--json", "/there/is/none.json"], 2, "--json /there/is/none.json: there is no folder /there/is; "),
        (["--json", "/"], 2, "--json / is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_is_rejected_before_anything_runs(gathernest, monkeypatch, words, status, text):
    monkeypatch.setattr(command, "_measure_all", None)
    ended = gathernest("bench", *words)
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith("gathernest: error: ")
    assert text in ended.err
    assert ended.err.count("\n") == 1


def test_plot_without_matplotlib_says_what_to_install(gathernest, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ended = gathernest("bench", "--plot", "a.png")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: --plot draws a .png with matplotlib, which is not installed: pip install "
        "'gathernest[report]'; a .svg needs nothing more\n",
    )


def test_interpreter_is_rejected(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_INTERPRET", "1")
    ended = gathernest(*QUICK)
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: bench times compiled code, and GATHERNEST_INTERPRET is set; unset it\n",
    )
