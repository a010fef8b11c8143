"""The chosen schedule beside other candidates."""

from dataclasses import replace
from pathlib import Path

import pytest

from gathernest.ir.errors import GathernestError
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.tools.bench.cases import Case
from gathernest.tools.bench.regret import (
    COLUMNS,
    Candidate,
    Measured,
    Regretted,
    as_csv,
    as_markdown,
    judged,
    measure_regret,
    summary,
)

# `gathernest bench --regret --candidates 14 --csv` of an EPYC Zen 4 (family 25 model 17, two cores), without the
# candidates that took more than 1.7 times as long as the best: on idle cores, and in an hour whose memory was slow.
DATA = Path(__file__).parents[3] / "docs" / "measurements"
RECORDED, IN_A_SLOW_HOUR = DATA / "zen4.csv", DATA / "zen4-slow-hour.csv"
# The same of an EPYC Zen 5 (family 26 model 2, two cores) on idle cores, chosen for a Zen 4 then, with 16 candidates.
OF_ZEN5 = DATA / "zen5.csv"
# The same of an EPYC Zen 3 (family 25 model 1, two cores) on idle cores, with 24 candidates.
OF_ZEN3 = DATA / "zen3.csv"

ROWS = Case("rows", "rows", (400, 64), (500,))


@pytest.fixture(scope="module")
def measured() -> Measured:
    return measure_regret([ROWS], rounds=1, threads=2, most=3, advance=lambda done: None)


def found(name: str, ratio: float, measured_us: float, predicted_us: float) -> Regretted:
    chosen = Candidate("vectorize-inner{lanes=8}", measured_us, predicted_us)
    best = Candidate("vectorize-inner{lanes=8},stream-stores", measured_us / ratio, predicted_us)
    return Regretted(Case(name, "rows", (4, 4), (3,)), (chosen, best))


@pytest.mark.thorough
def test_each_candidate_has_a_time_a_prediction_and_the_chosen_one_comes_first(measured):
    (one,) = measured.cases
    assert one.chosen.schedule.startswith("specialize-inner{bytes=256}")
    assert len(one.candidates) == 3
    assert all(each.measured_us and each.predicted_us for each in one.candidates)
    assert one.regret >= 1
    assert one.best in one.candidates
    assert one.wrong == ()


def test_markdown_says_what_a_better_schedule_has_that_the_chosen_one_has_not(measured):
    cases = [found("slow", 1.5, 30.0, 27.0), found("fine", 1.0, 10.0, 12.0)]
    shown = as_markdown(Measured(cases, 9, 2, measured.machine, 0.5)).splitlines()
    assert shown[0] == "| case | candidates | chosen | best | regret | predicted | error |"
    assert shown[2] == "| slow | 2 | 30.0 µs | 20.0 µs | 1.50× | 27.0 µs | -10 % |"
    assert "* slow: with stream-stores" in shown
    assert "regret: geometric mean 1.225, worst 1.50 (slow)" in shown
    assert not any(line.startswith("* fine") for line in shown)


@pytest.mark.thorough
def test_the_command_writes_every_candidate_and_prints_a_table(gathernest, tmp_path):
    file = tmp_path / "regret.csv"
    words = ["--quick", "--case", "rows-64B,call-kernel", "--rounds", "1", "--candidates", "2", "--csv", str(file)]
    ended = gathernest("bench", "--regret", *words)
    assert ended.status == 0
    assert "| rows-64B | 2 |" in ended.out
    assert [line.split(",")[0] for line in file.read_text().splitlines()] == ["case", "rows-64B", "rows-64B"]


@pytest.mark.parametrize(
    ("file", "mean", "worst", "error", "newer"),
    [
        (RECORDED, 1.03, 1.19, 0.23, 12),
        (IN_A_SLOW_HOUR, 1.04, 1.15, 0.24, 12),
        (OF_ZEN5, 1.05, 1.39, 0.15, 18),
        (OF_ZEN3, 1.03, 1.29, 0.38, 3),
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else None,
)
def test_choices_and_predictions_of_today_are_near_what_was_measured(file, mean, worst, error, newer):
    measured = judged(file)
    found = summary(measured.cases)
    # newer than the files: known runs, checks by all threads, elements prefetched into L1, sorts in parts, row classes
    assert sum(one.regret is None for one in measured.cases) <= newer
    assert found.geometric_mean <= mean
    assert found.worst <= worst
    assert found.median_error is not None
    assert found.median_error <= error


def test_stored_times_are_judged_by_the_choice_of_today(tmp_path):
    """The choice of a Zen 4 was measured here, and a faster schedule; a file without the choice has no regret."""
    machine = replace(BUILT_IN["zen4"], threads=2)
    text = as_csv(Measured([found("rows-256B-small-table", 1.25, 10.0, 9.0)], 5, 2, machine, 0.0))
    (tmp_path / "times.csv").write_text(text)
    (one,) = judged(tmp_path / "times.csv").cases
    assert one.regret is None
    assert f"* {one.case.name}: {one.chosen.schedule} is chosen, and was not measured" in as_markdown(
        judged(tmp_path / "times.csv")
    )
    (tmp_path / "times.csv").write_text(f'{text}{one.case.name},zen4,2,"{one.chosen.schedule}",12\n')
    (one,) = judged(tmp_path / "times.csv").cases
    assert one.regret == pytest.approx(12 / 8)
    assert judged(tmp_path / "times.csv", replace(BUILT_IN["avx2"], threads=2)).machine.name == "avx2"


@pytest.mark.parametrize(
    ("threads", "time"), [("0", "9"), ("1_0", "9"), ("2", "0"), ("2", "nan"), ("2", "-1"), ("2", "inf")]
)
def test_numbers_that_no_measurement_has_are_rejected(tmp_path, threads, time):
    (tmp_path / "times.csv").write_text(f"{','.join(COLUMNS)}\nrows-64B,zen4,{threads},,{time}\n")
    with pytest.raises(GathernestError, match=r"is no file of .*expected a"):
        judged(tmp_path / "times.csv")


def test_a_file_of_another_kind_is_rejected(tmp_path):
    for content in (b"\xff\xfe", b"x" * 200_000, b"\0"):
        (tmp_path / "times.csv").write_bytes(content)
        with pytest.raises(GathernestError, match="is no file of `gathernest bench") as raised:
            judged(tmp_path / "times.csv")
        assert "Error('" not in str(raised.value)


@pytest.mark.thorough
def test_the_command_judges_a_file_by_the_machine_that_is_named(gathernest, monkeypatch):
    ended = gathernest("bench", "--regret", "--from", str(RECORDED))
    assert ended.status == 0
    assert "times of zen4.csv, model zen4; 2 threads" in ended.out
    monkeypatch.setenv("GATHERNEST_MACHINE", "avx2")
    assert "model avx2" in gathernest("bench", "--regret", "--from", str(RECORDED)).out
