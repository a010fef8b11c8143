"""Calibrations: how they are measured, over tiny caches, memory and rounds; their file; and the choice of schedules."""

import itertools
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host import machine
from gathernest.kernels.host.machine import (
    BUSY_CORES,
    Calibration,
    calibration_path,
    described_machine,
    forget_calibration,
    known_calibration,
    machine_facts,
)
from gathernest.kernels.machine import calibrate as calibration
from gathernest.kernels.machine.calibrate import MIN_PASSES, calibrate, forget, keep, take_passes, timed
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel

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


def test_every_timer_has_a_time_in_every_pass():
    parts: list[float] = []
    timers = {name: itertools.cycle(ns).__next__ for name, ns in {"a": (9, 6, 7, 8, 6.5), "b": (5,)}.items()}
    assert take_passes(timers, 0.0, parts.append) == {"a": [9, 6, 7, 8, 6.5], "b": [5] * MIN_PASSES}
    assert parts == sorted(parts) and parts[-1] == 1.0


def test_a_timer_gives_the_fastest_run_for_a_unit():
    calls: list[int] = []
    assert 0 < timed(lambda: calls.append(1), units=2, runs=3, warm=2)() < 1e9
    assert len(calls) == 5


@pytest.mark.thorough
@pytest.mark.parametrize("other_cores", [0.0, 1.0], ids=["quiet", "busy"])
def test_every_field_of_a_model_is_measured_or_uncertain(monkeypatch, other_cores):
    small = replace(BUILT_IN["zen4"], l1_bytes=32 << 10, l2_bytes=256 << 10, l3_bytes=1 << 20)
    changes = {
        "OtherLoad": lambda: SimpleNamespace(cores=lambda: other_cores),
        "built_in_machine": lambda: machine.KnownMachine(small, ""),
        "MIN_MEMORY_BYTES": 8 << 20,
        "MAX_MEMORY_BYTES": 8 << 20,
        "RATES_S": 0.0,
        "LATENCY_S": 0.0,
    }
    for name, value in changes.items():
        monkeypatch.setattr(calibration, name, value)
    reports: list[tuple[int, int]] = []
    found = calibrate(lambda done, most, said: reports.append((done, most)))
    assert reports[0][0] == 0 and reports == sorted(reports) and reports[-1][0] == reports[-1][1]
    assert known_calibration() is None
    model, threads = described_machine(json.loads(json.dumps(found.description())))
    assert model == found.model and threads is None
    assert model.l1_bytes < model.l2_bytes < model.l3_bytes <= small.l3_bytes
    assert 0.01 < model.check_ns < model.memory_ns < 100_000
    never = {"name", "l1_share", "l2_share", "l3_share", "threads"}
    never |= {"l1_misses", "l2_misses", "near_bytes", "vector_bytes", "wide_vector_bytes", "store_times"}
    of_threads = set() if found.threads > 1 else {"launch_ns", "wake_ns"}
    names = set(MachineModel.__dataclass_fields__) - never - of_threads
    assert found.fields.keys() | found.uncertain.keys() == names
    assert found.fields.keys() & found.uncertain.keys() <= {"l1_bytes", "l2_bytes", "l3_bytes"}
    if other_cores >= BUSY_CORES:
        assert found.uncertain.keys() >= {"l3_bytes", "launch_ns", "wake_ns"} - of_threads
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))).model == found.model


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
    from gathernest.lowering.schedule import shared_kernels

    data, indices, names = np.arange(4000.0).reshape(1000, 4), np.arange(999), []
    choose = shared_kernels.choose

    def noted(nest, model, **kind):
        names.append(model.name)
        return choose(nest, model, **kind)

    monkeypatch.setattr(shared_kernels, "choose", noted)
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
        lambda text: text.replace("90.0", '"90"'),
        lambda text: text.replace('"check_ns"', '"name"'),
        lambda text: text.replace('"numba"', '""'),
        lambda text: text.replace('"2026-11-22T12:00:00Z"', "null"),
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
