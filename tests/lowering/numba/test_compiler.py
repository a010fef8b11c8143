"""What a user is told of a program that the backend rejects, where its source cannot be saved."""

import os
import tempfile

import pytest

from gathernest.ir.errors import CompileError
from gathernest.lowering.numba.compiler import load_text
from gathernest.lowering.numba.program import Program

REJECTED = Program("import numba\ndef gather(:\n", (), {2: "func.func"})


def test_a_full_temporary_folder_leaves_the_error_of_the_backend(tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # a file can be made, and nothing written to it
    try:
        with pytest.raises(CompileError) as caught:
            load_text(REJECTED, "bad")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "rejected generated code at <generated source>:2: 'def gather(:', printed from func.func: " in str(
        caught.value
    )
    assert str(caught.value).endswith("; please report it (its source cannot be saved: File too large)")
    assert (caught.value.file, caught.value.line, caught.value.op) == ("<generated source>", 2, "func.func")
    assert list(tmp_path.iterdir()) == []


def test_no_temporary_folder_leaves_the_error_of_the_backend(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(CompileError, match=r"its source cannot be saved: No such file or directory"):
        load_text(REJECTED, "bad")


def test_an_error_that_comes_again_leaves_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            load_text(REJECTED, "bad")
    assert [str(path) for path in tmp_path.iterdir()] == [caught.value.file]


def test_an_interrupt_while_the_source_is_saved_leaves_no_file(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_text(REJECTED, "bad")
    assert list(tmp_path.iterdir()) == []
