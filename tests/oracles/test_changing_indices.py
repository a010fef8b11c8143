"""Indices that change between two reads of them: no kernel reads or writes outside of an array.

Each kernel runs in the interpreter, which checks every access. The first read of an index gives what it is, so that the
check passes; later reads give it, or any other value of its type.
"""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gathernest.ir.array_spec import ArraySpec
from gathernest.ir.errors import BoundsError
from gathernest.ir.interpreters.interpreter import Machine
from gathernest.ir.modules.context import parse_module
from gathernest.ir.operator_spec import Gather, GatherElements, GatherMean, GatherNd, GatherReduce, Gradient
from gathernest.ir.problem import Problem
from gathernest.ir.semantics import Bounds
from gathernest.kernels.runtime.compile import run_stages
from gathernest.kernels.runtime.plan import Plan, make_plan
from gathernest.lowering.registry import Pipeline, default_pipeline
from gathernest.lowering.schedule.schedule import NO_SCHEDULE

from ..selection import examples
from .cases import EXACT
from .test_schedules import draw_case, draw_legal_schedule, plan_of

TILES = "tile-loops{loops=indices sizes=16}"
OWNERS = "owner-computes{owners=3},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners}"
LISTS = f"{OWNERS},compact-indices{{loop=indices_i}}"
COUNTED = "check-indices{how=counted}"
SLICES = "prefetch{{what=slices loop={} ahead=2 locality=2}}"
VECTORS = "vectorize-inner{lanes=8},gather-lanes"
# Operators with the shapes of data and indices, and schedules with what checks in another way.
GATHERS = {
    "scalars": (Gather(), (9,), (70,), ["", VECTORS, f"{VECTORS},check-indices{{how=staged bits=8}}"]),
    "rows": (
        *(Gather(), (9, 8), (70,)),
        [
            f"{TILES},prefetch{{what=rows loop=indices_i ahead=4}}",
            f"{TILES},parallelize-loops{{loops=indices_o}},check-indices{{how=fused}}",
            "prefetch{what=rows loop=indices ahead=4 lines=0},check-indices{how=staged bits=8}",
        ],
    ),
    "last axis": (Gather(1), (4, 9), (40,), ["", f"{TILES},hoist-indices{{before=indices_i}}"]),
    "batches": (Gather(1, 1), (4, 9, 3), (4, 20), ["parallelize-loops{loops=batch},check-indices{how=fused}"]),
    "tuples": (GatherNd(), (9, 7, 3), (40, 2), ["", f"{TILES},hoist-indices{{before=indices_i}}"]),
    "elements": (GatherElements(1), (6, 9), (6, 20), ["", VECTORS]),
    "sums": (GatherReduce(), (9, 8), (12, 5), ["vectorize-inner{lanes=8}", "check-indices{how=staged bits=8}"]),
    "means": (GatherMean(), (9, 8), (12, 5), ["", "prefetch{what=rows loop=bag ahead=2}"]),
}
GRADIENTS = {
    "scalars": (
        *(Gather(), (9,), (70,)),
        [
            *(
                "",
                LISTS,
                f"{LISTS},check-indices{{how=counted}},stage-result",
                f"{LISTS},check-indices{{how=fused loop=indices_o}}",
            ),
            f"{LISTS},vectorize-lists{{lanes=8}},prefetch{{what=tile loop=indices_i ahead=4 locality=2}},{COUNTED}",
            f"{LISTS.replace('=3},', '=4},')},check-indices{{how=staged bits=8}}",
        ],
    ),
    "rows": (
        *(Gather(), (9, 8), (70,)),
        [
            *("", OWNERS),
            f"{LISTS},{SLICES.format('indices_i')},check-indices{{how=fused loop=indices_o}}",
            "group-indices{loop=indices},parallelize-loops{loops=axis}",
            "group-indices{loop=indices},parallelize-sort{parts=3}," + SLICES.format("bag"),
        ],
    ),
    "tuples": (GatherNd(), (9, 7, 3), (40, 2), ["", "owner-computes{owners=3 axis=axis_1}"]),
    "elements": (GatherElements(1), (6, 9), (6, 20), [""]),
}
EVERY = [
    (*given, is_gradient, passes, bounds)
    for is_gradient, kinds in ((False, GATHERS), (True, GRADIENTS))
    for *given, schedules in kinds.values()
    for number, passes in enumerate(schedules)
    for bounds in ["error", "zero", *([] if is_gradient else ["clip", "wrap"])][: 1 if number else 4]
]


class ChangingIndices(Machine):
    """Runs a module, and changes the indices after the first read of each."""

    def __init__(self, plan: Plan, indices: np.ndarray):
        super().__init__(parse_module(run_stages(plan)[-1].text), random.Random(0), None)
        self.indices, self.read = indices, set[int]()

    def load(self, memory, subscripts):
        value = super().load(memory, subscripts)
        if not np.may_share_memory(memory, self.indices):
            return value
        place = memory.ctypes.data + int(np.dot(memory.strides, subscripts))
        if place in self.read and self.rng.random() < 0.5:
            kind = np.iinfo(self.indices.dtype)
            return self.rng.choice(
                [kind.min, kind.max, -1, 0, 1 << kind.bits - 2, self.rng.randint(kind.min, kind.max)]
            )
        self.read.add(place)
        return value


def run_with_changes(plan: Plan, source: np.ndarray, indices: np.ndarray, result: np.ndarray) -> None:
    """Run a plan; an access outside of an array is an InternalError."""
    with contextlib.suppress(BoundsError):
        ChangingIndices(plan, indices).run(source, indices, result)


@pytest.mark.draw(8)
@pytest.mark.parametrize(("operator", "shape", "indices_shape", "is_gradient", "passes", "bounds"), EVERY)
def test_indices_that_change_after_their_first_read_lead_nowhere_outside(
    operator, shape, indices_shape, is_gradient, passes, bounds
):
    specs = ArraySpec(shape, np.dtype("f4")), ArraySpec(indices_shape, np.dtype("i8"))
    problem = Problem.checked(operator, *specs, Bounds(bounds), gradient=Gradient(1.0) if is_gradient else None)
    pipeline = default_pipeline(NO_SCHEDULE)
    pipeline = pipeline.replace("drop-unit-loops", f"drop-unit-loops,{passes}" if passes else "drop-unit-loops")
    indices = np.random.default_rng(1).integers(0, min(problem.axis_sizes), indices_shape)
    source, result = (np.zeros(spec.shape, spec.dtype) for spec in (problem.source, problem.result))
    run_with_changes(make_plan(problem, Pipeline(pipeline)), source, indices, result)


@settings(EXACT, max_examples=examples(10))
@given(data=st.data())
def test_changing_indices_lead_nowhere_outside_under_any_schedule(oracle, data):
    case = draw_case(data.draw, oracle)
    case = replace(case, bounds="error", indices=np.zeros_like(case.indices))
    plan = plan_of(case, draw_legal_schedule(data.draw, case))
    run_with_changes(plan, case.data, case.indices, case.empty_out())
