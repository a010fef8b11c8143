"""From the arguments of a call to a kernel ready to launch, cached by shapes, strides and dtypes."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir import errors, reference
from ...ir.errors import BoundsError, DependencyError, GathernestError, InternalError, OutOfMemoryError, ScheduleError
from ...ir.loop_name import LoopName
from ...ir.positions import bounds_error
from ...ir.problem import Problem
from ...lowering.numba.program import NO_MEMORY, Program
from ...lowering.registry import Pipeline
from ...lowering.schedule.machine_model import LINE_BYTES
from ...lowering.schedule.schedule import Schedule
from ..host.dependencies import require_compiler
from ..host.knobs import knobs
from ..host.machine import machine_model
from ..host.recycled_memory import RECYCLED, empty_in_lines
from ..host.runtime import RUNTIME
from ..tuned_schedules.store import reject_tuned
from .array_checks import address
from .compile_service import KERNELS
from .disk_cache import Loaded, load_kernel
from .first_calls import FIRST_CALLS
from .launch import launch
from .plan import Plan, make_plan

# If grad is at least this number of times as large as out, it is worth a copy to make out begin a cache line.
READ_FOR_A_COPY = 8
# A process keeps at most this number of kernels loaded: 70 kB each, 36 MB. Loading one again takes 2 ms.
MOST_LOADED = 512


@dataclass(slots=True)
class Prepared:
    """A plan with its kernel and the sizes and strides that the kernel takes.

    Attributes:
        plan: the plan.
        loaded: the compiled kernel; None when there is nothing to run.
        numbers: the kernel's arguments after the three addresses: sizes, strides, and the scale of a gradient.
        is_shared: whether the work is worth several threads.
        was_run: whether its kernel has run.
        splits_rows: whether threads add to different parts of the same rows. Two parts in one line cause false sharing.
        is_awaited: whether NumPy answers until there is a kernel.
    """

    plan: Plan
    loaded: Loaded | None
    numbers: tuple[float, ...]
    is_shared: bool = False
    was_run: bool = False
    splits_rows: bool = False
    is_awaited: bool = False

    def result(self, dtype: np.dtype) -> np.ndarray:
        """Return a new array for the result; where threads split rows, it begins a line of the caches."""
        return RECYCLED.new(self.plan.problem.result.shape, dtype, empty_in_lines if self.splits_rows else np.empty)

    def target(self, data: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Return the array to run with: `out`, or a new array that is copied to it, where that is faster."""
        is_worth_it = self.splits_rows and READ_FOR_A_COPY * out.nbytes <= data.nbytes
        if not is_worth_it or not out.flags.c_contiguous:
            return out
        return out if address(out) % LINE_BYTES == 0 else empty_in_lines(out.shape, out.dtype)

    def run(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """Gather into `out`, which overlaps neither input; for a gradient, `data` is grad and `out` its result.

        Raises:
            BoundsError: an index is not valid; `out` is untouched, unless the problem's result is fresh.
            OutOfMemoryError: the system has no memory that the schedule needs; `out` is untouched.
        """
        action = self.plan.action
        if action == "reject":
            raise bounds_error(self.plan.problem, indices)
        if action == "zeros":
            out.view(f"V{out.dtype.itemsize}")[...] = np.zeros((), f"V{out.dtype.itemsize}")
            gradient = self.plan.problem.gradient
            if gradient is not None and gradient.scale != 1 and out.dtype.kind in "fcV":
                zero = 0.0 * gradient.scale  # -0.0 where that is negative, as with indices
                out[...] = complex(zero, zero) if out.dtype.kind == "c" else zero
            return
        if action == "nothing":
            return
        if self.is_awaited and not self._has_arrived():
            reference.of_problem(self.plan.problem, data, indices, out)
            return
        if self.loaded is None:
            return self._interpret(data, indices, out)
        target = self.target(data, out)
        addresses = (address(data), address(indices), address(target))
        if result := launch(self.loaded.entry, addresses + self.numbers, self.is_shared):
            raise kernel_error(self.plan.problem, indices, result)
        if target is not out:
            out[...] = target
        self.was_run = True

    def _has_arrived(self) -> bool:
        """Return whether there is a kernel by now; if so, it is loaded."""
        if not KERNELS.can_load(self.plan, _load):
            return False
        try:
            prepared = RUNTIME.make(lambda: _ready(self.plan), kind="awaited")
        except (DependencyError, MemoryError) as error:
            KERNELS.leave(self.plan, error)
            return False
        self.plan, self.loaded, self.numbers = prepared.plan, prepared.loaded, prepared.numbers
        self.is_shared, self.splits_rows = prepared.is_shared, prepared.splits_rows
        self.is_awaited = False  # last, as another thread may run it meanwhile
        return True

    def _interpret(self, data: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        from ...ir.interpreters.interpreter import interpret
        from ...ir.modules.context import parse_module
        from .compile import run_stages

        indices = indices.copy()  # another thread may write to them
        try:
            interpret(parse_module(run_stages(self.plan)[-1].text), data, indices, out)
        except BoundsError:
            raise bounds_error(self.plan.problem, indices) from None


def planned(problem: Problem, schedule: Schedule | Pipeline | None = None) -> Plan:
    """Plan a problem; the knob `schedule` overrides a chosen one, not a given one."""
    if schedule is not None or knobs.schedule is None:
        return make_plan(problem, schedule)
    try:
        return make_plan(problem, Schedule.parse(knobs.schedule))
    except ScheduleError as error:
        raise ScheduleError(f"{knobs.place('schedule')}: {error}") from None


def prepare_problem(
    problem: Problem, schedule: Schedule | Pipeline | None = None, *, may_wait: bool = False
) -> Prepared:
    """Return the prepared kernel of a problem, planned by `planned`.

    With `may_wait` the knob `compile` decides when it is compiled, and NumPy answers until then. A request for a
    schedule, for stages or for other code than usual is compiled at once.
    """
    may_wait = may_wait and schedule is None and knobs.compile != "now" and not knobs.asks_for_code()
    kind = type(problem.operator), problem.gradient is None, type(schedule), knobs.interpret, may_wait
    return RUNTIME.make(lambda: _prepare(problem, schedule, may_wait), kind=kind)


def _prepare(problem: Problem, schedule: Schedule | Pipeline | None, may_wait: bool) -> Prepared:
    plan = planned(problem, schedule)
    if plan.action != "run" or knobs.interpret:
        return Prepared(plan, None, ())
    return Prepared(plan, None, (), is_awaited=True) if may_wait else _ready(plan)


def _ready(plan: Plan) -> Prepared:
    """Return a plan with its kernel; where a pass rejects the tuned schedule, a plan without tuning."""
    try:
        loaded = _loaded(plan)
    except ScheduleError as error:
        if plan.tuned is None or plan.tuned.schedule is None or plan.edits:
            raise
        reject_tuned(plan.tuned.problem_class, error)
        plan = make_plan(plan.problem, takes_tuned=False)
        loaded = _loaded(plan)
    return Prepared(
        plan, loaded, kernel_numbers(plan, loaded.program), _is_shared(plan), splits_rows=_splits_rows(plan)
    )


def _splits_rows(plan: Plan) -> bool:
    shared = plan.schedule.parallel if plan.problem.gradient is not None else ()
    return any(name.role in ("inner", "unit") and not name.nest for name in map(LoopName, shared))


def _is_shared(plan: Plan) -> bool:
    """Return whether a plan is worth several threads."""
    table, result = plan.layout.canonical.data, plan.layout.canonical.out
    rows = math.prod(size for size, dim in zip(result.shape, result.dims, strict=True) if dim.role != "inner")
    return machine_model().is_worth_sharing(plan.work_bytes, rows, math.prod(table.shape) * plan.layout.width_bytes)


def kernel_numbers(plan: Plan, program: Program) -> tuple[float, ...]:
    """Return the sizes, the strides and the scale that a plan's program takes after the three addresses."""
    parameters = program.parameters
    if [parameter.kind for parameter in parameters[:3]] != ["address"] * 3:
        raise InternalError("a kernel takes the addresses of data, indices and out first")
    return tuple(plan.parameter(entry.kind, entry.argument, entry.dim) for entry in parameters[3:])


def wait() -> None:
    """Wait until every kernel that calls of this process have missed so far is compiled and loaded.

    With the knob `compile` at "never" nothing is compiled, and this returns at once.

    Raises:
        CompileError: a kernel cannot be compiled.
    """
    RUNTIME.make(see_first_calls)  # under the lock, behind a thread that plans such calls now
    KERNELS.wait(_loaded)


def see_first_calls() -> None:
    """Plan the calls that NumPy has answered before they could be planned, as calls that missed their kernels."""
    for problem, calls in FIRST_CALLS.take().items():
        plan = planned(problem)
        if plan.action == "run":
            KERNELS.see(plan, calls)


def _loaded(plan: Plan) -> Loaded:
    """Return the kernel of a plan, made or read where it is not in memory."""
    loaded = RUNTIME.loaded.get(plan.key)
    if loaded is not None and not knobs.always_compile:
        return loaded
    return RUNTIME.make(lambda: _load(plan))


def _load(plan: Plan) -> Loaded:
    """Load a kernel; what a signal handler raises while the caller waits for this is no error of the compiler's."""
    try:
        return _make_or_read(plan)
    except GathernestError:
        raise
    except (ImportError, OSError) as error:
        raise errors.no_compiler(error) from error


def _make_or_read(plan: Plan) -> Loaded:
    loaded = RUNTIME.loaded.get(plan.key)  # a signal handler that gathers may clear the table at any step
    if loaded is None or knobs.always_compile:
        if len(RUNTIME.loaded) >= MOST_LOADED:
            RUNTIME.loaded.clear()
            RUNTIME.forget()  # a kernel is freed with the last call that is prepared for it
        loaded = KERNELS.take_sent(plan) or load_kernel(plan.key, plan.pipeline, lambda: _build(plan))
        RUNTIME.loaded[plan.key] = loaded
        if loaded.from_cache and knobs.dump_dir is not None:
            _build(plan)  # the cache keeps no stages, so they are made again for the dump
    return loaded


def _build(plan: Plan) -> Any:
    require_compiler()
    from .compile import build_program

    return build_program(plan)


def kernel_error(problem: Problem, indices: np.ndarray, result: int) -> GathernestError:
    """Return the error for a kernel's result other than 0."""
    if result != NO_MEMORY:
        return bounds_error(problem, indices)
    what = "gather" if problem.gradient is None else "gradient"
    return OutOfMemoryError(
        f"the kernel of this {what} keeps positions of its {indices.size} indices, or its result, in memory of its "
        "own, and the system has none for that; free some, or set the knob schedule to '', which takes none"
    )
