"""`gathernest.step`: the steps of an element agree with the operator's reference, at every level of every operator."""

import itertools

import numpy as np
import pytest

import gathernest as gn
from gathernest.ir import reference
from gathernest.ir.array_spec import ArraySpec
from gathernest.kernels.problems.named_problem import problem_of
from gathernest.kernels.runtime.compile import module_of, run_stages
from gathernest.kernels.runtime.plan import make_plan
from gathernest.lowering.pipeline import parse_passes, record_stages
from gathernest.lowering.schedule.schedule import Schedule
from gathernest.playground.stage import filled
from gathernest.playground.step import step_stage

BOUNDS = ("error", "zero", "clip", "wrap", "unchecked")
TILED = "tile-loops{loops=indices sizes=2}"
SHARED = f"{TILED},parallelize-loops{{loops=indices_o}},vectorize-inner{{lanes=4}}"
STAGED = (
    f"{TILED},interchange-loops{{order=indices_o,outer,indices_i,inner}},hoist-indices{{before=outer}},"
    "vectorize-inner{lanes=2}"
)
# An operator with its arrays and attributes, and a schedule besides the default one.
GATHERS = {
    "gather": ("gather", "3x5x6xf32", "2x3xi64", {"axis": 1}, None),
    "gather staged": ("gather", "3x5x6xf32", "5xi64", {"axis": 1}, STAGED),
    "gather of batches": ("gather", "2x5x6xf64", "2x3xi8", {"axis": 1, "batch_dims": 1}, None),
    "gather in parts": ("gather", "5x6xV12", "4xui8", {}, ""),
    "gather of strided rows": ("gather", "3x5x6xf32 strided<[-30, 6, 1]>", "4xi64", {"axis": 1}, None),
    "gather shared": ("gather", "5x6xbf16", "5xi32", {}, SHARED),
    "gather_nd": ("gather_nd", "4x5x6xf32", "3x2xi32", {}, None),
    "gather_elements": ("gather_elements", "5x6xi16", "4x6xi64", {"axis": 0}, None),
    "gather_grad": ("gather_grad", "5x6xf32", "7xi64", {"scale": 0.5}, "vectorize-inner{lanes=4}"),
    "gather_grad by owners": ("gather_grad", "5x6xf32", "7xi64", {}, "owner-computes{owners=2 axis=axis}"),
    "gather_nd_grad": ("gather_nd_grad", "4x5xi32", "6x2xi64", {"scale": 3}, None),
    "gather_elements_grad": ("gather_elements_grad", "5x6xf64", "7x6xi32", {}, None),
}


def made(name: str, bounds: str):
    """Return a problem with its schedule and arrays; some indices are outside where the bounds mode allows it."""
    operator, data, indices, options, schedule = GATHERS[name]
    attributes = {"axis": 0, "batch_dims": 0, "scale": 1.0, **options}
    problem = problem_of(operator, ArraySpec.parse(data), ArraySpec.parse(indices), bounds=bounds, **attributes)
    rng = np.random.default_rng(len(name))
    source = filled(problem.source, rng) if problem.source.dtype.kind != "V" else _bytes(problem.source)
    index = filled(problem.indices, rng, problem)
    if bounds == "unchecked":
        index = (index.astype(np.int64) % np.array(problem.axis_sizes)).astype(index.dtype)
    elif bounds != "error":
        index.reshape(-1)[:2] = [100, 100 if index.dtype.kind == "u" else -100]
    return problem, schedule, source, index


def _bytes(spec: ArraySpec) -> np.ndarray:
    return np.arange(spec.size * spec.dtype.itemsize, dtype=np.uint8).view(spec.dtype).reshape(spec.shape)


def read_for(problem, indices: np.ndarray, element: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return what the reference reads for an element, from a gather of the numbers of elements."""
    numbers = np.arange(1, problem.table.size + 1).reshape(problem.table.shape)
    read = reference.run(problem.operator, numbers, indices, problem.bounds)
    if problem.gradient is not None:
        return [tuple(map(int, place)) for place in np.argwhere(read == numbers[element])]
    number = int(read[element])
    return [tuple(int(part) for part in np.unravel_index(number - 1, numbers.shape))] if number else []


@pytest.mark.draw(3)
@pytest.mark.parametrize(
    ("name", "bounds"), [(name, BOUNDS[(at + more) % 5]) for at, name in enumerate(GATHERS) for more in (0, 2, 4)]
)
def test_each_stage_has_the_source_and_the_value_of_the_reference(name, bounds):
    problem, schedule, data, indices = made(name, bounds)
    wanted = expected(problem, data, indices)
    rng = np.random.default_rng(3)
    stages = run_stages(make_plan(problem, None if schedule is None else Schedule.parse(schedule)))
    changed = [
        stage for before, stage in itertools.pairwise([None, *stages]) if not before or stage.text != before.text
    ]
    for stage in changed[BOUNDS.index(bounds) % 3 :: 3]:  # each bounds mode tries a third of them
        steps = step_stage(stage.text, stage.pass_name, problem, data, indices, int(rng.integers(wanted.size)))
        assert steps.is_right and steps.error is None, stage.pass_name
        assert steps.value.tobytes() == wanted[steps.element].tobytes(), stage.pass_name
        assert list(steps.sources) == read_for(problem, indices, steps.element), stage.pass_name


def expected(problem, data, indices) -> np.ndarray:
    if problem.gradient is None:
        return reference.run(problem.operator, data, indices, problem.bounds)
    shape, scale = problem.table.shape, problem.gradient.scale
    return reference.gradient(problem.operator, data, indices, shape, problem.bounds, scale)


def scripts() -> dict[str, gn.ScheduleScript]:
    """Return scripts of one gather whose steps no frozen schedule has in this order."""
    begin = lambda: gn.schedule("gather", "2x7x5xf32", "9xi64", 1, bounds="zero")  # noqa: E731
    twice = begin()
    _, inner = twice.tile("indices", 4)
    twice.tile(inner, 2)
    staged = begin()
    outer, inner = staged.tile("indices", 4)
    staged.interchange(outer, "outer").parallel(outer)
    staged.stage_indices("outer").vectorize("inner", 4).prefetch(inner, ahead=2)
    unrolled = begin()
    unrolled.unroll("inner", 2)
    return {
        "tiled twice": twice,
        "staged": staged,
        "unrolled": unrolled,
        "streamed": begin().vectorize("inner", 4).stream(),
    }


@pytest.mark.draw(1)
@pytest.mark.parametrize("name", ["tiled twice", "staged", "unrolled", "streamed"])
def test_scripts_have_the_source_and_the_value_of_the_reference(name):
    script = scripts()[name]
    problem, rng = script.problem, np.random.default_rng(1)
    data = filled(problem.source, rng)
    indices = np.array([6, -7, 0, 7, -8, 3, 3, -1, 100])
    wanted = expected(problem, data, indices)
    stages = list(record_stages(module_of(problem), parse_passes(str(script))))
    for stage in (stages[-4], stages[-1]):
        for element in rng.integers(wanted.size, size=3):
            steps = step_stage(stage.text, stage.name, problem, data, indices, int(element))
            assert steps.is_right, stage.name
            assert list(steps.sources) == read_for(problem, indices, steps.element), stage.name
