import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from xdsl.ir import Attribute

from gathernest.tools.mlir_opt import opt

INVALID = """func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  // expected-error @+1 {{axis 7 is out of range [-2, 1]}}
  %result = gather.gather %data, %indices axis 7 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
"""
UNORDERED = """func.func @use(%a: i64) {
  %c = arith.addi %a, %b : i64  // expected-error {{to be defined before its use}}
  %b = arith.addi %a, %a : i64
  func.return
}
"""
TILE = "nest,tile-loops{loops=indices sizes=4}"


def test_help_says_how_diagnostics_are_checked(gathernest_opt):
    ended = gathernest_opt("--help")
    assert ended.status == 0
    assert "examples:\n  gathernest-opt gather.mlir -p default\n" in ended.out
    assert "// expected-error {{part of its text}}" in ended.out


def test_module_without_passes_prints_as_it_was_read(gathernest_opt, operator_text):
    ended = gathernest_opt(stdin=operator_text)
    assert (ended.status, ended.err) == (0, "")
    assert gathernest_opt(stdin=ended.out).out == ended.out


def test_file_is_read_by_name(gathernest_opt, operator_text, tmp_path):
    path = tmp_path / "gather.mlir"
    path.write_text(operator_text)
    assert gathernest_opt(str(path), "-p", "nest").out == gathernest_opt("-", "-p", "nest", stdin=operator_text).out


def test_named_pipeline_and_passes_run_in_order(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", TILE, stdin=operator_text)
    assert ended.status == 0
    assert "gather.loop indices_o(%i_o)" in ended.out


def test_target_numba_prints_the_source(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "default", "-t", "numba", stdin=operator_text)
    assert ended.status == 0
    compile(ended.out, "kernel.py", "exec")
    assert "def gather(" in ended.out


def test_target_numba_of_an_operator_says_what_to_run(gathernest_opt, operator_text):
    ended = gathernest_opt("-t", "numba", stdin=operator_text)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        "gathernest-opt: error: <stdin>: -t numba: the code generator prints loops, and the module still has "
        "gather.gather; lower it first, for instance with -p default\n"
    )


def test_target_numba_of_two_functions_is_rejected(gathernest_opt):
    two = "func.func @a() { func.return }\nfunc.func @b() { func.return }\n"
    ended = gathernest_opt("-t", "numba", stdin=two)
    assert ended.status == 1
    assert "-t numba: the code generator expects one function, got 2" in ended.err


def test_generic_syntax_is_printed_and_read(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "nest", "--print-op-generic", stdin=operator_text)
    assert '"gather.loop"(' in ended.out
    assert gathernest_opt(stdin=ended.out).out == gathernest_opt("-p", "nest", stdin=operator_text).out


