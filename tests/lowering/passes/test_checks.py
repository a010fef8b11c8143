"""Indices checked while a nest copies or adds, or staged, or counted: the same bytes, and every index outside found."""

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
DATA, CUBE = (2, 2, 5, 4), (3, 4, 5)
TILES_OF_3 = "tile-loops{loops=indices sizes=3}"
ORDERED = (
    "tile-loops{loops=indices,check_indices sizes=3,2},interchange-loops{order=batch,indices_o,outer,indices_i,inner},"
    "parallelize-loops{loops=batch,indices_o,check_indices_o},hoist-indices{before=outer},vectorize-inner{lanes=2},"
    "prefetch{what=rows loop=indices_i ahead=2},stream-stores"
)
VECTORS = "tile-loops{loops=indices sizes=5},vectorize-inner{lanes=4}"
SHORT_ROWS = "specialize-inner{bytes=12},tile-loops{loops=outer,outer_i sizes=8,3},vectorize-inner{lanes=2}"
KNOWN_ROWS = "specialize-inner{bytes=68},vectorize-inner{lanes=4}"
ROWS = (
    "tile-loops{loops=outer,check_indices sizes=2,20},parallelize-loops{loops=outer_o,check_indices_o},"
    "vectorize-inner{lanes=4},gather-lanes,prefetch{what=rows loop=outer_i ahead=1},stream-stores"
)
BAGS = (
    "specialize-inner{bytes=32},tile-loops{loops=check_indices,indices sizes=32,4},"
    "parallelize-loops{loops=indices_o,check_indices_o},vectorize-inner{lanes=4},"
    "prefetch{what=rows loop=bag ahead=4 lines=2 locality=2 separate=bag}"
)
OWNERS = "owner-computes{owners=2 axis=axis}"
SHARED_OWNERS = f"{OWNERS},{TILES_OF_3},parallelize-loops{{loops=owners}}"
LISTS = f"{OWNERS},fuse-into-owners,{TILES_OF_3},parallelize-loops{{loops=owners}},compact-indices{{loop=indices_i}}"
PARTS = "tile-loops{loops=inner sizes=4},interchange-loops{order=inner_o,indices,inner_i}"
SCALARS = (
    "owner-computes{owners=2 axis=axis},fuse-into-owners,"
    "tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
    "vectorize-lists{lanes=8},unroll{loop=indices_i factor=8},prefetch{what=tile loop=indices_i ahead=2 locality=2}"
)
ONE_BY_ONE = re.sub(r"vectorize-lists[^,]*,", "", SCALARS)


