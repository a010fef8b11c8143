"""The engine `upstream`: stages of every level run by upstream's tools, with and without LLVM's own programs."""

import dataclasses
import os
import subprocess

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir.errors import CompileError, DependencyError
from gathernest.ir.modules.context import parse_module
from gathernest.lowering.upstream import machine_code as tools
from gathernest.lowering.upstream.machine_code import compile_upstream
from gathernest.playground import stage as engines
from gathernest.tools import cli

DATA = np.arange(40, dtype=np.float32).reshape(5, 8)
INDICES = np.array([[1, -1], [3, 0]])
SCHEDULE = "tile-loops{loops=indices sizes=3},vectorize-inner{lanes=4}"
CALLS = """func.func private @no_such_function_anywhere()
func.func @gather(%data: memref<5x8xi32>, %indices: memref<2x2xi64>, %out: memref<2x2x8xi32>) {
  func.call @no_such_function_anywhere() : () -> ()
  func.return
}
"""


@pytest.fixture(params=["with opt and llc", "by llvmlite"])
def installed(request, upstream, monkeypatch) -> tools.Tools:
    """The tools of this machine, with LLVM's own or as if they were missing; asks for `upstream`, which may skip."""
    found = tools.find_tools()
    if request.param == "by llvmlite":
        found = dataclasses.replace(found, opt=None, llc=None)
    elif found.opt is None or found.llc is None:
        pytest.skip("opt and llc are not installed; the other case runs")
    monkeypatch.setattr(engines, "find_tools", lambda: found)
    return found


@pytest.mark.draw(1)
@pytest.mark.parametrize("stage", ["operator", "fold-bounds", "vectorize-inner", "cse"])
def test_every_level_gives_the_bytes_of_the_gather(installed, stage):
    text = gn.compile("gather", DATA, INDICES, schedule=SCHEDULE).stages[stage]
    assert gn.run_stage(text, DATA, INDICES, engine="upstream").tobytes() == gn.gather(DATA, INDICES).tobytes()


def test_sums_have_only_instructions_of_this_cpu(installed):
    kernel = gn.compile("gather_reduce", np.zeros((9, 64), np.float32), INDICES, schedule="")
    data = np.arange(9 * 64, dtype=np.float32).reshape(9, 64)
    got = gn.run_stage(kernel.stages["cse"], data, INDICES, operator="gather_reduce", engine="upstream")
    assert got.tobytes() == gn.gather_reduce(data, INDICES).tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize(("dtype", "scale"), [("f4", 0.5), ("f8", 0.1), ("i2", -3), ("u1", 255)])
def test_gradient_takes_its_scale(upstream, dtype, scale):
    grad, indices = np.arange(12).reshape(3, 4).astype(dtype), np.array([4, 1, 4])
    kernel = gn.compile("gather_grad", np.zeros((5, 4), dtype), indices, scale=scale)
    options = {"operator": "gather_grad", "data_shape": (5, 4), "scale": scale, "engine": "upstream"}
    assert gn.run_stage(kernel.stages["cse"], grad, indices, **options).tobytes() == kernel(grad, indices).tobytes()


def test_index_outside_is_an_error(upstream):
    text = gn.compile("gather", DATA, INDICES).stages["cse"]
    with pytest.raises(gn.BoundsError, match="1 index is out of range"):
        gn.run_stage(text, DATA, [[1, 5], [0, 0]], engine="upstream")


def test_function_that_is_nowhere_is_an_error(upstream):
    with pytest.raises(CompileError, match="calls no_such_function_anywhere, which this process does not have"):
        gn.run_stage(CALLS, DATA, INDICES, engine="upstream", pipeline="")


