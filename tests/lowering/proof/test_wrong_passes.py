"""Deliberately wrong passes, each refuted with a small gather on which the interpreter goes wrong, too."""

from dataclasses import dataclass, replace

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, Gradient

from .conftest import Edit

NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops"
TILED = f"{NEST},tile-loops{{loops=indices sizes=4}}"
STAGED = (
    f"{TILED},interchange-loops{{order=batch,indices_o,outer,indices_i,inner}}"
    ",parallelize-loops{loops=batch},hoist-indices{before=outer}"
)
VECTORS = f"{NEST},vectorize-inner{{lanes=4}}"
LONG_ROWS = f"{NEST},specialize-inner{{bytes=256}},vectorize-inner{{lanes=8}},stream-stores"


@dataclass(frozen=True)
class Wrong:
    """A wrong pass: what it does to the module after a pipeline, and what the proof says."""

    pipeline: str
    old: str
    new: str
    reason: str
    bounds: str = "zero"
    index: str = "i64"
    operator: str = "gather"
    scale: float | None = None


NOT_WRITTEN = "an element of out is not written"
OTHER_SOURCE = "an element of out comes from another element of data or another index"
OTHER_POSITION = "an index leads to another position"
OUTSIDE = "reaches outside of"
UNALIGNED = "a non-temporal store is at an address that is no multiple of 16 bytes"
UNALIGNED_WHOLE = UNALIGNED.replace("16", "32")

