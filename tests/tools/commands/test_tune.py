"""`gathernest tune`: what it prints and records. Times are made up; no clock is read here."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.host.timing import Timings
from gathernest.kernels.tuned_schedules.records import read_records, write_records
from gathernest.kernels.tuning.tuner import Tuner

PROBLEM = ("tune", "--data", "1000x64xf32", "--indices", "4000xi64")
FAST, SLOW, ILLEGAL = (
    "tile-loops{loops=indices sizes=700}",
    "tile-loops{loops=indices sizes=3}",
    "tile-loops{loops=rows sizes=4}",
)
CANDIDATES = ("--candidate", SLOW, "--candidate", FAST, "--candidate", ILLEGAL)
TIMES_S = {FAST: 0.5, SLOW: 0.9}


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A file of records of the test's own, on a machine where calls take made-up times."""

    def timer(candidates: dict[str, Callable[[], object]], *, rounds: int) -> Timings:
        return Timings({name: [TIMES_S.get(name, 1.0)] * rounds for name in candidates})

    fake = {"timer": timer, "busy_cores": lambda: 0.0}
    monkeypatch.setattr(Tuner.__init__, "__kwdefaults__", Tuner.__init__.__kwdefaults__ | fake)
    monkeypatch.setattr(
        "gathernest.kernels.tune.replay.__kwdefaults__", {"rounds": 21, "timer": timer, "with_out": False}
    )
    gn.knobs.tuning = tmp_path / "records.json"
    RUNTIME.forget()
    yield tmp_path / "records.json"
    del gn.knobs.tuning
    RUNTIME.forget()


def test_a_tuning_prints_every_candidate_the_winner_and_the_file(gathernest, file):
    ended = gathernest(*PROBLEM, *CANDIDATES)
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["default", "winner", "timed", "failed"]
    assert lines[2].endswith(f"500 ms 2.00x {FAST}")
    assert "the nest has no loop 'rows'" in lines[4]
    assert lines[5].endswith("is 2.00 times as fast as the default; it won 21 of 21 pairs.")
    assert lines[6] == f"The result is recorded in {file}."
    assert len(read_records(file)) == 1


def test_json_has_the_candidates_and_the_confirmation(gathernest, file):
    facts = json.loads(gathernest(*PROBLEM, *CANDIDATES, "--json").out)
    assert (facts["schedule"], facts["is_default"], facts["file"]) == (FAST, False, str(file))
    assert facts["confirmation"] == {"holds": True, "ratio": 2.0, "pairs": 21, "wins": 21, "wins_needed": 17}
    assert [entry["outcome"] for entry in facts["candidates"]] == ["default", "winner", "timed", "failed"]
    assert set(facts["candidates"][0]) == {"schedule", "outcome", "time_us", "ratio", "reason"}
    assert list(read_records(file)) == [facts["problem_class"]]


def test_a_tuned_schedule_is_shown_and_used(gathernest, unnamed_machine):
    gathernest(*PROBLEM, *CANDIDATES)
    assert json.loads(gathernest("show", *PROBLEM[1:], "--json").out)["schedule"] == FAST


def test_a_result_that_is_not_recorded_is_said(gathernest):
    with gn.knobs.scope(tuning="off"):
        assert gathernest(*PROBLEM, *CANDIDATES).out.endswith("The result is not recorded.\n")


def test_the_list_has_two_lines_a_record(gathernest, file):
    assert gathernest("tune", "--list").out == f"0 records in {file}\n"
    gathernest(*PROBLEM, *CANDIDATES)
    lines = gathernest("tune", "--list").out.splitlines()
    assert lines[0] == f"1 record in {file}"
    assert lines[1] == "  1  gather 1000x64xf32 by 4000xi64, axis 0, batch_dims 0, bounds error"
    assert re.fullmatch(rf"     2\.00x: {FAST} \(21 of 21 pairs, 20\S+Z, .*\)", lines[2])
    facts = json.loads(gathernest("tune", "--list", "--json").out)
    assert [record["schedule"] for record in facts["records"].values()] == [FAST]