def test_what_a_tool_rejects_is_an_error_with_its_place(upstream, tmp_path):
    tool = tmp_path / "mlir-opt"
    tool.write_text("#!/bin/sh\necho '<stdin>:3:5: error: no' >&2\nexit 1\n")
    tool.chmod(0o755)
    module = parse_module(gn.compile("gather", DATA, INDICES).stages["cse"])
    with pytest.raises(CompileError, match=r"^mlir-opt rejects the module: <stdin>:3:5: error: no$"):
        compile_upstream(module, dataclasses.replace(tools.find_tools(), mlir_opt=str(tool)))


@pytest.mark.parametrize(
    ("mlir_opt", "translate", "reason"),
    [
        ("exit 3", "", "mlir-opt rejects the module: it ended with status 3"),
        ("kill -SEGV $$", "", "mlir-opt rejects the module: it ended with status -11"),
        ("exec /bin/sleep 1000", "", "mlir-opt rejects the module: it takes more than 0.1 s"),
        ("printf '\\377'", "echo nonsense", "LLVM cannot read the output of mlir-translate: LLVM IR "),
        ("printf '\\377'", "printf '\\377\\0'", "LLVM cannot read the output of mlir-translate: LLVM IR "),
    ],
)
def test_tools_that_do_something_else_are_one_error(install, monkeypatch, mlir_opt, translate, reason):
    monkeypatch.setattr(tools, "MOST_SECONDS", 0.1 if "sleep" in mlir_opt else tools.MOST_SECONDS)
    for name, script in (("mlir-opt", mlir_opt), ("mlir-translate", translate)):
        install(name, script, version=f"LLVM version {tools.LLVM_MAJOR}.1.0")
    module = parse_module(gn.compile("gather", DATA, INDICES).stages["cse"])
    with pytest.raises(CompileError, match=f"^{reason}"):
        compile_upstream(module, tools.find_tools())


def test_command_makes_the_assembly(installed):
    code = compile_upstream(parse_module(gn.compile("gather", DATA, INDICES).stages["cse"]), installed)
    made = subprocess.run(code.command, shell=True, input=code.mlir, capture_output=True, text=True, check=True).stdout
    assert made == (code.llvm_ir if installed.llc is None else code.assembly)
    assert bool(code.remark) == (installed.llc is None)


def test_exec_runs_it(upstream, tmp_path, capsys):
    assert cli.main(["show", "--data", "5x4xf32", "--indices", "3xi64", "--stage", "operator"]) == 0
    (tmp_path / "stage.mlir").write_text(capsys.readouterr().out)
    assert cli.main(["exec", str(tmp_path / "stage.mlir"), "--engine", "upstream"]) == 0
    assert "upstream gives the bytes of reference" in capsys.readouterr().out


def test_missing_tools_are_one_message(install):
    with pytest.raises(DependencyError, match=r"^mlir-opt and mlir-translate of LLVM \d+, .* apt-get install mlir-"):
        tools.find_tools()


def test_tools_of_another_llvm_need_its_own_back_end(install):
    for name in ("mlir-opt-97", "mlir-translate-97"):
        install(name, "", version="LLVM version 97.1.0")
    with pytest.raises(DependencyError, match=r"/mlir-opt-97 is version 97\.1\.0, and \d+ is needed; "):
        tools.find_tools()
    for name in ("opt", "llc"):
        install(name, "", version="LLVM version 97.1.0")
    found = tools.find_tools()
    assert (found.major, os.path.basename(found.mlir_opt), os.path.basename(found.llc or "")) == (
        97,
        "mlir-opt-97",
        "llc",
    )


def test_tools_of_llvmlite_go_first_and_then_the_newest(install):
    for major in (97, 98, tools.LLVM_MAJOR):
        for name in ("mlir-opt", "mlir-translate", "opt", "llc"):
            install(f"{name}-{major}", "", version=f"LLVM version {major}.1.0")
    assert tools.find_tools().major == tools.LLVM_MAJOR
    install(f"mlir-opt-{tools.LLVM_MAJOR}", "", mode=0o644)
    assert tools.find_tools().major == 98
