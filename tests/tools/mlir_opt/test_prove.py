"""`gathernest-opt --prove`: a line for each pass, the command that runs a counterexample, and the exit status."""

import shlex

import pytest
from xdsl.dialects import arith

from gathernest.lowering.passes.schedule import split_loops

TILED = "nest,erase-sizes,tile-loops{loops=indices sizes=16}"


@pytest.fixture
def short_tiles(monkeypatch) -> None:
    """Have each tile lose its last iteration."""

    def one_short(builder, start, step, upper):
        return builder.compute(arith.SubiOp, right(builder, start, step, upper), 1, "end")

    right = split_loops.tile_end
    monkeypatch.setattr(split_loops, "tile_end", one_short)


def test_a_wrong_pass_is_refuted_and_its_counterexample_runs(
    gathernest_opt, gathernest, operator_text, short_tiles, tmp_path
) -> None:
    saved = str(tmp_path / "refuted.mlir")
    ended = gathernest_opt("-", "-p", TILED, "--prove", stdin=operator_text)
    assert ended.out.splitlines()[-1].startswith(
        "  run it with the module that --reproducer FILE writes: gathernest exec FILE "
    )
    ended = gathernest_opt("-", "-p", TILED, "--prove", "--reproducer", saved, stdin=operator_text)
    assert ended.status == 1
    _, _, after = ended.out.partition("tile-loops{loops=indices sizes=16}: ")
    assert after.startswith(
        "refuted: an element of out is not written\n"
        "  gather axis=0 batch_dims=0 bounds=error of data 5x1xi32 by indices 1xi64 = [0]\n"
        "  the interpreter: out[0, 0] is 0x55555555, and element 0 of data is right\n"
        "  run it: gathernest exec "
    )
    _, *words = shlex.split(after.splitlines()[-1].removeprefix("  run it: "))
    ended = gathernest(*words)
    assert ended.status == 1
    assert "at [0, 0] of the result it must give data[0, 0]" in ended.err


def test_a_module_that_does_not_say_its_operator_is_undecided(gathernest_opt, operator_text) -> None:
    nest = gathernest_opt("-", "-p", "nest,erase-sizes", stdin=operator_text).out
    ended = gathernest_opt("-", "-p", "tile-loops{loops=indices sizes=16}", "--prove", stdin=nest)
    assert (ended.status, ended.out) == (
        0,
        "tile-loops{loops=indices sizes=16}: undecided: the operator is unknown; begin with a module that holds it, or "
        "a gather.resolve\n",
    )


def test_missing_packages_are_named(gathernest_opt, operator_text, installed) -> None:
    installed("z3-solver", "4.1")
    ended = gathernest_opt("-", "-p", "nest", "--prove", stdin=operator_text)
    assert ended.status == 1
    assert "z3-solver 4.1 is too old; gathernest needs 4.13 or newer: pip install 'gathernest[prove]'" in ended.err


def test_a_gradient_is_proved_and_a_wrong_one_runs_again(gathernest, gathernest_opt, request, tmp_path) -> None:
    words = ("--operator", "gather_grad", "--data", "9x4xf32", "--indices", "5xi64", "--scale", "0.5")
    module = gathernest("show", *words, "--stage", "operator").out
    pipeline = "canonical,lower-to-nest,fold-bounds,erase-sizes,tile-loops{loops=inner sizes=16}"
    ended = gathernest_opt("-", "-p", pipeline, "--prove", stdin=module)
    assert ended.status == 0
    lines = ended.out.splitlines()
    assert lines[-1] == "tile-loops{loops=inner sizes=16}: proved"
    assert "undecided" not in ended.out

    request.getfixturevalue("short_tiles")
    saved = str(tmp_path / "refuted.mlir")
    ended = gathernest_opt("-", "-p", pipeline, "--prove", "--reproducer", saved, stdin=module)
    assert ended.status == 1
    assert "refuted: an element of grad is not added where it belongs" in ended.out
    _, *again = shlex.split(ended.out.splitlines()[-1].removeprefix("  run it: "))
    assert again[:4] == ["exec", again[1], "--operator", "gather_grad"]
    assert gathernest(*again).status == 1
