"""The schedule of a gather: recorded by tuning for its problem class, or else the one with the lowest prediction."""

import functools

from ...ir.errors import ScheduleError
from ...lowering.schedule.choose import Choice, choose
from ...lowering.schedule.machine_model import MachineModel
from ...lowering.schedule.shape import NestShape
from ...lowering.schedule.shared_kernels import share_kernel
from ...lowering.schedule.thresholds import MOST_KNOWN_ELEMENTS
from ..host.knobs import knobs
from ..host.machine import sharing_threads
from ..tuned_schedules.store import Tuned, tuned_schedules


def tuned_schedule(kernel_class: str, nest: NestShape) -> Tuned | None:
    """Return the record that tuning made for problems of this class on this machine, if any."""
    if knobs.machine is not None:
        return None
    threads = sharing_threads()
    schedules = tuned_schedules(threads)
    if not schedules:
        return None
    return schedules.find(problem_class(kernel_class, nest, threads))


def reject_tuned(problem_class: str, error: ScheduleError) -> None:
    """Ignore the record for problems of this class, since a pass rejects its schedule."""
    schedules = tuned_schedules(sharing_threads())
    if schedules is not None:
        schedules.reject(problem_class, error)


@functools.lru_cache(maxsize=1024)
def choice_for(nest: NestShape, machine: MachineModel, *, is_gradient: bool) -> Choice:
    """Return the choice of a schedule for a machine, which is remembered: it takes some hundred microseconds."""
    found = choose(nest, machine, is_gradient=is_gradient)
    return found if is_gradient else Choice(share_kernel(nest, machine, found.schedule), found.compared)


def problem_class(kernel_class: str, nest: NestShape, threads: int) -> str:
    """Return the class that tuning records a schedule for: kernel without schedule, threads, and sizes.

    Loops of a row have their exact size, since it decides which vectors fit, and so has an innermost loop over few
    elements; all other sizes are rounded to the nearest power of two.
    """
    sizes = {**dict(nest.table), **dict(nest.copied)}
    exact = {name for name in sizes if name.loop == name and name.role in ("inner", "unit")}
    if nest.innermost[1] <= MOST_KNOWN_ELEMENTS:
        exact.add(nest.innermost[0])
    rounded = (f"{name} {size if name in exact else _nearest_power(size)}" for name, size in sizes.items())
    return f"{kernel_class}, {threads} threads, sizes {' '.join(rounded)}"


def _nearest_power(size: int) -> int:
    """Return the power of two nearest to a size, by their ratio."""
    return 1 << (size * size).bit_length() // 2 if size else 0
