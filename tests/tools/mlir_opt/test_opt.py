import shlex
import subprocess
import sys

TILE = "nest,tile-loops{loops=indices sizes=4}"


def test_file_is_read_by_name(gathernest_opt, operator_text, tmp_path):
    path = tmp_path / "gather.mlir"
    path.write_text(operator_text)
    wanted = gathernest_opt("-", "-p", "nest", stdin=operator_text).out
    assert gathernest_opt(str(path), "-p", "nest").out == wanted
    path.write_text(operator_text, encoding="utf-8-sig")  # as some editors begin a file
    assert gathernest_opt(str(path), "-p", "nest").out == wanted


def test_stages_between_passes_parse_again(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", TILE, "--print-between-passes", stdin=operator_text)
    assert "// after tile-loops{loops=indices sizes=4}: " in ended.out
    assert ended.out.endswith(gathernest_opt("-p", TILE, stdin=operator_text).out)
    assert gathernest_opt("--split-input-file", stdin=ended.out).status == 0


def test_output_goes_to_a_file(gathernest_opt, operator_text, tmp_path):
    path = tmp_path / "out.mlir"
    assert gathernest_opt("-o", str(path), stdin=operator_text) == (0, "", "")
    assert path.read_text() == gathernest_opt(stdin=operator_text).out


def test_a_file_of_an_empty_name_is_named(gathernest_opt):
    assert gathernest_opt("").err == "gathernest-opt: error: '': No such file or directory\n"


def test_output_file_is_left_alone_after_an_error(gathernest_opt, tmp_path):
    path = tmp_path / "out.mlir"
    path.write_text("before")
    assert gathernest_opt("-o", str(path), stdin="func.func @f() { fnc.return }").status == 1
    assert path.read_text() == "before"


def test_unexpected_error_of_a_pass_is_one_line_and_repeats_from_a_file_that_is_asked_for(
    gathernest_opt, operator_text, temporary_folder
):
    broken = 'mlir-opt{executable="/nowhere/mlir-opt"}'
    words, saved = ("-p", f"canonical,{broken},cse"), temporary_folder / "failure.mlir"
    error = "gathernest-opt: error: <stdin>: pass mlir-opt: failed: ValueError: /nowhere/mlir-opt is not"
    status, out, err = gathernest_opt(*words, stdin=operator_text)
    assert (status, out, err.count("\n"), err[: len(error)]) == (1, "", 1, error)
    assert err.endswith("; please report it with the file that --reproducer FILE writes\n")
    err = gathernest_opt(*words, "--reproducer", str(saved), stdin=operator_text).err
    assert err.startswith(error) and err.endswith(f"; please report it with {saved}\n")
    assert list(temporary_folder.iterdir()) == [saved]
    run, *module = saved.read_text().splitlines(keepends=True)
    words = shlex.split(run)
    assert (words[:4], words[4]) == (["//", "RUN:", "gathernest-opt", "%s"], "-p")
    assert words[5] == f"{broken},cse"
    assert "".join(module) == gathernest_opt("-p", "canonical", stdin=operator_text).out
    again = gathernest_opt(str(saved), *words[4:], "--traceback")
    assert again.err.startswith("Traceback (most recent call last):\n")
    assert "pass mlir-opt: failed: ValueError: /nowhere/mlir-opt is not" in again.err


def test_traceback_of_an_error_of_the_input_is_shown_when_asked_for(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "nest,tile-loops{loops=rows sizes=4}", "--traceback", stdin=operator_text)
    first, *_, last = ended.err.splitlines()
    assert (first, last.partition(":")[0]) == ("Traceback (most recent call last):", "gathernest-opt")
    assert "in find_loop" in ended.err


def test_terminal_without_an_input_is_told_what_to_give(gathernest_opt):
    said = "there is no input; name a FILE, or - to type it; see 'gathernest-opt --help'"
    assert gathernest_opt(at_terminal=True) == (2, "", f"gathernest-opt: error: {said}\n")


def test_module_runs_as_a_script_and_verifies_nothing_where_it_is_told_so(gathernest_opt):
    unordered = (
        "func.func @use(%a: i64) {\n  %c = arith.addi %a, %b : i64\n  %b = arith.addi %a, %a : i64\n  func.return\n}\n"
    )
    assert gathernest_opt(stdin=unordered).status == 1
    command = [sys.executable, "-m", "gathernest.tools.opt", "--disable-verify"]
    ended = subprocess.run(command, input=unordered, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "%c = arith.addi %a, %b : i64" in ended.stdout
