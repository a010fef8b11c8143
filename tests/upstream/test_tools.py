"""That the oracle is awake: it finds its tools or says what is missing, and blames the right module."""

import pytest

GOOD = "func.func @good(%n: index) -> index {\n  func.return %n : index\n}\n"
USED_OUTSIDE = """func.func @bad(%n: index) -> index {
  %c0 = arith.constant 0 : index
  scf.for %i = %c0 to %n step %n {
    %twice = arith.addi %i, %i : index
  }
  func.return %twice : index
}
"""
OURS = "func.func @ours() {\n  gather.loop\n  func.return\n}\n"


def test_missing_tool_skips_and_names_the_package(program, install) -> None:
    reason = r"^mlir-opt 22 is not on the PATH; .*apt-get install mlir-22-tools$"
    with pytest.raises(pytest.skip.Exception, match=reason):
        program("mlir-opt", major=22)


def test_tool_of_another_llvm_skips(program, install) -> None:
    install("mlir-opt", "", version="LLVM version 21.1.0")
    with pytest.raises(pytest.skip.Exception, match=r"/mlir-opt is version 21\.1\.0, and 22 is needed; "):
        program("mlir-opt", major=22)


def test_good_modules_have_no_errors(upstream) -> None:
    assert upstream.check({"first": GOOD, "second": GOOD}) == {}


def test_error_is_that_of_the_bad_module(upstream) -> None:
    errors = upstream.check({"first": GOOD, "second": USED_OUTSIDE, "third": GOOD})
    assert list(errors) == ["second"]
    assert "use of undeclared SSA value" in errors["second"]


def test_operation_of_ours_is_rejected_in_loops(upstream) -> None:
    assert list(upstream.check({"first": GOOD, "second": OURS})) == ["second"]


def test_module_that_does_not_lower_is_left_out_of_llvm_ir(upstream) -> None:
    translated, errors = upstream.to_llvm_ir({"bad": USED_OUTSIDE, "good": GOOD})
    assert list(errors) == ["bad"]
    assert "define i64 @good(i64" in translated["good"]
