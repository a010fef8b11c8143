"""From the layout of a problem to the kernel that serves it and the numbers that it is called with. Plain Python."""

import math
from dataclasses import dataclass
from typing import Literal

from ...ir.canonical import CanonicalGather
from ...ir.element_types import number_scale
from ...ir.errors import ScheduleError
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.registry import default_pipeline
from ...lowering.schedule.schedule import Choice, Schedule
from ..host.machine import sharing_threads
from .layout import Layout
from .select_schedule import chosen_schedule, problem_class, tuned_schedule


@dataclass(frozen=True, slots=True)
class Plan:
    """A problem with its layout, its schedule and the key of its kernel.

    Attributes:
        layout: the arrays as the kernel sees them.
        schedule: how the nest is run.
        key: names the kernel; plans with the same key have the same code.
        action: what to do: `run` the kernel, fill with `zeros`, `nothing`, or `reject` every index of an empty axis.
        is_tuned: whether the schedule is one that tuning recorded.
        reasons: why this schedule.
    """

    layout: Layout
    schedule: Schedule
    key: str
    action: Literal["run", "zeros", "nothing", "reject"]
    is_tuned: bool
    reasons: tuple[str, ...] = ()

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.layout.problem

    @property
    def problem_class(self) -> str:
        """The class that tuning records a schedule for: its problems get the same schedule."""
        return problem_class(self.layout.kernel_class, self.layout.nest, sharing_threads())

    @property
    def pipeline(self) -> str:
        """The passes that make its kernel, as text."""
        problem = self.problem
        return default_pipeline(self.schedule, gradient=problem.gradient is not None, clamp=problem.has_shared_indices)

    @property
    def work_bytes(self) -> int:
        """Bytes of indices read and output written; for a gradient those read, too."""
        table, indices, slices = self.problem.table, self.problem.indices, self.problem.slices
        items = math.prod(slices.shape) + (0 if self.problem.gradient is None else math.prod(table.shape))
        return items * table.dtype.itemsize + math.prod(indices.shape) * indices.dtype.itemsize

    def parameter(self, kind: str, argument: int, dim: int) -> float:
        """Return the value of a kernel's parameter: a size, a stride in elements, or the scale."""
        if kind == "scale":
            assert self.problem.gradient is not None
            return number_scale(self.problem.gradient.scale, self.problem.table.dtype)
        operand = self.layout.arguments[argument]
        if kind == "size":
            return operand.shape[dim]
        assert operand.strides is not None and operand.strides[dim] is not None
        return operand.strides[dim]  # type: ignore[return-value]


def make_plan(problem: Problem, schedule: Schedule | None = None, *, takes_tuned: bool = True) -> Plan:
    """Plan one gather.

    Args:
        schedule: how to run it; when omitted, one that tuning recorded, or else one chosen by its sizes.
        takes_tuned: whether one that tuning recorded will do.
    """
    layout = Layout.of(problem)
    nest, kernel_class, action = layout.nest, layout.kernel_class, _action(layout)
    takes_tuned = takes_tuned and schedule is None and action == "run"
    tuned = tuned_schedule(kernel_class, nest) if takes_tuned else None
    if schedule is not None:
        choice = Choice(schedule, ("given by the caller",))
    elif tuned is not None:
        choice = Choice(tuned, ("tuning found it the fastest on this machine",))
    else:
        choice = chosen_schedule(nest, is_gradient=problem.gradient is not None)
    _check_row(layout.canonical, layout.width_bytes, choice.schedule)
    key = f"{kernel_class}, schedule {str(choice.schedule) or 'none'}"
    return Plan(layout, choice.schedule, key, action, tuned is not None, choice.reasons)


def _check_row(canonical: CanonicalGather, width: int, schedule: Schedule) -> None:
    """Check that rows have the bytes that a schedule makes the code for; raises ScheduleError."""
    rows: dict[str, int] = dict(zip(canonical.out.dims, canonical.out.shape, strict=True))
    if schedule.specialize is not None and "inner" in rows and rows["inner"] * width != schedule.specialize:
        raise ScheduleError(
            f"the schedule is for rows of {schedule.specialize} bytes, got rows of {rows['inner'] * width}; "
            "leave specialize-inner out, or give it those bytes"
        )


def _action(layout: Layout) -> Literal["run", "zeros", "nothing", "reject"]:
    problem = layout.problem
    if 0 in problem.indices.shape:
        return "nothing" if problem.gradient is None else "zeros"
    if 0 in problem.axis_sizes:
        return "zeros" if problem.bounds is Bounds.ZERO else "reject"
    return "nothing" if 0 in problem.slices.shape and not layout.has_check else "run"
