"""From the layout of a problem to the kernel that serves it and the numbers that it is called with. Plain Python."""

import hashlib
import math
import os
from dataclasses import dataclass, replace
from typing import Literal

from ...ir.canonical import CanonicalGather
from ...ir.element_types import number_scale
from ...ir.errors import ScheduleError
from ...ir.problem import Problem
from ...ir.semantics import Bounds
from ...lowering.registry import Pipeline, default_pipeline
from ...lowering.schedule.checks import Check, CountedCheck, FusedCheck, StagedCheck, choose_check
from ...lowering.schedule.choose import Choice
from ...lowering.schedule.schedule import NO_SCHEDULE, Schedule
from ...lowering.schedule.shared_kernels import choose_shared, without_checks
from ...lowering.schedule.steps import BoundInner
from ...lowering.stage_files import StageFile, digest_of, edited_stages
from ..host.knobs import KnobError, knobs
from ..host.machine import machine_model, sharing_threads
from ..tuned_schedules.store import Tuned, problem_class, tuned_schedule
from .layout import Layout

# This text separates the key of a kernel and the digest of its edited stages.
_EDITED = ", edited stages "
# The reason of a schedule that is recorded.
TUNED = "tuning found it the fastest on this machine"


@dataclass(frozen=True, slots=True)
class Plan:
    """A problem with its layout, its schedule and the key of its kernel.

    Attributes:
        layout: the arrays as the kernel sees them.
        schedule: the schedule of the nest.
        key: names the kernel; plans with the same key have the same code.
        action: `run` the kernel, fill with `zeros`, do `nothing`, or `reject` every index of an empty axis.
        why: the choice that led to the schedule, or the reason in a sentence.
        tuned: the record of tuning for the problem, where that decides; None without a record.
        given: the pipeline that the caller gave in the place of a schedule.
        check: the check of indices, unless that is a nest of its own; None for such a nest, and for no check.
        edits: stages that a person edited, by the knob `override_dir`; the key names them by a digest.
    """

    layout: Layout
    schedule: Schedule
    key: str
    action: Literal["run", "zeros", "nothing", "reject"]
    why: Choice | str
    tuned: Tuned | None = None
    given: Pipeline | None = None
    check: Check | None = None
    edits: tuple[StageFile, ...] = ()

    @property
    def problem(self) -> Problem:
        """The problem."""
        return self.layout.problem

    @property
    def problem_class(self) -> str:
        """The class that tuning records a schedule for: its problems get the same schedule."""
        return problem_class(self.layout.kernel_class, self.layout.nest, sharing_threads())

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for the schedule and for the check of the indices, one sentence each."""
        reasons, check = (self.why,) if isinstance(self.why, str) else self.why.reasons, self.check
        if isinstance(check, StagedCheck):
            when, what = ("", "additions read") if self.problem.adds else ("out is given: ", "copy reads")
            return *reasons, f"{when}the check stages positions of {check.bits} bits, and the {what} these"
        if isinstance(check, CountedCheck):
            reasons += ("an owner lists only valid indices: the length of the lists tells whether all are valid",)
            if check.keeps_out:
                reasons += ("out is given: a buffer is added to, and copied to out in the end",)
        elif check is not None:
            verb = "adds" if self.problem.adds else "copies"
            reasons += (f"a new result: {check.loop} checks the indices of an iteration right before it {verb}",)
            if check.prefetches_all:
                reasons += ("while one copies, all indices of the next are prefetched",)
        return reasons

    @property
    def pipeline(self) -> str:
        """The passes that make its kernel, as text."""
        if self.given is not None:
            return self.given.expanded(is_fresh=self.problem.is_fresh)
        return default_pipeline(self.schedule, check=self.check)

    @property
    def missing_pass(self) -> str:
        """The first pass that is needed to reach loops and that a given pipeline lacks; empty when it lacks none."""
        return "" if self.given is None else self.given.missing_pass

    @property
    def folder(self) -> str:
        """The name of the folder of its stages in a dump; one of its own where stages are edited."""
        key, _, edits = self.key.partition(_EDITED)
        name = f"{self.problem.name}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        return f"{name}-edited-{edits}" if edits else name

    @property
    def work_bytes(self) -> int:
        """Bytes of indices read and output written; for a gradient and a reduction also the bytes of elements read."""
        table, indices, slices = self.problem.table, self.problem.indices, self.problem.slices
        items = math.prod(slices.shape) + (0 if self.problem.gradient is None else math.prod(table.shape))
        if self.problem.reduces:
            items += math.prod(indices.shape) * math.prod(table.shape[1:])
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


def make_plan(problem: Problem, schedule: Schedule | Pipeline | None = None, *, takes_tuned: bool = True) -> Plan:
    """Plan one gather with a given schedule, or one that tuning recorded if `takes_tuned`, or one chosen by its sizes.

    The stages that the knob `override_dir` replaces are read here.

    Raises:
        ScheduleError: the schedule does not fit the rows.
        GathernestError: an edited stage, or the folder of them, cannot be read.
    """
    plan, folder = _planned(problem, schedule, takes_tuned), knobs.override_dir
    if folder is None:
        return plan
    if not os.path.isdir(folder):  # unlike the method of paths, it raises no error for a name that is too long
        raise KnobError(
            f"{knobs.told('override_dir')} is not a folder; set it to one that a dump of stages wrote, or leave it out"
        )
    edits = edited_stages(folder / plan.folder)
    return replace(plan, key=f"{plan.key}{_EDITED}{digest_of(edits)}", edits=edits) if edits else plan


def _planned(problem: Problem, schedule: Schedule | Pipeline | None, takes_tuned: bool) -> Plan:
    """Plan one gather without regard to edited stages.

    A pipeline may make code for the sizes and strides of one problem only, so its key names them.
    """
    layout = Layout.of(problem)
    nest, kernel_class, action = layout.nest, layout.kernel_class, _action(layout)
    if isinstance(schedule, Pipeline):
        most = schedule.most_axis_size
        if most is not None and max(problem.axis_sizes) > most:
            raise ScheduleError(
                f"check-indices: the pipeline is for axes of at most {most} positions, got {max(problem.axis_sizes)}"
            )
        for specialized in schedule.row_bytes:
            _check_row(layout.canonical, layout.width_bytes, specialized)
        for row_range in schedule.row_ranges:
            _check_row(layout.canonical, layout.width_bytes, None, row_range)
        arrays = f"{problem.table} by {problem.indices} with {problem.slices}, {problem.operator} {problem.gradient}"
        key = f"{kernel_class}, {arrays}, pipeline {schedule.expanded(is_fresh=problem.is_fresh)}"
        return Plan(layout, NO_SCHEDULE, key, action, "the caller gave the pipeline", given=schedule)
    takes_tuned = takes_tuned and schedule is None and action == "run"
    tuned = tuned_schedule(kernel_class, nest) if takes_tuned else None
    machine = machine_model()
    why: Choice | str = "given by the caller"
    if schedule is None and tuned is not None and tuned.schedule is not None:
        why, schedule = TUNED, tuned.schedule
    elif schedule is None:
        why = choose_shared(nest, machine)
        schedule = why.schedule
    bound = schedule.get(BoundInner)
    row_range = None if bound is None else (bound.least, bound.most)
    _check_row(layout.canonical, layout.width_bytes, schedule.row_bytes, row_range)
    check = choose_check(nest, schedule, machine, is_fresh=problem.is_fresh)
    if isinstance(check, FusedCheck) and tuned is None and not isinstance(why, str):
        schedule = without_checks(schedule)
    key = f"{kernel_class}, schedule {str(schedule) or 'none'}{f', {check}' if check else ''}"
    return Plan(layout, schedule, key, action, why, tuned, check=check)


def row_bytes(canonical: CanonicalGather, width: int) -> int | None:
    """Return the bytes of a row that `specialize-inner` can make part of the code; None where it can make none.

    Args:
        canonical: a gather or a gradient.
        width: bytes an element.
    """
    sizes: dict[str, int] = dict(zip(canonical.out.dims, canonical.out.shape, strict=True))
    inner = [name for name in canonical.out.dims if name.role == "inner" and sizes[name] != 1]
    size = sizes.get("inner" if inner else "indices")
    return None if size is None else size * width


def _check_row(
    canonical: CanonicalGather, width: int, specialized: int | None, row_range: tuple[int, int] | None = None
) -> None:
    """Check that rows have the size, or a size of the range, for which a schedule makes the code.

    Raises:
        ScheduleError: they have others.
    """
    own = row_bytes(canonical, width)
    if specialized is not None and own is not None and own != specialized:
        raise ScheduleError(
            f"the schedule is for rows of {specialized} bytes, got rows of {own}; "
            "leave specialize-inner out, or give it those bytes"
        )
    if row_range is not None and own is not None:
        least, most = row_range
        if own < least or own > (most or own):
            rows = f"{least} to {most} bytes" if most else f"{least} bytes or more"
            raise ScheduleError(
                f"the schedule is for rows of {rows}, got rows of {own}; leave bound-inner out, or give it other bytes"
            )


def _action(layout: Layout) -> Literal["run", "zeros", "nothing", "reject"]:
    problem = layout.problem
    if problem.reduces and 0 in problem.indices.shape:
        return "zeros"
    if 0 in problem.indices.shape:
        return "nothing" if problem.gradient is None else "zeros"
    if 0 in problem.axis_sizes:
        return "zeros" if problem.bounds is Bounds.ZERO else "reject"
    return "nothing" if 0 in problem.slices.shape and not layout.has_check else "run"