WRONG = {
    "tile one short": Wrong(
        TILED,
        "%limit = arith.addi %i_o, %c4 : index",
        "%c3_9 = arith.constant 3 : index\n%limit = arith.addi %i_o, %c3_9 : index",
        NOT_WRITTEN,
    ),
    "tile not cut at the end": Wrong(
        TILED, "%end = arith.minsi %limit, %n_indices", "%end = arith.addi %limit, %c0", OUTSIDE
    ),
    "remainder one late": Wrong(
        VECTORS,
        "gather.loop inner_rest(%j_1) = %whole to",
        "%late = arith.addi %whole, %c1 : index\ngather.loop inner_rest(%j_1) = %late to",
        NOT_WRITTEN,
    ),
    "last vector past the end": Wrong(
        VECTORS, "%whole = arith.subi %n_inner, %rest", "%whole = arith.addi %n_inner, %c0", OUTSIDE
    ),
    "wrap dropped": Wrong(
        NEST, "%sign = arith.shrsi %index, %c63", "%sign = arith.subi %index, %index", "an index gives zeros"
    ),
    "wrap dropped after the check": Wrong(
        NEST,
        "%wrapped = arith.minui %shifted_1, %index_1",
        "%wrapped = arith.ori %index_1, %index_1",
        OTHER_POSITION,
        "error",
    ),
    "clamp dropped": Wrong(
        NEST, "%lowered = arith.minsi %index, %last", "%lowered = arith.ori %index, %index", OUTSIDE, "clip"
    ),
    "remainder of a negative index": Wrong(
        NEST, "%wrapped = arith.addi %remainder, %shift", "%wrapped = arith.ori %remainder, %remainder", OUTSIDE, "wrap"
    ),
    "unmasked tail": Wrong(
        VECTORS, "memref.store %element_1, %out", "memref.store %loaded_1, %out", "an index gives zeros"
    ),
    "prefetch that faults": Wrong(
        f"{TILED},prefetch{{what=rows loop=indices_i ahead=4}}",
        "%ahead = arith.minsi %later, %last",
        "%ahead = arith.addi %later, %c0",
        OUTSIDE,
    ),
    "staged by too few iterations": Wrong(
        STAGED,
        "gather.loop resolve_indices_i(%i_i) = %i_o to %end",
        "%short = arith.subi %end, %c1 : index\ngather.loop resolve_indices_i(%i_i) = %i_o to %short",
        "a staged position is read before it is written",
    ),
    "staged from another tile": Wrong(
        STAGED,
        "%index = memref.load %indices[%b, %i_i]",
        "%place_9 = arith.subi %i_i, %i_o : index\n%index = memref.load %indices[%b, %place_9]",
        OTHER_SOURCE,
    ),
    "stale narrow index": Wrong(STAGED, ", gather.narrow_axes}", "}", ""),
    "index of another batch": Wrong(NEST, "%indices[%b, %i]", "%indices[%c0, %i]", OTHER_SOURCE),
    "slice of another outer": Wrong(NEST, "%data[%b, %o,", "%data[%b, %c0,", OTHER_SOURCE),
    "unrolled copy twice": Wrong(
        f"{NEST},unroll{{loop=inner factor=4}}", "%c3_1 = arith.constant 3", "%c3_1 = arith.constant 2", NOT_WRITTEN
    ),
    "check stops early": Wrong(
        NEST,
        "%n_outside = gather.loop check_indices(%i) = %c0_2 to %n_index_run",
        "%fewer = arith.subi %n_index_run, %c1 : index\n%n_outside = gather.loop check_indices(%i) = %c0_2 to %fewer",
        "an index is not checked",
        "error",
    ),
    "check of one row only": Wrong(
        NEST,
        "memref.dim %index_run, %c0_3 : memref<?xi64>",
        "memref.dim %indices, %c0_3 : memref<?x?xi64>",
        OUTSIDE,
        "error",
    ),
    "check off by one": Wrong(NEST, "arith.cmpi uge, %shifted", "arith.cmpi ugt, %shifted", "", "error"),
    "unsigned index extended by its sign": Wrong(
        NEST, "arith.extui %index : i8", "arith.extsi %index : i8", "", "clip", "ui8"
    ),
    "stream without a prologue": Wrong(
        VECTORS,
        "%out[%b, %o, %i, %j] : memref<?x?x?x?xi32>, vector",
        "%out[%b, %o, %i, %j] {alignment = 16 : i64, nontemporal = true} : memref<?x?x?x?xi32>, vector",
        UNALIGNED,
    ),
    "prologue one too long": Wrong(
        f"{VECTORS},stream-stores", "%first = arith.addi %c0_2, %head", "%first = arith.addi %c1, %head", UNALIGNED
    ),
    "stream between the elements": Wrong(
        f"{VECTORS},stream-stores",
        "arith.select %fits, %first_1, %n_inner",
        "arith.select %fits, %first_1, %first_1",
        UNALIGNED,
    ),
    "whole vectors aligned as parts are": Wrong(
        LONG_ROWS, "arith.remui %address, %c32 ", "arith.remui %address, %c4 ", UNALIGNED_WHOLE, "clip"
    ),
    "components of a tuple swapped": Wrong(
        NEST, "%position, %position_1, %j]", "%position_1, %position, %j]", "", "wrap", operator="gather_nd"
    ),
}
FUSED = (
    f"{TILED},interchange-loops{{order=batch,indices_o,outer,indices_i,inner}}"
    ",check-indices{how=fused loop=indices_o}"
)
WRONG_FUSIONS = {
    "branch on the indices dropped": Wrong(
        FUSED,
        "arith.cmpi eq, %n_outside_2, %none_1",
        "arith.cmpi eq, %none_1, %none_1",
        "an index outside is not found",
    ),
    "count of a tile dropped": Wrong(
        FUSED, "gather.yield %n_outside_2 : i64", "gather.yield %none_1 : i64", "an index is not checked"
    ),
    "bound off by one": Wrong(FUSED, "arith.cmpi uge, %shifted", "arith.cmpi ugt, %shifted", "is not found, or one"),
    "negative not wrapped where it is checked": Wrong(
        FUSED, "%shifted = arith.addi %index, %size", "%shifted = arith.ori %index, %index", "is not found, or one"
    ),
    "tile checked one short": Wrong(
        FUSED,
        "%n_outside_2 = gather.loop check_indices(%i) = %i_o to %end",
        "%fewer = arith.subi %end, %c1 : index\n%n_outside_2 = gather.loop check_indices(%i) = %i_o to %fewer",
        OUTSIDE,
    ),
    "out is not fresh": Wrong(FUSED, ", gather.fresh_out", "", "is written before all indices are checked"),
}
WRONG |= {name: replace(wrong, bounds="error") for name, wrong in WRONG_FUSIONS.items()}
SUMS = "canonical,lower-to-nest,fold-bounds,erase-sizes"
WRONG_SUMS = {
    "parallel over a shared sum": Wrong(
        SUMS,
        "gather.loop ordered indices(",
        "gather.loop parallel indices(",
        "two iterations of the parallel loop indices write one element",
    ),
    "ordered loop without its order": Wrong(
        SUMS, "gather.loop ordered indices(", "gather.loop indices(", "may run in another order"
    ),
    "owner without its mask": Wrong(
        f"{SUMS},owner-computes{{owners=3}}", "if %mine", "if %inside", "each iteration of owners adds the same"
    ),
    "cleared one short": Wrong(
        SUMS,
        "gather.loop clear_axis(%axis) = %c0_3 to %n_axis",
        "%fewer = arith.subi %n_axis, %c1 : index\ngather.loop clear_axis(%axis) = %c0_3 to %fewer",
        "an element of out is not cleared",
    ),
    "mask dropped": Wrong(SUMS, " if %inside", "", "reaches outside of out"),
    "scaled by a part only": Wrong(
        SUMS,
        "gather.loop scale_axis(%axis_1) = %c0_3 to",
        "gather.loop scale_axis(%axis_1) = %c1 to",
        "a sum is not scaled",
    ),
    "remainder added again": Wrong(
        f"{SUMS},vectorize-inner{{lanes=4}}",
        "gather.loop inner_rest(%j_2) = %whole to",
        "gather.loop inner_rest(%j_2) = %c0_3 to",
        "an element of grad is added twice",
    ),
}
WRONG |= {name: replace(wrong, scale=2.0) for name, wrong in WRONG_SUMS.items()}
KEPT = "tile-loops{loops=check_indices sizes=32},prefetch{what=rows loop=indices ahead=4}"
KEPT = f"{NEST},{KEPT},check-indices{{how=staged bits=8}}"
FREED = "memref.dealloc %positions : memref<?xi8>"
WRONG_LIVES = {
    "positions freed ahead of the prefetches and loads": Wrong(
        KEPT, "scf.if %all_inside", f"{FREED}\nscf.if %all_inside", "uses memory that is freed"
    ),
    "positions freed in the loop that prefetches": Wrong(
        KEPT, "gather.loop inner(", f"{FREED}\ngather.loop inner(", "each iteration of a loop frees memory"
    ),
    "positions prefetched behind their end": Wrong(
        KEPT, FREED, f"{FREED}\nmemref.prefetch %positions[%c0_2], read, locality<3>, data : memref<?xi8>", "is freed"
    ),
    "positions freed twice": Wrong(KEPT, FREED, f"{FREED}\n{FREED}", "uses memory that is freed"),
    "positions streamed to memory that is freed": Wrong(
        KEPT,
        "vector.store %narrow_lanes, %positions[%i_i]",
        f"{FREED}\nvector.store %narrow_lanes, %positions[%i_i] {{alignment = 16 : i64, nontemporal = true}}",
        "each iteration of a loop frees memory",
    ),
}
WRONG |= {name: replace(wrong, bounds="error") for name, wrong in WRONG_LIVES.items()}

