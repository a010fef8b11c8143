"""Sums of bags: passes that keep them are proved, passes that break them are refuted."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import GatherMax, GatherMean, GatherReduce
from gathernest.ir.semantics import Bounds
from gathernest.lowering.registry import default_pipeline
from gathernest.lowering.schedule.schedule import Schedule

VECTORS = "tile-loops{loops=indices sizes=4},parallelize-loops{loops=indices_o},vectorize-inner{lanes=4}"
REGISTERS = "specialize-inner{bytes=32}," + VECTORS
NEST = "normalize-gather,erase-element-type,bufferize-gather,collapse-dims,lower-reduction-to-nest"
SERIAL = default_pipeline(
    Schedule.parse("specialize-inner{bytes=32},tile-loops{loops=indices sizes=4},vectorize-inner{lanes=4}"),
    reduction=True,
).partition(",canonicalize")[0]
PROMOTED = default_pipeline(Schedule.parse(REGISTERS), reduction=True).partition(",canonicalize")[0]


def bags(bounds: str = "zero", operator: GatherReduce | None = None, data: str = "9x8xf32") -> ModuleOp:
    return operator_module(operator or GatherReduce(), ArraySpec.parse(data), ArraySpec.parse("5x7xi64"), bounds=bounds)


@pytest.mark.parametrize("bounds", Bounds)
@pytest.mark.parametrize("schedule", ["", VECTORS, REGISTERS, "unroll{loop=inner factor=3}"])
def test_passes_of_sums_are_proved_down_to_registers(prove, bounds, schedule):
    verdicts = prove(bags(bounds), default_pipeline(Schedule.parse(schedule), reduction=True))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))
    promoted = next(verdict for verdict in verdicts if verdict.name == "promote-sums")
    assert promoted.status == ("proved" if schedule == REGISTERS else "unchanged")


def test_integers_tiled_bags_and_rows_in_several_dimensions_are_proved(prove):
    tiled = "tile-loops{loops=bag,inner sizes=3,4},interchange-loops{order=inner_o,bag_o,bag_i,inner_i}"
    verdicts = prove(bags("wrap", data="9x2x4xi32"), default_pipeline(Schedule.parse(tiled), reduction=True))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))


WRONG = [
    (NEST, "bag(%k) = %c0_2", "bag(%k) = %c1_2", "an element of data is not added where it belongs"),
    (NEST, "ordered bag", "bag", "additions to one element may run in another order"),
    (NEST, "clear_indices(%i) = %c0_2", "clear_indices(%i) = %c1_2", "an element of out is not cleared"),
    (f"{NEST},fold-bounds", " if %inside", "", "an index adds where it should not, or not where it should"),
    (NEST, "%data[%position, %j_1]", "%data[%position, %c0_2]", "an element of data is not added where it belongs"),
    (NEST, "%indices[%i_1, %k]", "%indices[%i_1, %c0_2]", "an element of data is not added where it belongs"),
    (
        PROMOTED,
        "vector.store %sum_1, %out[%i_i, %c4",
        "vector.store %sum, %out[%i_i, %c4",
        "not added where it belongs",
    ),
    (PROMOTED, "scf.for %k = %c0_2", "scf.for %k = %c1_1", "an element of data is not added where it belongs"),
    (PROMOTED, "arith.addi %i_o, %c4", "arith.addi %i_o, %n_inner", "two iterations of the parallel loop"),
    (SERIAL, "arith.addi %i_o, %c4", "arith.addi %i_o, %n_inner", "a sum begins twice"),
]


@pytest.mark.parametrize(("pipeline", "old", "new", "reason"), WRONG)
def test_a_pass_that_breaks_sums_is_refuted(verdict_of, pipeline, old, new, reason):
    verdict = verdict_of(bags(), pipeline, old, new)
    assert verdict.status == "refuted" and reason in verdict.reason, str(verdict)


@pytest.mark.parametrize("operator", [GatherMean(), GatherMax()])
def test_means_and_maxima_are_undecided_and_right_in_samples(prove, operator):
    verdict = prove(bags("zero", operator), default_pipeline(Schedule(), reduction=True))[-1]
    assert verdict.status == "undecided" and verdict.samples, str(verdict)
    assert verdict.reason == "the proof of bags is of their sums, without weights, and not of means and maxima"
