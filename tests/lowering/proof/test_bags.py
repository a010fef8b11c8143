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
NEST = "normalize-gather,erase-element-type,bufferize-gather,collapse-dims,lower-to-nest"
SERIAL = default_pipeline(
    Schedule.parse("specialize-inner{bytes=32},tile-loops{loops=indices sizes=4},vectorize-inner{lanes=4}")
).partition(",canonicalize")[0]
PROMOTED = default_pipeline(Schedule.parse(REGISTERS)).partition(",canonicalize")[0]


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


@pytest.mark.draw(4)
@pytest.mark.parametrize(("pipeline", "old", "new", "reason"), WRONG)
def test_a_pass_that_breaks_sums_is_refuted(verdict_of, pipeline, old, new, reason):
    verdict = verdict_of(bags(), pipeline, old, new)
    assert verdict.status == "refuted" and reason in verdict.reason, str(verdict)


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


@pytest.mark.draw(2)
@pytest.mark.parametrize("bounds", [Bounds.ZERO, Bounds.ERROR])
@pytest.mark.parametrize("schedule", ["", REGISTERS, PREFETCHED, SEPARATE])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_passes_of_other_reductions_are_proved_down_to_registers(prove, name, schedule, bounds):
    verdicts = prove(reduction(name, bounds), default_pipeline(Schedule.parse(schedule)))
    assert {verdict.status for verdict in verdicts} == {"proved", "unchanged"}, "\n".join(map(str, verdicts))
    promoted = next(verdict for verdict in verdicts if verdict.name == "promote-sums")
    assert promoted.status == ("proved" if schedule == REGISTERS else "unchanged")


def promoted(name: str) -> str:
    """Return the pipeline to registers; rows have 8 elements of any width."""
    width_bytes = 8 * ArraySpec.parse(REDUCTIONS[name][1]).dtype.itemsize
    return PROMOTED.replace("bytes=32", f"bytes={width_bytes}")


DIVISOR = "a sum is divided by another number than that of the slices in it"
ELSEWHERE = "an element of data is not added where it belongs"
LOOPS = default_pipeline(Schedule()).partition(",promote-sums")[0]
AHEAD = default_pipeline(Schedule.parse(PREFETCHED)).partition(",drop-unit")[0] + "," + PREFETCHED
WRONG_REDUCTIONS = [
    ("mean", NEST, "count_bag(%k) = %c0_2", "count_bag(%k) = %c1_2", DIVISOR),
    ("mean", NEST, "%index = memref.load %indices[%i_1, %k]", "%index = memref.load %indices[%i_1, %c0_2]", DIVISOR),
    ("mean", NEST, "%index = memref.load %indices[%i_1, %k]", "%index = memref.load %indices[%c0_2, %k]", DIVISOR),
    ("mean", f"{NEST},fold-bounds", "cmpi ult, %wrapped,", "cmpi ule, %wrapped,", "an index outside is counted"),
    ("mean", NEST, "%one_1 = arith.constant 1", "%one_1 = arith.constant 2", "the sum of an empty bag is divided"),
    ("mean", NEST, "scale_inner(%j_2) = %c0_2", "scale_inner(%j_2) = %c1_2", "a sum is not divided"),
    ("mean", NEST, "%out[%i_1, %j_2]", "%out[%c0_2, %j_2]", "a sum is divided before an addition"),
    ("mean", f"{NEST},fold-bounds", " if %inside_1", "", "an index adds where it should not, or not where it should"),
    ("max", NEST, " max %first", "", "elements are not combined as ogt"),
    ("max", NEST, "cmpi eq, %k, %c0_2", "cmpi ne, %k, %c0_2", ELSEWHERE),
    ("max", NEST, "ordered bag", "bag", "additions to one element may run in another order"),
    ("max", NEST, "bag(%k) = %c0_2", "bag(%k) = %c1_2", ELSEWHERE),
    ("max", NEST, " if %valid", "", "an index adds where it should not, or not where it should"),
    ("max", LOOPS, "arith.cmpf ogt", "arith.cmpf oge", "elements are not combined as ogt"),
    ("max", LOOPS, "arith.select %is_larger, %element, %total", "arith.select %is_larger, %total, %element", "as ogt"),
    ("max", LOOPS, "arith.select %first, %element, %larger", "arith.select %first, %larger, %element", ELSEWHERE),
    ("max", "promoted", "constant 0.000000e+00", "constant -1.000000e+00", "begins with another number than zero"),
    ("max", "promoted", "constant 0.000000e+00", "constant -0.000000e+00", "begins with another number than zero"),
    ("max of integers", LOOPS, "arith.maxsi", "arith.minsi", "elements are not combined as arith.maxsi"),
    ("float16", NEST, "%nothing = arith.constant 0.0", "%nothing = arith.constant 1.0", "writes a number to out"),
    ("weighted", NEST, "accumulate %weighted,", "accumulate %element,", "not combined as arith.mulf, added"),
    ("weighted", NEST, "%indices[%i_1, %k, %c1_2]", "%indices[%i_1, %c0_2, %c1_2]", ELSEWHERE),
    ("weighted", NEST, " if %valid", "", "an index adds where it should not, or not where it should"),
    ("quantised", NEST, "arith.mulf %wide, %weight", "arith.mulf %wide, %bias", ELSEWHERE),
    ("quantised", NEST, "arith.uitofp", "arith.sitofp", "elements are not combined as arith.uitofp to f32"),
    ("quantised", "promoted", "%sum, %out[%i_i, %c0", "%sum_1, %out[%i_i, %c0", ELSEWHERE),
    ("quantised mean", NEST, "accumulate %weighted_1,", "accumulate %weighted,", "elements are not combined as"),
    ("mean", AHEAD, "%last = arith.subi %n_run", "%last = arith.addi %n_run", "outside of indices in dimension 0"),
    ("weighted", AHEAD, "%last = arith.subi %n_run", "%last = arith.addi %n_run", "outside of indices in dimension 0"),
    ("max", AHEAD.replace(PREFETCHED, SEPARATE), "bag(%k_1) = %c0_2 to", "bag(%k_1) = %c1_2 to", ELSEWHERE),
]
# Where the indices have gaps, a later place is found in its bag.
GAPS = [
    ("arith.minsi %following, %last_bag", "arith.addi %following, %last_bag", "outside of indices"),
    ("arith.select %is_next, %over, %later", "arith.select %is_next, %later, %over", "of indices"),
    ("arith.remui %c4_1", "arith.divui %c4_1", "outside of indices in dimension 1"),
]


