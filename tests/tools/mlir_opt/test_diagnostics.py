"""Errors of `gathernest-opt` with their place in the input, and the comments that expect them."""

import pytest

INVALID = """func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<5xi64>) -> tensor<5x4xf32> {
  // expected-error @+1 {{axis 7 is out of range [-2, 1]}}
  %result = gather.gather %data, %indices axis 7 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<5xi64> -> tensor<5x4xf32>
  func.return %result : tensor<5x4xf32>
}
"""


@pytest.mark.parametrize("before", [0, 30, 500])
@pytest.mark.parametrize("behind", [0, 30, 500])
def test_long_line_is_cut_around_its_caret(gathernest_opt, before, behind):
    text = f"func.func @f() {{ func.return }}{' ' * before} wrong.word {'x' * behind}"
    _, line, caret = gathernest_opt(stdin=text).err.splitlines()
    assert max(len(line), len(caret)) <= 100
    assert line[caret.index("^") : caret.rindex("^") + 1] == "wrong.word"


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
