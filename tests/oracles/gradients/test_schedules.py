"""Gradients under any schedule, at every stage and compiled, on any number of threads, against sums made one by one."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.element_types import number_width
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.reference import resolve
from gathernest.ir.semantics import Bounds
from gathernest.kernels.gradient import run_gradient
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.schedule import steps
from gathernest.lowering.schedule.schedule import Schedule

from ...selection import example_ratio, examples
from ..cases import EXACT
from .sums import ADDED, BOUNDS, agree, numbers, sums_one_by_one

SHARED = {
    "listed": (
        Gather(),
        (3000, 40),
        (9000,),
        "owner-computes{owners=7 axis=axis},fuse-into-owners,tile-loops{loops=indices sizes=64},"
        "parallelize-loops{loops=owners},compact-indices{loop=indices_i},vectorize-inner{lanes=16},"
        "prefetch{what=slices loop=indices_i ahead=2 locality=2}",
    ),
    "listed elements": (
        Gather(),
        (3001,),
        (9001,),
        "owner-computes{owners=4 axis=axis},fuse-into-owners,"
        "tile-loops{loops=indices sizes=128},parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
        "vectorize-lists{lanes=8},unroll{loop=indices_i factor=8},"
        "prefetch{what=tile loop=indices_i ahead=4 locality=2}",
    ),
    "elements packed by a table": (
        *(Gather(), (61,), (9001,)),  # so few positions that the order of each vector is seen
        "owner-computes{owners=2 axis=axis},fuse-into-owners,"
        "tile-loops{loops=indices sizes=128},parallelize-loops{loops=owners},compact-indices{loop=indices_i},"
        "vectorize-lists{lanes=4}",
    ),
    "grouped": (
        *(Gather(), (3000, 48), (9000,)),
        "specialize-inner{bytes=192},group-indices{loop=indices},tile-loops{loops=axis sizes=64},"
        "parallelize-loops{loops=axis_o},vectorize-inner{lanes=16},prefetch{what=slices loop=bag ahead=8 locality=2},"
        "stream-stores",
    ),
    "grouped in parts": (
        *(Gather(), (3000, 48), (9000,)),
        "specialize-inner{bytes=192},group-indices{loop=indices},parallelize-sort{parts=3},"
        "tile-loops{loops=axis sizes=64},parallelize-loops{loops=axis_o},vectorize-inner{lanes=16},"
        "prefetch{what=slices loop=bag ahead=8 locality=2},stream-stores",
    ),
    "grouped pieces": (
        *(Gather(), (30, 64), (900,)),
        "specialize-inner{bytes=256},group-indices{loop=indices},tile-loops{loops=axis,inner sizes=4,16},"
        "interchange-loops{order=axis_o,axis_i,inner_o,bag,inner_i},parallelize-loops{loops=axis_o},"
        "vectorize-inner{lanes=8},prefetch{what=slices loop=bag ahead=8 locality=2},stream-stores",
    ),
    "owners": (Gather(), (3000, 40), (9000,), "owner-computes{owners=3 axis=axis},parallelize-loops{loops=owners}"),
    "pieces": (
        *(Gather(), (30, 200), (900,)),
        "tile-loops{loops=inner sizes=16},interchange-loops{order=inner_o,indices,inner_i},"
        "parallelize-loops{loops=inner_o,clear_axis}",
    ),
    "vectors": (
        *(Gather(), (30, 100), (900,)),
        "specialize-inner{bytes=400},tile-loops{loops=inner sizes=56},interchange-loops{order=inner_o,indices,inner_i},"
        "parallelize-loops{loops=inner_o,clear_axis},vectorize-inner{lanes=8}",
    ),
    "owned vectors": (
        *(Gather(), (3000, 9), (9000,)),
        "owner-computes{owners=3 axis=axis},parallelize-loops{loops=owners},vectorize-inner{lanes=4}",
    ),
    "vectors ahead": (
        *(Gather(), (30, 100), (900,)),
        "specialize-inner{bytes=400},parallelize-loops{loops=clear_axis},vectorize-inner{lanes=16},"
        "prefetch{what=rows loop=indices ahead=8 lines=7 locality=3},stream-stores",
    ),
    "long vectors": (
        *(Gather(), (50, 333), (900,)),
        "owner-computes{owners=4 axis=axis},parallelize-loops{loops=owners,clear_axis},vectorize-inner{lanes=16},"
        "stream-stores",
    ),
    "streamed scalars": (
        *(Gather(), (9001,), (900,)),
        "tile-loops{loops=clear_axis sizes=1000},parallelize-loops{loops=clear_axis_o},stream-stores",
    ),
    "outer": (Gather(1), (40, 30, 8), (900,), "parallelize-loops{loops=outer,clear_outer}"),
    "tuples": (
        GatherNd(),
        (50, 60, 9),
        (4000, 2),
        "owner-computes{owners=5 axis=axis_1},parallelize-loops{loops=owners}",
    ),
    "elements": (GatherElements(1), (30, 40, 60), (30, 90, 50), "parallelize-loops{loops=outer,clear_data_outer}"),
}


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", SHARED)
def test_bytes_are_the_same_for_any_number_of_threads_and_any_schedule(name):
    operator, shape, indices_shape, schedule = SHARED[name]
    rng = np.random.default_rng(5)
    sizes = [shape[axis] for axis in operator.axes(indices_shape)]
    indices = rng.integers(-min(sizes), min(sizes), indices_shape)
    grad = numbers(operator.result_shape(shape, indices_shape), np.dtype("f4"))
    results = []
    for text, threads in ((None, 2), ("", 1), (schedule, 1), (schedule, 2)):
        with gn.knobs.scope(num_threads=threads):
            plan = None if text is None else Schedule.parse(text)
            results.append(run_gradient(operator, grad, indices, shape, Bounds.ERROR, 0.5, schedule=plan))
    assert len({result.tobytes() for result in results}) == 1
    by_hand = np.zeros(shape, "f4")

    numbered = np.arange(by_hand.size).reshape(shape)
    taken = {
        "gather": lambda: np.take(numbered, indices, axis=getattr(operator, "axis", 0)),
        "gather_nd": lambda: numbered[tuple(np.moveaxis(indices, -1, 0))],
        "gather_elements": lambda: np.take_along_axis(numbered[:, :, : indices_shape[-1]], indices, 1),
    }[operator.name]()
    np.add.at(by_hand.reshape(-1), taken.reshape(-1), grad.reshape(-1))
    assert agree(results[0], by_hand * np.float32(0.5))


# The passes whose stages depend on the schedule; those before it are the same as in `test_sums.py`.
SCHEDULED = (
    *steps.STEPS,
    "hoist-invariants",
    "lower-nest-to-loops",
    "fold-constants",
    "promote-sums",
    "canonicalize",
    "cse",
)
OF_SORTED = ("group-indices", "parallelize-sort", "promoted", "stream-stores", "parallelize-loops")
OF_ROWS = (
    *("specialize-inner", "owner-computes", "vectorize-inner", "stream-stores", "tile-loops", "parallelize-loops"),
    *("prefetch", "fuse-into-owners", "compact-indices"),
)


def draw_row_schedule(draw, positions: int, row: int, width_bytes: int) -> Schedule:
    """Return a schedule for rows at random places; not every one is legal."""
    owners = draw(st.sampled_from([None, 1, 2, 3]))
    is_listed = owners is not None and draw(st.sampled_from([True, False, True]))
    is_fused = draw(st.sampled_from([True, False, True])) and owners is not None
    piece = None if is_listed or is_fused else draw(st.sampled_from([None, None, None, 32, row, 8, 1]))
    tiles: dict[str, int] = {} if piece is None else {"inner": piece}
    tiles |= {"indices": draw(st.sampled_from([1, 2, 5]))} if is_listed else {}
    counting = "indices_i" if is_listed else "indices"
    if draw(st.booleans()):
        tiles["clear_axis"] = draw(st.sampled_from([1, 2, 5, positions]))
    around = [] if owners is None else ["owners"]
    is_cleared_apart = not is_fused and draw(st.booleans())
    clear = ["clear_axis_o" if "clear_axis" in tiles else "clear_axis"] if is_cleared_apart else []
    parallel = (*draw(st.sampled_from([around, [], *([[*around, "inner_o"]] if piece else [])])), *clear)
    rows = [None, None, steps.Prefetch("rows", counting, 3, 2), steps.Prefetch("rows", counting, 1, 5, 2)]
    return Schedule().put(
        tiled(tiles),
        None if piece is None else steps.InterchangeLoops((*around, "inner_o", "indices", "inner_i")),
        steps.ParallelizeLoops(parallel) if parallel else None,
        None if owners is None else steps.OwnerComputes(owners),
        steps.FuseIntoOwners() if is_fused else None,
        steps.CompactIndices("indices_i") if is_listed else None,
        draw(st.sampled_from([steps.SpecializeInner(row * width_bytes), None])),
        draw_lanes(draw, 16 // width_bytes, 64 // width_bytes, 2, None),
        draw(st.sampled_from(rows)),
        draw_slices(draw, counting),
        draw(st.sampled_from([steps.StreamStores(), steps.StreamStores(), None])),
    )


def tiled(tiles: dict[str, int]) -> steps.TileLoops | None:
    return steps.TileLoops(tuple(tiles), tuple(tiles.values())) if tiles else None


def draw_lanes(draw, *counts: int | None) -> steps.VectorizeInner | None:
    count = draw(st.sampled_from(counts))
    return None if count is None else steps.VectorizeInner(count)


def draw_slices(draw, loop: str) -> steps.Prefetch | None:
    ahead, separate = draw(st.sampled_from([None, 1, 3])), draw(st.sampled_from([loop, None]))
    return None if ahead is None else steps.Prefetch("slices", loop, ahead, locality=2, separate=separate)


def draw_grouped_schedule(draw, positions: int, row: int, width_bytes: int) -> Schedule:
    """Return a schedule that sorts indices by position; not every one is legal."""
    piece = draw(st.sampled_from([None, 32, 8])) if row > 8 else None
    tile = draw(st.sampled_from([None, 1, 2, positions]))
    tiles = {"axis": tile, "inner": piece}
    axis = ["axis"] if tile is None else ["axis_o", "axis_i"]
    parts = draw(st.sampled_from([None, 2, 3, 5, 16]))
    return Schedule().put(
        tiled({name: size for name, size in tiles.items() if size is not None}),
        None if piece is None else steps.InterchangeLoops((*axis, "inner_o", "bag", "inner_i")),
        draw(st.sampled_from([steps.ParallelizeLoops((axis[0],)), None])),
        steps.GroupIndices("indices"),
        None if parts is None else steps.ParallelizeSort(parts),
        draw_slices(draw, "bag"),
        draw(st.sampled_from([steps.SpecializeInner(row * width_bytes), None])),
        draw_lanes(draw, 16 // width_bytes, 2, None),
        draw(st.sampled_from([steps.StreamStores(), None])),
    )


def draw_element_schedule(draw) -> Schedule:
    """Return a legal schedule of owners that list single elements."""
    lanes, factor, ahead = (draw(st.sampled_from([None, *values])) for values in ((2, 4, 8), (2, 3), (1, 5)))
    return Schedule().put(
        tiled({"indices": draw(st.sampled_from([3, 8, 20]))}),
        draw(st.sampled_from([steps.ParallelizeLoops(("owners",)), None])),
        steps.OwnerComputes(draw(st.sampled_from([1, 2, 4]))),
        draw(st.sampled_from([steps.FuseIntoOwners(), None])),
        steps.CompactIndices("indices_i"),
        None if lanes is None else steps.VectorizeLists(lanes),
        None if factor is None else steps.Unroll("indices_i", factor),
        None if ahead is None else steps.Prefetch("tile", "indices_i", ahead, locality=2),
    )


def test_any_list_of_single_elements_gives_the_sums_at_every_stage(oracle):
    @settings(EXACT, max_examples=examples(6))
    @given(data=st.data())
    def check(data):
        draw = data.draw
        positions, n, dtype = draw(st.integers(2, 17)), draw(st.integers(2, 40)), draw(st.sampled_from(ADDED))
        dtype = np.dtype("f4") if dtype.kind == "c" else dtype
        bounds, scale = draw(st.sampled_from(BOUNDS)), draw(st.sampled_from([1.0, 3.0]))
        least, most = (0, positions - 1) if bounds == "unchecked" else (-positions, positions - 1)
        around = (-20, 20) if bounds in ("zero", "clip", "wrap") else (least, most)
        indices = np.array(draw(st.lists(st.integers(*around), min_size=n, max_size=n)), np.int64)
        case = oracle.make(np.zeros(positions, dtype), indices, bounds=bounds)
        grad, out = numbers((n,), dtype), np.zeros(positions, dtype)
        wanted = sums_one_by_one(oracle, case, grad, scale)
        arrays = ArraySpec.of(out), ArraySpec.of(indices)
        problem = Problem.checked(Gather(), *arrays, Bounds(bounds), ArraySpec.of(grad), gradient=Gradient(scale))
        schedule = draw_element_schedule(draw)
        for stage, module in oracle.stages_with_modules(make_plan(problem, schedule), 0):
            if stage.pass_name in SCHEDULED:
                out[...] = 7
                interpret(module, grad, indices, out)
                assert agree(out, wanted), f"{stage.name} of {schedule}:\n{stage.text}"
        out[...] = 7
        run_gradient(Gather(), grad, indices, out.shape, Bounds(bounds), scale, out, schedule=schedule)
        assert agree(out, wanted), schedule

    check()


@pytest.mark.draw(1)
@pytest.mark.parametrize(
    ("draw_schedule", "count", "counts", "fields"),
    [
        (draw_row_schedule, 40, (3, 2, 4, 5, 1, 0), (*OF_ROWS, "slices", "separate")),
        (draw_grouped_schedule, 16, (2, 3, 4, 5), OF_SORTED),
    ],
    ids=["rows", "sorted"],
)
def test_any_schedule_of_rows_is_rejected_or_gives_the_sums_at_every_stage(
    oracle, draw_schedule, count, counts, fields
):
    reached: collections.Counter[str] = collections.Counter()

    @settings(EXACT, max_examples=examples(count))
    @given(data=st.data())
    def check(data):
        draw = data.draw
        positions, row, n = (
            draw(st.integers(1, 5)),
            draw(st.sampled_from([7, 32, 40, 64, 3, 1])),
            draw(st.sampled_from(counts)),
        )
        dtype = draw(st.sampled_from(ADDED))
        bounds = draw(st.sampled_from(BOUNDS))
        inside = (0, positions - 1) if bounds == "unchecked" else (-positions, positions - 1)
        around = (-20, 20) if bounds in ("zero", "clip", "wrap") else inside
        indices = np.array(draw(st.lists(st.integers(*around), min_size=n, max_size=n)), np.int64)
        grad = numbers((n, row), dtype)
        start = draw(st.integers(0, 3)) * number_width(dtype)  # not every array lies at a multiple of a vector
        memory = np.full(positions * row * dtype.itemsize + 64, 7, np.uint8)
        out = memory[start : start + positions * row * dtype.itemsize].view(dtype).reshape(positions, row)
        spec = ArraySpec.of(out), ArraySpec.of(indices)
        problem = Problem.checked(Gather(), *spec, Bounds(bounds), ArraySpec.of(grad), gradient=Gradient(1.0))
        schedule = draw_schedule(draw, positions, row * dtype.itemsize // number_width(dtype), number_width(dtype))
        try:
            stages = oracle.stages_with_modules(make_plan(problem, schedule), reached["drawn"])
        except gn.ScheduleError:
            reached["rejected"] += 1
            return
        wanted = np.zeros(out.shape, dtype)
        for index, values in zip(indices, grad, strict=True):
            position = resolve(int(index), positions, Bounds(bounds))
            if position is not None:
                wanted[position] += values
        reached["drawn"] += 1
        for stage, module in stages:
            if stage.pass_name not in SCHEDULED:
                continue
            memory[...] = 7
            interpret(module, grad, indices, out)
            assert agree(out, wanted), f"{stage.name} of {schedule}:\n{stage.text}"
        memory[...] = 7
        run_gradient(Gather(), grad, indices, out.shape, Bounds(bounds), 1.0, out, schedule=schedule)
        assert agree(out, wanted), schedule
        assert set(memory[:start]) | set(memory[start + out.nbytes :]) == {7}
        reached.update(step.name for step in schedule if not isinstance(step, steps.Prefetch))
        reached["prefetch"] += bool(schedule.prefetches())
        for prefetch in schedule.prefetches():
            reached[prefetch.what] += 1
            reached["separate"] += prefetch.separate is not None
        reached["promoted"] += any(stage.pass_name == "promote-sums" for stage, _ in stages)

    check()
    if example_ratio() >= 1:
        assert min(reached[name] for name in fields) >= 3, reached
