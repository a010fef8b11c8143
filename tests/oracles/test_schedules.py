"""Schedules drawn at random: a legal one changes no byte, an illegal one is rejected with a ScheduleError."""

import itertools
import math
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreters.interpreter import interpret
from gathernest.ir.modules.context import make_context, verify_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import module_of, passes_of, run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.nest.queries import loops
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.lowering.schedule.steps import STEPS, Prefetch, Step, TileLoops

from ..selection import examples
from .cases import EXACT

# The steps of a schedule of a gather alone.
OF_GRADIENTS = {
    *("group-indices", "parallelize-sort", "owner-computes", "fuse-into-owners"),
    *("compact-indices", "vectorize-lists"),
}
OF_GATHERS = [name for name in STEPS if name not in OF_GRADIENTS]
# What a step needs before it: vectors, and tiles of known sizes.
NEEDS = {"gather-lanes": ("vectorize-inner",), "stream-stores": ("vectorize-inner",), "hoist-indices": ("tile-loops",)}
# What slices of data a step is for.
OF = {"gather-lanes": "lanes", "specialize-inner": "rows", "bound-inner": "rows"}
SCHEDULED = (*OF_GATHERS, "hoist-invariants", "lower-nest-to-loops", "cse")
OPERATORS = ["gather", "gather_nd", "gather_elements"]


def plan_of(case, schedule: Schedule) -> Plan:
    spec = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}[case.operator]
    data, indices, out = (ArraySpec.of(array) for array in (case.data, case.indices, case.empty_out()))
    return make_plan(Problem.checked(spec(**case.attributes()), data, indices, Bounds(case.bounds), out), schedule)


def unscheduled(case) -> ModuleOp:
    """Return the nest of a case as the passes of a schedule take it."""
    plan = plan_of(case, Schedule())
    passes, context, _ = passes_of(plan)
    last = [step.name for step in passes].index("drop-unit-loops")
    module = module_of(plan.problem)
    for step in passes[: last + 1]:
        step.apply(context, module)
    return module


def names_of(nest: ModuleOp) -> tuple[list[str], list[str]]:
    """Return the names of the loops that copy and of those that check, outermost first."""
    names = [str(loop.label) for loop in loops(nest)]
    return [name for name in names if not name.startswith("check_")], [n for n in names if n.startswith("check_")]


def rotated(draw, values: Sequence) -> list:
    """Return all values, beginning with one that is drawn."""
    start = draw(st.integers(0, max(len(values) - 1, 0)))
    return [*values[start:], *values[:start]]


def tiled(names: list[str], tiles: Container[str]) -> list[str]:
    return [part for name in names for part in ((f"{name}_o", f"{name}_i") if name in tiles else (name,))]


def step_of(name: str, value: Any) -> Step | None:
    """Return a step with its value: loops, loops with sizes, a number, or True where it has no options."""
    if isinstance(value, Step) or not value:
        return value or None
    if name == "tile-loops":
        return TileLoops(tuple(loop for loop, _ in value), tuple(size for _, size in value))
    if name in ("unroll", "bound-inner"):
        return STEPS[name](*value)
    return STEPS[name]() if value is True else STEPS[name](tuple(value) if isinstance(value, list) else value)


