"""Which machine model schedules are chosen by: this CPU's, a built-in one by its name, or a file's."""

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import gathernest as gn
from gathernest.kernels.host import machine
from gathernest.kernels.host.knobs import KnobError, knobs
from gathernest.kernels.host.machine import (
    MachineFileWarning,
    built_in_for,
    built_in_with,
    known_machine,
    machine_model,
)
from gathernest.lowering.schedule.machine_model import BUILT_IN

XEON = {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "167", "flags": "avx2 avx512f"}


@pytest.fixture
def file(tmp_path: Path):
    """Return a function that writes a file of a machine, and gives its path."""

    def written(**said) -> Path:
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(said))
        machine._read_described.cache_clear()
        return path

    return written


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        ({"vendor_id": "AuthenticAMD", "cpu family": "25", "flags": "avx2 avx512f"}, "zen4"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "26", "flags": "avx2 avx512f"}, "zen5"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25", "flags": "avx2"}, "zen3"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "flags": "avx2"}, "zen4"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "97", "flags": "avx2"}, "zen4"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "80", "flags": "avx2"}, "zen3"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "26", "model": "2", "flags": "avx2"}, "zen5"),
        ({"vendor_id": "AuthenticAMD", "cpu family": "21", "flags": "avx"}, "avx2"),
        ({"vendor_id": "GenuineIntel", "cpu family": "6", "flags": "avx2 avx512f"}, "xeon-avx512"),
        ({"vendor_id": "GenuineIntel", "cpu family": "6", "flags": "avx2"}, "avx2"),
        ({"flags": "avx512foo"}, "avx2"),
        ({}, "avx2"),
    ],
    ids=str,
)
def test_the_built_in_model_is_that_of_the_family_and_its_vectors(cpu, expected):
    assert built_in_for(cpu)[0] == expected


def test_why_a_model_was_taken_says_what_the_cpu_is():
    cpu = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "flags": "avx2 avx512f"}
    assert built_in_for(cpu)[1] == "AuthenticAMD, family 25 model 17, with AVX-512"
    assert built_in_for({})[1] == "unknown vendor, family unknown model unknown, without AVX-512"


@pytest.mark.parametrize(("flags", "expected"), [("avx2 avx512f", 64), ("avx2", 32)])
def test_vectors_are_as_wide_as_the_instructions_that_a_virtual_machine_shows(flags, expected):
    cpu = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "flags": flags}
    found = built_in_with(cpu, {}).model
    assert (found.name, found.wide_vector_bytes) == ("zen4", expected)


@pytest.mark.parametrize(
    ("cpu", "sizes", "expected"),
    [
        ({}, {"L1": 49152, "L2": 2 << 20, "L3": 16 << 20}, (49152, 2 << 20, 16 << 20)),
        ({}, {"L2": 4 << 20}, (32 << 10, 4 << 20, 4 << 20)),
        ({}, {}, (32 << 10, 256 << 10, 8 << 20)),
        # Of the last cache of a whole Xeon, no more is counted on than the model's.
        (XEON, {"L1": 1, "L2": 2, "L3": 480 << 20}, (1, 2, 60 << 20)),
        (XEON, {"L1": 1, "L2": 2, "L3": 30 << 20}, (1, 2, 30 << 20)),
    ],
)
def test_the_system_tells_the_sizes_of_this_machines_caches(cpu, sizes, expected):
    model = built_in_with(cpu, sizes).model
    assert (model.l1_bytes, model.l2_bytes, model.l3_bytes) == expected


def test_a_built_in_model_is_taken_by_its_name_with_its_own_caches(monkeypatch):
    monkeypatch.setenv("GATHERNEST_MACHINE", "zen3")
    assert known_machine().model == BUILT_IN["zen3"]
    assert known_machine().because == "named by the knob machine"


def test_threads_are_those_of_this_process_unless_a_file_says_them(file):
    with knobs.scope(machine="zen3", num_threads=1):
        assert machine_model() == BUILT_IN["zen3"]
    with knobs.scope(machine=file(threads=64), num_threads=1):
        assert machine_model().threads == 64


def test_a_file_changes_what_it_says_of_its_base(file):
    path = file(base="zen4", l2_bytes=2 << 20, copy_bytes_per_ns=[90, 70, 30.5])
    with knobs.scope(machine=path):
        known = known_machine()
    changed = {"name": "mine", "l2_bytes": 2 << 20, "copy_bytes_per_ns": (90, 70, 30.5)}
    assert known.model == replace(BUILT_IN["zen4"], **changed)
    assert known.because == f"read from {path}"


def test_a_file_without_a_base_is_of_an_avx2_machine(file):
    with knobs.scope(machine=file(name="small")):
        assert known_machine().model == replace(BUILT_IN["avx2"], name="small")


@pytest.mark.parametrize("text", ['{"memory_ns": 5e-324}', "{", '{"memory_ns": NaN}', '{"threads": 2, "threads": 3}'])
def test_a_knob_that_names_a_broken_file_is_left_out_with_one_warning(file, text, unnamed_machine):
    path, without = file(), machine_model()
    path.write_text(text)
    with knobs.scope(machine=path), pytest.warns(MachineFileWarning) as caught:
        assert machine_model() == machine_model() == without
    (warning,) = caught
    assert str(path) in str(warning.message) and str(warning.message).endswith("until then it is left out")


@pytest.mark.thorough
def test_the_choice_of_another_machine_is_seen_on_this_one(file):
    def schedule(**settings) -> str:
        with knobs.scope(num_threads=2, **settings):
            return str(gn.compile("gather", "1000000x64xf32", "100000xi64", bounds="unchecked").schedule)

    assert "ahead=64 lines=5 locality=2" in schedule(machine="zen4")
    assert "ahead=16 lines=5 locality=2" in schedule(machine="avx2")
    assert "stream-stores" in schedule(machine="zen4")
    assert "stream-stores" not in schedule(machine=file(base="zen4", l3_bytes=1 << 30))


def test_a_repeated_call_is_planned_for_the_machine_that_is_set_meanwhile():
    data, indices = np.arange(4000.0).reshape(1000, 4), np.arange(999)
    with knobs.scope(machine="zen3"):
        for _ in range(3):  # planned, remembered, found
            assert (gn.gather(data, indices) == data[:999]).all()
    with knobs.scope(machine="zen9"), pytest.raises(KnobError, match="the machine 'zen9' cannot be read"):
        gn.gather(data, indices)


def test_tuned_schedules_are_not_those_of_a_machine_that_is_set(unnamed_machine, tmp_path):
    (tmp_path / "records.json").write_text("damage")
    with knobs.scope(tuning=tmp_path / "records.json"):
        with warnings.catch_warnings(action="error"), knobs.scope(machine="zen3"):
            gn.compile("gather", "101x64xf32", "500xi64")
        with pytest.warns(Warning, match="records.json"):
            gn.compile("gather", "101x64xf32", "500xi64")


def test_costs_that_differ_by_nine_digits_choose_a_schedule(tmp_path):
    (tmp_path / "machine.json").write_text('{"lane_load_ns": 65536, "lane_gather_ns": 1.0}')
    with knobs.scope(machine=tmp_path / "machine.json"):
        assert "gather-lanes" in str(gn.compile("gather_elements", "100x100xf64", "100x100xi32", axis=1).schedule)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
def test_a_pipe_is_no_machine_and_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with knobs.scope(machine=tmp_path / "pipe"), pytest.raises(KnobError, match="pipe is not a plain file"):
        known_machine()
