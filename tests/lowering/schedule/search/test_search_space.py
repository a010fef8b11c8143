"""Search spaces: what they hold, what prunes them, and that every schedule in them is legal."""

from dataclasses import replace
from itertools import pairwise

import pytest

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import ScheduleError
from gathernest.ir.modules.context import make_context
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import module_of
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.pipeline import run_passes
from gathernest.lowering.schedule.loop_sizes import NestShape
from gathernest.lowering.schedule.schedule import Prefetch, Schedule
from gathernest.lowering.schedule.search import search_space as search_space_module
from gathernest.lowering.schedule.search.search_space import (
    Generator,
    Predict,
    best_predicted,
    check_tiles,
    hoisted_indices,
    prefetches,
    row_pieces,
    search,
    serial_runs,
    specialized_rows,
    streamed_stores,
    tiles_outermost,
    unrolled_loops,
    vectors,
)
from gathernest.lowering.schedule.search.space import Space

ROWS = NestShape((("batch", 1), ("outer", 1), ("indices", 100_000), ("inner", 64)), (("indices", 100_000),), 4)
MIDDLE = NestShape((("batch", 1), ("outer", 64), ("indices", 5000), ("inner", 32)), (), 4)
LAST = NestShape((("outer", 8192), ("indices", 512)), (), 4)


DEFAULTS = {
    ROWS: "tile-loops{loops=indices,check_indices sizes=256,4096},parallelize-loops{loops=indices_o,check_indices_o}",
    MIDDLE: "tile-loops{loops=indices sizes=256},parallelize-loops{loops=outer,indices_o}",
    LAST: "tile-loops{loops=outer sizes=16},parallelize-loops{loops=outer_o}",
}


def default_of(nest: NestShape) -> Schedule:
    return Schedule.parse(DEFAULTS.get(nest, ""))


def space_of(nest: NestShape, default: Schedule | None = None, **options) -> Space:
    return Space(nest, default_of(nest) if default is None else default, **options)


def given_by(generate: Generator, space: Space, schedule: Schedule | None = None) -> list[str]:
    return [str(found) for found in generate(space, space.default if schedule is None else schedule)]


def search_space(space: Space, predict: Predict | None = None, most: int = 24) -> tuple[Schedule, ...]:
    """Return the schedules that a search without a clock finds; with a prediction, those of the `most` best."""
    kept: list[tuple[Schedule, ...]] = [(space.default,)]

    def keep(schedules):
        kept[0] = tuple(schedules if predict is None else best_predicted(space, schedules, predict, most))
        return kept[0]

    seen = search(space, keep)
    return seen if predict is None else kept[0]


def test_a_search_begins_with_the_default_and_gives_nothing_twice():
    for nest in (ROWS, MIDDLE, LAST):
        space = space_of(nest)
        found = search_space(space, lambda nest, schedule: 1.0, 40)
        assert found[0] == space.default
        keys = [replace(schedule, tiles=tuple(sorted(schedule.tiles))) for schedule in found]
        assert len(set(keys)) == len(keys) == 40


def test_each_generator_goes_on_from_what_was_kept_before_it():
    asked: list[list[Schedule]] = []

    def keep(schedules):
        asked.append(list(schedules))
        return schedules[-2:]

    seen = search(space_of(ROWS), keep)
    for before, after in pairwise(asked):
        assert after[:2] == before[-2:]
        assert not set(after[2:]) & set(before)
    assert len(seen) == 1 + sum(len(schedules) for schedules in asked) - 1 - 2 * (len(asked) - 1)


def test_the_search_of_a_nest_without_loops_ends():
    assert search_space(space_of(NestShape((("indices", 1), ("inner", 1)), (), 4))) == (Schedule(),)


def test_tiles_of_8_kib_to_1_mib_are_tried_beside_the_default_check():
    tried = list(search_space_module.cuts(space_of(ROWS), default_of(ROWS)))
    assert {dict(schedule.tiles).get("indices") for schedule in tried} == {None, 64, 256, 1024, 4096}
    assert {dict(schedule.tiles)["check_indices"] for schedule in tried} == {4096}


