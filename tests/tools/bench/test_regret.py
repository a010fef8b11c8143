"""The chosen schedule beside other candidates."""

import json

import pytest

from gathernest.tools.bench import regret
from gathernest.tools.bench.cases.case import Case
from gathernest.tools.bench.regret import Candidate, Measured, Regretted, as_markdown, measure_regret, summary

ROWS = Case("rows", "rows", (400, 64), (500,))


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure_regret([ROWS], rounds=1, threads=2, most=3, advance=lambda done: None)


def found(name: str, ratio: float, measured_us: float, predicted_us: float) -> Regretted:
    chosen = Candidate("vectorize-inner{lanes=8}", measured_us, predicted_us)
    best = Candidate("vectorize-inner{lanes=8},stream-stores", measured_us / ratio, predicted_us)
    return Regretted(Case(name, "rows", (4, 4), (3,)), (chosen, best), best.schedule, ratio)


def test_each_candidate_has_a_time_a_prediction_and_the_chosen_one_comes_first(measured):
    (one,) = measured.cases
    assert one.chosen.schedule.startswith("specialize-inner{bytes=256}")
    assert len(one.candidates) == 3
    assert all(each.measured_us and each.predicted_us for each in one.candidates)
    assert one.regret >= 1
    assert one.best in [each.schedule for each in one.candidates]
    assert one.wrong == ()


def test_a_candidate_with_other_bytes_is_named_and_not_timed(measured, monkeypatch):
    chosen, other, *_ = measured.cases[0].candidates
    monkeypatch.setattr(regret, "_gives", lambda kernel, inputs, right: str(kernel.schedule) == chosen.schedule)
    (one,) = measure_regret([ROWS], rounds=1, threads=2, most=2, advance=lambda done: None).cases
    assert one.candidates[1].schedule == other.schedule
    assert (one.candidates[1].measured_us, one.candidates[1].rejected) == (None, "other bytes")
    assert one.wrong == (f"rows: {other.schedule} gives other bytes than NumPy",)
    assert (one.best, one.regret) == (chosen.schedule, 1.0)


def test_summary_takes_the_errors_of_the_chosen_schedules_apart_from_those_of_all(measured):
    cases = [found("a", 1.21, 10.0, 11.0), found("b", 0.9, 10.0, 7.0), found("c", 1.0, 10.0, 10.0)]
    means = summary(cases)
    assert means.geometric_mean == pytest.approx(1.21 ** (1 / 3))
    assert (means.worst, means.worst_case) == (1.21, "a")
    assert means.median_error == pytest.approx(0.1)
    assert means.median_error_of_all == pytest.approx((0.1 + 0.3) / 2, abs=0.06)


def test_markdown_says_what_a_better_schedule_has_that_the_chosen_one_has_not(measured):
    cases = [found("slow", 1.5, 30.0, 27.0), found("fine", 1.0, 10.0, 12.0)]
    shown = as_markdown(Measured(cases, 9, 2, measured.machine, 0.5)).splitlines()
    assert shown[0] == "| case | candidates | chosen | best | regret | predicted | error |"
    assert shown[2] == "| slow | 2 | 30.0 µs | 20.0 µs | 1.50× | 27.0 µs | -10 % |"
    assert "* slow: with stream-stores" in shown
    assert "regret: geometric mean 1.225, worst 1.50 (slow)" in shown
    assert not any(line.startswith("* fine") for line in shown)


def test_the_command_writes_every_candidate_and_prints_a_table(gathernest, tmp_path):
    file = tmp_path / "regret.json"
    words = ["--quick", "--case", "rows-64B,call-kernel", "--rounds", "1", "--candidates", "2", "--json", str(file)]
    ended = gathernest("bench", "--regret", *words)
    assert ended.status == 0
    assert "| rows-64B | 2 |" in ended.out
    said = json.loads(file.read_text())
    assert said["machine_model"]["name"]
    assert [one["name"] for one in said["cases"]] == ["rows-64B"]
    assert len(said["cases"][0]["candidates"]) == 2


def test_calls_alone_have_nothing_to_choose(gathernest):
    ended = gathernest("bench", "--regret", "--case", "call-kernel")
    assert ended.status == 1
    assert "--regret compares schedules, and a call of 5x4 elements has none; choose other cases" in ended.err
