"""Sums of bags: passes that keep them are proved, passes that break them are refuted."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.context import parse_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import GatherMax, GatherMean, GatherReduce, GatherWeighted, GatherWeightedMean
from gathernest.ir.semantics import Bounds
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.schedule.schedule import Schedule

VECTORS = "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o},vectorize-inner{lanes=4}"
REGISTERS = "specialize-inner{bytes=32}," + VECTORS


def bags(bounds: str = "zero", operator: GatherReduce | None = None, data: str = "9x8xf32") -> ModuleOp:
    return operator_module(operator or GatherReduce(), ArraySpec.parse(data), ArraySpec.parse("5x7xi64"), bounds=bounds)


@pytest.mark.draw(1)
@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("schedule", ["", VECTORS, REGISTERS, "unroll{loop=inner factor=3}"])
def test_passes_of_sums_are_proved_down_to_registers(prove, bounds, schedule):
    verdicts = prove(bags(bounds), default_pipeline(Schedule.parse(schedule)))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))
    promoted = next(verdict for verdict in verdicts if verdict.name == "promote-sums")
    assert promoted.status == ("proved" if schedule == REGISTERS else "unchanged")


def test_integers_tiled_bags_and_rows_in_several_dimensions_are_proved(prove):
    tiled = "tile-loops{loops=bag,inner sizes=3,4},interchange-loops{order=inner_o,bag_o,bag_i,inner_i}"
    verdicts = prove(bags("wrap", data="9x2x4xi32"), default_pipeline(Schedule.parse(tiled)))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))


PREFETCHED = "tile-loops{loops=indices sizes=4},prefetch{what=rows loop=bag ahead=4 lines=2 locality=3}"
SEPARATE = PREFETCHED.replace("locality=3", "locality=3 separate=bag")
REDUCTIONS = {
    "mean": (GatherMean(), "9x8xf32", "5x7xi64"),
    "max": (GatherMax(), "9x8xf32", "5x7xi64"),
    "max of integers": (GatherMax(), "9x8xi32", "5x7xi64"),
    "float16": (GatherReduce(), "9x8xf16", "5x7xi64"),
    "weighted": (GatherWeighted(), "9x8xf32", "5x7x2xi32"),
    "quantised": (GatherWeighted(), "9x8xui8", "5x7x3xi32"),
    "quantised mean": (GatherWeightedMean(), "9x8xi8", "5x7x3xi32"),
}


def reduction(name: str, bounds: str = "zero", indices: str | None = None) -> ModuleOp:
    operator, data, usual = REDUCTIONS[name]
    return operator_module(operator, ArraySpec.parse(data), ArraySpec.parse(indices or usual), bounds=bounds)


SCHEDULES = (("", Bounds.ERROR), (REGISTERS, Bounds.ZERO), (PREFETCHED, Bounds.ERROR), (SEPARATE, Bounds.ZERO))


@pytest.mark.draw(2)
@pytest.mark.parametrize(
    ("name", "schedule", "bounds"),
    [(name, *SCHEDULES[(at + more) % 4]) for at, name in enumerate(REDUCTIONS) for more in (0, 1)],
)
def test_passes_of_other_reductions_are_proved_down_to_registers(prove, name, schedule, bounds):
    verdicts = prove(reduction(name, bounds), default_pipeline(Schedule.parse(schedule)))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))
    promoted = next(verdict for verdict in verdicts if verdict.name == "promote-sums")
    assert promoted.status == ("proved" if schedule == REGISTERS else "unchanged")


AHEAD = default_pipeline(Schedule.parse(PREFETCHED)).partition(",drop-unit")[0] + "," + PREFETCHED


def test_bags_of_constant_indices_are_undecided(prove):
    text = """
    func.func @gather(%data: tensor<9x4xf32>) -> tensor<1x4xf32> {
      %i = arith.constant dense<[[0, 5]]> : tensor<1x2xi64>
      %r = gather.gather_reduce %data, %i bounds error : tensor<9x4xf32>, tensor<1x2xi64> -> tensor<1x4xf32>
      func.return %r : tensor<1x4xf32>
    }"""
    verdict = prove(parse_module(text), default_pipeline(Schedule()))[-1]
    assert verdict.status == "undecided" and verdict.reason == "the indices of bags are a constant", str(verdict)