def test_checks_are_tried_in_other_tiles_and_on_one_thread():
    found = given_by(check_tiles, space_of(ROWS))
    assert found[-1] == "tile-loops{loops=indices sizes=256},parallelize-loops{loops=indices_o}"
    assert ["check_indices sizes=256,1024" in found[0], "check_indices sizes=256,16384" in found[1]] == [True, True]
    assert given_by(check_tiles, space_of(MIDDLE)) == []


def test_one_thread_is_tried_with_the_rest_of_the_default_and_without():
    default = replace(default_of(ROWS), lanes=8)
    assert given_by(serial_runs, space_of(ROWS, default)) == ["vectorize-inner{lanes=8}", ""]


def test_a_tile_inside_is_tried_outermost_too():
    space = space_of(MIDDLE)
    order = "interchange-loops{order=indices_o,outer,indices_i,inner},parallelize-loops{loops=indices_o}"
    assert given_by(tiles_outermost, space) == [f"tile-loops{{loops=indices sizes=256}},{order}"]


def test_long_rows_are_cut_and_their_pieces_shared():
    nest = NestShape((("indices", 3), ("inner", 2**20)), (), 4)
    order = "interchange-loops{order=inner_o,indices,inner_i},parallelize-loops{loops=inner_o}"
    assert f"tile-loops{{loops=inner sizes=4096}},{order}" in given_by(row_pieces, space_of(nest))


def test_a_gradient_has_owners_and_no_other_order_of_its_indices():
    nest = NestShape((("indices", 10**6), ("inner", 8)), (), 4, (("axis", 10**6), ("inner", 8)))
    found = search_space(space_of(nest, Schedule(), threads=2, is_gradient=True))
    plain = [schedule for schedule in found if schedule.owners and not schedule.compact and not schedule.slices]
    assert [schedule.owners for schedule in plain] == [("axis", 2), ("axis", 4)]
    assert all("indices" not in schedule.parallel for schedule in found)
    assert all((schedule.lanes is None or schedule.grouped) and not schedule.prefetch for schedule in found)
    bags = NestShape((("indices", 10**6), ("bag", 4), ("inner", 8)), (), 4, (("axis", 10**6), ("inner", 8)))
    found = search_space(space_of(bags, Schedule(), threads=2, is_gradient=True))
    assert not any(schedule.owners or schedule.grouped for schedule in found)


def test_rows_of_a_gradient_are_listed_sorted_and_prefetched_where_the_default_does_not():
    nest = NestShape((("indices", 10**6), ("inner", 64)), (), 4, (("axis", 10**4), ("inner", 64)))
    found = search_space(space_of(nest, Schedule(), threads=2, is_gradient=True))
    assert {one.slices for one in found if one.compact} >= {None, ("indices_i", 16, 2), ("indices_i", 32, 2)}
    assert all(one.fuse_owned and one.owners for one in found if one.compact)
    sorts = [one for one in found if one.grouped]
    assert {(one.stream, one.lanes, one.specialize) for one in sorts} >= {(True, 16, 256), (False, 16, 256)}
    assert any(one.slices and not (one.grouped or one.compact) for one in found)
    long = replace(nest, copied=(("indices", 10**6), ("inner", 320)), table=(("axis", 10**4), ("inner", 320)))
    pieces = [one for one in search_space(space_of(long, Schedule(), threads=2, is_gradient=True)) if one.grouped]
    assert {one.order for one in pieces} == {("axis_o", "axis_i", "inner_o", "bag", "inner_i")}
    odd = replace(nest, copied=(("indices", 10**6), ("inner", 63)), table=(("axis", 10**4), ("inner", 63)))
    sorts = [one for one in search_space(space_of(odd, Schedule(), threads=2, is_gradient=True)) if one.grouped]
    assert sorts and not any(one.lanes or one.specialize or one.stream for one in sorts)


