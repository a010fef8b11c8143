"""`gathernest build`: the library of docs/function_pointers.md in its C program, CPUs, and every wrong command line."""

import ctypes
import json
import os
import platform
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from gathernest.kernels.c_functions.library import machine_for, target_named
from gathernest.tools import cli

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "function_pointers.md").read_text().partition("## A shared")[2]
PROBLEM = ("--data", "9x8xf32", "--indices", "5xi64")
# The sizes of this one leave nothing to compile.
EMPTY = ("--data", "0x4xf32", "--indices", "5xi64")
ZEROS = ("--and", "--bounds", "zero", "--data", "0x2xi8", "--indices", "3xi32")


def block(language: str) -> str:
    """Return the first block of that language on the part of the page about libraries."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", "")


@pytest.fixture(scope="module")
def compiler(program) -> str:
    return program("cc")


@pytest.fixture(scope="module")
def folder(compiler, tmp_path_factory) -> Path:
    """A folder with the page's library, header and program."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "main.c").write_text(block("c"))
    command = block("sh").splitlines()[0].partition("gathernest ")[2]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main(shlex.split(command)) == 0
    return folder


def test_the_pages_program_runs_with_strict_c_and_gives_what_it_says(folder, compiler):
    options = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
    subprocess.run([compiler, *options, "-o", "main", "main.c", "./liblookup.so"], cwd=folder, check=True)
    ended = subprocess.run(["./main"], cwd=folder, capture_output=True, text=True, check=True)
    assert ended.stdout == "14.5 999.5\n49950.0\n1 out of range, out is still 14.5\n"


def test_the_header_is_one_of_cpp_and_may_be_included_twice(folder, program):
    (folder / "twice.cpp").write_text('#include "liblookup.h"\n#include "liblookup.h"\nlookup_t pointer = lookup;\n')
    subprocess.run([program("c++"), "-Wall", "-Werror", "-fsyntax-only", "twice.cpp"], cwd=folder, check=True)


def test_the_library_needs_nothing_but_c_and_has_only_its_functions(folder, program):
    command = [program("nm"), "-D", "liblookup.so"]
    listed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    names = {kind: set(re.findall(rf" {kind} (\w+)", listed)) for kind in "UT"}
    assert names["T"] == {"lookup", "gn_gather_grad_1000x64xf32_by_100xi64"}
    assert names["U"] <= {"memcpy", "memmove", "memset"}


