"""The records of tuning as a file: one JSON a machine, readable, mergeable, and safe with several processes.

    {"format": 1,
     "records": {"<problem class>": {"schedule": "tile-loops{...},...", "default": "...", "ratio": 1.31, ...}}}

A problem class is `Plan.problem_class`: the kernel without its schedule, the number of threads, the sizes of a row, and
the other sizes rounded to powers of two. A file is written under a temporary name and renamed, by one process at a
time where the system has file locks. A file that cannot be read is never overwritten: it is moved aside.
"""

import contextlib
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ...ir.errors import GathernestError, show
from ...ir.numbers import parse_json
from ...ir.problem import Problem
from ..host.cache_folder import cache_folder, warn_caller
from ..host.cpu import cpu_model
from ..host.files import open_own, publish, read_own
from ..host.knobs import knobs

FORMAT = 1


class TuningWarning(UserWarning):
    """Records of tuning cannot be used or written; gathers run under the schedules chosen by their sizes."""


class TuningFileError(GathernestError, ValueError):
    """A file is not one of tuning records."""


@dataclass(frozen=True, slots=True)
class Record:
    """The result of tuning for one problem class.

    Attributes:
        schedule: the text of the winner; None where the default stays.
        default: the text of the default when it was measured.
        default_us, winner_us: medians of the default and of the best other schedule, in microseconds.
        ratio: the speed of the best other schedule relative to the default: the median of the pairs.
        pairs, wins: the number of timed pairs, and of pairs that the other schedule won.
        date: the time in UTC, such as 2026-11-21T12:00:00Z.
        cpu: the CPU's name.
        versions: of the packages that made the code.
        problem: the arguments of `tune` that it was measured on, as text, to measure it again.
    """

    schedule: str | None
    default: str
    default_us: float
    winner_us: float
    ratio: float
    pairs: int
    wins: int
    date: str
    cpu: str
    versions: Mapping[str, str]
    problem: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_json(cls, entry: Any) -> "Record":
        """Read the output of `to_json`; raises ValueError with the fault."""
        wanted = [field.name for field in fields(cls)]
        if not isinstance(entry, dict) or sorted(entry) != sorted(wanted):
            raise ValueError(f"a record has {', '.join(wanted)}")
        for name, (allowed, holds) in _RULES.items():
            if not holds(entry[name]):
                raise ValueError(f"{name} must be {allowed}, got {show(entry[name])}")
        return cls(**entry)


def _is_printable(value: Any) -> bool:
    """Return whether a value is an object without characters that would control a terminal."""
    return isinstance(value, dict) and all(str(each).isprintable() for each in (*value, *value.values()))


# The allowed values of a field of a file in words, and the test of a value.
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(
        ("default", "date", "cpu"), ("a printable text", lambda value: isinstance(value, str) and value.isprintable())
    ),
    "schedule": ("text", lambda value: value is None or isinstance(value, str)),
    **dict.fromkeys(
        ("default_us", "winner_us", "ratio"),
        ("a number above 0", lambda value: type(value) in (int, float) and math.isfinite(value) and value > 0),
    ),
    **dict.fromkeys(("pairs", "wins"), ("a count", lambda value: type(value) is int and value >= 0)),
    **dict.fromkeys(("versions", "problem"), ("an object of printable texts", _is_printable)),
}
Records = dict[str, Record]


def arguments_of(problem: Problem) -> dict[str, Any]:
    """Return the arguments of `problem_of` that describe a problem, as JSON can hold them."""
    arguments: dict[str, Any] = {"operator": problem.name, "data": str(problem.table), "indices": str(problem.indices)}
    arguments |= {**problem.operator.attributes(), "bounds": str(problem.bounds)}
    return arguments | ({} if problem.gradient is None else {"scale": problem.gradient.scale})


def better(one: Record, other: Record) -> Record:
    """Return the better of two records of a problem class: the record with more pairs, then the newer one.

    Among equal ones the rest of the text decides, so the answer does not depend on their order.
    """
    return max(one, other, key=lambda record: (record.pairs, record.date, json.dumps(record.to_json(), sort_keys=True)))


def merged(one: Mapping[str, Record], other: Mapping[str, Record]) -> Records:
    """Return the records of both; the operation is commutative, associative and idempotent."""
    every = {**one, **other, **{key: better(one[key], other[key]) for key in one.keys() & other.keys()}}
    return dict(sorted(every.items()))


def records_path(threads: int) -> Path | None:
    """Return the file that records are read from and written to; None when the knob `tuning` is off."""
    if knobs.tuning is not None:
        return None if knobs.tuning == "off" else Path(knobs.tuning)
    cpu = re.sub(r"[^a-z0-9]+", "-", cpu_model().lower()).strip("-") or "cpu"
    return cache_folder() / f"tuning-{cpu}-{threads}-threads.json"


def read_records(path: Path) -> Records:
    """Return the records in a file.

    Raises:
        TuningFileError: it is not a file of records; the message has the reason.
        OSError: it cannot be read, or `read_own` rejects it, such as a link.
    """
    try:
        content = parse_json(read_own(path))
        if not isinstance(content, dict) or not isinstance(content.get("records"), dict):
            raise ValueError("it must be an object with format and records")
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {show(content.get('format'))}, and this version reads {FORMAT}")
        return {key: _read_record(key, entry) for key, entry in content["records"].items() if not _is_adapted(entry)}
    except ValueError as error:  # JSON and UTF-8 that do not decode are ValueErrors
        reason = str(error) or type(error).__name__
        raise TuningFileError(f"{path} is not a file of tuning records: {reason}; mend it or delete it") from None


def _is_adapted(entry: Any) -> bool:
    """Return whether an earlier version made a record while a program ran; such records are not used any more."""
    return isinstance(entry, dict) and entry.pop("origin", None) == "adapt"


def _read_record(key: str, entry: Any) -> Record:
    try:
        return Record.from_json(entry)
    except ValueError as error:
        raise ValueError(f"record {show(key)}: {error}") from None


def change_records(path: Path, change: Callable[[Records], Mapping[str, Record]]) -> Records:
    """Read a file, change its records, and put the new file in its place; return the new records.

    A file that holds no records is moved aside first, with a warning. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_name(f".{path.name}.lock")):
        try:
            before = read_records(path)
        except FileNotFoundError:
            before = {}
        except TuningFileError as error:
            before = {}
            warn(f"{error}. It is kept as {_move_aside(path)}, and a new one is begun")
        after = dict(sorted(change(before).items()))
        write_records(path, after)
    return after


def write_records(path: Path, records: Mapping[str, Record]) -> None:
    """Write a file of records; raises OSError."""
    content = {"format": FORMAT, "records": {key: record.to_json() for key, record in records.items()}}
    publish(path, json.dumps(content, indent=1) + "\n")


def warn(message: str) -> None:
    """Warn the caller of the package."""
    warn_caller(message, TuningWarning)


def _move_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return path.rename(aside)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file; where the system has no such locks, the last of two simultaneous writers wins.

    Raises:
        OSError: `open_own` rejects the file.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(open_own(path, os.O_RDWR | os.O_CREAT), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