def test_stages_between_passes_parse_again(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", TILE, "--print-between-passes", stdin=operator_text)
    assert "// after tile-loops{loops=indices sizes=4}: " in ended.out
    assert ended.out.endswith(gathernest_opt("-p", TILE, stdin=operator_text).out)
    assert gathernest_opt("--split-input-file", stdin=ended.out).status == 0


def test_stages_before_a_pass_that_fails_are_printed(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "nest,tile-loops{loops=rows sizes=4}", "--print-between-passes", stdin=operator_text)
    assert ended.status == 1
    assert "// after fold-bounds: " in ended.out


def test_source_follows_the_stages(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "default", "-t", "numba", "--print-between-passes", stdin=operator_text)
    assert ended.out.index("// after cse") < ended.out.index("def gather(")


def test_times_go_to_standard_error(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "canonical", "--time-passes", stdin=operator_text)
    assert ended.out == gathernest_opt("-p", "canonical", stdin=operator_text).out
    names = [line.split(" ms  ")[1] for line in ended.err.splitlines()]
    assert names == ["normalize-gather", "erase-element-type", "bufferize-gather", "collapse-dims", "in all"]


def test_output_goes_to_a_file(gathernest_opt, operator_text, tmp_path):
    path = tmp_path / "out.mlir"
    assert gathernest_opt("-o", str(path), stdin=operator_text) == (0, "", "")
    assert path.read_text() == gathernest_opt(stdin=operator_text).out


def test_output_file_is_left_alone_after_an_error(gathernest_opt, tmp_path):
    path = tmp_path / "out.mlir"
    path.write_text("before")
    assert gathernest_opt("-o", str(path), stdin=INVALID).status == 1
    assert path.read_text() == "before"


def test_list_names_passes_with_their_summary_and_pipelines(gathernest_opt):
    ended = gathernest_opt("--list-passes")
    assert ended.status == 0
    assert "  tile-loops             Split loops into tiles" in ended.out
    assert "  nest                   normalize-gather, " in ended.out
    assert "canonicalize" in ended.out


def test_parse_error_has_file_line_column_and_caret(gathernest_opt, tmp_path):
    path = tmp_path / "bad.mlir"
    path.write_text("func.func @f() {\n\tfnc.return\n}\n")
    ended = gathernest_opt(str(path))
    assert ended.status == 1
    first, line, caret = ended.err.splitlines()
    assert first.startswith(f"gathernest-opt: error: {path}:2:")
    assert line[caret.index("^") : caret.rindex("^") + 1] == "fnc.return"
    assert "Traceback" not in ended.err


def test_unknown_operation_is_rejected_with_the_close_one(gathernest_opt, operator_text):
    ended = gathernest_opt(stdin=operator_text.replace("gather.gather", "gather.gathr"))
    first, line, caret = ended.err.splitlines()
    assert first == (
        "gathernest-opt: error: <stdin>:2:13: Operation gather.gathr is not registered; did you mean 'gather.gather'?"
    )
    assert line[caret.index("^") : caret.rindex("^") + 1] == "gather.gathr"


def test_verify_error_has_file_line_column_and_caret(gathernest_opt):
    ended = gathernest_opt(stdin=INVALID)
    first, line, caret = ended.err.splitlines()
    assert first == (
        "gathernest-opt: error: <stdin>:3:13: gather.gather: axis 7 is out of range [-2, 1] for data of rank 2"
    )
    assert line[caret.index("^") : caret.rindex("^") + 1] == "gather.gather"


@pytest.mark.parametrize("before", [0, 30, 500])
@pytest.mark.parametrize("behind", [0, 30, 500])
def test_long_line_is_cut_around_its_caret(gathernest_opt, before, behind):
    text = f"func.func @f() {{ func.return }}{' ' * before} wrong.word {'x' * behind}"
    _, line, caret = gathernest_opt(stdin=text).err.splitlines()
    assert max(len(line), len(caret)) <= 100
    assert line[caret.index("^") : caret.rindex("^") + 1] == "wrong.word"


def test_error_names_its_line_of_a_use_before_definition(gathernest_opt):
    ended = gathernest_opt(stdin=UNORDERED)
    assert ended.err.splitlines()[0] == (
        "gathernest-opt: error: <stdin>:2:8: arith.addi: expected operand #1 (%b) to be defined before its use"
    )


def test_error_names_the_place_where_an_undefined_value_is_used(gathernest_opt, operator_text):
    ended = gathernest_opt(stdin=operator_text.replace("%indices axis", "%indexes axis"))
    first, line, caret = ended.err.splitlines()
    assert first == "gathernest-opt: error: <stdin>:2:34: %indexes is used but not defined"
    assert line[caret.index("^") : caret.rindex("^") + 1] == "%indexes"


def test_error_names_the_use_of_a_value_of_another_function(gathernest_opt):
    functions = "func.func @f(%a: i64) {\n  %b = arith.addi %a, %x : i64\n  func.return\n}\n"
    ended = gathernest_opt(stdin=f"{functions}func.func @g(%x: i64) {{ func.return }}\n")
    assert ended.err.splitlines()[0] == (
        "gathernest-opt: error: <stdin>:2:8: arith.addi: expected operand #1 (%x) to be defined before its use"
    )


def test_error_names_the_place_where_an_undefined_block_is_used(gathernest_opt):
    ended = gathernest_opt(stdin="func.func @f() {\n  cf.br ^bb7\n}\n")
    first, line, caret = ended.err.splitlines()
    assert first == ("gathernest-opt: error: <stdin>:2:9: region ends with missing block declarations for block(s) bb7")
    assert line[caret.index("^") :] == "^bb7"


def test_help_names_no_pass_of_xdsl(gathernest_opt):
    ended = gathernest_opt("--help")
    assert "passes and named pipelines; see --list-passes" in ended.out
    assert "canonicalize" not in ended.out


def test_string_that_does_not_end_is_an_error_at_once(gathernest_opt):
    ended = gathernest_opt(stdin=f'"foo{"a" * 60}\n')
    assert ended.status == 1
    assert ended.err.startswith(
        "gathernest-opt: error: <stdin>:1:1: End of file reached before closing string literal."
    )


def test_options_of_xdsl_are_taken(gathernest_opt, operator_text, monkeypatch):
    monkeypatch.setattr(Attribute, "__post_init__", Attribute.__post_init__)  # which --disable-verify replaces for good
    ended = gathernest_opt("--print-debuginfo", stdin=operator_text)
    assert (ended.status, ended.err) == (0, "")
    assert " loc(unknown)" in ended.out
    assert gathernest_opt("--disable-verify", stdin=UNORDERED).status == 0


def test_target_that_does_not_parse_is_one_line(gathernest_opt, operator_text):
    ended = gathernest_opt("-t", "numba{", stdin=operator_text)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == "gathernest-opt: error: --target does not parse: Expected argument name here\n"


def test_error_in_a_later_piece_names_its_line_in_the_file(gathernest_opt, operator_text):
    ended = gathernest_opt("--split-input-file", stdin=f"{operator_text}// -----\n{INVALID}")
    assert ended.status == 1
    assert ended.err.startswith("gathernest-opt: error: <stdin>:9:13: ")
    assert ended.out.count("builtin.module") == 1


def test_error_of_a_pass_names_the_pass(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "nest,tile-loops{loops=rows sizes=4}", stdin=operator_text)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("gathernest-opt: error: <stdin>: pass tile-loops: the nest has no loop 'rows'")
    assert ended.err.count("\n") == 1


def test_unexpected_error_of_a_pass_has_a_traceback_and_a_file_that_repeats_it(
    gathernest_opt, operator_text, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    broken = 'mlir-opt{executable="/nowhere/mlir-opt"}'
    ended = gathernest_opt("-p", f"canonical,{broken},cse", stdin=operator_text)
    assert ended.status == 1
    assert ended.err.startswith("Traceback (most recent call last):\n")
    last = ended.err.splitlines()[-1]
    assert last.startswith(
        "gathernest-opt: error: <stdin>: pass mlir-opt: failed: ValueError: /nowhere/mlir-opt is not"
    )
    saved = Path(re.search(r"please report it with (\S+\.mlir)", last)[1])
    run, *module = saved.read_text().splitlines(keepends=True)
    words = shlex.split(run)
    assert (words[:4], words[4]) == (["//", "RUN:", "gathernest-opt", "%s"], "-p")
    assert words[5] == f"{broken},cse"
    assert "".join(module) == gathernest_opt("-p", "canonical", stdin=operator_text).out
    again = gathernest_opt(str(saved), *words[4:])
    assert "pass mlir-opt: failed: ValueError: /nowhere/mlir-opt is not" in again.err


def test_traceback_of_an_error_of_the_input_is_shown_when_asked_for(gathernest_opt, operator_text):
    ended = gathernest_opt("-p", "nest,tile-loops{loops=rows sizes=4}", "--traceback", stdin=operator_text)
    first, *_, last = ended.err.splitlines()
    assert (first, last.partition(":")[0]) == ("Traceback (most recent call last):", "gathernest-opt")
    assert "in find_loop" in ended.err


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("tile-loop", "there is no pass 'tile-loop'; did you mean 'tile-loops'?"),
        ("nets", "did you mean 'nest'?"),
        ("tile-loops", "pass tile-loops: "),
        ("tile-loops{", "the pipeline does not parse: "),
        ("tile-loops{loops=indices sizes=a}", "pass tile-loops: "),
        ("cse{x=1}", "pass cse has no option 'x'; it takes none"),
    ],
)
def test_wrong_pipeline_is_one_line(gathernest_opt, operator_text, pipeline, message):
    ended = gathernest_opt("-p", pipeline, stdin=operator_text)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("gathernest-opt: error: ")
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_unknown_target_is_rejected_with_the_close_one(gathernest_opt, operator_text):
    ended = gathernest_opt("-t", "nunba", stdin=operator_text)
    assert (ended.status, ended.err) == (
        2,
        "gathernest-opt: error: argument -t/--target: invalid choice: 'nunba' (choose from mlir, numba); did you mean "
        "'numba'? See 'gathernest-opt --help'\n",
    )


