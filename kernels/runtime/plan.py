"""From the specs of a call's arrays to the key of its kernel and its run-time numbers. Plain Python.

A plan uses the functions of the passes (`ir.canonical`, `ir.semantics`), so the views and numbers fit the kernel's IR.
The key of a kernel has no size and no rank: only facts that remain in the erased IR, and the schedule.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ...ir.array_spec import ArraySpec
from ...ir.canonical import CanonicalGather, Operand, Strided, canonical_gather, erased_size
from ...ir.element_types import machine_width, number_name, number_scale, number_width
from ...ir.errors import InvalidGatherError, ScheduleError
from ...ir.operator_spec import Gradient, Node, OperatorSpec
from ...ir.semantics import DYNAMIC, LARGEST_NARROW_AXIS, Bounds, Shape, reaches_past
from ...lowering.registry import default_pipeline
from ...lowering.schedule.loop_sizes import NestShape
from ...lowering.schedule.schedule import Choice, Schedule
from ..host.machine import sharing_threads
from .select_schedule import chosen_schedule, erased_layout, nest_shape, problem_class, tuned_schedule

MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class Problem:
    """One gather or one gradient, without the values of its arrays.

    A gather reads the table and writes the slices; a gradient reads the slices and adds them to the table.

    Attributes:
        operator: the operator, normalised.
        table: the array that indices point into: data, or its gradient.
        indices: of an integer dtype.
        slices: the array with a slice for each index: the result of a gather, or its gradient.
        bounds: what an index outside means.
        gradient: the attributes of a gradient; None for a gather.
        version: the operator version it came from, for the reader only.
        node: the node of a graph that it came from, for the reader only.
        has_shared_indices: whether other processes may write to the indices while they are read.
    """

    operator: OperatorSpec
    table: ArraySpec
    indices: ArraySpec
    slices: ArraySpec
    bounds: Bounds
    gradient: Gradient | None = None
    version: str | None = None
    node: Node | None = None
    has_shared_indices: bool = False

    @classmethod
    def checked(
        cls,
        operator: OperatorSpec,
        table: ArraySpec,
        indices: ArraySpec,
        bounds: Bounds,
        slices: ArraySpec | None = None,
        version: str | None = None,
        gradient: Gradient | None = None,
        node: Node | None = None,
    ) -> "Problem":
        """Return the problem with the operator normalised; the slices are contiguous when they are omitted.

        Raises:
            InvalidGatherError: the operator's attributes do not fit the shapes.
        """
        operator = operator.normalized(table.shape, indices.shape)
        shape = operator.result_shape(table.shape, indices.shape)
        rank = len(shape)
        if rank > MOST_DIMENSIONS:
            raise InvalidGatherError(
                f"the result of data of rank {table.rank} and indices of rank {indices.rank} has rank {rank}, and "
                f"NumPy's arrays have at most {MOST_DIMENSIONS}; merge dimensions of one of them first"
            )
        check_addresses(f"a result of shape {shape} and {table.dtype}", shape, table.dtype)
        slices = slices or ArraySpec(shape, table.dtype)
        if slices.shape != shape:
            what = "grad" if gradient is not None else "out"
            raise InvalidGatherError(
                f"{what} must have shape {shape}, as the gather of data {table.shape} by indices {indices.shape} "
                f"gives, got {slices.shape}"
            )
        return cls(operator, table, indices, slices, bounds, gradient, version, node)

    @property
    def source(self) -> ArraySpec:
        """The array that is read."""
        return self.table if self.gradient is None else self.slices

    @property
    def result(self) -> ArraySpec:
        """The array that is written."""
        return self.slices if self.gradient is None else self.table

    def into(self, result: ArraySpec) -> "Problem":
        """Return the problem with another array of the same shape to write."""
        return replace(self, slices=result) if self.gradient is None else replace(self, table=result)

    @property
    def name(self) -> str:
        """The operator's name, such as `gather_nd` or `gather_nd_grad`."""
        return self.operator.name if self.gradient is None else f"{self.operator.name}_grad"

    @property
    def axes(self) -> range:
        """The dimensions of the table that are indexed."""
        return self.operator.axes(self.indices.shape)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the indexed dimensions."""
        return tuple(self.table.shape[axis] for axis in self.axes)


def check_addresses(what: str, shape: Shape, dtype: np.dtype) -> None:
    """Check that NumPy can make an array of that shape; it leaves sizes of 0 out when it counts the bytes.

    Raises:
        InvalidGatherError: it cannot; `what` is how the message calls the array.
    """
    if dtype.itemsize * math.prod(size for size in shape if size) >= 2**63:
        raise InvalidGatherError(f"{what} has no addresses; its sizes, but for those of 0, make 2**63 bytes or more")


@dataclass(frozen=True, slots=True)
class Plan:
    """A problem with its layout, its schedule and the key of its kernel.

    Attributes:
        problem: the problem.
        schedule: how the nest is run.
        key: names the kernel; plans with the same key have the same code.
        canonical: the arrays as the kernel sees them, strides in elements of `width_bytes`.
        width_bytes: the size of the elements it moves.
        work_bytes: bytes of indices read and output written; for a gradient those read, too.
        action: what to do: `run` the kernel, fill with `zeros`, `nothing`, or `reject` every index of an empty axis.
        nest: the sizes that a schedule is chosen from.
        kernel_class: the key without the schedule.
        is_tuned: whether the schedule is one that tuning recorded.
        reasons: why this schedule.
    """

    problem: Problem
    schedule: Schedule
    key: str
    canonical: CanonicalGather
    width_bytes: int
    work_bytes: int
    action: Literal["run", "zeros", "nothing", "reject"]
    nest: NestShape
    kernel_class: str
    is_tuned: bool
    reasons: tuple[str, ...] = ()

    @property
    def problem_class(self) -> str:
        """The class that tuning records a schedule for: its problems get the same schedule."""
        return problem_class(self.kernel_class, self.nest, sharing_threads())

    @property
    def pipeline(self) -> str:
        """The passes that make its kernel, as text."""
        problem = self.problem
        return default_pipeline(self.schedule, gradient=problem.gradient is not None, clamp=problem.has_shared_indices)

    @property
    def arguments(self) -> tuple[Operand, Operand, Operand]:
        """The views of the arrays as the kernel takes them: what is read, the indices, what is written."""
        table, indices, slices = self.canonical.data, self.canonical.indices, self.canonical.out
        return (table, indices, slices) if self.problem.gradient is None else (slices, indices, table)

    def parameter(self, kind: str, argument: int, dim: int) -> float:
        """Return the value of a kernel's parameter: a size, a stride in elements, or the scale."""
        if kind == "scale":
            assert self.problem.gradient is not None
            return number_scale(self.problem.gradient.scale, self.problem.table.dtype)
        operand = self.arguments[argument]
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
    data, indices, out = problem.table, problem.indices, problem.slices
    if problem.gradient is None:
        width = machine_width(data.dtype.itemsize, [*data.layout_strides, *out.layout_strides])
    else:
        width = number_width(data.dtype)
    strided = _strided(data, width), _strided(indices, indices.dtype.itemsize), _strided(out, width)
    roles = problem.operator.roles(len(strided[0].shape), indices.shape)
    canonical = canonical_gather(*strided, roles, covers_data=problem.gradient is not None)
    largest = int(np.iinfo(indices.dtype).max)
    reaches = tuple(reaches_past(largest, size) for size in problem.axis_sizes)
    has_check = problem.bounds is Bounds.ERROR and any(reaches)
    nest = nest_shape(problem, canonical, width, has_check=has_check)
    kernel_class = _kernel_class(problem, canonical, width, reaches)
    action = _action(problem, is_empty=0 in out.shape, has_check=has_check)
    takes_tuned = takes_tuned and schedule is None and action == "run"
    tuned = tuned_schedule(kernel_class, nest) if takes_tuned else None
    if schedule is not None:
        choice = Choice(schedule, ("given by the caller",))
    elif tuned is not None:
        choice = Choice(tuned, ("tuning found it the fastest on this machine",))
    else:
        choice = chosen_schedule(nest, is_gradient=problem.gradient is not None)
    _check_row(canonical, width, choice.schedule)
    items = math.prod(out.shape)
    moved = items if problem.gradient is None else items + math.prod(data.shape)
    return Plan(
        problem,
        choice.schedule,
        f"{kernel_class}, schedule {str(choice.schedule) or 'none'}",
        canonical,
        width,
        moved * data.dtype.itemsize + math.prod(indices.shape) * indices.dtype.itemsize,
        action,
        nest,
        kernel_class,
        tuned is not None,
        choice.reasons,
    )


