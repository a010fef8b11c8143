"""What a user is told of a program that the backend rejects, where its source cannot be saved."""

import os

import pytest

from gathernest.ir.errors import CompileError
from gathernest.lowering.numba.compiler import load_text
from gathernest.lowering.numba.program import Program

REJECTED = Program("import numba\ndef gather(:\n", (), {2: "func.func"})


def test_a_full_temporary_folder_leaves_the_error_of_the_backend(temporary_folder):
    resource = pytest.importorskip("resource")
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
    assert list(temporary_folder.iterdir()) == []


def test_no_temporary_folder_leaves_the_error_of_the_backend(temporary_folder):
    temporary_folder.rmdir()
    with pytest.raises(CompileError, match=r"its source cannot be saved: No such file or directory"):
        load_text(REJECTED, "bad")


def test_an_error_that_comes_again_leaves_one_file(temporary_folder):
    for _ in range(3):
        with pytest.raises(CompileError) as caught:
            load_text(REJECTED, "bad")
    assert [str(path) for path in temporary_folder.iterdir()] == [caught.value.file]


def test_an_interrupt_while_the_source_is_saved_leaves_no_file(temporary_folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_text(REJECTED, "bad")
    assert list(temporary_folder.iterdir()) == []
