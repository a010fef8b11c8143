"""Options for a schedule and a machine: errors in what they say name the option."""

from ...ir.errors import ScheduleError
from ...kernels.host.knobs import KnobError, knobs
from ...kernels.host.machine import machine_model
from ...lowering.schedule.schedule import Schedule
from .terminal import UsageError


def read_schedule(text: str | None, option: str = "--schedule") -> Schedule | None:
    """Return the schedule that an option names, None where it is not given; raises ScheduleError."""
    if text is None:
        return None
    try:
        return Schedule.parse(text)
    except ScheduleError as error:
        raise ScheduleError(f"{option}: {error}") from None


def check_machine(option: str, said: str) -> None:
    """Check that an option names a machine model; raises UsageError."""
    try:
        with knobs.scope_of_options(machine=(option, said)):
            machine_model()
    except KnobError as error:
        raise UsageError(str(error)) from None
