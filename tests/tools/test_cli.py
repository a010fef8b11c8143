import io
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from rich.console import Console

from gathernest.ir.errors import CompileError
from gathernest.tools import cli
from gathernest.tools.console import terminal
from gathernest.tools.machine import doctor

SHOW = ("show", "--data", "9x4xf32", "--indices", "5xi64")


def run_process(*words: str, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gathernest.tools.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


def fail_with(error: BaseException):
    def run(options):
        raise error

    return run


def test_help_lists_every_command(gathernest):
    ended = gathernest("--help")
    assert ended.status == 0
    for name in ("demo", "run", "show", "cache", "bench", "doctor"):
        assert re.search(rf"^\s+{name}\s+\w+", ended.out, re.MULTILINE)


@pytest.mark.parametrize("command", [[], ["demo"], ["run"], ["show"], ["cache"], ["bench"], ["doctor"]])
def test_help_has_an_example(gathernest, command):
    ended = gathernest(*command, "--help")
    assert ended.status == 0
    assert "example" in ended.out
    assert f"  gathernest {' '.join(command)}".rstrip() in ended.out.replace("example: ", "  ")


def test_version_names_the_package(gathernest):
    import gathernest as gn

    assert gathernest("--version").out == f"gathernest {gn.__version__}\n"


def test_no_command_prints_the_help_and_fails(gathernest):
    ended = gathernest()
    assert ended.status == 2
    assert ended.out == ""
    assert "usage: gathernest" in ended.err


def test_unknown_command_is_rejected_with_the_close_one(gathernest):
    ended = gathernest("shwo", "--data", "9xf32")
    assert ended.status == 2
    assert ended.err == (
        f"gathernest: error: there is no command 'shwo'; the commands are {', '.join(cli.COMMANDS)}; "
        "did you mean 'show'?\n"
    )


def test_unknown_option_is_rejected_with_the_close_one(gathernest):
    ended = gathernest(*SHOW, "--stge", "all")
    assert ended.status == 2
    assert ended.err == (
        "gathernest: error: there is no option --stge; did you mean '--stage'? See 'gathernest show --help'\n"
    )


def test_unknown_option_comes_before_the_ones_it_leaves_missing(gathernest):
    ended = gathernest("show", "--dat", "9x4xf32", "--indices", "5xi64")
    assert "there is no option --dat; did you mean '--data'?" in ended.err


def test_unknown_option_before_the_command_is_rejected(gathernest):
    ended = gathernest("--jsn", "doctor")
    assert ended.status == 2
    assert "there is no option --jsn" in ended.err


def test_missing_option_is_named(gathernest):
    ended = gathernest("show", "--data", "9x4xf32")
    assert ended.status == 2
    assert ended.err == ("gathernest: error: --indices is missing; name the gather with --data and --indices\n")


def test_option_of_the_wrong_kind_is_named(gathernest):
    ended = gathernest(*SHOW, "--axis", "first")
    assert ended.status == 2
    assert ended.err == (
        "gathernest: error: argument --axis: expected a whole number, got 'first'; see 'gathernest show --help'\n"
    )


def test_surplus_word_is_named(gathernest):
    ended = gathernest("doctor", "now")
    assert ended.status == 2
    assert "unrecognized arguments: now" in ended.err


@pytest.mark.parametrize("text", ["0", "-3", "many", "1.5"])
def test_count_that_is_not_positive_is_rejected(gathernest, text):
    ended = gathernest("demo", f"--rounds={text}")
    assert ended.status == 2
    assert f"argument --rounds: expected a whole number from 1, got {text!r}" in ended.err


def test_interrupt_ends_with_130_and_one_line(gathernest, monkeypatch):
    monkeypatch.setattr(doctor, "run", fail_with(KeyboardInterrupt()))
    assert gathernest("doctor") == (130, "", "gathernest: interrupted\n")


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


def test_operating_system_error_names_the_file(gathernest, monkeypatch):
    monkeypatch.setattr(doctor, "run", fail_with(FileNotFoundError(2, "No such file or directory", "there.txt")))
    assert gathernest("doctor") == (1, "", "gathernest: error: there.txt: No such file or directory\n")


def test_lack_of_memory_is_one_line(gathernest, monkeypatch):
    monkeypatch.setattr(doctor, "run", fail_with(MemoryError("Unable to allocate 1.0 PiB")))
    ended = gathernest("doctor")
    assert (ended.status, ended.err) == (
        1,
        "gathernest: error: there is not enough memory: Unable to allocate 1.0 PiB\n",
    )


def test_unexpected_error_is_one_line_and_shows_its_traceback_where_asked_for(
    gathernest, monkeypatch, temporary_folder
):
    monkeypatch.setattr(doctor, "run", fail_with(ZeroDivisionError("one\ntwo \udcff")))
    error = "gathernest: error: unexpected ZeroDivisionError: one; please report it with"
    assert gathernest("doctor") == (1, "", f"{error} what --traceback shows\n")
    first, *_, last = gathernest("doctor", "--traceback").err.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", f"{error} the lines above")
    assert list(temporary_folder.iterdir()) == []


def test_source_of_an_error_is_shown_with_its_traceback(gathernest, monkeypatch):
    error = CompileError("no; please report it with what print(error.source) shows", file="<x>", source="def gather(:")
    monkeypatch.setattr(doctor, "run", fail_with(error))
    assert gathernest("doctor").err == "gathernest: error: no; please report it with what --traceback shows\n"
    *_, source, last = gathernest("doctor", "--traceback").err.splitlines()
    assert (source, last) == ("def gather(:", "gathernest: error: no; please report it with the lines above")


def test_warning_is_one_line_without_its_source(gathernest, monkeypatch):
    def run(options):
        warnings.warn("the sun is low", stacklevel=1)
        return 0

    monkeypatch.setattr(doctor, "run", run)
    assert gathernest("doctor") == (0, "", "gathernest: warning: the sun is low\n")


def test_setting_that_is_not_allowed_is_one_line(gathernest, monkeypatch):
    monkeypatch.setenv("GATHERNEST_SCHEDULE", "tile{}")
    ended = gathernest(*SHOW)
    assert ended.status == 1
    assert ended.err.startswith("gathernest: error: GATHERNEST_SCHEDULE: 'tile' is not a pass of a schedule")
    assert ended.err.count("\n") == 1


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
    words = {
        "show": ["gathernest.tools.cli", *SHOW, "--stage", "all"],
        "opt": ["gathernest.tools.mlir_opt.opt", str(file)],
    }[closed]
    script = 'exec "$@" >&-'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


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
        ("mlir_opt.opt", "--help"),
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


def test_terminal_gets_colours(monkeypatch, capsys):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal.make_console().print("title", style="bold")
    assert "\x1b[" in capsys.readouterr().out


def test_terminal_gets_no_colours_under_no_color(monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    terminal.make_console().print("title", style="bold red")
    assert capsys.readouterr().out == "title\n"


def test_text_with_brackets_prints_as_it_is(capsys):
    terminal.make_console().print("order=[/red] :smile: " + "x" * 200)
    assert capsys.readouterr().out == "order=[/red] :smile: " + "x" * 200 + "\n"


def test_progress_draws_nothing_where_no_terminal_is(capsys):
    with terminal.progress("work", 2) as advance:
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_progress_shows_its_title_its_steps_and_what_is_said(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120, color_system=None)
    monkeypatch.setattr(terminal, "make_console", lambda stderr: console)
    with terminal.progress("work", 7) as show:
        show(1)
        show(2)
    with terminal.progress("other", None) as show:
        show(done=5, total=9, said="order=[/red] {x} :smile:")
    first, last = screen.getvalue().split("other", 1)
    assert "work" in first
    assert "3/7" in first
    assert "5/9" in last
    assert "order=[/red] {x} :smile:" in last


def test_main_takes_its_words_from_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gathernest", "--version"])
    assert cli.main() == 0
    assert capsys.readouterr().out.startswith("gathernest ")
