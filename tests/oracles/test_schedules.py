"""Schedules drawn at random: a legal one changes no byte, an illegal one is rejected with a ScheduleError."""

import collections
import os
import re
from collections.abc import Container
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import gathernest as gn
from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError, ScheduleError
from gathernest.ir.interpreters.scalar import interpret
from gathernest.ir.modules.context import make_context, parse_module, verify_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherNd
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.pipeline import parse_passes
from gathernest.lowering.schedule.machine_model import MachineModel
from gathernest.lowering.schedule.schedule import STEPS, Prefetch, Schedule

# How many times as many examples to draw, and from 2 on other ones in every run: `make fuzz`.
MORE = int(os.environ.get("GATHERNEST_TEST_MORE", "1"))

NO_SHRINKING = (Phase.explicit, Phase.generate)
EXACT = settings(deadline=None, derandomize=MORE == 1, database=None, phases=NO_SHRINKING)
# The passes of a schedule of a gather, and the fields that ask for them.
OF_GRADIENTS = ("owner-computes", "fuse-into-owners", "compact-indices", "prefetch-slices")
FIELDS = {name: step.field for name, step in STEPS.items() if name not in OF_GRADIENTS}
SCHEDULED = (*FIELDS, "hoist-invariants", "lower-nest-to-loops", "cse")
OPERATORS = pytest.mark.parametrize("operator", ["gather", "gather_nd", "gather_elements"])


def plan_of(case, schedule: Schedule) -> Plan:
    spec = {"gather": Gather, "gather_nd": GatherNd, "gather_elements": GatherElements}[case.operator]
    data, indices, out = (ArraySpec.of(array) for array in (case.data, case.indices, case.empty_out()))
    return make_plan(Problem.checked(spec(**case.attributes()), data, indices, Bounds(case.bounds), out), schedule)


def unscheduled(case) -> str:
    """Return the nest of a case as the passes of a schedule take it."""
    stages = {stage.pass_name: stage.text for stage in run_stages(plan_of(case, Schedule()))}
    return stages["drop-unit-loops"]


def loops_of(nest: str) -> tuple[list[str], list[str]]:
    """Return the loops of the nest that copies and of the one that checks, outermost first."""
    names = re.findall(r"gather\.loop (\w+)\(", nest)
    return [name for name in names if not name.startswith("check_")], [n for n in names if n.startswith("check_")]


def draw_tiles(draw, names: list[str]) -> dict[str, int]:
    return {name: draw(st.sampled_from([4, 1, 2, 3, 8, 64])) for name in names if draw(st.booleans())}


def tiled(names: list[str], tiles: Container[str]) -> list[str]:
    return [part for name in names for part in ((f"{name}_o", f"{name}_i") if name in tiles else (name,))]


def draw_order(draw, names: list[str]) -> list[str]:
    """Draw an order of the loops in which no tile stands around the loop it starts at."""
    order = names if draw(st.booleans()) else draw(st.permutations(names))
    for name in [name for name in order if name.endswith("_o")]:
        inner = f"{name[:-2]}_i"
        first, second = sorted((order.index(name), order.index(inner)))
        order[first], order[second] = name, inner
    return order


def draw_parallel(draw, order: list[str]) -> list[str]:
    """Draw how many of the outermost loops threads share: no further than the first loop inside a tile."""
    most = next((place for place, name in enumerate(order) if f"{name[:-2]}_o" in order[:place]), len(order))
    return order[: draw(st.integers(0, most))]


def draw_prefetch(draw, names: list[str]) -> Prefetch:
    numbers = (st.sampled_from([1, 16, 2, 4096]), st.sampled_from([1, 2, 5, 64]), st.integers(0, 3))
    return Prefetch(draw(st.sampled_from(names)), *map(draw, numbers))


def draw_schedule(draw, case, nest: str) -> Schedule:
    """Draw a schedule whose fields are likely to be legal one by one; about half are like those of a planner."""
    copy, check = loops_of(nest)
    counting = [name for name in copy if name.partition("_")[0] in ("batch", "indices")]
    is_planned = draw(st.booleans())
    size = draw(st.sampled_from([4, 2, 8, 64]))
    tiles = {name: size for name in counting if is_planned} | draw_tiles(draw, copy + check)
    order = tiled(copy, tiles)
    is_reordered = draw(st.booleans())
    if is_reordered:
        order = sorted(order, key=lambda name: name.endswith("_i")) if is_planned else draw_order(draw, order)
    shared = [name for name in order if name.endswith("_o")] if is_planned else order
    parallel = draw_parallel(draw, order[: order.index(shared[-1]) + 1] if shared else [])
    last = max((place for place, name in enumerate(order) if name.endswith("_o")), default=-1)
    untiled = order[max(last + 1, len(parallel)) :]
    inside = order[len(parallel) :] or order or ["inner"]
    lanes = draw(st.sampled_from([None, 2, 4, 8, 16, 64, 2, 4, 3]))
    deepest = [*order[-1:], *(f"{name}_rest" for name in order[-1:]), *(f"resolve_{name}" for name in order)]
    names = [*inside, *deepest, *draw(st.sampled_from([[], order, check, ["inner"]]))]
    row_bytes = case.data.dtype.itemsize * (case.data.shape[-1] if case.data.ndim else 1)
    maybe = lambda strategy: draw(st.one_of(strategy, st.none()))  # noqa: E731
    return Schedule(
        tuple(tiles.items()),
        tuple(order) if is_reordered else (),
        (*parallel, *draw_parallel(draw, tiled(check, tiles))),
        specialize=maybe(st.sampled_from([row_bytes or 1, row_bytes or 1, row_bytes + 1])),
        hoist=maybe(st.sampled_from([*untiled[:2], *inside])),
        lanes=lanes,
        unroll=maybe(st.tuples(st.sampled_from([*deepest, *deepest, *names]), st.sampled_from([2, 4, 3, 1]))),
        prefetch=[draw_prefetch(draw, names) for _ in range(draw(st.sampled_from([0, 1, 0, 1, 2])))],
        stream=draw(st.booleans()),
        gather=lanes in (4, 8),
    )