class Drawing:
    """A schedule drawn step by step: each has the first of its values that is legal after those before it.

    Args:
        taken: the steps to take, where they are legal.
        is_planned: whether its tiles and its order are like those of a planner.
    """

    def __init__(self, draw, case, nest: ModuleOp, taken: Container[str], is_planned: bool):
        self.draw, self.case, self.nest, self.is_planned = draw, case, nest, is_planned
        self.ends_in_vectors = "vectorize-inner" in taken
        self.has_copies = "unroll" in taken or "prefetch" in taken  # of every lane: 4096 compile for minutes
        self.schedule = Schedule()
        for step in (name for name in OF_GATHERS if name in taken):
            for _ in range(draw(st.sampled_from([1, 1, 2])) if step == "prefetch" else 1):
                any(self._is_taken(step, value) for value in self._values(step))

    def _is_taken(self, step: str, value: Any) -> bool:
        """Carry a step out if it is legal, and return whether it is."""
        added, trial = step_of(step, value), self.nest.clone()
        if added is None:
            return True
        longer = Schedule((*self.schedule, added))
        try:
            for run in parse_passes(str(added)):
                run.apply(make_context(), trial)
            plan_of(self.case, longer)  # knows the size of a row
        except ScheduleError:
            return False
        verify_module(trial)
        self.nest, self.schedule = trial, longer
        return True

    def _values(self, step: str) -> Iterable[Any]:
        """Return values of a step for the loops that there are, those that are likely to be legal first."""
        copy, check = names_of(self.nest)
        every = rotated(self.draw, [*copy, *check])
        match step:
            case "specialize-inner":
                shape, width = self.case.data.shape, self.case.data.dtype.itemsize
                rows = [math.prod(shape[place:]) for place in reversed(range(len(shape)))]
                return [width * size for size in [*rows, *self.case.indices.shape[-1:]] if size]
            case "bound-inner":
                shape, width = self.case.data.shape, self.case.data.dtype.itemsize
                rows = [width * math.prod(shape[place:]) for place in reversed(range(len(shape)))]
                least = self.draw(st.sampled_from([1, 2, 4, 8, 16]))
                return [pair for row in rows for pair in ((width * least, row), (width * least, 0), (row, row)) if row]
            case "tile-loops":
                return self._tiles(copy, check)
            case "interchange-loops":
                return [self._order(copy)]
            case "parallelize-loops":
                return self._shared(copy, check)
            case "hoist-indices":
                return rotated(self.draw, copy)
            case "vectorize-inner":
                return rotated(self.draw, [2, 4, 8] if self.has_copies else [2, 4, 8, 16, 64])
            case "unroll":
                return itertools.product(every, rotated(self.draw, [2, 4, 3]))
            case "prefetch":
                kinds = (
                    st.sampled_from([1, 16, 2, 4096]),
                    st.sampled_from([1, 2, 5, 64][: 2 if self.ends_in_vectors else 4]),
                    st.integers(0, 3),
                )
                numbers = [self.draw(kind) for kind in kinds]
                separate = every if self.draw(st.integers(0, 2)) == 2 else [None]
                return [Prefetch("rows", name, *numbers, before) for name in every for before in separate]
        return [True]

    def _tiles(self, copy: list[str], check: list[str]) -> list[tuple[tuple[str, int], ...]]:
        size = self.draw(st.sampled_from([4, 2, 8, 64]))
        planned = [name for name in copy if self.is_planned and name.partition("_")[0] in ("batch", "indices")]
        rest = [name for name in [*copy, *check] if name not in planned]
        others = [name for name in rest if (self.is_planned and name == copy[-1]) or self.draw(st.booleans())]
        tiles = [
            (name, self.draw(st.sampled_from([4, 1, 2, 3, 8, 64]))) for name in others or ([] if planned else copy[-1:])
        ]
        return [(*((name, size) for name in planned), *tiles)]

    def _order(self, copy: list[str]) -> list[str]:
        """Draw an order in which no tile stands around the loop it starts at; where vectors follow, the last stays."""
        last = copy[-1:] if self.ends_in_vectors else []
        order = [name for name in copy if name not in last]
        if self.is_planned:
            return [*sorted(order, key=lambda name: name.endswith("_i")), *last]
        order = [*self.draw(st.permutations(order)), *last]
        for name in [name for name in order if name.endswith("_o")]:
            inner = f"{name[:-2]}_i"
            first, second = sorted((order.index(name), order.index(inner)))
            order[first], order[second] = name, inner
        return order

    def _shared(self, copy: list[str], check: list[str]) -> Iterator[list[str]]:
        """Yield outermost loops for threads to share: none inside a tile, nor one that is to have vectors."""
        of_copy, of_check = ([*prefixes(copy[:-1] if self.ends_in_vectors else copy)], [*prefixes(check)])
        for outer in rotated(self.draw, of_copy[1:]):
            yield [*outer, *self.draw(st.sampled_from(of_check))]


def prefixes(names: list[str]) -> Iterator[list[str]]:
    """Yield the outermost loops of a nest, from none of them to the first loop inside a tile."""
    for count in range(len(names) + 1):
        if any(f"{name[:-2]}_o" in names[:place] for place, name in enumerate(names[:count])):
            return
        yield names[:count]


def draw_legal_schedule(draw, case, wanted: str | None = None) -> Schedule:
    """Draw a schedule whose every step is legal; one that is wanted stands alone where others leave no room for it."""
    nest, needed = unscheduled(case), {wanted, *NEEDS.get(wanted, ())}
    more = {name for name in OF_GATHERS if draw(st.booleans())}
    schedule = Drawing(draw, case, nest, needed | more, draw(st.booleans())).schedule
    if wanted and not schedule.get(STEPS[wanted]):
        schedule = Drawing(draw, case, nest, needed, is_planned=True).schedule
    return schedule


def check_scheduled_stages(oracle, case, schedule: Schedule, seed: int) -> None:
    wanted = oracle.expected(case)
    for stage, module in oracle.stages_with_modules(plan_of(case, schedule), seed):
        if stage.pass_name not in SCHEDULED:
            continue
        run = lambda out, module=module: interpret(module, case.data, case.indices, out, seed=seed)  # noqa: E731
        assert oracle.agrees(case, wanted, run, BoundsError), f"{stage.name} of {case}:\n{stage.text}"


def check_kernel(oracle, case, schedule: Schedule) -> None:
    """Check the compiled kernel on one thread and on two."""
    wanted, attributes = oracle.expected(case), case.attributes() | {"bounds": case.bounds, "schedule": schedule}
    for count in (1, 2):
        with gn.knobs.scope(num_threads=count):
            kernel = gn.compile(case.operator, case.data, case.indices, **attributes)
            run = lambda out, kernel=kernel: kernel(case.data, case.indices, out)  # noqa: E731
            assert oracle.agrees(case, wanted, run, gn.BoundsError), f"{schedule} of {case}:\n{kernel.source}"