def test_unknown_option_is_rejected_with_the_close_one(gathernest_opt):
    ended = gathernest_opt("--print-between-pases")
    assert ended.status == 2
    assert "there is no option --print-between-pases; did you mean '--print-between-passes'?" in ended.err


def test_file_that_is_missing_is_one_line(gathernest_opt):
    ended = gathernest_opt("missing.mlir")
    assert (ended.status, ended.err) == (1, "gathernest-opt: error: missing.mlir: No such file or directory\n")


def test_folder_for_an_input_is_one_line(gathernest_opt, tmp_path):
    ended = gathernest_opt(str(tmp_path))
    assert (ended.status, ended.err) == (1, f"gathernest-opt: error: {tmp_path}: Is a directory\n")


def test_input_that_is_not_text_is_one_line(gathernest_opt):
    ended = gathernest_opt(stdin=b"\xff\xfe")
    assert (ended.status, ended.err) == (
        1,
        "gathernest-opt: error: <stdin> is not UTF-8 text: invalid start byte at byte 0\n",
    )


@pytest.mark.parametrize("text", ["", "\n\n", "// only a comment\n"])
def test_input_without_a_module_is_one_line(gathernest_opt, text):
    ended = gathernest_opt(stdin=text)
    assert (ended.status, ended.err) == (1, "gathernest-opt: error: <stdin>: there is nothing in the input\n")


