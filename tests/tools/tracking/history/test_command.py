"""`gathernest bench history`: what it finds, what it writes, and one line for each wrong input."""

import json
from pathlib import Path

import pytest

from gathernest.tools.tracking.history import command, otava
from gathernest.tools.tracking.history.noise import Candidate

from .conftest import CHANGED, COMMITS, write_asv


@pytest.fixture
def history(gathernest, tmp_path, monkeypatch):
    """Run the command in a folder of its own, without otava unless asked."""
    monkeypatch.chdir(tmp_path)

    def run(*words, alone=True):
        return gathernest("bench", "history", *words, *(["--no-otava"] if alone else []))

    return run


CAUSE = (
    "every stage and the source are the same, and the assembly differs: Numba or LLVM, or the intrinsics and flags of "
    "lowering/numba and lowering/native"
)


def steps(first, then, at):
    return [first] * at + [then] * (COMMITS - at)


def test_planted_step_of_two_percent_is_found_at_its_commit_with_the_static_difference(history, stored, commits):
    folder = stored(track_calls=steps(1000, 1020, CHANGED), track_lines=[7] * COMMITS)
    ended = history("--results", str(folder), "--json", "history.json")
    assert (ended.status, ended.err) == (1, "")
    assert ended.out == (
        f"{commits[CHANGED][:10]}  2023-12-21  change {CHANGED} <of> the suite\n"
        "    +2.00 %  work.Work.track_calls: 1,000 → 1,020\n"
        f"    {CAUSE}: rows\n"
        f"    rows: {CAUSE}\n"
        "      loop gather indices_i#2 (innermost): loads 4 → 5\n"
        "         movq (%rax), %rbx\n"
        "         movq (%rax), %rbx\n"
        "        +movq (%rax), %rbx\n"
        "         jne .L1\n"
        "history.html: 2 series over 60 commits; 1 change by the thresholds alone, 1 for the worse\n"
    )
    (change,) = json.loads(Path("history.json").read_text())["changes"]
    assert (change["commit"], change["since"], change["commits_between"]) == (*commits[CHANGED : CHANGED - 2 : -1], 1)
    assert change["series"][0]["relative"] == pytest.approx(0.02)


def test_sixty_flat_commits_give_nothing(history, stored):
    ended = history("--results", str(stored(track_calls=[1000] * COMMITS, track_bytes=[0] * COMMITS)))
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == "history.html: 2 series over 60 commits; 0 changes by the thresholds alone, 0 for the worse\n"


def test_improvement_is_shown_and_is_no_failure(history, stored):
    ended = history("--results", str(stored(track_calls=steps(1020, 1000, 20))))
    assert ended.status == 0
    assert "-1.96 %  work.Work.track_calls: 1,020 → 1,000" in ended.out
    assert "no static report at" not in ended.out and "the static reports are equal, so no kernel changed" in ended.out


def test_commit_before_the_static_report_has_a_line_that_says_so(history, stored, commits):
    ended = history("--results", str(stored(track_calls=steps(1, 2, 1))))
    assert f"no static report at {commits[0][:10]}" in ended.out


def test_ratios_of_recorded_comparisons_are_a_series(history, tmp_path, commits):
    recorded = json.loads(Path(__file__).with_name("compared.json").read_text())
    rows = recorded["benchmarks"]["rows-256B"]
    (tmp_path / "paired").mkdir()
    for number, commit in enumerate(commits[20:]):
        recorded["head"]["commit"], rows["ratio"] = commit, 1.25 if number >= 20 else 1.0
        (tmp_path / "paired" / f"{commit}.json").write_text(json.dumps(recorded))
    ended = history("--results", "paired")
    assert (ended.status, ended.err) == (1, "")
    assert f"{commits[40][:10]}  " in ended.out
    assert "   +25.00 %  rows-256B: 1 times the base → 1.25 times the base\n" in ended.out
    assert "history.html: 2 series over 40 commits; 1 change by the thresholds alone, 1 for the worse\n" in ended.out


def test_series_of_two_commits_is_said_to_be_too_short(history, stored, commits):
    ended = history(f"{commits[0]}..{commits[2]}", "--results", str(stored(track_calls=[1] * COMMITS)))
    assert ended.out.endswith("0 changes by the thresholds alone, 0 for the worse; 1 have too few results to tell\n")


def test_regression_before_since_is_no_failure(history, stored, commits):
    folder = str(stored(track_calls=steps(1, 2, 20)))
    assert history("--results", folder, "--since", commits[20]).status == 0
    assert history("--results", folder, "--since", commits[19]).status == 1


