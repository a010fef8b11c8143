import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from gathernest.ir.errors import CompileError
from gathernest.tools import cli
from gathernest.tools.commands import doctor
from gathernest.tools.console import terminal

SHOW = ("show", "--data", "9x4xf32", "--indices", "5xi64")


def run_process(*words: str, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gathernest.tools.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


@pytest.fixture
def failing_doctor(gathernest, monkeypatch):
    """Return a function that runs `gathernest doctor` where that raises an error, or warns."""

    def run(error: BaseException, *words: str):
        def fail(options):
            if not isinstance(error, Warning):
                raise error
            warnings.warn(error, stacklevel=1)
            return 0

        monkeypatch.setattr(doctor, "run", fail)
        return gathernest("doctor", *words)

    return run


def test_help_lists_every_command_and_each_has_an_example(gathernest):
    listed = gathernest("--help").out
    for name in ("", *cli.COMMANDS):
        ended = gathernest(*name.split(), "--help")
        assert ended.status == 0
        assert "example" in ended.out
        assert f"  gathernest {name}".rstrip() in ended.out.replace("example: ", "  ")
        assert not name or re.search(rf"^\s+{name}\s+\w+", listed, re.MULTILINE)


def test_version_names_the_package(gathernest):
    import gathernest as gn

    assert gathernest("--version").out == f"gathernest {gn.__version__}\n"


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (KeyboardInterrupt(), (130, "", "gathernest: interrupted\n")),
        (
            MemoryError("Unable to allocate 1.0 PiB"),
            (1, "", "gathernest: error: there is not enough memory: Unable to allocate 1.0 PiB\n"),
        ),
        (UserWarning("the sun is low"), (0, "", "gathernest: warning: the sun is low\n")),
        (
            FileNotFoundError(2, "No such file or directory", "there.txt"),
            (1, "", "gathernest: error: there.txt: No such file or directory\n"),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_is_one_line(failing_doctor, error, ended):
    assert failing_doctor(error) == ended


@pytest.mark.parametrize(("name", "command"), [("main", "gathernest"), ("opt", "gathernest-opt")])
def test_interrupt_of_an_import_ends_with_130_and_one_line(name, command):
    script = f"""
import os, signal, sys
from gathernest.__main__ import {name}
class Interrupting:
    def find_spec(self, name, path, target=None):
        os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.exit({name}())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, f"{command}: interrupted\n")


def test_unexpected_error_is_one_line_and_shows_its_traceback_where_asked_for(failing_doctor, temporary_folder):
    raised = ZeroDivisionError("one\ntwo \udcff")
    error = "gathernest: error: unexpected ZeroDivisionError: one; please report it with"
    assert failing_doctor(raised) == (1, "", f"{error} what --traceback shows\n")
    first, *_, last = failing_doctor(raised, "--traceback").err.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", f"{error} the lines above")
    assert list(temporary_folder.iterdir()) == []


def test_source_of_an_error_is_shown_with_its_traceback(failing_doctor):
    error = CompileError("no; please report it with what print(error.source) shows", file="<x>", source="def gather(:")
    assert failing_doctor(error).err == "gathernest: error: no; please report it with what --traceback shows\n"
    *_, source, last = failing_doctor(error, "--traceback").err.splitlines()
    assert (source, last) == ("def gather(:", "gathernest: error: no; please report it with the lines above")


def test_closed_pipe_ends_quietly_with_141():
    command = [sys.executable, "-m", "gathernest.tools.cli", *SHOW, "--stage", "all", "--schedule", ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.thorough
@pytest.mark.parametrize("closed", ["show", "opt"])
def test_closed_standard_output_is_no_crash(closed, tmp_path):
    file = tmp_path / "empty.mlir"
    file.write_text("builtin.module {}\n")
    words = {"show": ["gathernest.tools.cli", *SHOW, "--stage", "all"], "opt": ["gathernest.tools.opt", str(file)]}[
        closed
    ]
    script = 'exec "$@" >&-'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.thorough
def test_the_name_of_a_file_that_is_not_utf8_is_printed(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff"
    given = {**os.environb, b"PYTHONIOENCODING": b"utf-8:strict", b"GATHERNEST_CACHE_DIR": folder}
    command = [sys.executable, "-m", "gathernest.tools.cli", "cache"]
    ended = subprocess.run(command, capture_output=True, env=given, check=False)
    assert (ended.returncode, os.fsencode(tmp_path) + b"/?" in ended.stdout, ended.stderr) == (0, True, b"")


@pytest.mark.thorough
def test_closed_standard_error_leaves_errors_out_of_the_output():
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "gathernest.tools.cli", "nothing"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")


def test_a_terminal_without_a_size_loses_no_output(gathernest, monkeypatch):
    wanted = gathernest(*SHOW, "--stage", "list").out
    monkeypatch.setenv("COLUMNS", "0")
    assert gathernest(*SHOW, "--stage", "list").out == wanted != ""


@pytest.mark.thorough
def test_closed_standard_input_is_one_line():
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "gathernest.tools.cli", "exec", "-"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (
        1,
        "gathernest: error: standard input is closed, and - reads it; name a file\n",
    )


@pytest.mark.draw(1)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [
        ("cli", *SHOW, "--stage", "operator"),
        ("cli", "--help"),
        ("cli", "show", "--help"),
        ("cli", "--version"),
        ("opt", "--help"),
    ],
    ids=" ".join,
)
def test_full_disk_is_one_line(words, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", f"gathernest.tools.{words[0]}", *words[1:]]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    program = "gathernest" if words[0] == "cli" else "gathernest-opt"
    assert (ended.returncode, ended.stderr) == (1, f"{program}: error: No space left on device\n")


def test_encoding_without_a_character_prints_a_question_mark():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    script = (
        "import sys; from gathernest.tools.console.terminal import run_tool; "
        "sys.exit(run_tool('gathernest', lambda: print('2×3') or 0))"
    )
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "2?3\n", "")


def test_module_runs_as_a_script():
    ended = run_process("show", "--data", "9x4xf32", "--indices", "5xi64", "--stage", "operator")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "gather.gather %data, %indices axis 0" in ended.stdout


def test_help_imports_neither_numba_nor_xdsl():
    script = (
        "import sys; from gathernest.tools.cli import main; status = main(['--help']); "
        "sys.exit(status or any(name in sys.modules for name in ('numba', 'xdsl', 'rich')))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert ended.returncode == 0


@pytest.mark.parametrize(("no_color", "has_colours"), [("", True), ("1", False)])
def test_terminal_gets_colours_but_under_no_color(monkeypatch, capsys, no_color, has_colours):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal.make_console().print("title", style="bold red")
    out = capsys.readouterr().out
    assert ("\x1b[" in out) == has_colours and (has_colours or out == "title\n")


def test_text_with_brackets_prints_as_it_is(capsys):
    terminal.make_console().print("order=[/red] :smile: " + "x" * 200)
    assert capsys.readouterr().out == "order=[/red] :smile: " + "x" * 200 + "\n"


def test_progress_draws_nothing_where_no_terminal_is(capsys):
    with terminal.progress("work", 2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_its_title_its_steps_and_what_is_said(monkeypatch, capsys):
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "120", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    with terminal.progress("work", 7) as show:
        show(1)
        show(2)
    with terminal.progress("other", None) as show:
        show(done=5, total=9, said="order=[/red] {x} :smile:")
    first, last = capsys.readouterr().err.split("other", 1)
    assert "work" in first
    assert "3/7" in first
    assert "5/9" in last
    assert "order=[/red] {x} :smile:" in last


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with a name")
@pytest.mark.parametrize(
    "words",
    [
        ("build", "--so", "pipe", "--data", "9x4xf32", "--indices", "5xi64"),
        ("build", "--so", "lib.so", "--header", "pipe", "--data", "9x4xf32", "--indices", "5xi64"),
        ("report", "-o", "pipe", "--no-timing", "--data", "9x4xf32", "--indices", "5xi64"),
        ("doctor", "--calibrate", "--dry-run", "--machine-file", "pipe"),
    ],
    ids=["library", "header", "report", "machine"],
)
def test_a_pipe_is_left_alone_by_what_writes_files(gathernest, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    ended = gathernest(*words)
    assert (ended.status, ended.out) == (2, "")
    assert "pipe is a device or a pipe, no plain file; name another file" in ended.err
    assert Path("pipe").is_fifo()
