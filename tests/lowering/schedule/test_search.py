"""Search spaces: what they hold, what prunes them, and that every schedule in them is legal."""

from dataclasses import replace

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
from gathernest.lowering.schedule.candidates import GENERATORS, Predict, Space, best_predicted, search
from gathernest.lowering.schedule.machine_model import BUILT_IN
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.shape import NestShape
from gathernest.lowering.schedule.steps import HoistIndices, TileLoops, Unroll, VectorizeInner

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


MACHINE = replace(BUILT_IN["zen4"], threads=2)


def space_of(nest: NestShape, default: Schedule | None = None) -> Space:
    return Space(nest, default_of(nest) if default is None else default, MACHINE)


def search_space(space: Space, predict: Predict | None = None, most: int = 24) -> tuple[Schedule, ...]:
    """Return the schedules that a search without a clock finds; with a prediction, those of the `most` best."""
    kept: list[tuple[Schedule, ...]] = [(space.default,)]

    def keep(schedules):
        kept[0] = tuple(schedules if predict is None else best_predicted(space, schedules, predict, most))
        return kept[0]

    seen = search(space, keep)
    return seen if predict is None else kept[0]


LISTED = Schedule.parse(
    "owner-computes{owners=2 axis=axis},fuse-into-owners,"
    "tile-loops{loops=indices sizes=2048},parallelize-loops{loops=owners},"
    "compact-indices{loop=indices_i},vectorize-lists{lanes=8},unroll{loop=indices_i factor=8},"
    "prefetch{what=tile loop=indices_i ahead=2 locality=2}"
)
EVERYTHING = Schedule.parse(
    "specialize-inner{bytes=256},hoist-indices{before=indices},vectorize-inner{lanes=8},"
    "unroll{loop=indices factor=4},prefetch{what=rows loop=indices ahead=16 locality=3},"
    "stream-stores"
)


def gradient(axis: int, inner: int, default: Schedule | None = None) -> Space:
    table = (("axis", axis), ("inner", inner))
    nest = NestShape((("indices", 10**6), ("inner", inner)), (), 4, table, is_gradient=True)
    return space_of(nest, default or Schedule())


SPACES = {
    "rows": space_of(ROWS),
    "rows of one byte": space_of(replace(ROWS, width_bytes=1)),
    "rows with every pass": space_of(ROWS, EVERYTHING),
    "rows in vectors": space_of(ROWS, default_of(ROWS).put(VectorizeInner(8))),
    "rows of nine elements": space_of(NestShape((("indices", 1000), ("inner", 9)), (), 4)),
    "rows of 4 KB": space_of(NestShape((("indices", 1000), ("inner", 1000)), (), 4)),
    "rows of 4 MB": space_of(NestShape((("indices", 3), ("inner", 2**20)), (), 4)),
    "middle": space_of(MIDDLE),
    "last": space_of(LAST),
    "last with tiles": space_of(
        LAST,
        Schedule.parse(
            "tile-loops{loops=outer,indices sizes=16,256},"
            "interchange-loops{order=outer_o,indices_o,outer_i,indices_i},parallelize-loops{loops=outer_o}"
        ),
    ),
    "gradient of short rows": gradient(10**6, 8),
    "gradient of rows": gradient(10**4, 64),
    "gradient of odd rows": gradient(10**4, 63),
    "gradient of pieces": gradient(10**4, 320),
    "gradient of lists": gradient(10**5, 1, LISTED),
    "gradient of lists of rows": gradient(
        10**4,
        1024,
        Schedule.parse(
            "owner-computes{owners=8 axis=axis},tile-loops{loops=indices sizes=4096},"
            "compact-indices{loop=indices_i},prefetch{what=slices loop=indices_i ahead=2 locality=2}"
        ),
    ),
}


def test_what_each_generator_proposes_is_what_was_reviewed(golden):
    lines: list[str] = []
    for name, space in SPACES.items():
        lines += ["", f"{name}: {str(space.default) or 'none'}"]
        for generate in GENERATORS:
            found = [f"        {str(schedule) or 'none'}" for schedule in generate(space, space.default)]
            lines += [f"    {generate.__name__}", *found] if found else []
    golden("schedules/search.txt", "\n".join(lines[1:]))


def test_a_search_begins_with_the_default_and_gives_nothing_twice():
    for nest in (ROWS, MIDDLE, LAST):
        space = space_of(nest)
        found = search_space(space, lambda schedule: 1.0, 40)
        assert found[0] == space.default
        keys = [(schedule.without(TileLoops), tuple(sorted(schedule.tiles))) for schedule in found]
        assert len(set(keys)) == len(keys) == 40


def test_a_prediction_keeps_the_best_and_the_default():
    space = space_of(MIDDLE)

    def predict(schedule: Schedule) -> float:
        return 1e6 if schedule == space.default else float(dict(schedule.tiles).get("indices", 10**5))

    found = search_space(space, predict, most=3)
    assert found[0] == space.default
    assert [dict(schedule.tiles)["indices"] for schedule in found[1:]] == [64, 64]


def spec(shape: tuple[int, ...], dtype: str = "f4") -> ArraySpec:
    return ArraySpec(shape, dtype)


PROBLEMS = {
    "elements": Problem.checked(GatherElements(1), spec((300, 400)), spec((300, 200), "i8"), Bounds.ERROR),
    "rows": Problem.checked(Gather(), spec((10**6, 64)), spec((10**5,), "i8"), Bounds.ERROR),
    "middle": Problem.checked(Gather(1), spec((64, 1000, 32)), spec((5000,), "i4"), Bounds.ZERO),
    "strided": Problem.checked(
        Gather(), ArraySpec((50_000, 60), "f4", (4, 200_000)), spec((4000,), "i8"), Bounds.ERROR
    ),
    "tuples": Problem.checked(GatherNd(), spec((100, 100, 16)), spec((9000, 2), "i8"), Bounds.ERROR),
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
                assert schedule.prefetches() or any(map(schedule.get, (HoistIndices, Unroll, VectorizeInner)))
        legal.extend(running[1:])
        return [plan.schedule, *running[-1:]]

    search(space_of(plan.layout.nest, plan.schedule), keep)
    assert len(set(legal)) > 3
    if problem.gradient is None:
        assert any(schedule.prefetches() for schedule in legal)
