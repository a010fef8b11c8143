"""The public function `schedule`: a schedule that is written step by step. Imports xDSL."""

import json
from typing import Any

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError, ScheduleError
from ..ir.modules.context import make_context
from ..ir.problem import Problem
from ..ir.semantics import Bounds, BoundsMode
from ..kernels.host.machine import machine_model
from ..kernels.kernel import Kernel
from ..kernels.problems.named_problem import problem_of
from ..kernels.runtime.compile import module_of
from ..kernels.runtime.layout import Layout
from ..kernels.runtime.plan import Plan, make_plan, row_bytes
from ..lowering import static_html as html
from ..lowering.pipeline import run_passes
from ..lowering.registry import SCHEDULED_NEST, Pipeline, default_pipeline
from ..lowering.schedule.schedule import NO_SCHEDULE, Schedule
from ..lowering.schedule_language.nest_script import NestScript


class ScheduleScript(NestScript):
    """A schedule of one gather, written step by step on its nest; `gathernest.schedule` begins one.

    `tile`, `interchange`, `parallel`, `stage_indices`, `vectorize`, `unroll`, `prefetch`, `stream`, `specialize` and
    `owner_computes` are steps; `nest` shows the nest after them. `str` gives the whole pipeline as text.

    Attributes:
        problem: the shapes, dtypes and attributes that it is for.
    """

    def __init__(self, problem: Problem):
        """Begin with the nest of a problem."""
        pipeline = default_pipeline(NO_SCHEDULE)
        before, first, behind = pipeline.partition(SCHEDULED_NEST)
        around = before.rstrip(","), first + behind
        module, layout = module_of(problem), Layout.of(problem)
        run_passes(module, around[0], make_context())
        own = row_bytes(layout.canonical, layout.width_bytes)
        super().__init__(module, around, vector_bytes=machine_model().vector_bytes, row_bytes=own)
        self.problem = problem

    def __str__(self) -> str:
        fusion, (before, behind) = self._fusion, self._around
        return ",".join(text for text in (before, self.passes, fusion, behind) if text)

    @property
    def _fusion(self) -> str:
        """The pass that makes a new result in one go, where the run time takes it with these steps; or nothing."""
        try:
            check = make_plan(self.problem, self.schedule).check
        except ScheduleError:  # no schedule has these steps in this order
            return ""
        return "" if check is None else str(check)

    @property
    def trace(self) -> str:
        """The script as Python, which makes the same nest again."""
        problem = self.problem
        given = [json.dumps(problem.name), _shown(problem.table), _shown(problem.indices)]
        given += [f"{name}={value}" for name, value in problem.operator.attributes().items() if value]
        given += [f'bounds="{problem.bounds}"'] if problem.bounds is not Bounds.ERROR else []
        given += [f"scale={problem.gradient.scale!r}"] if problem.gradient and problem.gradient.scale != 1 else []
        lines = ["import gathernest as gn", "", f"s = gn.schedule({', '.join(given)})"]
        return "\n".join([*lines, *(f"s.{call}" for call in self.calls)]) + "\n"

    def _repr_html_(self) -> str:
        steps = "\n".join(self.calls) or "no step yet: one thread runs the nest as it stands"
        rest = html.fold("Trace", html.code(self.trace)), html.fold("IR", html.code(self.ir))
        return html.fragment("Schedule", html.code(steps), html.code(self.nest), *rest)

    def compile(self) -> Kernel:
        """Return the kernel of the nest as it is now.

        Raises:
            ScheduleError: the nest cannot be lowered to loops.
        """
        return Kernel(self.problem, self._as_given)

    @property
    def plan(self) -> Plan:
        """The plan of a kernel: the layout of the arrays, and all passes to loops.

        Raises:
            ScheduleError: the rows have other sizes than the steps say.
        """
        return make_plan(self.problem, self._as_given)

    @property
    def _as_given(self) -> Schedule | Pipeline:
        try:
            return self.schedule
        except ScheduleError:  # no frozen value has these steps in this order
            return Pipeline(str(self))


def schedule(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
) -> ScheduleScript:
    """Begin a schedule of a gather or a gradient, to be written step by step.

    Args:
        operator, data, indices, axis, batch_dims, bounds, scale: as for `compile`.

    Returns:
        The script, without steps: the nest as it stands, run serially.

    Raises:
        InvalidGatherError: the arguments do not describe a gather that has a kernel.
    """
    return ScheduleScript(problem_of(operator, data, indices, axis, batch_dims=batch_dims, bounds=bounds, scale=scale))


def _shown(spec: ArraySpec) -> str:
    """Return an array's specification as Python: text where that reads back, or else `gn.ArraySpec(...)`."""
    try:
        if ArraySpec.parse(str(spec)) == spec:
            return json.dumps(str(spec))
    except InvalidGatherError:
        pass
    strides = "" if spec.is_contiguous else f", {spec.strides}"
    return f'gn.ArraySpec({spec.shape}, "{spec.dtype.str}"{strides})'