def _check_row(canonical: CanonicalGather, width: int, schedule: Schedule) -> None:
    """Check that rows have the bytes that a schedule makes the code for; raises ScheduleError."""
    rows: dict[str, int] = dict(zip(canonical.out.dims, canonical.out.shape, strict=True))
    if schedule.specialize is not None and "inner" in rows and rows["inner"] * width != schedule.specialize:
        raise ScheduleError(
            f"the schedule is for rows of {schedule.specialize} bytes, got rows of {rows['inner'] * width}; "
            "leave specialize-inner out, or give it those bytes"
        )


def _strided(spec: ArraySpec, width: int) -> Strided:
    """Return an array in units of `width` bytes, with one more dimension where an element has several."""
    units = spec.dtype.itemsize // width
    shape = (*spec.shape, units) if units > 1 else spec.shape
    if not spec.layout_strides:
        return Strided(shape, None)
    strides = tuple(stride // width for stride in spec.layout_strides)
    return Strided(shape, (*strides, 1) if units > 1 else strides)


def _kernel_class(problem: Problem, canonical: CanonicalGather, width: int, reaches: tuple[bool, ...]) -> str:
    """Return what decides a kernel's code but for its schedule."""
    views = [
        f"{name}<{_erased(operand)}>"
        for name, operand in (("data", canonical.data), ("indices", canonical.indices), ("out", canonical.out))
    ]
    reach = " ".join("reaches past" if past else "stays within" for past in reaches)
    wide = " on a wide axis" if any(size > LARGEST_NARROW_AXIS for size in problem.axis_sizes) else ""
    element = f"{8 * width} bits"
    if problem.gradient is not None:
        element = f"{number_name(problem.table.dtype)}{' scaled' if problem.gradient.scale != 1 else ''}"
    shared = ", shared indices" if problem.has_shared_indices else ""
    return (
        f"{problem.name} {element}, {problem.indices.dtype.name} {reach}{wide}{shared}, bounds {problem.bounds}, "
        f"{', '.join(views)}"
    )


def _erased(operand: Operand) -> str:
    """Return an operand's dimensions as `erase-sizes` leaves them."""
    sizes = [erased_size(size, dim) for size, dim in zip(operand.shape, operand.dims, strict=True)]
    text = " ".join(f"{dim} {'?' if size == DYNAMIC else size}" for dim, size in zip(operand.dims, sizes, strict=True))
    layout = erased_layout(operand)
    if layout is None:
        return text
    return f"{text} strides {' '.join('?' if stride is None else str(stride) for stride in layout)}"


def _action(problem: Problem, *, is_empty: bool, has_check: bool) -> Literal["run", "zeros", "nothing", "reject"]:
    if 0 in problem.indices.shape:
        return "nothing" if problem.gradient is None else "zeros"
    if 0 in problem.axis_sizes:
        return "zeros" if problem.bounds is Bounds.ZERO else "reject"
    return "nothing" if is_empty and not has_check else "run"
