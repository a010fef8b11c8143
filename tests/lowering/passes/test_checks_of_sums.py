"""Gradients and reductions that check while they add, or stage positions before: the same bytes, and every index."""

import itertools
import re
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, parse_module, verify_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import (
    Gather,
    GatherElements,
    GatherMax,
    GatherMean,
    GatherNd,
    GatherReduce,
    Gradient,
    OperatorSpec,
)
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_passes

NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops"
LOWERED = "hoist-invariants,lower-nest-to-loops,fold-constants,promote-sums,canonicalize,cse"
BAGS = (
    "specialize-inner{bytes=32},tile-loops{loops=check_indices,indices sizes=32,4},"
    "parallelize-loops{loops=indices_o,check_indices_o},vectorize-inner{lanes=4},"
    "prefetch{what=rows loop=bag ahead=4 lines=2 locality=2 separate=bag}"
)
OWNERS = "owner-computes{owners=2 axis=axis}"
LISTS = (
    f"{OWNERS},fuse-into-owners,tile-loops{{loops=indices sizes=3}},parallelize-loops{{loops=owners}},"
    "compact-indices{loop=indices_i}"
)
PARTS = "tile-loops{loops=inner sizes=4},interchange-loops{order=inner_o,indices,inner_i}"
SCALARS = (
    "owner-computes{owners=2 axis=axis},fuse-into-owners,"
    "tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
    "vectorize-lists{lanes=8},unroll{loop=indices_i factor=8},prefetch{what=tile loop=indices_i ahead=2 locality=2}"
)


