"""`gathernest doctor --calibrate`, and what `doctor` and `warm` say of it, with a calibration that is made up."""

import json

import pytest

from gathernest.kernels.host.machine import Calibration, built_in_machine, forget_calibration, machine_facts
from gathernest.kernels.machine import calibrate as calibration

FIELDS = {"l3_bytes": 24 << 20, "line_ns": (0.6, 0.9, 2.0, 5.0), "vector_bytes": 16}
UNCERTAIN = {"near_line_ns": {"low": (1.1, 3.0), "high": (1.2, 5.2)}, "launch_ns": {"low": 900.0, "high": 1100.0}}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, unnamed_machine):
    """A cache folder of the test's own, and a machine that is measured at once."""
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path / "cache"))
    forget_calibration()
    found = Calibration("zen4", FIELDS, machine_facts(), 2, 1.5, "2026-11-22T12:00:00Z", {"numba": "0.1"}, UNCERTAIN)
    monkeypatch.setattr(calibration, "calibrate", lambda report: found)
    yield tmp_path / "cache" / "machines"
    forget_calibration()


def test_each_number_is_shown_beside_the_built_in_one_and_kept(gathernest, folder):
    ended = gathernest("doctor", "--calibrate")
    assert (ended.status, ended.err) == (0, "")
    assert (
        f"vector_bytes         16                         built-in {built_in_machine().model.vector_bytes}\n"
        in ended.out
    )
    notes = " ".join(ended.out.split())
    assert "note: other processes used 1.5 cores while this machine was measured, so the last cache and" in notes
    uncertain = "near_line_ns 1.1, 3 to 1.2, 5.2; launch_ns 900 to 1100"
    assert f"note: the built-in numbers stay where the measured ones vary: {uncertain}" in notes
    (file,) = folder.iterdir()
    assert ended.out.endswith(f"schedules are chosen by these numbers from now on; they are in {file}\n")


def test_doctor_shows_what_was_measured_its_age_and_what_is_doubtful(gathernest):
    assert "  calibration                none; gathernest doctor --calibrate measures it" in gathernest("doctor").out
    gathernest("doctor", "--calibrate")
    text = gathernest("doctor").out
    assert "  name                       zen4, calibrated\n" in text
    assert " old, of 2026-11-22T12:00:00Z, for 2 threads\n" in text
    assert "  vector_bytes               16                         built-in " in text
    assert "note: this machine was measured with numba 0.1, now " in text
    assert "note: other processes used 1.5 cores while this machine was measured" in text
    model = json.loads(gathernest("doctor", "--json").out)["machine_model"]
    assert model["line_ns"] == [0.6, 0.9, 2.0, 5.0]
    assert model["calibration"]["fields"]["l3_bytes"] == 24 << 20


def test_a_dry_run_keeps_nothing_and_writes_a_file_that_describes_the_machine(
    gathernest, folder, tmp_path, monkeypatch
):
    path = tmp_path / "mine.json"
    ended = gathernest("doctor", "--calibrate", "--dry-run", "--machine-file", str(path))
    assert ended.out.endswith("nothing is kept of a dry run\n") and not folder.exists()
    monkeypatch.setenv("GATHERNEST_MACHINE", str(path))
    model = json.loads(gathernest("doctor", "--json").out)["machine_model"]
    assert (model["because"], model["l3_bytes"]) == (f"read from {path}", 24 << 20)
    assert "goes first" in gathernest("doctor", "--calibrate").out


def test_json_is_what_the_file_holds(gathernest, folder):
    said = json.loads(gathernest("doctor", "--calibrate", "--json").out)
    (file,) = folder.iterdir()
    assert said == {**json.loads(file.read_text()), "file": str(file)}


def test_forgetting_removes_the_file(gathernest, folder):
    gathernest("doctor", "--calibrate")
    assert gathernest("doctor", "--forget").out.startswith(f"removed {folder}")
    assert list(folder.iterdir()) == []
    assert json.loads(gathernest("doctor", "--forget", "--json").out) == {"removed": None}


def test_warm_offers_a_calibration_until_there_is_one(gathernest, folder):
    kernel = ("warm", "--data", "9x4xf32", "--indices", "5xi64", "--jobs", "1")
    assert "gathernest doctor --calibrate" in gathernest(*kernel).out
    gathernest("doctor", "--calibrate")
    assert "--calibrate" not in gathernest(*kernel).out
