"""`gathernest.bisect(prove=True)`: passes that go wrong for some sizes, refuted with a gather that `exec` repeats."""

import importlib
import sys

import pytest
from xdsl.dialects import arith

import gathernest as gn
from gathernest.ir.modules.context import parse_module
from gathernest.lowering.nest.queries import static_size
from gathernest.lowering.passes.schedule import split_loops
from gathernest.lowering.pipeline import parse_passes
from gathernest.playground.bisect import bisect_module, first_refuted
from gathernest.tools.cli import main

ROWS = ("gather", "50x8xf32", "9xi64")
TILED = "tile-loops{loops=indices sizes=300}"


@pytest.fixture
def short_tiles(monkeypatch):
    """Have a tile of more than 200 iterations lose one: samples of small sizes do not show it."""

    def one_short(builder, start, step, upper):
        if static_size(step) < 200:
            return right(builder, start, step, upper)
        limit = builder.compute(arith.AddiOp, start, step, "limit")
        less = builder.compute(arith.SubiOp, limit, 1, "less")
        return builder.compute(arith.MinSIOp, less, upper, "end")

    right = split_loops.tile_end
    monkeypatch.setattr(split_loops, "tile_end", one_short)


@pytest.mark.draw(2)
@pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements", "gather_grad"])
def test_default_pipelines_are_not_refuted(operator):
    indices = {"gather_nd": "9x2xi64", "gather_elements": "9x8xi64"}.get(operator, "9xi64")
    assert gn.bisect(operator, "50x8xf32", indices, prove=True) is None


@pytest.mark.thorough
def test_pass_that_is_wrong_for_large_sizes_is_refuted_though_samples_are_right(short_tiles):
    assert gn.bisect(*ROWS, schedule=TILED) is None
    found = gn.bisect(*ROWS, schedule=TILED, prove=True)
    assert found is not None and found.name == TILED
    assert str(found.difference).startswith("for some sizes, an element of out is not written; the interpreter: out[2")
    assert found.problem.indices.shape == (300,) and found.passes[-1] == TILED


@pytest.mark.parametrize("operator", ["gather", "gather_grad"])
def test_exec_repeats_the_counterexample(short_tiles, operator, tmp_path, capsys):
    loop = "inner" if operator == "gather_grad" else "indices"
    schedule = f"tile-loops{{loops={loop} sizes=300}}"
    found = gn.bisect(operator, *ROWS[1:], scale=2.0 if "grad" in operator else 1.0, schedule=schedule, prove=True)
    assert found is not None
    (tmp_path / "wrong.mlir").write_text(found.reproducer())
    assert main(["exec", str(tmp_path / "wrong.mlir")]) == 1
    assert " of the result it must give " in capsys.readouterr().err


def test_stage_of_a_file_is_proved_from_its_level_on(short_tiles):
    kernel = gn.compile(*ROWS, schedule="")
    module = parse_module(kernel.stages["drop-unit-loops"])
    said: list = []
    found = first_refuted(kernel.problem, parse_passes(TILED), module, said.append)
    assert found is not None and found.before.rstrip() == kernel.stages["drop-unit-loops"].rstrip()
    assert [verdict.status for verdict in said] == ["refuted"]


@pytest.mark.parametrize("prove", [False, True])
def test_a_reduction_that_is_wrong_before_any_pass_is_the_input(prove):
    stages = gn.compile("gather_reduce", "9x4xf32", "5x3xi64", bounds="clip", schedule="").stages
    text = stages["fold-bounds"].replace("arith.minsi %index, %last", "arith.maxsi %index, %last")
    problem = gn.compile("gather_reduce", "9x4xf32", "5x3xi64", bounds="clip").plan.problem
    passes = parse_passes("hoist-invariants,lower-nest-to-loops")
    if prove:
        found = first_refuted(problem, passes, parse_module(text))
    else:
        found = bisect_module(parse_module(text), problem, passes, None)
    assert found is not None and found.name == "the input" and found.passes == ()
    assert "data[" not in str(found.difference) and "]], bounds clip\n" in str(found)


def test_verdicts_are_told_one_by_one():
    said: list = []
    problem = gn.compile(*ROWS).problem
    assert first_refuted(problem, parse_passes("nest,erase-sizes"), None, said.append) is None
    assert [verdict.name for verdict in said][-3:] == ["lower-to-nest", "fold-bounds", "erase-sizes"]


def test_schedule_beside_a_pipeline_is_rejected():
    for prove in (False, True):
        with pytest.raises(
            gn.ScheduleError, match=r"^a pipeline holds the passes of its schedule; give schedule or pi"
        ):
            gn.bisect(*ROWS, schedule="", pipeline="default", prove=prove)


def test_missing_packages_are_named(monkeypatch, installed):
    installed("z3-solver", "4.1")
    provers = ("islpy", "z3", "gathernest.lowering.proof")
    for name in [name for name in sys.modules if name.startswith(provers)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "islpy", None)  # an import fails as where it is not installed
    with pytest.raises(gn.DependencyError, match=r"z3-solver 4\.1 is too old"):
        gn.bisect(*ROWS, prove=True)
    with pytest.raises(gn.DependencyError, match=r"proofs need islpy; install it: pip install 'gathernest\[prove\]'"):
        importlib.import_module("gathernest.lowering.proof.prover")
