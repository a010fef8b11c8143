"""`gathernest warm` and `gathernest.warm`: which kernels are compiled ahead, where, and what is said of them."""

import json
from pathlib import Path

import pytest

import gathernest as gn
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime.disk_cache import SIDECAR
from gathernest.kernels.warm import describe, usual_kernels

ONE = {"operator": "gather", "data": "9x4xf32", "indices": "5xi64"}
WORDS = ("warm", "--data", "9x4xf32", "--indices", "5xi64")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget):
    """An empty cache, in a process that has loaded no kernel; kernels are serial, which compile quickly."""
    monkeypatch.setenv("GATHERNEST_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("GATHERNEST_SCHEDULE", " ")
    return tmp_path / "cache"


def entries(folder: Path) -> int:
    return len(list(folder.glob(f"*/*/{SIDECAR}")))


def test_the_usual_kernels_are_all_sizes_types_and_bounds_once():
    kernels = list(usual_kernels())
    assert len(kernels) == 5 * 4 * 2 * 2
    assert len({describe(arguments) for arguments in kernels}) == len(kernels)
    assert {arguments["bounds"] for arguments in kernels} == {"error", "zero"}
    assert all(gn.ArraySpec.parse(arguments["data"]).size for arguments in kernels)


def test_a_kernel_is_compiled_once_and_then_there(folder):
    first = gn.warm([ONE])
    assert [(kernel.outcome, kernel.reason) for kernel in first.kernels] == [("compiled", "")]
    assert (first.folder, entries(folder)) == (folder, 1)
    RUNTIME.loaded.clear()
    second = gn.warm([ONE])
    assert [kernel.outcome for kernel in second.kernels] == ["cached"]
    assert second.kernels[0].key == first.kernels[0].key == gn.compile(**ONE).key
    assert (second.count("cached"), second.count("compiled"), second.count("failed")) == (1, 0, 0)


def test_arguments_that_ask_for_one_kernel_have_one_entry(folder):
    result = gn.warm([ONE, {**ONE, "data": "8x3xi32"}, {**ONE, "indices": "0xi64"}])
    assert len(result.kernels) == entries(folder) == 1


def test_what_fails_is_kept_with_its_reason(folder):
    result = gn.warm([{**ONE, "axis": 7}, ONE, {"data": "9x4xf32"}, {**ONE, "axes": 3}, "9x4xf32"])
    reasons = [kernel.reason for kernel in result.kernels if kernel.outcome == "failed"]
    assert reasons[0] == "axis 7 is out of range [-2, 1] for data of rank 2"
    assert reasons[1] == "operator is missing; name the gather by operator, data and indices"
    assert reasons[2].startswith("there is no argument 'axes'; use operator, data, indices, axis,")
    assert reasons[2].endswith("; did you mean 'axis'?")
    assert reasons[3] == "a kernel to compile is a dictionary of the arguments of compile, got '9x4xf32'"
    assert (result.count("compiled"), entries(folder)) == (1, 1)


@pytest.mark.thorough
def test_several_processes_compile_into_one_folder(folder):
    asked: list[tuple[int, int]] = []
    kernels = [ONE, {**ONE, "bounds": "zero"}, {**ONE, "data": "9x4xf64"}]
    result = gn.warm(kernels, jobs=2, progress=lambda done, total, what: asked.append((done, total)))
    assert [kernel.outcome for kernel in result.kernels] == ["compiled"] * 3
    assert [describe(kernel.arguments) for kernel in result.kernels] == [describe(arguments) for arguments in kernels]
    assert entries(folder) == 3
    assert len(asked) == 3 and {total for _, total in asked} == {3}


def test_several_jobs_without_a_python_to_start_are_an_error(monkeypatch):
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(gn.GathernestError, match=r"no process that compiles can be started: .*; use jobs=1"):
        gn.warm([ONE], jobs=2)


def test_a_folder_that_cannot_be_written_is_a_failure(folder):
    folder.write_text("a file")
    with pytest.warns(UserWarning, match="cannot be written"):
        result = gn.warm([ONE])
    assert [kernel.outcome for kernel in result.kernels] == ["failed"]
    assert result.kernels[0].reason == f"the cache folder {folder} cannot be written"


@pytest.mark.parametrize("setting", ["always_compile", "interpret"])
def test_nothing_is_warmed_where_nothing_is_kept(setting):
    with gn.knobs.scope(**{setting: True}), pytest.raises(gn.GathernestError, match="is set, so no kernel is kept"):
        gn.warm([ONE])


def test_the_command_says_what_it_compiled_and_where(gathernest, folder, unnamed_machine):
    ended = gathernest(*WORDS, "--jobs", "1")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("1 compiled, 0 there already, 0 failed, in ")
    said, offer = ended.out.splitlines()
    assert said.endswith(f" s; the cache is {folder}")
    assert offer.startswith("this machine is not measured: gathernest doctor --calibrate lets ")
    RUNTIME.loaded.clear()
    facts = json.loads(gathernest(*WORDS, "--jobs", "1", "--json").out)
    (kernel,) = facts["kernels"]
    assert (kernel["outcome"], kernel["reason"], facts["folder"]) == ("cached", "", str(folder))


def test_the_list_compiles_nothing(gathernest, folder):
    ended = gathernest("warm", "--list")
    assert ended.out.splitlines()[0] == "gather 100000x64xf32 by 10000xi64, axis 0, bounds error"
    assert len(json.loads(gathernest("warm", "--list", "--json").out)["kernels"]) == len(ended.out.splitlines()) == 80
    assert not folder.exists()


def test_a_failure_is_the_exit_status(gathernest):
    ended = gathernest(*WORDS, "--axis", "7")
    assert ended.status == 1
    assert ended.out.startswith("failed: gather 9x4xf32 by 5xi64, axis 7, ")
    assert "axis 7 is out of range [-2, 1] for data of rank 2\n0 compiled, 0 there already, 1 failed" in ended.out


def test_a_models_kernels_are_compiled(gathernest, folder, tmp_path):
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 10, opset_import: ["": 21]>
        lookup (float[9, 4] table, int64[5] rows) => (float[5, 4] picked) { picked = Gather (table, rows) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "lookup.onnx")
    words = "warm", "--for", str(tmp_path / "lookup.onnx")
    assert gathernest(*words).out.startswith("1 compiled, 0 there already, 0 failed, in ")
    assert entries(folder) == 1
    RUNTIME.loaded.clear()
    RUNTIME.prepared.clear()
    assert gathernest(*words).out.startswith("0 compiled, 1 there already, 0 failed, in ")
