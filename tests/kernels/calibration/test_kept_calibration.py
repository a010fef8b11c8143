"""What becomes of a calibration: its file, and the choice of schedules."""

import json
from dataclasses import replace

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.calibration.calibrate import forget, keep
from gathernest.kernels.host import machine
from gathernest.kernels.host.machine_files.calibration_file import (
    Calibration,
    calibration_path,
    forget_calibration,
    known_calibration,
    machine_facts,
)
from gathernest.lowering.schedule.machine_model import BUILT_IN

MADE_UP = {"l3_bytes": 24 << 20, "copy_bytes_per_ns": (90.0, 60.0, 20.0), "check_ns": 0.3}


def made_up(**changed) -> Calibration:
    versions, date = {"numba": "0.1"}, "2026-11-22T12:00:00Z"
    uncertain = {"memory_ns": {"low": 90.0, "high": 150.0}}
    return replace(Calibration("zen3", MADE_UP, machine_facts(), 2, 0.25, date, versions, uncertain), **changed)


@pytest.fixture(autouse=True)
def own_folder(cache_dir, unnamed_machine):
    forget_calibration()
    yield
    forget_calibration()


def test_schedules_follow_from_a_calibration_unless_a_machine_is_named():
    path = keep(made_up())
    assert path == calibration_path() and json.loads(path.read_text())["format"] == 2
    known = machine.known_machine()
    assert known.model == replace(BUILT_IN["zen3"], name="zen3, calibrated", **MADE_UP)
    assert known.because == "measured at 2026-11-22T12:00:00Z"
    with gn.knobs.scope(machine="avx2"):
        assert machine.known_machine().model == BUILT_IN["avx2"]
    assert forget() == path and forget() is None
    assert machine.known_machine().model == machine.built_in_machine().model


def test_prepared_calls_are_planned_anew_after_a_calibration(monkeypatch):
    from gathernest.kernels.runtime import select_schedule

    data, indices, names = np.arange(4000.0).reshape(1000, 4), np.arange(999), []
    choose = select_schedule.choose_gather

    def noted(nest, model):
        names.append(model.name)
        return choose(nest, model)

    monkeypatch.setattr(select_schedule, "choose_gather", noted)
    for found in (made_up(), made_up(base="avx2")):
        keep(found)
        for _ in range(3):
            assert (gn.gather(data, indices) == data[:999]).all()
    assert names == ["zen3, calibrated", "avx2, calibrated"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "[" * 100_000,
        lambda text: text.replace('"format": 2', '"format": 1'),
        lambda text: text.replace("0.3", "-0.3"),
        lambda text: text.replace("0.3", "NaN"),
        lambda text: text.replace("check_ns", "cheque_ns"),
        lambda text: text.replace('"zen3"', '"zen9"'),
        lambda text: text.replace('"architecture": "', '"architecture": "not '),
        lambda text: text.replace("2026-11-22T", "yesterday "),
        lambda text: text.replace('"memory_ns": {', '"memory": {'),
        lambda text: text.replace('"low"', '"least"'),
        lambda text: text.replace('"threads": 2', '"threads": "two"'),
    ],
)
def test_a_file_that_is_damaged_or_of_another_machine_is_as_good_as_none(damage):
    path = keep(made_up())
    assert known_calibration() == made_up()
    path.write_text(damage(path.read_text()))
    forget_calibration()
    assert known_calibration() is None


def test_a_file_that_others_could_have_written_is_as_good_as_none(make_unsound):
    make_unsound(keep(made_up()))
    forget_calibration()
    assert known_calibration() is None


def test_the_file_is_read_once_in_a_process():
    path = keep(made_up())
    assert known_calibration() is known_calibration()
    path.unlink()
    assert known_calibration() == made_up()
