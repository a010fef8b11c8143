"""What a kernel that cannot be compiled says, and what it leaves behind."""

import linecache
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from numba.core.registry import cpu_target

import gathernest as gn
from gathernest.ir.errors import CompileError
from gathernest.kernels.host.runtime import RUNTIME
from gathernest.kernels.runtime import compile
from gathernest.lowering.numba.compiler import load_text
from gathernest.lowering.numba.program import Program
from gathernest.lowering.passes.canonicalize.canonical_form import NormalizeGather

BROKEN = """from numba import njit, int64


@njit(int64(int64, int64, int64, int64))
def gather(data, indices, out, team):
    index = load_i64(indices, 0)
    return 0
"""


@pytest.fixture
def broken_backend(monkeypatch, forget, request):
    """A code generator whose program Numba rejects, beside an empty disk cache."""
    parameters = gn.compile("gather", np.arange(4.0), [0], schedule=gn.Schedule())._prepared.loaded.program.parameters
    program = Program(BROKEN, parameters, {6: "memref.load", 7: "func.return"})
    monkeypatch.setattr(compile, "build_program", lambda plan: program)
    request.getfixturevalue("cache_dir")
    forget()


@pytest.mark.parametrize("always_compile", [False, True])
def test_a_program_that_the_backend_rejects_is_a_compile_error(
    broken_backend, cache_dir, always_compile, tmp_path, temporary_folder
):
    out = np.full(2, 7.0)
    with gn.knobs.scope(always_compile=always_compile), pytest.raises(gn.CompileError) as caught:
        gn.gather(np.arange(4.0), [0, 1], out=out)
    error = caught.value
    assert (error.line, error.op) == (6, "memref.load")
    assert f"{error.file}:6" in str(error)
    assert error.source == BROKEN
    assert "'index = load_i64(indices, 0)', printed from memref.load" in str(error)
    assert str(error).endswith("; please report it with what print(error.source) shows")
    assert linecache.getline(error.file, 6) == "    index = load_i64(indices, 0)\n"
    assert pickle.loads(pickle.dumps(error)).source == BROKEN
    assert (out == 7).all()
    assert set(tmp_path.iterdir()) <= {cache_dir}


def test_take_keeps_what_a_compile_error_has_besides_its_words(broken_backend):
    with pytest.raises(gn.CompileError) as caught:
        gn.take(np.arange(4.0), [0, 1], 0)
    assert (caught.value.line, caught.value.op, caught.value.source) == (6, "memref.load", BROKEN)


def test_a_program_that_the_backend_rejects_leaves_nothing_in_the_cache(broken_backend, cache_dir):
    with pytest.raises(gn.CompileError):
        gn.gather(np.arange(4.0), [0, 1])
    assert [path for path in cache_dir.rglob("*") if path.is_file()] == []


def test_a_program_that_python_rejects_is_a_compile_error_with_its_line():
    with pytest.raises(CompileError) as caught:
        load_text(Program("import numba\ndef gather(:\n", (), {2: "func.func"}), "bad")
    assert (caught.value.line, caught.value.op) == (2, "func.func")
    assert caught.value.source == "import numba\ndef gather(:\n"
    assert str(caught.value).startswith(
        "the backend rejected generated code at <gathernest kernel bad>:2: 'def gather(:', printed from func.func: "
    )


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_compiler_stays_one(at_event, cache_dir, interrupt):
    interrupts = [interrupt]

    def interrupt_once(*arguments):
        while interrupts:
            raise interrupts.pop()

    at_event("compile", interrupt_once)  # of the generated source
    with pytest.raises(interrupt):
        gn.gather(np.arange(4.0), [0, 1])
    assert gn.gather(np.arange(4.0), [0, 1]).tolist() == [0.0, 1.0]


def test_llvm_never_calls_python_where_an_interrupt_would_be_lost(monkeypatch, cache_dir):
    called = []
    engine = cpu_target.target_context.codegen()._engine._ee
    for hook in ("_object_cache_notify", "_object_cache_getbuffer"):
        monkeypatch.setattr(engine, hook, lambda *_: called.append(1))
    assert gn.gather(np.arange(4.0), [0, 1]).tolist() == [0.0, 1.0]
    assert not called


def test_a_program_that_calls_what_is_not_there_is_a_compile_error():
    source = """
from llvmlite import ir
from numba import int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def missing(context):
    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "no_such_function"), [])

    return types.int64(), generate


signature = int64(int64, int64, int64, int64)


@njit
def gather(data, indices, out, team):
    return missing()
"""
    with pytest.raises(CompileError, match="calls no_such_function, which this process does not have"):
        load_text(Program(source, (), {}), "missing")


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [("NUMBA_DISABLE_JIT", "1", "DependencyError: NUMBA_DISABLE_JIT is set, and kernels are compiled by Numba; unset")],
)
def test_settings_of_numba_that_forbid_kernels_are_named(variable, value, message, tmp_path):
    code = "import numpy as np, gathernest as gn; gn.gather(np.zeros((999, 99)), np.zeros(9999, int))"
    settings = {**os.environ, variable: value, "GATHERNEST_CACHE_DIR": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert message in ended.stderr.splitlines()[-1]


def test_stages_of_a_kernel_from_the_cache_are_dumped_too(tmp_path, cache_dir, forget):
    for folder in ("cold", "warm"):
        forget()
        with gn.knobs.scope(dump_dir=tmp_path / folder):
            gn.gather([1.0, 2.0], [0])
        assert list((tmp_path / folder).rglob("00-operator.mlir"))


def test_a_failure_of_the_compiler_is_an_internal_error_with_its_module(
    monkeypatch, forget, cache_dir, tmp_path, temporary_folder
):
    def fails(self, ctx, op):
        raise KeyError("by design")

    monkeypatch.setattr(NormalizeGather, "apply", fails)
    with pytest.raises(
        gn.InternalError, match="normalize-gather failed: KeyError: 'by design'; please report"
    ) as caught:
        gn.gather(np.arange(4.0), [0, 1])
    assert caught.value.source.startswith("// RUN: gathernest-opt %s -p normalize-gather,")
    assert "gather.gather" in caught.value.source
    assert set(tmp_path.iterdir()) <= {cache_dir}
    assert RUNTIME.loaded == {}
