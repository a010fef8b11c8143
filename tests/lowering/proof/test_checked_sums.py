"""Proofs of bags and gradients that are checked while they are added, or whose positions the check stages."""

import itertools

import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import GatherMax, GatherMean, GatherReduce, GatherWeighted, GatherWeightedMean
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.schedule.schedule import Schedule

TILES = "tile-loops{loops=check_indices,indices sizes=32,4}"
SERIAL = f"specialize-inner{{bytes=32}},{TILES},vectorize-inner{{lanes=4}}"
PARALLEL = f"{TILES},parallelize-loops{{loops=indices_o,check_indices_o}}"
AHEAD = (
    f"specialize-inner{{bytes=32}},{PARALLEL},vectorize-inner{{lanes=4}},"
    "prefetch{what=rows loop=bag ahead=4 lines=2 locality=2 separate=bag}"
)
FUSED, STAGED = "check-indices{how=fused loop=indices_o}", "check-indices{how=staged bits=16}"
BAGS = {
    "sum": (GatherReduce(), "9x8xf32", "5x7xi64"),
    "mean": (GatherMean(), "9x8xf32", "5x7xi64"),
    "max": (GatherMax(), "9x8xf32", "5x7xi64"),
    "narrow indices": (GatherReduce(), "9x8xf32", "5x7xui32"),
}
PAIRS = {
    "weighted": (GatherWeighted(), "9x8xf32", "5x7x2xi32"),
    "quantised": (GatherWeighted(), "9x8xui8", "5x7x3xi32"),
    "quantised mean": (GatherWeightedMean(), "9x8xi8", "5x7x3xi32"),
}


def bags(name: str) -> ModuleOp:
    operator, *arrays = {**BAGS, **PAIRS}[name]
    return operator_module(operator, *map(ArraySpec.parse, arrays), bounds="error")


def checked(schedule: str, check: str) -> str:
    """Return a pipeline whose check is another than that of a nest of its own."""
    pipeline = default_pipeline(Schedule.parse(schedule))
    return pipeline.replace("hoist-invariants", f"{check},hoist-invariants", 1)


def check_proved(verdicts, check: str) -> None:
    """Check that nothing is left undecided or refuted, and that the check is among what is proved."""
    assert [str(verdict) for verdict in verdicts if verdict.status not in ("proved", "unchanged")] == []
    assert any(verdict.name == check and verdict.status == "proved" for verdict in verdicts)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "schedule"), [*zip([*BAGS, *PAIRS], itertools.cycle([SERIAL, AHEAD]))])
def test_bags_that_are_checked_while_they_are_added_are_proved_down_to_registers(prove, name, schedule):
    check_proved(prove(bags(name), checked(schedule, FUSED)), FUSED)


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "schedule"), [*zip(BAGS, itertools.cycle([AHEAD, SERIAL]))])
def test_bags_that_read_staged_positions_are_proved_down_to_registers(prove, name, schedule):
    check_proved(prove(bags(name), checked(schedule, STAGED)), STAGED)


GRADIENTS = {
    "plain": ("", "indices"),
    "tiles": ("tile-loops{loops=indices sizes=3}", "indices_o"),
    "batches": ("parallelize-loops{loops=LOOP}", "LOOP"),
    "owners": (
        "owner-computes{owners=2 axis=axis},tile-loops{loops=indices sizes=3},parallelize-loops{loops=owners}",
        "indices_o",
    ),
}
LOOPS = {"gather": "batch", "gather_elements": "outer"}


CHECKS = ("how=fused loop=LOOP", "how=staged bits=8", "how=fused loop=LOOP", "how=staged bits=32")


# A scale adds a nest; without one, sums of any schedule are added up alike.
@pytest.mark.thorough
@pytest.mark.parametrize(("schedule", "scale"), [*((name, 0.5) for name in GRADIENTS), ("plain", 1.0), ("owners", 1.0)])
@pytest.mark.parametrize("name", LOOPS)
def test_gradients_are_proved_down_to_loops(operator, prove, name, schedule, scale):
    passes, loop = (text.replace("LOOP", LOOPS[name]) for text in GRADIENTS[schedule])
    place = [*GRADIENTS].index(schedule) + [*LOOPS].index(name) + 2 * (scale != 1)
    check = f"check-indices{{{CHECKS[place % 4].replace('LOOP', loop)}}}"
    check_proved(prove(operator(name, "error", scale=scale), checked(passes, check)), check)


@pytest.mark.draw(1)
@pytest.mark.parametrize("loop", ["indices", "indices_o"])
def test_tuples_are_proved(operator, prove, loop):
    check = f"check-indices{{how=fused loop={loop}}}"
    tiles = "tile-loops{loops=indices sizes=3}" if loop == "indices_o" else ""
    check_proved(prove(operator("gather_nd", "error"), checked(tiles, check)), check)
    check_proved(prove(operator("gather_nd", "error", scale=0.5), checked(tiles, check)), check)