@dataclass(frozen=True)
class Case:
    """An operator, the shapes of its data and indices, a schedule, and the loop that checks or the bits of a position.

    With a scale it is the gradient.
    """

    operator: OperatorSpec
    data: tuple[int, ...]
    shape: tuple[int, ...]
    schedule: str = ""
    loop: str | int = ""
    dtype: str = "i8"
    scale: float | None = None
    bounds: Bounds = Bounds.ERROR

    @property
    def normal(self) -> OperatorSpec:
        return self.operator.normalized(self.data, self.shape)

    @property
    def axes(self) -> list[int]:
        return [self.data[axis] for axis in self.normal.axes(self.shape)]

    def module(self, check: str, start: str = NEST) -> ModuleOp:
        """Return the scheduled nest with its check."""
        gradient = None if self.scale is None else Gradient(self.scale)
        arrays = ArraySpec(self.data, "f4"), ArraySpec(self.shape, self.dtype)
        module = operator_module(self.normal, *arrays, bounds=self.bounds, gradient=gradient)
        run_passes(module, ",".join(filter(None, [start, self.schedule, check])), make_context())
        verify_module(module)
        return parse_module(str(module))

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the array to read, valid indices, and the right result."""
        rng, size = np.random.default_rng(5), min(self.axes)
        indices = rng.integers(0 if self.dtype[0] == "u" else -size, size, self.shape).astype(self.dtype)
        shape = self.data if self.scale is None else self.normal.result_shape(self.data, self.shape)
        source = rng.random(shape, dtype=np.float32)
        if self.scale is None:
            return source, indices, reference.run(self.normal, source, indices)
        return source, indices, reference.gradient(self.normal, source, indices, self.data, scale=self.scale)

    def indices_outside(self) -> list[int]:
        """Return indices that are outside of every axis, at the ends of what 8, 16, 32 and 64 bits hold."""
        size, ends = max(self.axes), np.iinfo(self.dtype)
        drawn = (size, -size - 1, 256 + size, 2**31 - 1, -(2**31), 2**31, 2**40, -(2**62), ends.max, ends.min)
        return [each for each in drawn if ends.min <= each <= ends.max and not -size <= each < size]

    def check(self, module: ModuleOp, *, keeps_out: bool) -> None:
        """Check a nest and its loops: the bytes, and that each index outside is found wherever it stands."""
        source, indices, wanted = self.arrays()
        lowered = module.clone()
        run_passes(lowered, LOWERED, make_context())
        for stage in (module, lowered):
            out = np.full(wanted.shape, 9, "f4")
            interpret(stage, source, indices, out, seed=1)
            assert out.tobytes() == wanted.tobytes()
            places = range(0, indices.size, max(indices.size // 7, 1))
            for place, bad in zip(places, itertools.cycle(self.indices_outside()), strict=False):
                wrong, out = indices.copy(), np.full(wanted.shape, 9, "f4")
                wrong.flat[place] = bad
                with pytest.raises(BoundsError):  # an InternalError where the nest reaches outside of an array
                    interpret(stage, source, wrong, out, seed=1)
                assert not keeps_out or (out == 9).all()


def fused(loop: str | int) -> str:
    return f"check-indices{{how=fused loop={loop}}}"


def staged(bits: str | int) -> str:
    return f"check-indices{{how=staged bits={bits}}}"


COPIES = {
    "flat": Case(Gather(2), DATA, (7,), "", "indices"),
    "repeated by outer": Case(Gather(2), DATA, (7,), "tile-loops{loops=outer sizes=2}", "outer_o", "i4"),
    "batches": Case(Gather(2, 1), DATA, (2, 7), "vectorize-inner{lanes=4}", "batch", "u1"),
    "staged tiles": Case(Gather(2, 1), DATA, (2, 7), ORDERED, "indices_o"),
    "a slice at a time": Case(Gather(2, 1), DATA, (2, 7), ORDERED, "outer", "i2"),
    "tiles of tiles": Case(Gather(2), DATA, (7,), "tile-loops{loops=indices,indices_i sizes=4,2}", "indices_i_o", "u8"),
    "each index": Case(Gather(2, 1), DATA, (2, 7), f"{TILES_OF_3},unroll{{loop=inner factor=2}}", "indices_i"),
    "lanes": Case(Gather(3), DATA, (7,), VECTORS, "indices_o", "i4"),
    "all prefetched": Case(Gather(3), DATA, (9,), VECTORS, "indices_o lines=0"),
    "streamed lanes": Case(Gather(3), DATA, (7,), "vectorize-inner{lanes=4},stream-stores", "outer"),
    "tuples": Case(GatherNd(1), DATA, (2, 5, 2), "tile-loops{loops=indices sizes=4}", "indices_o"),
    "elements": Case(GatherElements(2), DATA, (2, 2, 4, 3), "", "outer"),
    "tiles of elements": Case(GatherElements(2), DATA, (2, 2, 4, 4), "tile-loops{loops=outer sizes=2}", "outer_o"),
    "short rows": Case(GatherElements(3), DATA, (2, 2, 5, 3), SHORT_ROWS, "outer_o"),
    "tiles of short rows": Case(GatherElements(3), DATA, (2, 2, 5, 3), SHORT_ROWS, "outer_i_o lines=0", "i4"),
    "0-d": Case(Gather(2), DATA, (), "parallelize-loops{loops=outer}", "outer"),
}
SUMS = {
    "bags": Case(GatherReduce(), (9, 8), (10, 7), BAGS, "indices_o"),
    "bags, a bag at a time": Case(GatherReduce(), (9, 8), (10, 7), "", "indices"),
    "bags of columns": Case(GatherReduce(), (9, 3), (10, 7), TILES_OF_3, "indices_o"),
    "narrow indices": Case(GatherReduce(), (9, 8), (10, 7), BAGS, "indices_o", "u4"),
    "means": Case(GatherMean(), (9, 8), (10, 7), BAGS, "indices_o"),
    "maxima": Case(GatherMax(), (9, 8), (10, 7), BAGS, "indices_o"),
    "one thread adds": Case(Gather(0), (9, 8), (20,), TILES_OF_3, "indices_o", scale=1),
    "an index at a time": Case(Gather(0), (9, 8), (20,), "", "indices", scale=0.5),
    "batches": Case(Gather(1, 1), (3, 9, 8), (3, 20), "parallelize-loops{loops=batch}", "batch", scale=0.5),
    "elements": Case(GatherElements(1), (5, 9, 3), (5, 20, 3), "parallelize-loops{loops=outer}", "outer", scale=1),
    "tuples": Case(GatherNd(0), (4, 5, 3), (20, 2), TILES_OF_3, "indices_o", scale=0.5),
    "owners": Case(Gather(0), (9, 8), (20,), SHARED_OWNERS, "indices_o", scale=0.5),
    "owners of single positions": Case(Gather(0), (1, 8), (20,), f"{OWNERS},{TILES_OF_3}", "indices_o", scale=1),
    "parts of rows": Case(Gather(0), (9, 8), (20,), f"{PARTS},parallelize-loops{{loops=inner_o}}", "inner_i", scale=1),
    "lists": Case(Gather(0), (9, 8), (20,), LISTS, "indices_o", scale=0.5),
    "lists of scalars": Case(Gather(0), (40,), (100,), SCALARS, "indices_o", scale=1),
}
POSITIONS = {
    "elements": Case(GatherElements(2), CUBE, (3, 4, 7), "", 8),
    "a whole step": Case(GatherElements(2), CUBE, (1, 4, 4), "", 8),
    "known rows": Case(GatherElements(2), CUBE, (3, 4, 17), KNOWN_ROWS, 8, "i4"),
    "tiles": Case(GatherElements(2), CUBE, (3, 4, 17), ROWS, 16),
    "unsigned": Case(GatherElements(2), CUBE, (3, 4, 17), ROWS, 8, "u8"),
    "narrow unsigned": Case(GatherElements(2), CUBE, (3, 4, 17), "", 16, "u4"),
    "columns": Case(GatherElements(1), CUBE, (3, 6, 5), "vectorize-inner{lanes=4}", 8),
    "rows": Case(Gather(0), CUBE, (70,), "vectorize-inner{lanes=4}", 8, "i4"),
    "batches": Case(Gather(1, 1), CUBE, (3, 40), "parallelize-loops{loops=batch}", 8),
    "staged tiles": Case(Gather(2), CUBE, (18,), "tile-loops{loops=outer,indices sizes=4,8}", 8),
    "one index": Case(Gather(2), CUBE, (), "", 8),
}
LISTED = {
    "in vectors": Case(Gather(0), (40,), (100,), SCALARS, scale=1),
    "one by one, and scaled": Case(Gather(0), (40,), (100,), ONE_BY_ONE, scale=0.5),
    "of an odd axis": Case(Gather(0), (41,), (100,), SCALARS, scale=1),
    "of narrow indices": Case(Gather(0), (40,), (100,), SCALARS, dtype="u4", scale=1),
    "of indices without a sign": Case(Gather(0), (40,), (100,), ONE_BY_ONE, dtype="u8", scale=1),
    "of a shape": Case(Gather(0), (40,), (25, 4), SCALARS, scale=1),
    "of elements": Case(GatherElements(0), (40,), (100,), SCALARS, scale=1),
    "of batches": Case(Gather(1, 1), (3, 40), (3, 100), ONE_BY_ONE, scale=1),
    "of tuples of one": Case(GatherNd(0), (40,), (100, 1), SCALARS, scale=1),
}
# Sums in a buffer, which an index outside leaves where out is not touched.
BUFFERED = {
    "lists of scalars": SUMS["lists of scalars"],
    "scalars that one thread adds": Case(Gather(0), (9,), (20,), "", "indices", scale=0.5),
}


@pytest.mark.draw(5)
@pytest.mark.parametrize("case", [*COPIES.values(), *SUMS.values()], ids=[*COPIES, *(f"sums: {name}" for name in SUMS)])
def test_a_fused_check_keeps_the_bytes_and_finds_every_index_outside(case):
    module = case.module(fused(case.loop))
    assert "gather.fresh_out" in str(module)
    case.check(module, keeps_out=False)


@pytest.mark.draw(2)
@pytest.mark.parametrize("name", POSITIONS)
def test_staged_positions_keep_the_bytes_and_out_where_an_index_is_outside(name):
    POSITIONS[name].check(POSITIONS[name].module(staged(POSITIONS[name].loop)), keeps_out=True)


@pytest.mark.draw(2)
@pytest.mark.parametrize("bits", [8, 32])
@pytest.mark.parametrize("name", [name for name in SUMS if name != "tuples"])
def test_sums_of_staged_positions_keep_the_bytes_and_out_where_an_index_is_outside(name, bits):
    case = SUMS[name]
    if bits == 32 and case.dtype == "u4":
        with pytest.raises(ScheduleError, match="positions of 32 bits are no narrower than indices of i32"):
            case.module(staged(32))
        return
    case.check(case.module(staged(bits)), keeps_out=True)


@pytest.mark.draw(2)
@pytest.mark.parametrize(
    ("name", "stages"),  # a result of two dimensions is not staged
    [*((name, False) for name in LISTED), *((name, True) for name in LISTED if name != "of batches")],
)
def test_lists_that_are_counted_keep_the_bytes_and_find_every_index_outside(name, stages):
    module = LISTED[name].module("check-indices{how=counted}" + (",stage-result" if stages else ""))
    assert ("gather.fresh_out" in str(module), "copy_axis" in str(module)) == (not stages, stages)
    assert "check_indices" not in str(module)
    LISTED[name].check(module, keeps_out=stages)


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", BUFFERED)
def test_what_is_checked_on_the_way_to_a_buffer_leaves_out_as_it_was(name):
    module = BUFFERED[name].module(f"{fused(BUFFERED[name].loop)},stage-result")
    assert "gather.fresh_out" not in str(module) and "memref.alloc(" in str(module)
    BUFFERED[name].check(module, keeps_out=True)


def test_a_check_that_is_fused_without_a_name_is_in_the_innermost_parallel_loop():
    tiles = f"{TILES_OF_3},parallelize-loops{{loops=indices_o}}"
    text = str(Case(Gather(0), (9, 5), (7,), tiles).module("check-indices{how=fused}"))
    assert "gather.loop parallel indices_o(%i_o) = %c0_2 to %n_indices step %c3_1 sum" in text
    assert text.count("gather.loop check_") == 1


@pytest.mark.parametrize(
    ("loop", "place"),
    [
        ("indices_o", r"%c0\w*, %end, %c0\w*"),
        ("indices_i", r"%c0\w*, %i_i, %n_inner\w*"),
        ("inner", r"%c0\w*, %c0\w*, %next"),
    ],
)
def test_the_next_iteration_has_its_first_index_prefetched(loop, place):
    order = ",interchange-loops{order=inner,indices_o,indices_i}" if loop == "inner" else ""
    module = Case(GatherElements(0), (5, 4), (7, 4), TILES_OF_3 + order).module(fused(loop))
    first = re.search(r"memref.prefetch %indices\[(.*?)\]", str(module))
    assert first is not None and re.fullmatch(place, first[1]), first


@pytest.mark.parametrize(
    ("axis", "schedule", "loops"),
    [
        (3, SHORT_ROWS, 1),
        (3, SHORT_ROWS.removeprefix("specialize-inner{bytes=12},"), 1),
        (2, "tile-loops{loops=outer sizes=3}", 3),
    ],
)
def test_rows_of_a_tile_are_checked_by_one_loop_unless_two_of_their_sizes_are_not_known(axis, schedule, loops):
    module = Case(GatherElements(axis), DATA, (2, 2, 5, 3), schedule).module(
        fused("outer_i_o" if axis == 3 else "outer_o")
    )
    assert str(module).count("gather.loop check_") == loops


@pytest.mark.parametrize("sizes", [(3, 7), (10, 1), (2, 7)])
def test_the_bags_of_a_tile_are_checked_by_one_loop_whatever_their_size(sizes):
    case = Case(GatherReduce(), (9, 8), sizes, TILES_OF_3, "indices_o")
    module = case.module(fused("indices_o"))
    assert str(module).count("gather.loop check_") == 1
    case.check(module, keeps_out=False)


def test_owners_that_check_ask_for_an_axis_that_is_not_empty():
    module = SUMS["owners"].module(fused("indices_o"))
    assert "gather.min_axis_sizes = array<i64: 1>" in str(module)
    out = np.zeros((0, 8), np.float32)
    with pytest.raises(BoundsError, match="axis"):
        interpret(module, np.zeros((20, 8), np.float32), np.full(20, 3), out, seed=1)


@pytest.mark.parametrize(("dtype", "size", "bits"), [("i8", 256, 8), ("i4", 256, 8), ("u8", 256, 8), ("i8", 65536, 16)])
def test_the_largest_axis_that_the_bits_hold_is_read_whole(dtype, size, bits):
    data = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    ends = [0, size - 1, size // 2] + ([] if dtype == "u8" else [-1, -size])
    indices = np.resize(np.array(ends, dtype), (2, 40))
    module = Case(GatherElements(1), data.shape, indices.shape, dtype=dtype).module(staged(bits))
    out = np.zeros(indices.shape, np.float32)
    interpret(module, data, indices, out, seed=1)
    assert (out == np.take_along_axis(data, indices.astype(np.int64), 1)).all()
    larger = np.zeros((2, size + 1), np.float32)
    with pytest.raises(BoundsError, match=f"an axis has size {size + 1}, but this code holds for at most {size}"):
        interpret(module, larger, indices, out, seed=1)


@pytest.mark.parametrize(
    ("size", "index", "found"),
    [
        *((256, "i8", "xi8>"), (257, "i8", "xi16>"), (65536, "i4", "xi16>"), (65537, "i8", "xi32>")),
        *((65537, "i4", ""), (2**32, "i8", "xi32>"), (2**32 + 1, "i8", "")),
    ],
)
def test_bits_that_are_omitted_are_those_that_a_static_axis_needs(size, index, found):
    text = str(Case(GatherElements(1), (2, size), (2, 40), dtype=index).module("check-indices{how=staged}", "nest"))
    assert (f"memref.alloc(%n_index_run) : memref<?{found}" in text) == bool(found)
    assert ("memref.alloc" in text) == bool(found)


@pytest.mark.parametrize("bounds", [Bounds.CLIP, Bounds.ZERO])
def test_a_function_without_a_check_stays(bounds):
    case = Case(GatherElements(2), CUBE, CUBE, bounds=bounds)
    assert str(case.module(staged(8))) == str(case.module(""))