def test_a_gradient_that_sorts_its_indices_is_built_too(gathernest, compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("GATHERNEST_SCHEDULE", "group-indices{loop=indices}")
    out = tmp_path / "libsorted.so"
    words = ("--operator", "gather_grad", "--data", "9x4xf32", "--indices", "30xi64", "--name", "add", "--any-count")
    assert gathernest("build", "--so", str(out), *words).status == 0
    grad, indices = np.random.default_rng(0).random((20, 4), np.float32), np.arange(20) % 7 - 3
    sums = np.full((9, 4), 7, np.float32)
    addresses = (ctypes.c_void_p(array.ctypes.data) for array in (grad, indices, sums))
    assert ctypes.CDLL(str(out)).add(*addresses, ctypes.c_int64(20)) == 0
    wanted = np.zeros_like(sums)
    np.add.at(wanted, indices, grad)
    assert sums.tobytes() == wanted.tobytes()


def test_each_problem_has_options_of_its_own(gathernest, compiler, tmp_path):
    out, header = tmp_path / "libempty.so", tmp_path / "empty.h"
    common = ("--so", str(out), "--header", str(header), "--json")
    ended = gathernest("build", *common, *EMPTY, "--name", "five", *ZEROS)
    assert (ended.status, ended.err) == (0, "")
    said = json.loads(ended.out)
    assert (said["library"], said["header"]) == (str(out), str(header))
    assert [each["prototype"] for each in said["functions"]] == [
        "int64_t five(const float *data, const int64_t *indices, float *out)",
        "int64_t gn_gather_0x2xi8_by_3xi32_zero(const int8_t *data, const int32_t *indices, int8_t *out)",
    ]
    assert all(f"{each['prototype']};" in header.read_text() for each in said["functions"])
    library, rows = ctypes.CDLL(str(out)), np.full((3, 2), 7, np.int8)
    assert library.five(None, None, None) == 5
    assert library.gn_gather_0x2xi8_by_3xi32_zero(None, None, ctypes.c_void_p(rows.ctypes.data)) == 0
    assert not rows.any()


@pytest.fixture(scope="module")
def counted(compiler, tmp_path_factory) -> ctypes.CDLL:
    """A library of functions that take the number of indices; the code of `few` would be one for 4 of them."""
    out = tmp_path_factory.mktemp("counted") / "lib.so"
    words = ("--data", "50x3xf64", "--axis", "1", "--indices", "4xi8", "--any-count", "--name", "few")
    words += ("--and", "--operator", "gather_grad", "--data", "9x4xf32", "--indices", "6x2xi64", "--scale", "0.5")
    assert cli.main(["build", "--so", str(out), *words, "--any-count"]) == 0
    header = out.with_suffix(".h").read_text()
    assert " *   indices: countxi8\n *   out: 50xcountxf64\n *   count: 0 or more; compiled for about 4\n" in header
    name = "gn_gather_grad_9x4xf32_by_nx2xi64_scale0p5"
    assert f"int64_t {name}(const float *grad, const int64_t *indices, float *out, int64_t count);" in header
    library = ctypes.CDLL(str(out))
    library.gradient = library[name]
    for function in (library.few, library.gradient):
        function.argtypes, function.restype = (*[ctypes.c_void_p] * 3, ctypes.c_int64), ctypes.c_int64
    return library


def call(function, *arrays: np.ndarray, count: int) -> int:
    return function(*(array.ctypes.data for array in arrays), count)


@pytest.mark.parametrize("count", [0, 1, 4, 300])
def test_a_function_of_any_count_gathers_as_many_and_checks_them(counted, count):
    rng = np.random.default_rng(count)
    data, indices = rng.random((50, 3)), rng.integers(-3, 3, count).astype(np.int8)
    out = np.full((50, count), 7.0)
    assert call(counted.few, data, indices, out, count=count) == 0
    assert out.tobytes() == np.take(data, indices, 1).tobytes()
    out[...], indices[count // 2 :] = 7, 3
    assert call(counted.few, data, indices, out, count=count) == count - count // 2
    assert np.all(out == 7) or not count


@pytest.mark.parametrize("count", [-1, 0, 1, 6, 40])
def test_a_gradient_of_any_count_is_zeros_for_none(counted, count):
    rng, expected = np.random.default_rng(count % 9), np.zeros((9, 4), np.float32)
    grad = rng.integers(0, 9, (max(count, 0), 2, 4)).astype(np.float32)
    indices, out = rng.integers(0, 9, grad.shape[:2]), np.full((9, 4), 7, np.float32)
    np.add.at(expected, indices, grad / 2)
    assert call(counted.gradient, grad, indices, out, count=count) == 0
    assert out.tobytes() == expected.tobytes()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names CPUs of x86-64")
def test_a_library_has_the_instructions_of_its_cpu(gathernest, compiler, program, tmp_path, monkeypatch):
    objdump = program("objdump")
    monkeypatch.setenv("GATHERNEST_SCHEDULE", "vectorize-inner{lanes=8}")
    registers = {}
    for cpu in ("x86-64", "znver3"):
        out = tmp_path / f"{cpu}.so"
        ended = gathernest("build", "--so", str(out), "--cpu", cpu, *PROBLEM)
        assert (ended.status, ended.err) == (0, "")
        assert ended.out.endswith(f"{out.with_suffix('.h')}, for {cpu}, one thread a call\n")
        assembly = subprocess.run([objdump, "-d", str(out)], capture_output=True, text=True, check=True).stdout
        registers[cpu] = set(re.findall(r"%([xyz]mm)\d", assembly))
    assert registers == {"x86-64": {"xmm"}, "znver3": {"ymm"}}


def test_schedules_are_chosen_for_a_cpu_like_the_target(monkeypatch, unnamed_machine):
    named = {"znver2": "zen3", "znver5": "zen4", "sapphirerapids": "xeon-avx512", "haswell": "avx2", "native": None}
    assert {cpu: machine_for(cpu) for cpu in named} == named
    monkeypatch.setenv("GATHERNEST_MACHINE", "zen4")
    assert str(machine_for("haswell")) == "zen4"
    assert target_named(None) == target_named("native")


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("", 0o644, "gathernest build needs a C compiler: {cc} is not executable; on Debian and Ubuntu: "),
        ("#!/no/such/shell\n", 0o755, "{cc} cannot link lib.so: it cannot be run (No such file or directory); set CC"),
        ("#!/bin/sh\nexit 3\n", 0o755, "{cc} cannot link lib.so: it ends with status 3 and writes no file; set CC"),
        ("#!/bin/sh\necho nonsense\n", 0o755, "{cc} cannot link lib.so: it ends with status 0 and writes no file; set"),
    ],
)
def test_a_program_that_is_no_c_compiler_is_one_line(gathernest, tmp_path, monkeypatch, text, mode, message):
    compiler = tmp_path / "cc"
    compiler.write_text(text)
    compiler.chmod(mode)
    monkeypatch.setenv("CC", str(compiler))
    ended = gathernest("build", "--so", str(tmp_path / "lib.so"), *EMPTY)
    assert ended.status == 1
    assert ended.err.startswith(f"gathernest: error: {message.format(cc=compiler)}")
    assert ended.err.count("\n") == 1


def test_a_library_may_have_a_name_that_is_not_utf8(gathernest, compiler, tmp_path):
    library = tmp_path / os.fsdecode(b"\xff.so")
    assert gathernest("build", "--so", str(library), *EMPTY).err == ""
    assert library.exists()
    assert ", in ?.so." in library.with_suffix(".h").read_text(encoding="utf-8").splitlines()[0]


def test_a_linker_that_fails_leaves_what_was_there(gathernest, compiler, tmp_path, monkeypatch):
    linker = tmp_path / "broken-cc"
    linker.write_text("#!/bin/sh\necho 'ld: cannot do it' >&2\nexit 1\n")
    linker.chmod(0o755)
    monkeypatch.setenv("CC", str(linker))
    out = tmp_path / "lib.so"
    out.write_text("there before")
    ended = gathernest("build", "--so", str(out), *EMPTY)
    assert (ended.status, ended.err) == (1, f"gathernest: error: {linker} cannot link lib.so: ld: cannot do it\n")
    assert out.read_text() == "there before"
    assert {path.name for path in tmp_path.iterdir()} == {"lib.so", "broken-cc"}
