"""The look-up of tuned schedules: what `make_plan` asks before it chooses one by the sizes.

A file of records is read once in a process. Whatever is wrong with it, or with a record, costs one warning, and the
schedule that the sizes ask for is taken.
"""

from pathlib import Path
from typing import NamedTuple

from ...ir.errors import ScheduleError
from ...lowering.schedule.schedule import Schedule
from ..host.runtime import RUNTIME
from .records import Record, TuningFileError, read_records, records_path, warn


class Tuned(NamedTuple):
    """What is recorded for a problem.

    Attributes:
        problem_class: the class that has the record.
        origin: what found it: `tune` or `adapt`.
        schedule: the winner; None where the default stays.
    """

    problem_class: str
    origin: str
    schedule: Schedule | None


class TunedSchedules:
    """The schedules in one file, by problem class; false when there are none."""

    def __init__(self, path: Path):
        self._path = path
        self._records = dict(_records(path))
        self._schedules: dict[str, Schedule] = {}

    def __bool__(self) -> bool:
        return bool(self._records)

    def find(self, *problem_classes: str) -> Tuned | None:
        """Return what is recorded for the first of these classes that has a record."""
        for name in problem_classes:
            if (record := self._records.get(name)) is None:
                continue
            if record.schedule is None:
                return Tuned(name, record.origin, None)
            try:
                if name not in self._schedules:
                    self._schedules[name] = Schedule.parse(record.schedule)
            except ScheduleError as error:
                self.reject(name, error)
                continue
            return Tuned(name, record.origin, self._schedules[name])
        return None

    def adopt(self, problem_class: str, record: Record) -> None:
        """Take a record from now on, whether the file has it or not."""
        self._schedules.pop(problem_class, None)
        self._records[problem_class] = record

    def reject(self, problem_class: str, error: ScheduleError) -> None:
        """Ignore a record from now on, since its schedule is not legal for the nest; warns."""
        if self._records.pop(problem_class, None) is not None:
            warn(
                f"the schedule in {self._path} for {problem_class!r} is ignored: {error}. Tune it again, or remove it "
                "with gathernest tune --forget"
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