def mended(nest: str, schedule: Schedule, case) -> Schedule:
    """Return a schedule without the passes that reject; each rejects with a ScheduleError."""
    try:
        plan_of(case, schedule)
    except ScheduleError:
        schedule = replace(schedule, specialize=None)
    module, context, empty, prefetches = parse_module(nest), make_context(), Schedule(), iter(schedule.prefetch)
    for step in parse_passes(str(schedule)) if str(schedule) else ():
        trial, field = module.clone(), FIELDS[step.name]
        prefetch = next(prefetches) if field == "prefetch" else None
        try:
            step.apply(context, trial)
        except ScheduleError:
            kept = tuple(each for each in schedule.prefetch if each is not prefetch)
            schedule = replace(schedule, **{field: kept if prefetch else getattr(empty, field)})
            continue
        verify_module(trial)
        module = trial
    return schedule


def draw_legal_schedule(draw, case) -> Schedule:
    nest = unscheduled(case)
    return mended(nest, draw_schedule(draw, case, nest), case)


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


def count_fields(reached: collections.Counter[str], schedule: Schedule) -> None:
    names = [name for name in FIELDS.values() if getattr(schedule, name)]
    reached.update([*names, *(f"{a}+{b}" for a in names for b in names if a < b), str(len(names))])


def draw_case(draw, oracle):
    operator = draw(st.sampled_from(["gather", "gather_nd", "gather_elements"]))
    has_rows = draw(st.integers(0, 3)) > 0
    return oracle.case_of_rows(draw, operator) if has_rows else oracle.staged_case(draw, operator=operator, most=36)


def test_a_legal_schedule_changes_no_byte_at_any_stage(oracle):
    reached = collections.Counter()

    @settings(EXACT, max_examples=50 * MORE)
    @given(data=st.data())
    def check(data):
        case = draw_case(data.draw, oracle)
        schedule = draw_legal_schedule(data.draw, case)
        count_fields(reached, schedule)
        check_scheduled_stages(oracle, case, schedule, data.draw(st.integers(0, 9)))

    check()
    assert all(reached[field] >= 2 * MORE for field in FIELDS.values() if field != "gather"), reached


def test_a_kernel_of_a_legal_schedule_gives_the_bytes_on_one_thread_and_on_two(oracle, monkeypatch):
    monkeypatch.setattr(MachineModel, "is_worth_sharing", lambda *_: True)

    @settings(EXACT, max_examples=20 * MORE)
    @given(data=st.data())
    def check(data):
        case = draw_case(data.draw, oracle)
        schedule = draw_legal_schedule(data.draw, case)
        try:
            check_kernel(oracle, case, schedule)
        except ScheduleError:  # it is compiled for a contiguous result first, whose nest may have other loops
            if case.out_layout == "contiguous":
                raise

    check()


@settings(EXACT, max_examples=12 * MORE)
@given(data=st.data())
@OPERATORS
def test_any_schedule_is_rejected_or_changes_no_byte(oracle, operator, data):
    case = oracle.staged_case(data.draw, operator=operator, most=24)
    copy, check = loops_of(unscheduled(case))
    names = [*copy, *check, "batch", "outer", "indices"]
    tiles = data.draw(st.dictionaries(st.sampled_from([*names, *tiled(names, names)]), st.integers(0, 4), max_size=2))
    parts = sorted({*names, *tiled(names, tiles)})
    order = data.draw(st.one_of(st.just([]), st.permutations(tiled(copy, tiles)), st.permutations(copy)))
    parallel = data.draw(st.lists(st.sampled_from(parts), max_size=2))
    more = {
        "hoist": st.sampled_from(parts),
        "lanes": st.integers(0, 9),
        "unroll": st.tuples(st.sampled_from(parts), st.integers(0, 70)),
        "prefetch": st.builds(Prefetch, st.sampled_from(parts), st.integers(0, 5000), *[st.integers(0, 70)] * 2),
        "stream": st.just(True),
        "specialize": st.integers(0, 40),
    }
    wild = data.draw(st.lists(st.sampled_from(sorted(more)), max_size=2, unique=True))
    try:
        schedule = Schedule(
            tuple(tiles.items()), tuple(order), tuple(parallel), **{name: data.draw(more[name]) for name in wild}
        )
        run_stages(plan_of(case, schedule))
    except ScheduleError:
        return
    check_scheduled_stages(oracle, case, schedule, seed=1)


@settings(EXACT, max_examples=8 * MORE)
@given(data=st.data())
def test_a_schedule_prints_as_what_it_parses_from(oracle, data):
    case = oracle.staged_case(data.draw, most=8)
    schedule = draw_legal_schedule(data.draw, case)
    assert Schedule.parse(str(schedule)) == schedule


def test_a_parallel_nest_gives_the_same_bytes_in_any_order_of_its_iterations(oracle):
    case = oracle.make(
        oracle.fill((3, 4, 5), np.dtype("f4")), oracle.fill((3, 6), np.dtype("i1")) % 4, axis=1, batch_dims=1
    )
    schedule = Schedule(tiles=(("indices", 4),), parallel=("batch", "indices_o"))
    for seed in range(8):
        check_scheduled_stages(oracle, case, schedule, seed)
