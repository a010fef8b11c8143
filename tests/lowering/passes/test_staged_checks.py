"""Positions that the check stages for the copy: the same bytes, every index out of range found, and out untouched."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, parse_module, verify_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, OperatorSpec
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_passes

NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops"
LOWERED = "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse"
DATA = np.random.default_rng(7).random((3, 4, 5), dtype=np.float32)
ROWS = "specialize-inner{bytes=68},vectorize-inner{lanes=4}"
TILED = (
    "tile-loops{loops=outer,check_indices sizes=2,20},parallelize-loops{loops=outer_o,check_indices_o},"
    "vectorize-inner{lanes=4},gather-lanes,prefetch{what=rows loop=outer_i ahead=1},stream-stores"
)
HOISTED = "tile-loops{loops=outer,indices sizes=2,4},interchange-loops{order=batch,outer_o,indices_o,outer_i,indices_i}"
# An operator, the shape and type of its indices, a schedule and the bits of a position.
CASES = {
    "elements": (GatherElements(2), (3, 4, 7), "i8", "", 8),
    "a whole step": (GatherElements(2), (1, 4, 4), "i8", "", 8),
    "known rows": (GatherElements(2), (3, 4, 17), "i4", ROWS, 8),
    "tiles": (GatherElements(2), (3, 4, 17), "i8", TILED, 16),
    "unsigned": (GatherElements(2), (3, 4, 17), "u8", TILED, 8),
    "narrow unsigned": (GatherElements(2), (3, 4, 17), "u4", "", 16),
    "columns": (GatherElements(1), (3, 6, 5), "i8", "vectorize-inner{lanes=4}", 8),
    "rows": (Gather(0), (70,), "i4", "vectorize-inner{lanes=4}", 8),
    "batches": (Gather(1, 1), (3, 40), "i8", "parallelize-loops{loops=batch}", 8),
    "staged tiles": (Gather(2), (18,), "i8", "tile-loops{loops=outer,indices sizes=4,8}", 8),
    "one index": (Gather(2), (), "i8", "", 8),
}


def draw(case: str) -> np.ndarray:
    """Return valid indices of a case, negative ones where their type has any."""
    operator, shape, dtype, *_ = CASES[case]
    size = DATA.shape[operator.axis]
    return np.random.default_rng(len(case)).integers(-size if dtype[0] == "i" else 0, size, shape).astype(dtype)


def nest(operator: OperatorSpec, shape: tuple[int, ...], dtype: str, steps: str, data: ArraySpec) -> ModuleOp:
    normal, indices = operator.normalized(data.shape, shape), ArraySpec(shape, dtype)
    module = operator_module(normal, data, indices, bounds=Bounds.ERROR)
    run_passes(module, ",".join(filter(None, [NEST, steps])), make_context())
    verify_module(module)
    return parse_module(str(module))


def gathered(module: ModuleOp, case: str, indices: np.ndarray) -> np.ndarray:
    out = np.full(CASES[case][0].normalized(DATA.shape, indices.shape).result_shape(DATA.shape, indices.shape), 9, "f4")
    try:
        interpret(module, DATA, indices, out, seed=1)
    except BoundsError:
        assert (out == 9).all()
        raise
    return out


@pytest.mark.draw(2)
@pytest.mark.parametrize("case", CASES)
def test_kept_positions_keep_the_bytes_and_out_where_an_index_is_outside(case):
    operator, shape, dtype, schedule, bits = CASES[case]
    steps = ",".join(filter(None, [schedule, f"check-indices{{how=staged bits={bits}}}"]))
    module, indices = nest(operator, shape, dtype, steps, ArraySpec.of(DATA)), draw(case)
    wanted = reference.run(operator.normalized(DATA.shape, shape), DATA, indices, Bounds.ERROR)
    lowered = module.clone()
    run_passes(lowered, LOWERED, make_context())
    size = DATA.shape[operator.axis]
    for stage in (module, lowered):
        assert gathered(stage, case, indices).tobytes() == wanted.tobytes()
        for place in {0, indices.size // 2, indices.size - 1}:
            for bad in (size, 256 + size, 2**31) if dtype[0] == "u" else (size, -size - 1, 256, 2**31 - 1, -(2**31)):
                wrong = indices.copy()
                wrong.flat[place] = bad
                with pytest.raises(BoundsError):
                    gathered(stage, case, wrong)


@pytest.mark.parametrize(("dtype", "size", "bits"), [("i8", 256, 8), ("i4", 256, 8), ("u8", 256, 8), ("i8", 65536, 16)])
def test_the_largest_axis_that_the_bits_hold_is_read_whole(dtype, size, bits):
    data = np.arange(2 * size, dtype=np.int32).reshape(2, size)
    ends = [0, size - 1, size // 2] + ([] if dtype == "u8" else [-1, -size])
    indices = np.resize(np.array(ends, dtype), (2, 40))
    module = nest(
        GatherElements(1), indices.shape, dtype, f"check-indices{{how=staged bits={bits}}}", ArraySpec.of(data)
    )
    out = np.zeros(indices.shape, np.int32)
    interpret(module, data, indices, out, seed=1)
    assert (out == np.take_along_axis(data, indices.astype(np.int64), 1)).all()
    larger = np.zeros((2, size + 1), np.int32)
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
    module = operator_module(GatherElements(1), ArraySpec((2, size), "f4"), ArraySpec((2, 40), index))
    run_passes(module, "nest,check-indices{how=staged}", make_context())
    assert (f"memref.alloc(%n_index_run) : memref<?{found}" in str(module)) == bool(found)
    assert ("memref.alloc" in str(module)) == bool(found)


@pytest.mark.parametrize(
    ("operator", "indices", "bits", "message"),
    [
        (GatherElements(2), ArraySpec((3, 4, 5), "i8"), 4, "expected bits=8, 16 or 32, got bits=4"),
        (GatherElements(2), ArraySpec((3, 4, 5), "i2"), 16, "positions of 16 bits are no narrower than indices of i16"),
        (GatherNd(0), ArraySpec((9, 2), "i8"), 8, "expected one loop that checks all indices"),
        (GatherElements(2), ArraySpec((3, 4, 5), "i8", (320, 80, 16)), 8, "expected one loop that checks all indices"),
    ],
)
def test_positions_that_cannot_be_kept_are_rejected(operator, indices, bits, message):
    module = operator_module(operator.normalized(DATA.shape, indices.shape), ArraySpec.of(DATA), indices)
    with pytest.raises(ScheduleError, match=message):
        run_passes(module, f"{NEST},check-indices{{how=staged bits={bits}}}", make_context())


def test_an_axis_of_more_positions_than_the_bits_hold_is_rejected():
    module = operator_module(GatherElements(1), ArraySpec((2, 257), "f4"), ArraySpec((2, 40), "i8"))
    with pytest.raises(ScheduleError, match="8 bits hold 256 positions, and the axis has 257"):
        run_passes(module, "nest,check-indices{how=staged bits=8}", make_context())


@pytest.mark.parametrize("bounds", [Bounds.CLIP, Bounds.ZERO])
def test_a_function_without_a_check_stays(bounds):
    module = operator_module(GatherElements(2), ArraySpec.of(DATA), ArraySpec((3, 4, 5), "i8"), bounds=bounds)
    run_passes(module, NEST, make_context())
    before = str(module)
    run_passes(module, "check-indices{how=staged bits=8}", make_context())
    assert str(module) == before
