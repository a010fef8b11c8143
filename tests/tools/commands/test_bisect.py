"""`gathernest exec --bisect`: what it prints, the file it writes, and bad input."""

import json

import pytest

from gathernest.tools.cli import main

ROWS = ("--data", "9x6xf32", "--indices", "7xi64")


def outcome(capsys, command: str, *words: object) -> tuple[int, str, str]:
    status = main([command, *map(str, words)])
    printed = capsys.readouterr()
    return status, printed.out.strip(), printed.err.strip()


@pytest.fixture
def wrong_stage(tmp_path, capsys):
    """Return a file with a stage whose wrap of negative indices was taken out by hand."""
    _, text, _ = outcome(capsys, "show", *ROWS, "--bounds", "zero", "--stage", "fold-bounds")
    file = tmp_path / "wrong.mlir"
    assert "arith.addi %index, %shift" in text
    file.write_text(text.replace("arith.addi %index, %shift", "arith.addi %index, %c63"))
    return file


def test_a_wrong_file_is_named_as_the_input_and_repeated_by_exec(wrong_stage, capsys, tmp_path):
    status, out, error = outcome(capsys, "exec", "--bisect", wrong_stage, "-o", tmp_path / "small.mlir")
    assert (status, out) == (1, "")
    assert error.startswith("the input is wrong: at [")
    assert error.endswith(f"gathernest exec {tmp_path / 'small.mlir'} repeats it")
    status, _, error = outcome(capsys, "exec", tmp_path / "small.mlir")
    assert status == 1
    assert "interpreter differs from reference: at [" in error


def test_json_names_the_pass(wrong_stage, capsys):
    status, out, _ = outcome(capsys, "exec", "--bisect", wrong_stage, "--json")
    assert (status, json.loads(out)["wrong"]["pass"]) == (1, "the input")


def test_a_right_file_goes_on_from_its_level(capsys, tmp_path):
    _, text, _ = outcome(capsys, "show", *ROWS, "--stage", "fold-bounds")
    file = tmp_path / "stage.mlir"
    file.write_text(text)
    assert outcome(capsys, "exec", "--bisect", file, "-p", "tile-loops{loops=indices sizes=4},hoist-invariants")[0] == 0


def test_proof_of_a_gradient_is_json(capsys):
    words = ("--operator", "gather_grad", "--data", "7x6xf32", "--data-shape", "9x6", "--indices", "7xi64")
    status, out, error = outcome(capsys, "exec", "--bisect", *words, "--scale", "0.5", "--prove", "--json")
    assert (status, error) == (0, "")
    found = json.loads(out)
    assert (found["wrong"], found["verdicts"][-1]) == (None, {"pass": "cse", "status": "proved", "reason": ""})
    assert "refuted" not in {each["status"] for each in found["verdicts"]}


def test_proof_of_a_wrong_file_names_the_input(capsys, wrong_stage):
    status, out, error = outcome(capsys, "exec", "--bisect", wrong_stage, "-p", "erase-sizes", "--prove")
    assert (status, out) == (1, "")
    assert error.startswith("the input is wrong: for some sizes, an index ")