@pytest.mark.draw(3)
@pytest.mark.parametrize(("old", "new", "reason"), GAPS)
def test_a_pass_that_prefetches_outside_of_indices_with_gaps_is_refuted(prove, verdict_of, old, new, reason):
    def module() -> ModuleOp:
        return reduction("mean", indices="5x7xi64 strided<[14, 1]>")

    *_, verdict = prove(module(), AHEAD)
    assert verdict.status == "proved"
    verdict = verdict_of(module(), AHEAD, old, new)
    assert verdict.status == "refuted" and reason in verdict.reason, str(verdict)


@pytest.mark.draw(4)
@pytest.mark.parametrize(("name", "pipeline", "old", "new", "reason"), WRONG_REDUCTIONS)
def test_a_pass_that_breaks_another_reduction_is_refuted(verdict_of, name, pipeline, old, new, reason):
    verdict = verdict_of(reduction(name), promoted(name) if pipeline == "promoted" else pipeline, old, new)
    assert verdict.status == "refuted" and reason in verdict.reason, str(verdict)


def test_a_mean_that_is_divided_by_another_size_is_refuted(verdict_of):
    old, new = "index_cast %n_bag", "index_cast %n_indices"
    verdict = verdict_of(reduction("mean", "error"), NEST, old, new)
    assert verdict.status == "refuted" and verdict.reason == DIVISOR, str(verdict)


STORE = "memref.store %added, %out[%i_1, %j_1] : memref<?x?xf32>"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (STORE, f"{STORE}\n{STORE}", "between the load of a sum and its store is a loop or another store"),
        ("arith.addf %total", "arith.mulf %total", "arith.mulf of elements"),
    ],
)
def test_what_the_proof_does_not_know_is_undecided(verdict_of, old, new, reason):
    verdict = verdict_of(bags(), LOOPS, old, new)
    assert verdict.status == "undecided" and verdict.reason == reason, str(verdict)


def test_bags_of_constant_indices_are_undecided(prove):
    text = """
    func.func @gather(%data: tensor<9x4xf32>) -> tensor<1x4xf32> {
      %i = arith.constant dense<[[0, 5]]> : tensor<1x2xi64>
      %r = gather.gather_reduce %data, %i bounds error : tensor<9x4xf32>, tensor<1x2xi64> -> tensor<1x4xf32>
      func.return %r : tensor<1x4xf32>
    }"""
    verdict = prove(parse_module(text), default_pipeline(Schedule()))[-1]
    assert verdict.status == "undecided" and verdict.reason == "the indices of bags are a constant", str(verdict)
