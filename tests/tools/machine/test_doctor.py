import json
from importlib.metadata import version

import pytest

from gathernest.kernels.host.cpu import cpu_quota


def facts_of(ended):
    return json.loads(ended.out)


def test_doctor_names_versions_machine_threads_and_cache(gathernest):
    ended = gathernest("doctor")
    assert (ended.status, ended.err) == (0, "")
    for part in ("numba", "xdsl", "cpu", "usable_cores", "started", "folder", "writable", "small_gather", "mlir-opt"):
        assert f"\n  {part} " in ended.out
    assert ended.out.endswith("Everything that gathernest needs works.\n")


def test_the_machine_model_is_named_with_its_reason(gathernest, monkeypatch):
    assert "\nmachine model\n  name  " in gathernest("doctor").out
    monkeypatch.setenv("GATHERNEST_MACHINE", "zen3")
    model = facts_of(gathernest("doctor", "--json"))["machine_model"]
    assert (model["name"], model["because"]) == ("zen3", "named by the knob machine")
    assert (model["calibration"], model["l2_bytes"], model["line_ns"]) == (None, 512 << 10, [0.3, 0.7, 1.6, 9.5])


def test_a_machine_that_there_is_not_is_a_problem(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_MACHINE", "zen9")
    ended = gathernest("doctor", "--json")
    (problem,) = facts_of(ended)["problems"]
    assert ended.status == 1
    assert problem.startswith(
        "the machine 'zen9' cannot be read (No such file or directory); did you mean 'zen5'?; set GATHERNEST_MACHINE to"
    )


def test_json_has_every_section(gathernest, monkeypatch, tmp_path, unnamed_machine):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("GATHERNEST_COMPILE")
    ended = gathernest("doctor", "--json")
    facts = facts_of(ended)
    assert ended.status == 0
    assert facts["compilation"]["mode"] == "background"
    assert facts["versions"]["numpy"] == version("numpy")
    assert 1 <= facts["machine"]["usable_cores"] <= facts["machine"]["cores_by_affinity"] <= facts["machine"]["cores"]
    assert facts["machine"]["cores_by_quota"] == (cpu_quota() or "no limit")
    assert 1 <= facts["threads"]["used"] <= facts["machine"]["usable_cores"]
    assert facts["threads"]["started"] >= facts["threads"]["used"]
    assert facts["cache"]["folder"] == str(tmp_path)
    assert facts["cache"]["writable"] is True
    assert facts["check"] == {"small_gather": "right"}
    assert facts["settings"] == {"GATHERNEST_CACHE_DIR": str(tmp_path)}
    assert facts["problems"] == []


def test_entries_of_other_versions_are_counted_apart(gathernest, monkeypatch, tmp_path):
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path))
    entry = tmp_path / "0123456789abcdef" / "a-kernel"
    entry.mkdir(parents=True)
    (entry / "kernel.json").write_text("{}")
    (tmp_path / "a-folder-of-mine").mkdir()
    cache = facts_of(gathernest("doctor", "--json"))["cache"]
    assert (cache["entries_of_other_versions"], cache["size_bytes_of_other_versions"]) == (1, 2)


def test_cache_that_cannot_be_written_is_a_note(gathernest, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path / "file" / "cache"))
    ended = gathernest("doctor")
    assert ended.status == 0
    assert (
        f"note: the cache folder {tmp_path}/file/cache cannot be written (Not a directory), so every process compiles "
        "anew; set GATHERNEST_CACHE_DIR to a folder that can\n" in ended.out
    )


@pytest.mark.parametrize("package", ["numba", "llvmlite", "xdsl"])
def test_package_that_is_too_old_is_a_problem(gathernest, installed, package):
    installed(package, "0.1.2")
    ended = gathernest("doctor")
    assert ended.status == 1
    assert f"problem: {package} 0.1.2 is too old; gathernest needs " in ended.out
    assert "needs works" not in ended.out


def fail(*arguments):
    raise ValueError("No thread could be started.\nHINT: ...")


@pytest.mark.parametrize(
    ("function", "replacement", "status", "said"),
    [
        ("gather.gather", fail, 1, "a small gather failed: ValueError: No thread could be started."),
        ("gather.gather", lambda data, indices: data[:2], 1, "a small gather gave the wrong result; please report"),
        ("runtime.launch.started_threads", fail, 1, "threads do not start: No thread could be started."),
        ("runtime.launch.available_threads", lambda: 10**6, 0, " of 1000000 threads start, so large gathers run on"),
    ],
)
def test_kernels_that_do_not_work_are_found(gathernest, monkeypatch, function, replacement, status, said):
    monkeypatch.setattr(f"gathernest.kernels.{function}", replacement)
    ended = gathernest("doctor", "--json")
    assert ended.status == status
    assert any(said in text for text in facts_of(ended)["problems" if status else "notes"])


def test_setting_that_is_not_allowed_is_a_problem_once(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_NUM_THREADS", "many")
    ended = gathernest("doctor", "--json")
    assert ended.status == 1
    assert facts_of(ended)["problems"] == [
        "GATHERNEST_NUM_THREADS='many' is not allowed; set it to a whole number from 1 below 2**31"
    ]
    assert facts_of(ended)["settings"]["GATHERNEST_NUM_THREADS"] == "'many', not allowed"


def test_setting_that_does_not_exist_is_a_note(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_CACHEDIR", "x")
    ended = gathernest("doctor")
    assert ended.status == 0
    assert "note: GATHERNEST_CACHEDIR is set, and gathernest has no such setting; did you mean" in ended.out


@pytest.mark.parametrize("variable", ["GATHERNEST_INTERPRET", "GATHERNEST_ALWAYS_COMPILE"])
def test_setting_that_makes_it_slow_is_a_note(gathernest, monkeypatch, variable):
    monkeypatch.setenv(variable, "1")
    facts = facts_of(gathernest("doctor", "--json"))
    assert facts["settings"][variable] is True
    assert any(note.startswith(f"{variable} is set") for note in facts["notes"])


def test_programs_have_their_version_or_the_reason_why_they_cannot_be_used(gathernest, install):
    install("llvm-mca", "", version="LLVM version 14.0.6")
    mlir_opt = install("mlir-opt-22", "", version="LLVM version 22.1.8")
    facts = facts_of(gathernest("doctor", "--json"))["programs"]
    assert facts["mlir-opt"] == f"{mlir_opt} (22.1.8)"
    assert facts["llvm-mca"].endswith(
        "/llvm-mca is version 14.0.6, which is too old: 20 or newer is understood; on Debian and Ubuntu: apt-get "
        "install llvm-22; for cycles of hot loops"
    )
    assert facts["git"].startswith("git is not on the PATH; ")
    assert "chromium" not in facts


def test_a_program_that_cannot_have_the_compile_service_is_a_note(gathernest, monkeypatch):
    monkeypatch.setattr("sys.executable", "/opt/sheets")
    facts = facts_of(gathernest("doctor", "--json"))
    assert facts["compilation"] | {"mode": "now", "service_can_start": False} == facts["compilation"]
    assert any(note.startswith("the compile service cannot start (/opt/sheets is no Python") for note in facts["notes"])