def test_owners_that_list_elements_are_varied_and_left_out():
    listed = Schedule(
        (("indices", 2048),),
        parallel=("owners",),
        owners=("axis", 2),
        owner_block=4096,
        fuse_owned=True,
        compact="indices_i",
        list_lanes=8,
        unroll=("indices_i", 8),
        next_tile=("indices_i", 2),
    )
    nest = NestShape((("indices", 10**6),), (), 4, (("axis", 10**5),))
    found = search_space(space_of(nest, listed, threads=2, is_gradient=True))
    for name, value in (("list_lanes", None), ("next_tile", None), ("owner_block", None), ("owners", ("axis", 4))):
        assert any(one.compact and getattr(one, name) == value for one in found), name
    assert {dict(one.tiles)["indices"] for one in found if one.compact} == {1024, 2048, 4096}
    assert all(one.owners or not (one.fuse_owned or one.compact or one.next_tile) for one in found)


def test_slices_of_owners_are_prefetched_later_or_not_at_all():
    listed = Schedule((("indices", 4096),), owners=("axis", 8), compact="indices_i", slices=("indices_i", 2, 2))
    nest = NestShape((("indices", 10**5), ("inner", 1024)), (), 4, (("axis", 10**4), ("inner", 1024)))
    found = search_space(space_of(nest, listed, threads=2, is_gradient=True))
    assert {one.slices for one in found if one.compact} >= {None, ("indices_i", 2, 2), ("indices_i", 4, 2)}


@pytest.mark.parametrize(("width", "lanes"), [(1, [32, 64]), (4, [8, 16]), (16, [2, 4])])
def test_vectors_have_32_or_64_bytes(width, lanes):
    nest = replace(ROWS, width_bytes=width)
    assert [schedule.lanes for schedule in vectors(space_of(nest), Schedule())] == lanes


def test_a_vector_is_no_longer_than_its_loop():
    nest = NestShape((("indices", 1000), ("inner", 9)), (), 4)
    assert [schedule.lanes for schedule in vectors(space_of(nest), Schedule())] == [8]
    assert [schedule.lanes for schedule in vectors(space_of(nest), Schedule(tiles=(("inner", 4),)))] == []


def test_what_a_schedule_has_is_tried_without():
    space = space_of(ROWS)
    has = Schedule(
        lanes=8, specialize=256, hoist="indices", prefetch=(Prefetch("indices"),), stream=True, unroll=("indices", 4)
    )
    without = {
        vectors: replace(has, lanes=None, stream=False),
        specialized_rows: replace(has, specialize=None),
        hoisted_indices: replace(has, hoist=None),
        prefetches: replace(has, prefetch=()),
        streamed_stores: replace(has, stream=False),
        unrolled_loops: replace(has, unroll=None),
    }
    for generate, schedule in without.items():
        assert schedule in list(generate(space, has)), generate.__name__


def test_rows_are_specialized_to_their_bytes_up_to_1_kib():
    assert given_by(specialized_rows, space_of(ROWS), Schedule()) == ["specialize-inner{bytes=256}"]
    long = NestShape((("indices", 1000), ("inner", 1000)), (), 4)
    assert given_by(specialized_rows, space_of(long), Schedule()) == []


def test_rows_are_prefetched_line_by_line_and_the_next_row_where_indices_repeat():
    rows = [schedule.prefetch for schedule in prefetches(space_of(ROWS), default_of(ROWS))]
    near, far = Prefetch("indices_i", 16, 4, 3), Prefetch("indices_i", 64, 4, 2)
    assert rows[:4] == [(near,), (replace(far, locality=3),), (far,), (far, near)]
    last = [schedule.prefetch for schedule in prefetches(space_of(LAST), default_of(LAST))]
    assert (Prefetch("outer_i", 1, 1),) in last


def test_indices_are_hoisted_in_their_tile():
    tiled = Schedule((("outer", 16), ("indices", 256)), ("outer_o", "indices_o", "outer_i", "indices_i"), ("outer_o",))
    assert [schedule.hoist for schedule in hoisted_indices(space_of(LAST), tiled)] == ["outer_i"]


