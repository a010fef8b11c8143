"""`gathernest bench` as people type it, on cases cut small and beside NumPy."""

import json
import re
from functools import partial

import numpy as np
import pytest

from gathernest.tools.bench import measure as measuring
from gathernest.tools.bench.cases import SUITE
from gathernest.tools.bench.measure import Entrants
from gathernest.tools.bench.peers import Gathernest, Peer

QUICK = ("bench", "--quick", "--rounds", "1")
BESIDE_NUMPY = (*QUICK, "--peers", "numpy")


@pytest.mark.thorough
def test_table_has_the_cases_that_were_asked_for_beside_files(gathernest, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "30")  # the table is not cut
    file = tmp_path / "run.json"
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B,call-*", "--json", str(file))
    assert json.loads(file.read_text())["cases"][0]["name"] == "rows-8B"
    assert ended.status == 0
    assert max(map(len, ended.out.splitlines())) <= 80
    given = ended.out.partition("\n\n")[0].splitlines()[2:]
    assert [line.split()[0] for line in given if not line.startswith("-")] == [
        *("rows-8B", "call-function", "call-kernel", "geometric")
    ]
    assert "geometric means" in ended.out
    assert "no dimension above 512" in " ".join(ended.out.split())


def test_json_on_standard_output_is_all_there_is(gathernest):
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B", "--json", "-", "--threads", "1")
    found = json.loads(ended.out)
    assert (found["rounds"], found["threads"], found["cut"]) == (1, 1, 512)
    assert [case["name"] for case in found["cases"]] == ["rows-8B"]
    (case,) = found["cases"]
    assert set(case["median_us"]) == set(case["new"]["median_us"]) == {"gathernest", "numpy"}
    assert set(found["new"]["families"]) == {"rows"}


def test_a_gather_of_ones_own_is_timed_beside_peers(gathernest):
    ended = gathernest(*BESIDE_NUMPY, "--data", "60x4x5xf32", "--indices", "60x3xi32", "--axis", "1", "--json", "-")
    assert ended.status == 0
    found = json.loads(ended.out)
    (case,) = found["cases"]
    assert (case["data"], case["indices"], case["axis"]) == ([60, 4, 5], [60, 3], 1)
    assert set(case["median_us"]) == {"gathernest", "numpy"}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("--data 0x4xf32 --indices 3xi64", 1, "bench makes contiguous arrays with elements"),
        ("--data 4x4xbf16 --indices 3xi64", 1, "bench makes contiguous arrays with elements"),
        ("--data 9x4xf32 --indices 3xi64 --operator gather_mean", 1, "bench compares gather, gather_nd, gather_elem"),
        ("--data 9x4xf32 --indices 3xi64 --axis 2", 1, "axis 2 is out of range [-2, 1]"),
        ("--data 9x4xf32 --indices 3x2xi64 --operator gather_grad", 1, "bench compares gradients along axis 0"),
        ("--data 9x4x2xf32 --indices 3x2xi64 --operator gather_max", 1, "bench compares gradients along axis 0"),
        ("--data 9x4xf32", 2, "--data is for --indices; add --indices"),
        ("--axis 1", 2, "--axis is for --data; add --data"),
        ("--data 9x4xf32 --indices 3xi64 --case rows-8B", 2, "--data is a gather of your own; leave out --case"),
    ],
)
def test_a_gather_of_ones_own_that_cannot_be_is_an_error(gathernest, words, status, message):
    ended = gathernest("bench", *words.split())
    assert (ended.status, ended.out) == (status, "")
    assert message in ended.err


@pytest.mark.thorough
def test_busy_machine_is_told(gathernest, monkeypatch):
    monkeypatch.setattr("os.getloadavg", lambda: (9999.25, 0.0, 0.0))
    ended = gathernest(*BESIDE_NUMPY, "--case", "rows-8B")
    said = r"gathernest: note: the machine is busy \(load 9999\.2 on \d+ cores?\), so the figures say little\n"
    assert ended.status == 0 and re.fullmatch(said, ended.err)


def test_list_names_every_case_and_runs_none(gathernest):
    lines = gathernest("bench", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == [case.name for case in SUITE]
    assert "gather_nd: 1000x1000x16xf32 by 300000x2xi64" in next(line for line in lines if "nd-pairs-rows" in line)


@pytest.mark.thorough
def test_rounds_and_sizes_are_those_of_the_suite_unless_it_is_quick(gathernest):
    for words, rounds, cut in (([], 9, None), (["--quick"], 3, 512)):
        out = gathernest("bench", "--case", "call-kernel", "--peers", "numpy", "--json", "-", *words).out
        found = json.loads(out)
        assert (found["rounds"], found.get("cut")) == (rounds, cut)


class Spoilt(Peer):
    name = "spoilt"

    def rejection(self, case):
        return None

    def variants(self, case, inputs):
        return {"take": [partial(np.add, inputs.out, 1) for _ in inputs.indices]}


def test_peer_with_other_bytes_makes_the_status_1_and_peers_that_are_not_there_are_named_once(gathernest, monkeypatch):
    versions = {"gathernest": "1", "spoilt": "2"}
    notes = ["without openvino, which is broken"]
    entrants = Entrants((Gathernest(), Spoilt()), versions, notes)
    monkeypatch.setattr(measuring, "enter", lambda asked, threads: entrants)
    ended = gathernest(*QUICK, "--case", "rows-8B", "--threads", "1")
    assert ended.status == 1
    said = [line for line in ended.err.splitlines() if "is busy" not in line]
    assert said[0] == "gathernest: note: without openvino, which is broken"
    assert said[1].startswith("gathernest: wrong: rows-8B: spoilt take: gives other bytes at (0, 0) and ")
    assert "wrong" in ended.out
