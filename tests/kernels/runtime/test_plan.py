"""Plans: what one kernel serves, and that the numbers it is called with are those its IR asks for."""

import math
import random
from collections import defaultdict

import numpy as np
import pytest

from gathernest.ir.array_spec import ArraySpec, contiguous_strides
from gathernest.ir.errors import InvalidGatherError
from gathernest.ir.interpreters.argument_views import argument_view, bind_argument
from gathernest.ir.modules.context import parse_module
from gathernest.ir.operator_spec import Gather
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.host.knobs import knobs
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import build_program, run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.nest.queries import functions
from gathernest.lowering.schedule.schedule import Schedule


def draw_array(rng: random.Random, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return an array of that shape in one of a few layouts."""
    layout = rng.choice(["plain", "plain", "plain", "stepped", "transposed"])
    if layout == "stepped" and shape:
        return np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    return np.zeros(shape[::-1], dtype).T if layout == "transposed" else np.zeros(shape, dtype)


def draw_problem(rng: random.Random) -> tuple[Problem, list[np.ndarray]]:
    rank, batch_dims = rng.randint(1, 4), 0
    shape = tuple(rng.choice([1, 2, 3, 3]) for _ in range(rank))
    axis = rng.randrange(rank)
    batch_dims = rng.randint(0, min(axis, 1))
    picks = tuple(rng.choice([2, 3, 1]) for _ in range(rng.randint(0, 2)))
    data = draw_array(rng, shape, rng.choice(["f4", "i4", "f8", "S6"]))
    indices = draw_array(rng, (*shape[:batch_dims], *picks), rng.choice(["i8", "i1"]))
    out_shape = (*shape[:axis], *picks, *shape[axis + 1 :])
    out = draw_array(rng, out_shape, data.dtype.str)
    bounds = rng.choice([Bounds.ERROR, Bounds.ZERO])
    specs = [ArraySpec.of(array) for array in (data, indices, out)]
    return Problem.checked(Gather(axis, batch_dims), specs[0], specs[1], bounds, specs[2]), [data, indices, out]


def code_of(plan: Plan) -> str:
    """Return the source of a plan's kernel without the comments, which show the problem it was made for."""
    lines = build_program(plan).source.splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


@pytest.mark.thorough
def test_problems_of_one_key_give_the_same_code_byte_for_byte():
    rng = random.Random(0)
    plans = defaultdict(list)
    for _ in range(900):
        plan = make_plan(draw_problem(rng)[0])
        if plan.action == "run":
            plans[plan.key].append(plan)
    shared = [group for group in plans.values() if len({str(plan.problem) for plan in group}) > 1]
    assert len(shared) > 30
    for group in shared[:40]:
        assert len({code_of(plan) for plan in group[:3]}) == 1, group[0].key


@pytest.mark.draw(3)
@pytest.mark.parametrize("seed", range(8))
def test_the_views_of_a_plan_are_those_its_ir_asks_for(seed):
    rng = random.Random(seed)
    for _ in range(5):
        problem, arrays = draw_problem(rng)
        plan = make_plan(problem)
        function = functions(parse_module(run_stages(plan)[-1].text))[0]
        for number, array in enumerate(arrays):
            type_ = function.function_type.inputs.data[number]
            view = bind_argument(array, type_, argument_view(function, number))
            operand = plan.layout.arguments[number]
            assert operand.shape == view.shape
            strides = operand.strides or contiguous_strides(operand.shape, 1)
            moving = [dim for dim, size in enumerate(view.shape) if size > 1]
            assert [strides[dim] * view.itemsize for dim in moving] == [view.strides[dim] for dim in moving]


@pytest.mark.parametrize(
    ("data", "indices", "bounds", "action"),
    [
        ((0, 3), (2,), Bounds.ZERO, "zeros"),
        ((0, 3), (2,), Bounds.ERROR, "reject"),
        ((0, 3), (2,), Bounds.CLIP, "reject"),
        ((0, 3), (2,), Bounds.WRAP, "reject"),
        ((0, 3), (2,), Bounds.UNCHECKED, "reject"),
        ((0, 3), (0,), Bounds.ERROR, "nothing"),
        ((4, 0), (2,), Bounds.ERROR, "run"),
        ((4, 0), (2,), Bounds.ZERO, "nothing"),
        ((4, 3), (2,), Bounds.ERROR, "run"),
        ((4, 3), (0,), Bounds.ERROR, "nothing"),
    ],
)
def test_a_plan_says_what_empty_sizes_ask_for(data, indices, bounds, action):
    problem = Problem.checked(Gather(0), ArraySpec(data, "f4"), ArraySpec(indices, "i8"), bounds)
    assert make_plan(problem).action == action


@pytest.mark.parametrize("bounds", list(Bounds))
def test_an_axis_that_the_index_type_cannot_leave_has_a_kernel_of_its_own(bounds):
    indices, axes = ArraySpec((6,), "i1"), (127, 128, 300)
    keys = [make_plan(Problem.checked(Gather(), ArraySpec((size,), "f4"), indices, bounds)).key for size in axes]
    assert keys[0] != keys[1] == keys[2]


def test_a_result_of_2_to_the_63_bytes_is_rejected_and_a_smaller_one_planned():
    data, largest = ArraySpec((5,), "f8"), 2**60
    assert Problem.checked(Gather(), data, ArraySpec((largest - 1,), "i1"), Bounds.ERROR).slices.shape == (largest - 1,)
    with pytest.raises(InvalidGatherError, match=r"its sizes other than 0 make 2\*\*63 bytes or more"):
        Problem.checked(Gather(), data, ArraySpec((largest,), "i1"), Bounds.ERROR)
    with pytest.raises(InvalidGatherError, match=rf"a result of shape \({largest}, 0\) and float64 has no addresses"):
        Problem.checked(Gather(), ArraySpec((5, 0), "f8"), ArraySpec((largest,), "i1"), Bounds.ERROR)


@pytest.mark.parametrize(
    ("dtype", "strides", "width"),
    [("f8", None, 8), ("c16", None, 16), ("S12", None, 4), ("f8", (12,), 4), ("f8", (9,), 1), ("S32", None, 16)],
)
def test_a_plan_moves_by_the_widest_unit_that_size_and_strides_allow(dtype, strides, width):
    problem = Problem.checked(Gather(0), ArraySpec((6,), dtype, strides), ArraySpec((2,), "i8"), Bounds.ERROR)
    assert make_plan(problem).layout.width_bytes == width


def test_one_kernel_serves_every_dtype_of_a_width_and_every_rank():
    def key(shape, dtype, axis):
        problem = Problem.checked(Gather(axis), ArraySpec(shape, dtype), ArraySpec((9,), "i8"), Bounds.ZERO)
        return make_plan(problem, Schedule()).key

    wanted = key((5, 6, 7), "f4", 1)
    assert key((5, 6, 7), "u4", 1) == wanted
    assert key((5, 1, 2, 6, 7, 1), "S4", 3) == wanted
    assert key((5, 6, 7), "f8", 1) != wanted


def plan_for(data: str, indices: str, schedule: str) -> Plan:
    problem = Problem.checked(Gather(), ArraySpec.parse(data), ArraySpec.parse(indices), Bounds.CLIP)
    return make_plan(problem, Schedule.parse(schedule))


HOISTED = "tile-loops{loops=indices sizes=64},hoist-indices{before=indices_i}"


@pytest.mark.parametrize(("size", "width"), [(2**31 - 1, 32), (2**31, 64), (2**40, 64)])
def test_positions_are_as_wide_as_the_axis_needs(size, width):
    program = build_program(plan_for(f"{size}xi8", "500xi64", HOISTED))
    assert f"stack_64xi{width}()" in program.source


def draw_session(seed: int) -> list[str]:
    """Return the keys of 60 gathers: 10 to 10^6 rows, 1 to 1000 float32 a row, 10 to 300,000 indices."""
    rng = random.Random(seed)

    def draw(least: int, most: int) -> int:
        return round(math.exp(rng.uniform(math.log(least), math.log(most))))

    sizes = [(draw(10, 10**6), draw(1, 1000), draw(10, 300_000)) for _ in range(60)]
    return [make_plan(problem_of("gather", f"{rows}x{width}xf32", f"{count}xi64")).key for rows, width, count in sizes]


@pytest.mark.parametrize("machine", ["zen4", "zen5", "xeon-avx512"])
def test_sessions_of_60_gathers_share_15_kernels_on_average(machine):
    with knobs.scope(machine=machine, num_threads=1):
        counts = [len(set(draw_session(seed))) for seed in range(4)]
    assert sum(counts) <= 15 * len(counts), counts
    assert max(counts) <= 17, counts