# Those that go wrong on an axis that is too large to make.
TOO_LARGE = {"stale narrow index"}
# Those that break a promise to the caller, which the arrays do not show.
UNSEEN = {"out is not fresh"}
# Those whose sums the interpreter, which adds in order and alone, gets right all the same.
BY_CHANCE = {"parallel over a shared sum", "ordered loop without its order"}
# A copy by an index outside reads a clamped position, and its new result is dropped: some examples show nothing.
BY_CHANCE |= {"branch on the indices dropped"}
# Its example has too few indices for a vector of positions.
BY_CHANCE |= {"positions streamed to memory that is freed"}
# Those that go wrong where NumPy has put an array otherwise.
BY_CHANCE |= {name for name, wrong in WRONG.items() if wrong.reason in (UNALIGNED, UNALIGNED_WHOLE)}


@pytest.mark.draw(24)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_pass_is_refuted_with_a_gather_that_goes_wrong(name: str, operator, verdict_of) -> None:
    wrong = WRONG[name]
    module = operator(wrong.operator, wrong.bounds, wrong.index, scale=wrong.scale)
    verdict = verdict_of(module, wrong.pipeline, wrong.old, wrong.new)
    assert verdict.status == "refuted"
    assert wrong.reason in verdict.reason
    assert verdict.example is not None
    assert verdict.example.seen or name in TOO_LARGE | BY_CHANCE | UNSEEN


def test_wrong_pass_that_frees_sorted_indices_ahead_of_their_sums_is_refuted_by_samples(prove) -> None:
    arrays = ArraySpec.parse("9x6xf32"), ArraySpec.parse("7xi64")
    gradient = operator_module(Gather(0), *arrays, gradient=Gradient(2.0))
    edit = Edit("gather.loop axis(", "memref.dealloc %ends : memref<?xi64>\ngather.loop axis(")
    *_, right, wrong = prove(gradient, f"{SUMS},drop-unit-loops,group-indices{{loop=indices}}", edit)
    assert (right.status, wrong.status) == ("undecided", "refuted"), str(wrong)
    assert "memref.load uses memory that is freed" in str(wrong)