def test_indices_that_are_repeated_become_one_tile_and_are_hoisted_out_of_what_repeats_them():
    assert given_by(hoisted_indices, space_of(LAST)) == [
        "tile-loops{loops=outer,indices sizes=16,512},"
        "interchange-loops{order=outer_o,indices_o,outer_i,indices_i},"
        "parallelize-loops{loops=outer_o},hoist-indices{before=outer_i}"
    ]
    assert given_by(hoisted_indices, space_of(ROWS), Schedule()) == []


def test_what_is_done_in_a_loop_goes_on_in_its_tile():
    default = replace(Schedule(), prefetch=(Prefetch("indices"),), unroll=("inner", 4), hoist="indices")
    found = list(search_space_module.cuts(space_of(ROWS, default), default))
    assert {schedule.hoist for schedule in found if not schedule.tiles} == {None}
    tiled = [schedule for schedule in found if schedule.tiles]
    assert tiled
    for schedule in tiled:
        assert schedule.prefetch == (Prefetch("indices_i"),)
        assert schedule.unroll == ("inner", 4)
        assert schedule.hoist == "indices_i"


def test_a_prediction_keeps_the_best_and_the_default():
    space = space_of(MIDDLE)

    def predict(shape: NestShape, schedule: Schedule) -> float:
        assert shape is MIDDLE
        return 1e6 if schedule == space.default else float(dict(schedule.tiles).get("indices", 10**5))

    found = search_space(space, predict, most=3)
    assert found[0] == space.default
    assert [dict(schedule.tiles)["indices"] for schedule in found[1:]] == [64, 64]


@pytest.mark.parametrize("most", [1, 4, 30])
def test_a_prediction_keeps_so_many(most):
    assert len(search_space(space_of(MIDDLE), lambda nest, schedule: 1.0, most)) == most


def spec(shape: tuple[int, ...], dtype: str = "f4") -> ArraySpec:
    return ArraySpec(shape, dtype)


PROBLEMS = {
    "rows": Problem.checked(Gather(), spec((10**6, 64)), spec((10**5,), "i8"), Bounds.ERROR),
    "middle": Problem.checked(Gather(1), spec((64, 1000, 32)), spec((5000,), "i4"), Bounds.ZERO),
    "strided": Problem.checked(Gather(), ArraySpec((500, 60), "f4", (4, 2000)), spec((4000,), "i8"), Bounds.ERROR),
    "tuples": Problem.checked(GatherNd(), spec((100, 100, 16)), spec((9000, 2), "i8"), Bounds.ERROR),
    "elements": Problem.checked(GatherElements(1), spec((300, 400)), spec((300, 200), "i8"), Bounds.ERROR),
    "gradient of rows": Problem.checked(
        Gather(), spec((10**6, 16)), spec((10**5,), "i8"), Bounds.ERROR, gradient=Gradient(2.0)
    ),
    "gradient of long rows": Problem.checked(
        Gather(), spec((10**4, 320)), spec((10**5,), "i8"), Bounds.ERROR, gradient=Gradient(2.0)
    ),
    "gradient of batches": Problem.checked(
        Gather(1, 1), spec((100, 10, 64)), spec((100, 300), "i8"), Bounds.ERROR, gradient=Gradient()
    ),
}


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_schedules_of_a_search_are_legal_or_rejected(name):
    problem = PROBLEMS[name]
    plan: Plan = make_plan(problem)
    context = make_context()
    legal: list[Schedule] = []

    def keep(schedules):
        running = []
        for schedule in schedules:
            try:
                module = module_of(problem)
                run_passes(module, make_plan(problem, schedule).pipeline, context)
                module.verify()
                running.append(schedule)
            except ScheduleError:
                assert schedule.hoist or schedule.prefetch or schedule.unroll or schedule.lanes
        legal.extend(running[1:])
        return [plan.schedule, *running[-1:]]

    search(Space(plan.layout.nest, plan.schedule, 2, problem.gradient is not None), keep)
    assert len(set(legal)) > 3
    if problem.gradient is None:
        assert any(schedule.prefetch for schedule in legal)