def test_terminal_without_an_input_is_told_what_to_give(capsys, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    assert opt.main([]) == 2
    assert capsys.readouterr().err == (
        "gathernest-opt: error: there is no input; name a FILE, or - to type it; see 'gathernest-opt --help'\n"
    )


def test_unregistered_operation_needs_the_option(gathernest_opt):
    text = '"foo.bar"() : () -> ()\n'
    assert "Operation foo.bar is not registered" in gathernest_opt(stdin=text).err
    assert gathernest_opt("--allow-unregistered-dialect", stdin=text).status == 0


def test_operations_of_other_dialects_of_xdsl_are_known(gathernest_opt):
    ended = gathernest_opt(stdin="func.func @f() {\n  cf.br ^bb1\n^bb1:\n  func.return\n}\n")
    assert "is not registered" not in ended.err


def test_blank_pieces_are_left_out(gathernest_opt, operator_text):
    ended = gathernest_opt("--split-input-file", stdin=f"\n// -----\n{operator_text}// -----\n\n")
    assert ended.status == 0
    assert ended.out == gathernest_opt(stdin=operator_text).out


def test_expected_errors_that_come_pass(gathernest_opt):
    ended = gathernest_opt("--split-input-file", "--verify-diagnostics", stdin=f"{INVALID}// -----\n{UNORDERED}")
    assert ended == (0, "", "")


def test_expected_error_of_a_pass_compares_the_text_alone(gathernest_opt, operator_text):
    text = f"// expected-error {{{{the nest has no loop 'rows'}}}}\n{operator_text}"
    ended = gathernest_opt("--verify-diagnostics", "-p", "nest,tile-loops{loops=rows sizes=4}", stdin=text)
    assert ended == (0, "", "")


@pytest.mark.parametrize("place", ["@+1", "@below", "@unknown", "@ +1"])
def test_expected_error_may_stand_elsewhere(gathernest_opt, place):
    assert gathernest_opt("--verify-diagnostics", stdin=INVALID.replace("@+1", place)).status == 0


@pytest.mark.parametrize("place", ["", "@-1", "@above", "@+2"])
def test_expected_error_on_another_line_fails(gathernest_opt, place):
    ended = gathernest_opt("--verify-diagnostics", stdin=INVALID.replace("@+1", place))
    assert ended.status == 1
    assert "<stdin>:2: expected the error 'axis 7 is out of range [-2, 1]', which did not occur\n" in ended.err
    assert "an error came that is not expected: <stdin>:3:13: gather.gather: axis 7" in ended.err


def test_expected_error_that_does_not_come_fails(gathernest_opt, operator_text):
    text = f"// expected-error {{{{too wide}}}}\n{operator_text}"
    ended = gathernest_opt("--verify-diagnostics", stdin=text)
    assert (ended.status, ended.err) == (
        1,
        "gathernest-opt: error: <stdin>:1: expected the error 'too wide', which did not occur\n",
    )


def test_error_that_is_not_expected_fails(gathernest_opt):
    ended = gathernest_opt("--verify-diagnostics", stdin=INVALID.replace("expected-error", "awaited"))
    assert ended.status == 1
    assert "an error came that is not expected: " in ended.err


def test_second_expected_error_of_a_piece_is_told_to_stand_alone(gathernest_opt):
    text = f"// expected-error {{{{too wide}}}}\n{INVALID}"
    ended = gathernest_opt("--verify-diagnostics", stdin=text)
    assert ended.status == 1
    assert "one error ends a piece, so put // ----- between and use --split-input-file" in ended.err


def test_module_runs_as_a_script(operator_text):
    command = [sys.executable, "-m", "gathernest.tools.mlir_opt.opt", "-p", "nest"]
    ended = subprocess.run(command, input=operator_text, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "gather.loop" in ended.stdout