@dataclass(frozen=True)
class Case:
    """An operator, the shapes of its data and indices, a schedule, and the loop that checks."""

    operator: OperatorSpec
    data: tuple[int, ...]
    shape: tuple[int, ...]
    schedule: str
    loop: str
    dtype: str = "i8"
    scale: float | None = None

    @property
    def axes(self) -> list[int]:
        normal = self.operator.normalized(self.data, self.shape)
        return [self.data[axis] for axis in normal.axes(self.shape)]

    def module(self, check: str) -> ModuleOp:
        """Return the scheduled nest with its check."""
        normal = self.operator.normalized(self.data, self.shape)
        gradient = None if self.scale is None else Gradient(self.scale)
        arrays = ArraySpec(self.data, "f4"), ArraySpec(self.shape, self.dtype)
        module = operator_module(normal, *arrays, bounds=Bounds.ERROR, gradient=gradient)
        run_passes(module, ",".join(filter(None, [NEST, self.schedule, check])), make_context())
        verify_module(module)
        return parse_module(str(module))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what is read, valid indices, and the right result."""
        rng = np.random.default_rng(5)
        normal, size = self.operator.normalized(self.data, self.shape), min(self.axes)
        indices = rng.integers(0 if self.dtype[0] == "u" else -size, size, self.shape).astype(self.dtype)
        shape = self.data if self.scale is None else normal.result_shape(self.data, self.shape)
        source = rng.random(shape, dtype=np.float32)
        if self.scale is None:
            return source, indices, reference.run(normal, source, indices)
        return source, indices, reference.gradient(normal, source, indices, self.data, scale=self.scale)


CASES = {
    "bags": Case(GatherReduce(), (9, 8), (10, 7), BAGS, "indices_o"),
    "bags, a bag at a time": Case(GatherReduce(), (9, 8), (10, 7), "", "indices"),
    "bags of columns": Case(GatherReduce(), (9, 3), (10, 7), "tile-loops{loops=indices sizes=3}", "indices_o"),
    "narrow indices": Case(GatherReduce(), (9, 8), (10, 7), BAGS, "indices_o", "u4"),
    "means": Case(GatherMean(), (9, 8), (10, 7), BAGS, "indices_o"),
    "maxima": Case(GatherMax(), (9, 8), (10, 7), BAGS, "indices_o"),
    "one thread adds": Case(Gather(0), (9, 8), (20,), "tile-loops{loops=indices sizes=3}", "indices_o", scale=1),
    "an index at a time": Case(Gather(0), (9, 8), (20,), "", "indices", scale=0.5),
    "batches": Case(Gather(1, 1), (3, 9, 8), (3, 20), "parallelize-loops{loops=batch}", "batch", scale=0.5),
    "elements": Case(GatherElements(1), (5, 9, 3), (5, 20, 3), "parallelize-loops{loops=outer}", "outer", scale=1),
    "tuples": Case(GatherNd(0), (4, 5, 3), (20, 2), "tile-loops{loops=indices sizes=3}", "indices_o", scale=0.5),
    "owners": Case(
        Gather(0),
        (9, 8),
        (20,),
        f"{OWNERS},tile-loops{{loops=indices sizes=3}},parallelize-loops{{loops=owners}}",
        "indices_o",
        scale=0.5,
    ),
    "owners of single positions": Case(
        Gather(0), (1, 8), (20,), f"{OWNERS},tile-loops{{loops=indices sizes=3}}", "indices_o", scale=1
    ),
    "parts of rows": Case(Gather(0), (9, 8), (20,), f"{PARTS},parallelize-loops{{loops=inner_o}}", "inner_i", scale=1),
    "lists": Case(Gather(0), (9, 8), (20,), LISTS, "indices_o", scale=0.5),
    "lists of scalars": Case(Gather(0), (40,), (100,), SCALARS, "indices_o", scale=1),
}
ONE_RUN = [name for name, case in CASES.items() if not isinstance(case.operator, GatherNd)]


def result(module: ModuleOp, source: np.ndarray, indices: np.ndarray, out: np.ndarray) -> bytes:
    interpret(module, source, indices, out, seed=1)
    return out.tobytes()


def check_every_index(case: Case, module: ModuleOp, *, keeps_out: bool) -> None:
    """Check a nest and its loops: the bytes, and that each index outside is found wherever it stands."""
    source, indices, wanted = case.arrays()
    lowered = module.clone()
    run_passes(lowered, LOWERED, make_context())
    size = max(case.axes)
    for stage in (module, lowered):
        assert result(stage, source, indices, np.full(wanted.shape, 9, "f4")) == wanted.tobytes()
        numbers = (size, 256 + size, 2**31) if case.dtype[0] == "u" else (size, -size - 1, 2**40, -(2**62))
        places = range(0, indices.size, max(indices.size // 7, 1))
        for place, bad in zip(places, itertools.cycle(numbers), strict=False):
            wrong, out = indices.copy(), np.full(wanted.shape, 9, "f4")
            wrong.flat[place] = bad
            with pytest.raises(BoundsError):  # an InternalError where the nest reaches outside of an array
                interpret(stage, source, wrong, out, seed=1)
            assert not keeps_out or (out == 9).all()


@pytest.mark.draw(2)
@pytest.mark.parametrize("name", CASES)
def test_sums_that_check_while_they_add_keep_the_bytes_and_find_every_index_outside(name):
    case = CASES[name]
    module = case.module(f"check-indices{{how=fused loop={case.loop}}}")
    assert "gather.fresh_out" in str(module)
    check_every_index(case, module, keeps_out=False)


ONE_BY_ONE = re.sub(r"vectorize-lists[^,]*,", "", SCALARS)
LISTED = {
    "in vectors": Case(Gather(0), (40,), (100,), SCALARS, "", scale=1),
    "one by one, and scaled": Case(Gather(0), (40,), (100,), ONE_BY_ONE, "", scale=0.5),
    "of an odd axis": Case(Gather(0), (41,), (100,), SCALARS, "", scale=1),
    "of narrow indices": Case(Gather(0), (40,), (100,), SCALARS, "", "u4", scale=1),
    "of indices without a sign": Case(Gather(0), (40,), (100,), ONE_BY_ONE, "", "u8", scale=1),
    "of a shape": Case(Gather(0), (40,), (25, 4), SCALARS, "", scale=1),
    "of elements": Case(GatherElements(0), (40,), (100,), SCALARS, "", scale=1),
    "of batches": Case(Gather(1, 1), (3, 40), (3, 100), ONE_BY_ONE, "", scale=1),
    "of tuples of one": Case(GatherNd(0), (40,), (100, 1), SCALARS, "", scale=1),
}


@pytest.mark.draw(2)
@pytest.mark.parametrize(
    ("name", "staged"),
    [*((name, False) for name in LISTED), *((name, True) for name in LISTED if name != "of batches")],
)
def test_lists_that_are_counted_keep_the_bytes_and_find_every_index_outside(name, staged):
    module = LISTED[name].module("check-indices{how=counted},stage-result" if staged else "check-indices{how=counted}")
    assert ("gather.fresh_out" in str(module), "copy_axis" in str(module)) == (not staged, staged)
    assert "check_indices" not in str(module)
    check_every_index(LISTED[name], module, keeps_out=staged)


STAGED = {
    "lists of scalars": CASES["lists of scalars"],
    "scalars that one thread adds": Case(Gather(0), (9,), (20,), "", "indices", scale=0.5),
}


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", STAGED)
def test_what_is_checked_on_the_way_to_a_buffer_leaves_out_as_it_was(name):
    module = STAGED[name].module(f"check-indices{{how=fused loop={STAGED[name].loop}}},stage-result")
    assert "gather.fresh_out" not in str(module) and "memref.alloc(" in str(module)
    check_every_index(STAGED[name], module, keeps_out=True)


@pytest.mark.parametrize(
    ("case", "passes", "message"),
    [
        (
            CASES["lists"],
            "check-indices{how=counted}",
            "expected owners that list a position and an element for each index",
        ),
        (
            CASES["bags"],
            "check-indices{how=fused loop=indices_o},stage-result",
            "expected one dimension of out .*, got 2",
        ),
    ],
)
def test_what_cannot_be_counted_or_staged_is_rejected(case, passes, message):
    with pytest.raises(ScheduleError, match=message):
        case.module(passes)


@pytest.mark.draw(2)
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("name", ONE_RUN)
def test_sums_of_staged_positions_keep_the_bytes_and_out_where_an_index_is_outside(name, bits):
    case = CASES[name]
    if bits == 32 and case.dtype == "u4":
        with pytest.raises(ScheduleError, match="positions of 32 bits are no narrower than indices of i32"):
            case.module("check-indices{how=staged bits=32}")
        return
    check_every_index(case, case.module(f"check-indices{{how=staged bits={bits}}}"), keeps_out=True)


@pytest.mark.parametrize("sizes", [(3, 7), (10, 1), (2, 7)])
def test_the_bags_of_a_tile_are_checked_by_one_loop_whatever_their_size(sizes):
    case = Case(GatherReduce(), (9, 8), sizes, "tile-loops{loops=indices sizes=3}", "indices_o")
    module = case.module("check-indices{how=fused loop=indices_o}")
    assert str(module).count("gather.loop check_") == 1
    check_every_index(case, module, keeps_out=False)


@pytest.mark.parametrize(
    ("schedule", "loop", "message"),
    [
        (
            "specialize-inner{bytes=32},group-indices{loop=indices}",
            "axis",
            "count_indices sorts all indices by position before axis; leave group-indices out, or this pass",
        ),
        (PARTS, "clear_axis", "clear_axis is not around all that is copied or added; name a loop around it"),
        (LISTS, "compact_indices_i", "compact_indices_i is not around all that is copied or added"),
        (LISTS, "inner", "indices_i runs over what was listed before, and no index that is outside is; name the loop"),
        (LISTS, "indices_i", "indices_i runs over what was listed before"),
    ],
)
def test_a_loop_of_a_gradient_that_cannot_check_is_rejected(schedule, loop, message):
    with pytest.raises(ScheduleError, match=message):
        Case(Gather(0), (9, 8), (20,), schedule, loop, scale=1).module(f"check-indices{{how=fused loop={loop}}}")


def test_owners_that_check_ask_for_an_axis_that_is_not_empty():
    case = CASES["owners"]
    module = case.module(f"check-indices{{how=fused loop={case.loop}}}")
    assert "gather.min_axis_sizes = array<i64: 1>" in str(module)
    out = np.zeros((0, 8), np.float32)
    with pytest.raises(BoundsError, match="axis"):
        interpret(module, np.zeros((20, 8), np.float32), np.full(20, 3), out, seed=1)