def draw_case(draw, oracle, wanted: str | None = None):
    """Draw a gather for which a step is legal; any gather where none is wanted."""
    operator = draw(st.sampled_from(["gather", "gather_elements"] if wanted == "gather-lanes" else OPERATORS))
    if wanted is None:
        return oracle.staged_case(draw, operator=operator, most=36)
    return oracle.case_of_rows(draw, operator, is_whole=True, of=OF.get(wanted, ""))


@pytest.mark.parametrize("wanted", OF_GATHERS)
@settings(EXACT, max_examples=examples(2))
@given(data=st.data())
def test_a_legal_step_changes_no_byte_at_any_stage(oracle, wanted, data):
    case = draw_case(data.draw, oracle, wanted)
    schedule = draw_legal_schedule(data.draw, case, wanted)
    assert schedule.get(STEPS[wanted]), f"{wanted} is never legal for {case}"
    check_scheduled_stages(oracle, case, schedule, data.draw(st.integers(0, 9)))


@settings(EXACT, max_examples=examples(10))
@given(data=st.data())
def test_legal_steps_change_no_byte_whatever_is_gathered(oracle, data):
    case = draw_case(data.draw, oracle)
    check_scheduled_stages(oracle, case, draw_legal_schedule(data.draw, case), data.draw(st.integers(0, 9)))


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.parametrize(
    "wanted", [None, "parallelize-loops", "hoist-indices", "gather-lanes", "prefetch", "stream-stores"]
)
@settings(EXACT, max_examples=examples(2))
@given(data=st.data())
def test_a_kernel_of_a_legal_schedule_gives_the_bytes_on_one_thread_and_on_two(oracle, wanted, data):
    case = draw_case(data.draw, oracle, wanted)
    schedule = draw_legal_schedule(data.draw, case, wanted)
    try:
        check_kernel(oracle, case, schedule)
    except ScheduleError:  # it is compiled for a contiguous result first, whose nest may have other loops
        if case.out_layout == "contiguous":
            raise


@settings(EXACT, max_examples=examples(12))
@given(data=st.data())
@pytest.mark.parametrize("operator", OPERATORS)
def test_any_schedule_is_rejected_or_changes_no_byte(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, most=24)
    copy, check = names_of(unscheduled(case))
    names = [*copy, *check, "batch", "outer", "indices"]
    tiles = data.draw(st.dictionaries(st.sampled_from([*names, *tiled(names, names)]), st.integers(0, 4), max_size=2))
    parts = sorted({*names, *tiled(names, tiles)})
    order = data.draw(st.one_of(st.just([]), st.permutations(tiled(copy, tiles)), st.permutations(copy)))
    parallel = data.draw(st.lists(st.sampled_from(parts), max_size=2))
    more = {
        "hoist-indices": st.sampled_from(parts),
        "vectorize-inner": st.integers(0, 9),
        "unroll": st.tuples(st.sampled_from(parts), st.integers(0, 70)),
        "prefetch": st.builds(
            Prefetch,
            st.sampled_from(["rows", "slices", "tile"]),
            st.sampled_from(parts),
            st.integers(0, 5000),
            st.integers(0, 70),
            st.integers(0, 4),
            st.one_of(st.none(), st.sampled_from(parts)),
        ),
        "stream-stores": st.just(True),
        "specialize-inner": st.integers(0, 40),
        "bound-inner": st.tuples(st.integers(0, 40), st.integers(0, 40)),
    }
    wild = data.draw(st.lists(st.sampled_from(sorted(more)), max_size=2, unique=True))
    try:
        loops_of_it = step_of("tile-loops", [*tiles.items()]), step_of("interchange-loops", order)
        shared = step_of("parallelize-loops", parallel)
        schedule = Schedule().put(*loops_of_it, shared, *(step_of(name, data.draw(more[name])) for name in wild))
        run_stages(plan_of(case, schedule))
    except ScheduleError:
        return
    check_scheduled_stages(oracle, case, schedule, seed=1)


@settings(EXACT, max_examples=examples(8))
@given(data=st.data())
def test_a_schedule_prints_as_what_it_parses_from(oracle, data):
    case = oracle.staged_case(data.draw, most=8)
    schedule = draw_legal_schedule(data.draw, case)
    assert Schedule.parse(str(schedule)) == schedule


def test_a_parallel_nest_gives_the_same_bytes_in_any_order_of_its_iterations(oracle):
    case = oracle.make(
        oracle.fill((3, 4, 5), np.dtype("f4")), oracle.fill((3, 6), np.dtype("i1")) % 4, axis=1, batch_dims=1
    )
    schedule = Schedule.parse("tile-loops{loops=indices sizes=4},parallelize-loops{loops=batch,indices_o}")
    for seed in range(4):
        check_scheduled_stages(oracle, case, schedule, seed)
