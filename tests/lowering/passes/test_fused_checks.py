"""Check and copy in one nest: the same bytes, every index out of range found, and nothing outside read."""

import re

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, parse_module, verify_module
from gathernest.ir.modules.operator_module import operator_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.semantics import Bounds
from gathernest.lowering.pipeline import run_passes

NEST = "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops"
LOWERED = "hoist-invariants,lower-nest-to-loops,fold-constants,canonicalize,cse"
DATA = np.random.default_rng(7).random((2, 2, 5, 4), dtype=np.float32)
STAGED = (
    "tile-loops{loops=indices,check_indices sizes=3,2},interchange-loops{order=batch,indices_o,outer,indices_i,inner},"
    "parallelize-loops{loops=batch,indices_o,check_indices_o},hoist-indices{before=outer},vectorize-inner{lanes=2},"
    "prefetch{what=rows loop=indices_i ahead=2},stream-stores"
)
SWEPT = "indices_o lines=0"
ROWS = "specialize-inner{bytes=12},tile-loops{loops=outer,outer_i sizes=8,3},vectorize-inner{lanes=2}"
# An operator, the shape and type of its indices, a schedule, and the loop that checks.
CASES = {
    "flat": (Gather(2), (7,), "i8", "", "indices"),
    "repeated by outer": (Gather(2), (7,), "i4", "tile-loops{loops=outer sizes=2}", "outer_o"),
    "batches": (Gather(2, 1), (2, 7), "u1", "vectorize-inner{lanes=4}", "batch"),
    "staged tiles": (Gather(2, 1), (2, 7), "i8", STAGED, "indices_o"),
    "a slice at a time": (Gather(2, 1), (2, 7), "i2", STAGED, "outer"),
    "tiles of tiles": (Gather(2), (7,), "u8", "tile-loops{loops=indices,indices_i sizes=4,2}", "indices_i_o"),
    "each index": (
        Gather(2, 1),
        (2, 7),
        "i8",
        "tile-loops{loops=indices sizes=3},unroll{loop=inner factor=2}",
        "indices_i",
    ),
    "lanes": (Gather(3), (7,), "i4", "tile-loops{loops=indices sizes=5},vectorize-inner{lanes=4}", "indices_o"),
    "all prefetched": (Gather(3), (9,), "i8", "tile-loops{loops=indices sizes=5},vectorize-inner{lanes=4}", SWEPT),
    "streamed lanes": (Gather(3), (7,), "i8", "vectorize-inner{lanes=4},stream-stores", "outer"),
    "tuples": (GatherNd(1), (2, 5, 2), "i8", "tile-loops{loops=indices sizes=4}", "indices_o"),
    "elements": (GatherElements(2), (2, 2, 4, 3), "i8", "", "outer"),
    "tiles of elements": (GatherElements(2), (2, 2, 4, 4), "i8", "tile-loops{loops=outer sizes=2}", "outer_o"),
    "short rows": (GatherElements(3), (2, 2, 5, 3), "i8", ROWS, "outer_o"),
    "tiles of short rows": (GatherElements(3), (2, 2, 5, 3), "i4", ROWS, "outer_i_o lines=0"),
    "0-d": (Gather(2), (), "i8", "parallelize-loops{loops=outer}", "outer"),
}


def draw(case: str) -> np.ndarray:
    """Return valid indices of a case, negative ones where their type has any."""
    operator, shape, dtype, *_ = CASES[case]
    least = min(DATA.shape[axis] for axis in operator.normalized(DATA.shape, shape).axes(shape))
    low = -least if np.dtype(dtype).kind == "i" else 0
    return np.random.default_rng(len(case)).integers(low, least, shape).astype(dtype)


def fused(case: str) -> ModuleOp:
    """Return the nest of a case with its check in the loop."""
    operator, shape, dtype, schedule, loop = CASES[case]
    normal, indices = operator.normalized(DATA.shape, shape), ArraySpec(shape, dtype)
    module = operator_module(normal, ArraySpec.of(DATA), indices, bounds=Bounds.ERROR)
    steps = [NEST, schedule, f"check-indices{{how=fused loop={loop}}}"]
    run_passes(module, ",".join(filter(None, steps)), make_context())
    verify_module(module)
    return parse_module(str(module))


def gathered(module: ModuleOp, case: str, indices: np.ndarray) -> np.ndarray:
    out = np.full(CASES[case][0].result_shape(DATA.shape, indices.shape), 99, np.float32)
    interpret(module, DATA, indices, out, seed=1)
    return out


