"""`gathernest exec --step`: all steps, JSON, files and errors."""

import json
import re

import pytest

from gathernest.tools.cli import main

GATHER = ["--data", "[[1,2],[3,4],[5,6]]xf32", "--indices", "[2,-1,0]xi64"]


def outcome(capsys, *words: str) -> tuple[int, str, str]:
    status = main(["exec", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err.strip()


def test_all_steps_are_printed_where_there_is_no_terminal(capsys):
    status, out, _ = outcome(capsys, *GATHER, "--step", "1,1")
    assert status == 0
    assert out.startswith("gather 3x2xf32 by 3xi64 -> 3x2xf32, axis 0, batch_dims 0, bounds error; stage hoist-inva")
    assert "read from data[2, 1]\n" in out
    assert re.search(r"memref.load +position=2, j=1 +element=6.0 +data\[2, 1\] byte 20 line 0", out)


def test_json_is_one_object(capsys):
    status, out, _ = outcome(capsys, *GATHER, "--step", "3", "--stage", "fold-bounds", "--json")
    facts = json.loads(out)
    assert (status, facts["stage"], facts["element"], facts["value"]) == (0, "fold-bounds", [1, 1], 6.0)


@pytest.fixture
def file(capsys, tmp_path):
    assert main(["show", "--data", "5x4xf32", "--indices", "3xi64", "--bounds", "clip", "--stage", "fold-bounds"]) == 0
    path = tmp_path / "stage.mlir"
    path.write_text(capsys.readouterr().out)
    return path


def test_a_file_is_stepped_through_with_its_own_lines(file, capsys):
    status, out, _ = outcome(capsys, str(file), "--step", "2,3", "--json")
    facts = json.loads(out)
    assert (status, facts["stage"]) == (0, str(file))
    lines = file.read_text().splitlines()
    assert all(lines[step["line"] - 1].strip().startswith(step["text"]) for step in facts["steps"])


def test_a_file_goes_on_to_a_later_stage(file, capsys):
    status, out, _ = outcome(capsys, str(file), "--step", "2,3", "--stage", "cse")
    assert status == 0
    assert "; stage cse\n" in out and " scf.for inner " in out


def test_a_stage_that_is_wrong_has_exit_status_1(file, capsys):
    file.write_text(file.read_text().replace("arith.minsi %index, %last", "arith.maxsi %index, %last"))
    status, out, _ = outcome(capsys, str(file), "--indices", "[4,0,1]xi64", "--step", "1,0")
    assert status == 1
    assert "wrong: the operator's reference gives " in out


def test_a_file_that_does_not_parse_has_its_place(capsys, tmp_path):
    bad = tmp_path / "bad.mlir"
    bad.write_text("func.func @gather( {")
    status, _, error = outcome(capsys, str(bad), *GATHER, "--step", "0")
    assert status == 1
    assert error.startswith(f"gathernest: error: {bad}:1:")