def test_records_are_exported_and_imported_again(gathernest, file, tmp_path, unnamed_machine):
    gathernest(*PROBLEM, *CANDIDATES)
    shipped = tmp_path / "shipped.json"
    assert gathernest("tune", "--export", str(shipped)).out == f"{shipped} has 1 record now.\n"
    assert read_records(shipped) == read_records(file)
    file.unlink()
    ended = gathernest("tune", "--import", str(shipped))
    assert ended.out == f"Took 1 of 1 record, each better than ours; {file} has 1 now.\n"
    assert read_records(shipped) == read_records(file)
    facts = json.loads(gathernest("tune", "--import", str(shipped), "--json").out)
    assert facts == {"file": str(file), "given": 1, "taken": 0, "records": 1, "other_cpus": []}
    assert json.loads(gathernest("show", *PROBLEM[1:], "--json").out)["schedule"] == FAST


def test_records_of_another_cpu_are_remarked(gathernest, file, tmp_path):
    gathernest(*PROBLEM, *CANDIDATES)
    content = json.loads(file.read_text())
    for record in content["records"].values():
        record["cpu"], record["pairs"] = "a Z80", 99
    (tmp_path / "shipped.json").write_text(json.dumps(content))
    ended = gathernest("tune", "--import", str(tmp_path / "shipped.json"))
    assert ended.out.splitlines()[1] == "Some were measured on a Z80; --replay measures them here."


def test_a_replay_measures_the_winners_and_changes_nothing(gathernest, file):
    gathernest(*PROBLEM, *CANDIDATES)
    before = file.read_text()
    ended = gathernest("tune", "--replay")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.splitlines()[1] == "  still wins: 2.00x, 2.00x when it was recorded"
    (entry,) = json.loads(gathernest("tune", "--replay", "--json").out)["records"]
    assert (entry["holds"], entry["ratio"], entry["is_default"], entry["error"]) == (True, 2.0, False, None)
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("change", "status", "line"),
    [
        ({"schedule": ILLEGAL}, 1, "  cannot be measured: "),
        ({"schedule": SLOW + ",unroll{loop=indices_i factor=3}"}, 1, "  cannot be measured: "),
        ({"schedule": ""}, 0, "  does not win now: 1.00x, 2.00x when it was recorded"),
        ({"problem": {"operator": "gather", "sizes": 3}}, 1, "  cannot be measured: "),
    ],
)
def test_a_replay_says_what_no_longer_holds(gathernest, file, change, status, line):
    gathernest(*PROBLEM, *CANDIDATES)
    content = json.loads(file.read_text())
    for record in content["records"].values():
        record.update(change)
    file.write_text(json.dumps(content))
    ended = gathernest("tune", "--replay")
    assert ended.status == status
    assert ended.out.splitlines()[1].startswith(line)


def test_records_that_an_earlier_version_found_while_a_program_ran_are_left_out(gathernest, file):
    gathernest(*PROBLEM, *CANDIDATES)
    content = json.loads(file.read_text())
    ((name, record),) = content["records"].items()
    content["records"] = {f"{name}, out is given": record | {"origin": "adapt"}, name: record | {"origin": "tune"}}
    file.write_text(json.dumps(content))
    assert list(json.loads(gathernest("tune", "--list", "--json").out)["records"]) == [name]


def test_records_are_forgotten_by_number_or_all(gathernest, file):
    gathernest(*PROBLEM, *CANDIDATES)
    (record,) = read_records(file).values()
    write_records(file, {"a": record, "b": record, "c": record})
    assert gathernest("tune", "--forget", "2").out == "Removed 1 of 3 records.\n"
    assert list(read_records(file)) == ["a", "c"]
    assert json.loads(gathernest("tune", "--forget", "all", "--json").out)["forgotten"] == ["a", "c"]
    assert read_records(file) == {}