@pytest.mark.draw(8)
@pytest.mark.parametrize("case", CASES)
def test_a_fused_check_keeps_the_bytes_and_finds_every_index_outside(case):
    module, indices = fused(case), draw(case)
    wanted = reference.run(CASES[case][0].normalized(DATA.shape, indices.shape), DATA, indices, Bounds.ERROR)
    lowered = module.clone()
    run_passes(lowered, LOWERED, make_context())
    for stage in (module, lowered):
        assert "gather.fresh_out" in str(stage)
        assert gathered(stage, case, indices).tobytes() == wanted.tobytes()
    size = max(DATA.shape[axis] for axis in CASES[case][0].normalized(DATA.shape, indices.shape).axes(indices.shape))
    ends = {
        tuple(0 for _ in indices.shape): size,
        tuple(n - 1 for n in indices.shape): size if indices.dtype.kind == "u" else -size - 1,
    }
    for place, bad in ends.items():
        wrong = indices.copy()
        wrong[place] = bad
        with pytest.raises(BoundsError):  # an InternalError where the nest reads outside of data
            gathered(lowered, case, wrong)


def test_a_check_that_is_fused_without_a_name_is_in_the_innermost_parallel_loop():
    operator, arrays = Gather(0), (ArraySpec((9, 5), "f4"), ArraySpec((7,), "i8"))
    module = operator_module(operator, *arrays, bounds=Bounds.ERROR)
    tiles = "tile-loops{loops=indices sizes=3},parallelize-loops{loops=indices_o}"
    run_passes(module, f"{NEST},{tiles},check-indices{{how=fused}}", make_context())
    assert "gather.loop parallel indices_o(%i_o) = %c0_2 to %n_indices step %c3_1 sum" in str(module)
    assert str(module).count("gather.loop check_") == 1


@pytest.mark.parametrize(
    ("loop", "place"),
    [
        ("indices_o", r"%c0\w*, %end, %c0\w*"),
        ("indices_i", r"%c0\w*, %i_i, %n_inner\w*"),
        ("inner", r"%c0\w*, %c0\w*, %next"),
    ],
)
def test_the_next_iteration_has_its_first_index_prefetched(loop, place):
    indices, order = (
        ArraySpec((7, 4), "i8"),
        "" if loop != "inner" else ",interchange-loops{order=inner,indices_o,indices_i}",
    )
    module = operator_module(GatherElements(0), ArraySpec((5, 4), "f4"), indices)
    run_passes(
        module,
        f"{NEST},tile-loops{{loops=indices sizes=3}}{order},check-indices{{how=fused loop={loop}}}",
        make_context(),
    )
    first = re.search(r"memref.prefetch %indices\[(.*?)\]", str(module))
    assert first is not None and re.fullmatch(place, first[1]), first


@pytest.mark.parametrize(
    ("axis", "schedule", "loops"),
    [(3, ROWS, 1), (3, ROWS.removeprefix("specialize-inner{bytes=12},"), 1), (2, "tile-loops{loops=outer sizes=3}", 3)],
)
def test_rows_of_a_tile_are_checked_by_one_loop_unless_two_of_their_sizes_are_not_known(axis, schedule, loops):
    operator, arrays = GatherElements(axis), (ArraySpec.of(DATA), ArraySpec((2, 2, 5, 3), "i8"))
    module = operator_module(operator, *arrays, bounds=Bounds.ERROR)
    loop = "outer_i_o" if axis == 3 else "outer_o"
    run_passes(module, f"{NEST},{schedule},check-indices{{how=fused loop={loop}}}", make_context())
    assert str(module).count("gather.loop check_") == loops


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("check-indices{how=fused loop=batch lines=65}", "check-indices: expected lines of 0 to 64, got 65"),
        (
            "check-indices{how=fused loop=batch lines=0}",
            "expects a loop in batch that reads other indices in each iteration",
        ),
        ("check-indices{how=fused loop=rows}", "the nest has no loop 'rows'"),
        ("check-indices{how=fused loop=check_indices}", "check_indices is not around all that is copied"),
        ("vectorize-inner{lanes=2},check-indices{how=fused loop=inner}", "inner is not around all that is copied"),
        (
            "parallelize-loops{loops=batch,outer},check-indices{how=fused loop=batch}",
            "outer is parallel in batch; name the",
        ),
    ],
)
def test_a_loop_that_cannot_check_is_rejected(steps, message):
    module = operator_module(Gather(2, 1), ArraySpec.of(DATA), ArraySpec((2, 7), "i8"), bounds=Bounds.ERROR)
    with pytest.raises(ScheduleError, match=message):
        run_passes(module, f"{NEST},{steps}", make_context())
