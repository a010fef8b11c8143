"""A calibration as a whole, of tiny caches, memory and rounds; its times mean nothing."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gathernest.kernels.calibration import calibrate as calibration
from gathernest.kernels.calibration import stable_times
from gathernest.kernels.calibration.calibrate import calibrate
from gathernest.kernels.host import machine
from gathernest.kernels.host.machine_files.calibration_file import BUSY_CORES, known_calibration
from gathernest.kernels.host.machine_files.described_machine import said_of_machine
from gathernest.lowering.schedule.machine_model import BUILT_IN, MachineModel


def test_what_is_usual_is_the_median_of_the_passes():
    probe = stable_times.Probe(float, times_ns=[5.0, 9.0, 3.0, 8.0, 9.0], best_ns=3.0)
    assert calibration.usual_times({"memory": probe}) == {"memory": 8.0}


@pytest.mark.thorough
@pytest.mark.parametrize("other_cores", [0.0, 1.0], ids=["quiet", "busy"])
def test_every_measured_field_is_one_of_a_model_and_positive(monkeypatch, other_cores):
    monkeypatch.setattr(calibration, "OtherLoad", lambda: SimpleNamespace(cores=lambda: other_cores))
    changes = {"LEAST_MEMORY_BYTES": 8 << 20, "MOST_MEMORY_BYTES": 8 << 20, "ROUND_S": 0.0, "LATENCY_ROUND_S": 0.0}
    for name, value in (changes | {"LIMIT_S": 1e9, "LATENCY_LIMIT_S": 1e9, "ROUNDS": (2, 2)}).items():
        monkeypatch.setattr(calibration, name, value)
    monkeypatch.setattr(stable_times, "IMPROVES_BY", 1e9)
    monkeypatch.setattr(stable_times, "QUIET_ROUNDS", 1)
    small = replace(BUILT_IN["zen4"], l1_bytes=32 << 10, l2_bytes=256 << 10, l3_bytes=1 << 20)
    monkeypatch.setattr(calibration, "built_in_machine", lambda: machine.KnownMachine(small, ""))
    reports: list[tuple[int, int]] = []
    usual: dict[str, float] = {}
    medians = calibration.usual_times

    def doubled(probes) -> dict[str, float]:
        usual.update({name: 2 * time_ns for name, time_ns in medians(probes).items()})
        return usual

    monkeypatch.setattr(calibration, "usual_times", doubled)
    found = calibrate(lambda done, most, said: reports.append((done, most)))
    assert reports[0][0] == 0 and reports[-1][0] == reports[-1][1]
    assert known_calibration() is None
    model, threads = said_of_machine(json.loads(json.dumps(found.description())))
    assert model == found.model and threads is None
    assert model.l1_bytes < model.l2_bytes < model.l3_bytes <= small.l3_bytes
    assert 0.01 < model.check_ns < model.memory_ns < 100_000
    never = {"name", "l1_share", "l2_share", "l3_share", "threads"}
    names = set(MachineModel.__dataclass_fields__) - never
    is_quiet = other_cores < BUSY_CORES
    assert bool(usual) == is_quiet
    if is_quiet:  # what memory does is counted by the median
        assert usual.keys() >= {"wake", "far 64", "rows, cached stores", "all threads read"}
        memory_ns = min(usual[f"memory {way}"] for way in ("cached stores", "non-temporal stores"))
        assert model.copy_bytes_per_ns[2] == pytest.approx(1 / memory_ns, rel=0.01)
    has_launches = found.threads > 1 and is_quiet
    assert found.fields.keys() == (names if has_launches else names - {"launch_ns", "wake_ns"})