def test_commits_that_were_not_measured_share_the_blame(history, tmp_path, commits):
    for number in range(0, COMMITS, 5):
        write_asv(tmp_path / "results", commits[number], {"m.track_x": 1 + (number >= 30)})
    ended = history("--results", "results")
    assert f"  one of the 5 commits since {commits[25][:10]}\n" in ended.out


def test_range_limits_the_commits(history, stored, commits):
    folder = str(stored(track_calls=steps(1, 2, 20)))
    ended = history(f"{commits[29]}..{commits[49]}", "--results", folder)
    assert ended.status == 0
    assert "1 series over 20 commits" in ended.out
    assert ended.err == (f"gathernest: note: results of 40 commits outside {commits[29]}..{commits[49]} are left out\n")


def test_damaged_file_is_said_and_the_rest_goes_on(history, stored):
    folder = stored(track_calls=[1] * COMMITS)
    (folder / "quiet" / "damaged.json").write_text("{")
    ended = history("--results", str(folder))
    assert ended.status == 0
    assert ended.err.startswith(f"gathernest: note: {folder}/quiet/damaged.json cannot be read as results (Expecting")
    assert "damaged.json cannot be read" in Path("history.html").read_text()


def test_otava_that_cannot_be_installed_is_said_and_the_thresholds_decide(history, stored, monkeypatch):
    def fail():
        raise otava.OtavaError("no network")

    monkeypatch.setattr(otava, "is_installed", lambda: False)
    monkeypatch.setattr(otava, "install", fail)
    ended = history("--results", str(stored(track_calls=steps(1, 2, 30))), alone=False)
    assert ended.status == 1
    first, second = ended.err.splitlines()
    assert first.startswith("gathernest: note: installing apache-otava")
    assert second == (
        "gathernest: note: otava cannot be used (no network), so the thresholds alone decide; --no-otava leaves it out"
    )


def test_p_value_of_otava_is_shown(history, stored, monkeypatch):
    wave = [1e6 + 300 * (number * 7 % 11) for number in range(COMMITS)]
    values = [value * (1.02 if number >= 30 else 1) for number, value in enumerate(wave)]
    monkeypatch.setattr(otava, "is_installed", lambda: True)
    monkeypatch.setattr(otava, "candidates", lambda series: {name: [Candidate(30, 2e-9)] for name in series})
    ended = history("--results", str(stored(track_calls=values)), alone=False)
    assert ended.status == 1
    assert ", p 2e-09\n" in ended.out and "1 change by otava 0.8.0" in ended.out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--results", "empty"], "there are no counts or ratios in empty; make asv BENCH=counts writes some, and"),
        (["--results", "none"], "--results none: there is no such folder; make asv writes results to asv_bench/"),
        (
            ["nowhere..main", "--results", "empty"],
            "there is no revision or range 'nowhere..main'; name a commit, branch or tag, or two with .. between",
        ),
        (
            ["main~3..main", "--results", "other"],
            "none of 3 commits of main~3..main has results in other, which have 1 other; give another "
            "range, or measure these: make asv-history",
        ),
        (["--since", "nowhere", "--results", "empty"], "there is no revision or range 'nowhere'; name a commit"),
        (["-o", "none/x.html"], "-o none/x.html: there is no folder none; make it first"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(history, commits, tmp_path, words, line):
    (tmp_path / "empty").mkdir()
    write_asv(tmp_path / "other", commits[0], {"m.track_x": 1})
    ended = history(*words)
    assert ended.status == 2
    assert ended.err.startswith(f"gathernest: error: {line}") and ended.err.count("\n") == 1
    assert not Path("history.html").exists()


def test_page_that_cannot_be_made_leaves_the_table(history, stored, monkeypatch):
    from gathernest.ir.errors import DependencyError
    from gathernest.kernels.host import dependencies

    def fail(*packages):
        raise DependencyError("jinja2 is not installed")

    monkeypatch.setattr(dependencies, "require", fail)
    ended = history("--results", str(stored(track_calls=steps(1, 2, 30))))
    assert ended.status == 1
    assert ended.err == "gathernest: note: no page is written: jinja2 is not installed\n"
    assert "+100.00 %  work.Work.track_calls" in ended.out


def test_json_to_standard_output_has_nothing_beside_it(history, stored):
    ended = history("--results", str(stored(track_calls=[1] * COMMITS)), "--json", "-")
    assert json.loads(ended.out)["changes"] == []


def test_default_folders_are_those_of_the_checkout(history, commits, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "checkout", lambda: tmp_path)
    for name in command.FOLDERS:
        write_asv(tmp_path / name, commits[0], {"m.track_x": 1})
    ended = history()
    assert ended.status == 0
    assert "1 series over 1 commit;" in ended.out
