"""Tuning: find the fastest schedule of a gather on this machine by timing, and record it for later calls.

Every candidate is compiled, must give the default's bytes, and is timed in turn with the default (`kernels/tuning`).
The winner of the race is confirmed in fresh pairs, or the default stays. `kernels/tuned_schedules` records it, and
calls of the same problem class use it from then on.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..ir.array_spec import ArraySpec
from ..ir.errors import InvalidGatherError
from ..ir.semantics import BoundsMode
from ..lowering.schedule.schedule import Schedule
from .host.cpu import cpu_model, package_version
from .host.machine import machine_model, sharing_threads
from .host.runtime import RUNTIME
from .host.timing import time_interleaved
from .problems.named_problem import problem_of
from .runtime.array_checks import data_array, index_array, is_lazy
from .tuned_schedules.confirmation import Confirmation
from .tuned_schedules.records import (
    Record,
    Records,
    arguments_of,
    change_records,
    merged,
    read_records,
    records_path,
    warn,
)
from .tuning.sample_arrays import sample_arrays
from .tuning.tuner import ROUNDS, TIME_LIMIT_S, Report, Timer, Tuner, TuningResult


def tune(
    operator: str,
    data: Any,
    indices: Any,
    axis: Any = 0,
    *,
    batch_dims: int = 0,
    bounds: BoundsMode = "error",
    scale: float = 1.0,
    candidates: Iterable[Schedule | str] | Schedule | str | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    rounds: int = ROUNDS,
    progress: Report | None = None,
) -> TuningResult:
    """Find the fastest schedule of a gather or a gradient on this machine, and record it for calls like this one.

    Args:
        operator, data, indices, axis, batch_dims, bounds, scale: as for `compile`. Arrays are timed as they are; random
            arrays replace specifications such as "1000x64xf32" and the grad of a gradient.
        candidates: one schedule, or several, to try beside the default; `lowering.schedule.candidates` gives them when
            omitted.
        time_limit_s: seconds that compiling a candidate may take, and one call of it.
        rounds: pairs in which the winner must beat the default; 15 or more.
        progress: called before every step.

    Returns:
        Every candidate with its time or the reason why it has none, and the schedule that counts from now on.

    Raises:
        InvalidGatherError: the arguments do not describe a gather that runs.
        ScheduleError: a candidate cannot be read; a candidate that is illegal for this nest is among the failures.
        BoundsError: an index is not valid.
    """
    for name, array in (("data", data), ("indices", indices)):
        if is_lazy(array):
            raise InvalidGatherError(
                f"{name} is a dask array, and tuning times arrays in memory; pass one of its blocks"
            )
    problem = problem_of(operator, data, indices, axis, batch_dims=batch_dims, bounds=bounds, scale=scale)
    source, index = sample_arrays(problem)
    if problem.gradient is None and not isinstance(data, ArraySpec | str):
        source = data_array(data)
    if not isinstance(indices, ArraySpec | str):
        index = index_array(indices)
    if isinstance(candidates, str | Schedule):
        candidates = [candidates]
    schedules = None if candidates is None else list(map(Schedule.parse, candidates))
    tuner = Tuner(
        problem, source, index, time_limit_s=time_limit_s, rounds=rounds, progress=progress, machine=machine_model()
    )
    result = tuner.run(schedules)
    key, record = result.problem_class, record_of(result)
    return replace(result, file=forget([key]) if record is None else save({key: record}))


def record_of(result: TuningResult) -> Record | None:
    """Return the record of a result, measured now; None when no other schedule than the default could be timed."""
    found = result.confirmation
    if found is None:
        return None
    return Record(
        schedule=None if result.is_default else str(result.schedule),
        default=str(result.trials[0].schedule),
        default_us=round(found.default_us, 3),
        winner_us=round(found.other_us, 3),
        ratio=round(found.ratio, 4),
        pairs=found.pairs,
        wins=found.wins,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        cpu=cpu_model(),
        versions={name: package_version(name) for name in ("gathernest", "numba", "llvmlite", "numpy")},
        problem=arguments_of(result.problem),
    )


def recorded() -> Records:
    """Return the records of this machine, or of the file that the knob `tuning` names; raises TuningFileError."""
    path = records_path(sharing_threads())
    try:
        return {} if path is None else read_records(path)
    except FileNotFoundError:
        return {}


def replay(record: Record, *, rounds: int = ROUNDS, timer: Timer = time_interleaved) -> Confirmation | None:
    """Measure a recorded winner against the default as it is now, on arrays like those it was found on.

    Returns:
        The confirmation; None when the record says that the default stays, or its schedule is the default now.

    Raises:
        GathernestError: the schedule is no longer legal, or gives other bytes than the default.
    """
    problem = problem_of(**record.problem)
    tuner = Tuner(problem, *sample_arrays(problem), rounds=rounds, timer=timer)
    if record.schedule is None or Schedule.parse(record.schedule) == tuner.default:
        return None
    return tuner.confirm(Schedule.parse(record.schedule))


def absorb(records: Mapping[str, Record]) -> Path | None:
    """Merge records into this machine's file, the better one of each class; returns as `save`."""
    return _change(lambda before: merged(before, records))


def save(records: Mapping[str, Record]) -> Path | None:
    """Put records in this machine's file in place of those it has, and plan gathers by them from now on.

    Returns:
        The file; None when the knob `tuning` is off or, with a warning, when it cannot be written.
    """
    return _change(lambda before: {**before, **records})


def forget(keys: Container[str]) -> Path | None:
    """Take the records of some problem classes out of this machine's file; returns as `save`."""
    return _change(lambda before: {key: record for key, record in before.items() if key not in keys})


def _change(change: Callable[[Records], Records]) -> Path | None:
    path = records_path(sharing_threads())
    if path is None:
        return None
    try:
        change_records(path, change)
    except OSError as error:
        warn(f"the tuning records {path} cannot be written ({error.strerror or error}), so they stay as they were")
        return None
    RUNTIME.forget()
    return path
