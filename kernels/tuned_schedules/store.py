"""The look-up of tuned schedules, which `make_plan` does before it chooses a schedule by the sizes.

A file of records is read once in a process. A fault of the file, or of a record, costs one warning, and then the sizes
choose the schedule.
"""

import functools
from pathlib import Path
from typing import NamedTuple

from ...ir.errors import ScheduleError, shorten, show
from ...lowering.schedule.schedule import Schedule
from ...lowering.schedule.shape import NestShape
from ...lowering.schedule.thresholds import MOST_KNOWN_ELEMENTS
from ..host.knobs import knobs
from ..host.machine import sharing_threads
from ..host.runtime import RUNTIME
from .records import TuningFileError, read_records, records_path, warn

_parse = functools.lru_cache(maxsize=1024)(Schedule.parse)


class Tuned(NamedTuple):
    """The record for a problem.

    Attributes:
        problem_class: the class that has the record.
        schedule: the winner; None where the default stays.
    """

    problem_class: str
    schedule: Schedule | None


def tuned_schedule(kernel_class: str, nest: NestShape) -> Tuned | None:
    """Return the record of tuning for problems of this class on this machine, if one has a schedule that is read."""
    if knobs.machine is not None or not (recorded := _recorded()):
        return None
    name = problem_class(kernel_class, nest, sharing_threads())
    if name not in recorded:
        return None
    text = recorded[name]
    try:
        return Tuned(name, None if text is None else _parse(text))
    except ScheduleError as error:
        reject_tuned(name, error)
        return None


def reject_tuned(problem_class: str, error: ScheduleError) -> None:
    """Ignore the record for problems of this class from now on, since its schedule is not legal for the nest; warns."""
    recorded = _recorded()
    if problem_class in recorded:
        del recorded[problem_class]
        warn(
            f"the schedule in {records_path(sharing_threads())} for {show(problem_class)} is ignored: "
            f"{shorten(str(error))}. Tune it again, or remove it with gathernest tune --forget"
        )


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


def _recorded() -> dict[str, str | None]:
    """Return the texts of the schedules recorded for this machine by problem class; none when the knob says `off`."""
    path = records_path(sharing_threads())
    if path is None:
        return {}
    if path not in RUNTIME.tuned:
        RUNTIME.tuned[path] = _read(path)
    return RUNTIME.tuned[path]


def _read(path: Path) -> dict[str, str | None]:
    """Return the texts in a file; none, with a warning, when it cannot be read."""
    try:
        return {name: record.schedule for name, record in read_records(path).items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except TuningFileError as error:
        warn(f"{error}. Its schedules are not used")
    except OSError as error:
        warn(f"the tuning records in {path} cannot be read ({error.strerror or error}), so they are not used")
    return {}
