"""A calibration as a whole, of tiny caches, memory and rounds; its times mean nothing."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gathernest.kernels.calibration import calibrate as calibration
from gathernest.kernels.calibration.calibrate import calibrate
from gathernest.kernels.host import machine
from gathernest.kernels.host.machine_files.calibration_file import BUSY_CORES, Calibration, known_calibration
from gathernest.kernels.host.machine_files.described_machine import said_of_machine
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel


@pytest.mark.thorough
@pytest.mark.parametrize("other_cores", [0.0, 1.0], ids=["quiet", "busy"])
def test_every_field_of_a_model_is_measured_or_uncertain(monkeypatch, other_cores):
    small = replace(BUILT_IN["zen4"], l1_bytes=32 << 10, l2_bytes=256 << 10, l3_bytes=1 << 20)
    changes = {
        "OtherLoad": lambda: SimpleNamespace(cores=lambda: other_cores),
        "built_in_machine": lambda: machine.KnownMachine(small, ""),
        "LEAST_MEMORY_BYTES": 8 << 20,
        "MOST_MEMORY_BYTES": 8 << 20,
        "RATES_S": 0.0,
        "LATENCY_S": 0.0,
    }
    for name, value in changes.items():
        monkeypatch.setattr(calibration, name, value)
    reports: list[tuple[int, int]] = []
    found = calibrate(lambda done, most, said: reports.append((done, most)))
    assert reports[0][0] == 0 and reports == sorted(reports) and reports[-1][0] == reports[-1][1]
    assert known_calibration() is None
    model, threads = said_of_machine(json.loads(json.dumps(found.description())))
    assert model == found.model and threads is None
    assert model.l1_bytes < model.l2_bytes < model.l3_bytes <= small.l3_bytes
    assert 0.01 < model.check_ns < model.memory_ns < 100_000
    never = {"name", "l1_share", "l2_share", "l3_share", "threads"}
    of_threads = set() if found.threads > 1 else {"launch_ns", "wake_ns"}
    names = set(MachineModel.__dataclass_fields__) - never - of_threads
    assert found.fields.keys() | found.uncertain.keys() == names
    assert found.fields.keys() & found.uncertain.keys() <= {"l1_bytes", "l2_bytes", "l3_bytes"}
    if other_cores >= BUSY_CORES:
        assert found.uncertain.keys() >= {"l3_bytes", "launch_ns", "wake_ns"} - of_threads
    assert Calibration.from_json(json.loads(json.dumps(found.to_json()))).model == found.model
