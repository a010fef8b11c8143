"""Errors of `gathernest-opt` with their place in the input, and the comments that expect them."""

import pytest

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


def test_string_that_does_not_end_is_an_error_at_once(gathernest_opt):
    ended = gathernest_opt(stdin=f'"foo{"a" * 60}\n')
    assert ended.status == 1
    assert ended.err.startswith(
        "gathernest-opt: error: <stdin>:1:1: End of file reached before closing string literal."
    )


def test_error_in_a_later_piece_names_its_line_in_the_file(gathernest_opt, operator_text):
    ended = gathernest_opt("--split-input-file", stdin=f"{operator_text}// -----\n{INVALID}")
    assert ended.status == 1
    assert ended.err.startswith("gathernest-opt: error: <stdin>:9:13: ")
    assert ended.out.count("builtin.module") == 1


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


def test_second_expected_error_of_a_piece_is_told_to_stand_alone(gathernest_opt):
    text = f"// expected-error {{{{too wide}}}}\n{INVALID}"
    ended = gathernest_opt("--verify-diagnostics", stdin=text)
    assert ended.status == 1
    assert "one error ends a piece, so put // ----- between and use --split-input-file" in ended.err
