"""The look-up of tuned schedules, which `make_plan` does before it chooses a schedule by the sizes.

A file of records is read once in a process. A fault of the file, or of a record, costs one warning, and then the sizes
choose the schedule.
"""

from pathlib import Path
from typing import NamedTuple

from ...ir.errors import ScheduleError, shorten, show
from ...lowering.schedule.schedule import Schedule
from ..host.runtime import RUNTIME
from .records import Record, TuningFileError, read_records, records_path, warn


class Tuned(NamedTuple):
    """The record for a problem.

    Attributes:
        problem_class: the class that has the record.
        schedule: the winner; None where the default stays.
    """

    problem_class: str
    schedule: Schedule | None


class TunedSchedules:
    """The schedules in one file, by problem class; false when there are none."""

    def __init__(self, path: Path):
        self._path = path
        self._records = dict(_records(path))
        self._schedules: dict[str, Schedule] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def find(self, problem_class: str) -> Tuned | None:
        """Return the record of a class of problems, if there is one whose schedule can be read."""
        if (record := self._records.get(problem_class)) is None:
            return None
        try:
            if problem_class not in self._schedules and record.schedule is not None:
                self._schedules[problem_class] = Schedule.parse(record.schedule)
        except ScheduleError as error:
            self.reject(problem_class, error)
            return None
        return Tuned(problem_class, self._schedules.get(problem_class))

    def reject(self, problem_class: str, error: ScheduleError) -> None:
        """Ignore a record from now on, since its schedule is not legal for the nest; warns."""
        if self._records.pop(problem_class, None) is not None:
            warn(
                f"the schedule in {self._path} for {show(problem_class)} is ignored: {shorten(str(error))}. Tune it "
                "again, or remove it with gathernest tune --forget"
            )


def tuned_schedules(threads: int) -> TunedSchedules | None:
    """Return the schedules recorded for this machine, or None when the knob `tuning` is off."""
    path = records_path(threads)
    if path is None:
        return None
    found = RUNTIME.tuned.get(path)
    if found is None:
        found = RUNTIME.tuned[path] = TunedSchedules(path)
    return found


def _records(path: Path) -> dict[str, Record]:
    """Return the records in a file; none, with a warning, when it cannot be read."""
    try:
        return read_records(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except TuningFileError as error:
        warn(f"{error}. Its schedules are not used")
    except OSError as error:
        warn(f"the tuning records in {path} cannot be read ({error.strerror or error}), so they are not used")
    return {}
