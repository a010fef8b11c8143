"""The machine model that chooses schedules: of the knob `machine`, a calibration, or the built-in one for this CPU.

A file for the knob `machine` holds one JSON object of fields. `gathernest doctor --calibrate` writes a calibration to

    <cache folder>/machines/<digest of the machine>.json

It belongs to a machine: CPU, caches and cores. A file of another machine, a damaged file, and a file that another user
could have written are left out. Plain Python.
"""

import functools
import hashlib
import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...ir.errors import did_you_mean, shorten, show
from ...ir.numbers import parse_json
from ...lowering.schedule.machine_model import BUILT_IN, VECTORS_BYTES, MachineModel
from .cache_folder import cache_folder, warn_caller
from .cpu import cache_sizes, cpu_facts, cpu_model, usable_cores
from .files import read_own, read_plain
from .knobs import KnobError, knobs

AVX2_BYTES = 32  # of a vector
GENERIC = "avx2"
# Processors whose cores share one last cache. A virtual machine gets a part, but sees the size of the whole: 480 MB on
# Granite Rapids whose latencies end at 80. With the model's 60 MB, rows of 64 B to 64 KB take 0.57 to 0.77 of the time.
ONE_LAST_CACHE = ("xeon-avx512",)
# If other processes use this number of cores during a calibration, it leaves out the fields that they disturb most.
BUSY_CORES = 0.5
FORMAT, KIND = 2, "machines"
_LEFT_OUT: set[Path] = set()  # files that the user has been warned about

# The test of a field's values in a file, and its words in messages.
Rule = tuple[Callable[[Any], bool], str]


class MachineFileError(KnobError):
    """A file describes no machine."""


class MachineFileWarning(UserWarning):
    """A file about a machine cannot be used, and is left out."""


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A machine model and where it comes from.

    Attributes:
        model: the model.
        because: the reason for the choice.
        threads: the number of threads of the machine; None for the threads of this process.
    """

    model: MachineModel
    because: str
    threads: int | None = None


def machine_model() -> MachineModel:
    """Return the model that chooses schedules, with the threads that share the work.

    Raises:
        KnobError: the knob `machine` names neither a built-in model nor a file that can be read.
    """
    known = known_machine()
    return _shared(known.model, sharing_threads() if known.threads is None else known.threads)


@functools.lru_cache(maxsize=64)
def _shared(model: MachineModel, threads: int) -> MachineModel:
    return replace(model, threads=threads)


def known_machine() -> KnownMachine:
    """Return the model that chooses schedules, and the reason for the choice; raises as `machine_model` does.

    A file that describes no machine is left out with a warning; if an option names it, that is an error.
    """
    wanted = knobs.machine
    if wanted is not None and str(wanted) in BUILT_IN:
        return KnownMachine(BUILT_IN[str(wanted)], "named by the knob machine")
    if wanted is not None:
        try:
            return _read_described(wanted)
        except MachineFileError as error:
            if knobs.place("machine").startswith("-"):
                raise
            _warn_left_out(wanted, f"{error}; until then it is left out")
    found = known_calibration()
    return built_in_machine() if found is None else KnownMachine(found.model, f"measured at {found.date}")


def sharing_threads() -> int:
    """Return the number of threads of this process that share a nest; any number gives the same bytes."""
    wanted = knobs.num_threads
    return usable_cores() if wanted is None else min(wanted, usable_cores())


# the built-in model for a CPU


def built_in_for(cpu: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the built-in model that is nearest to a CPU, as /proc/cpuinfo describes a core, and why."""
    vendor, family, model = (cpu.get(name, "") for name in ("vendor_id", "cpu family", "model"))
    with_avx512 = f"with{'' if has_avx512(cpu) else 'out'} AVX-512"
    because = f"{vendor or 'unknown vendor'}, family {family or 'unknown'} model {model or 'unknown'}, {with_avx512}"
    if vendor == "AuthenticAMD" and family.isdecimal() and int(family) >= 23:
        if int(family) >= 26:
            return "zen5", because
        # Of family 25, the models that Linux takes for Zen 4 (arch/x86/kernel/cpu/amd.c).
        is_zen4 = family == "25" and model.isdecimal() and (16 <= int(model) < 32 or 96 <= int(model) < 176)
        return "zen4" if is_zen4 or has_avx512(cpu) else "zen3", because
    return "xeon-avx512" if vendor == "GenuineIntel" and has_avx512(cpu) else GENERIC, because


def has_avx512(cpu: Mapping[str, str]) -> bool:
    """Return whether a CPU has AVX-512, which some virtual machines hide from their users."""
    return "avx512f" in cpu.get("flags", "").split()


@functools.cache
def built_in_machine() -> KnownMachine:
    """Return the built-in model for this CPU, with the sizes of its caches where the system tells them."""
    return built_in_with(cpu_facts(), cache_sizes())


def built_in_with(cpu: Mapping[str, str], sizes: Mapping[str, int]) -> KnownMachine:
    """Return the built-in model for a CPU, as /proc/cpuinfo describes a core, with the sizes of caches in bytes."""
    name, because = built_in_for(cpu)
    model = BUILT_IN[name]
    if not has_avx512(cpu):
        model = replace(model, wide_vector_bytes=min(model.wide_vector_bytes, AVX2_BYTES))
    l1, l2 = sizes.get("L1", model.l1_bytes), sizes.get("L2", model.l2_bytes)
    last = max(sizes.get("L3", 0), sizes.get("L2", 0)) or model.l3_bytes
    if name in ONE_LAST_CACHE:
        last = min(last, model.l3_bytes)
    return KnownMachine(replace(model, l1_bytes=l1, l2_bytes=l2, l3_bytes=last), because)


# a machine that a file describes


def _number(least: float, most: float) -> Rule:
    return lambda value: type(value) in (int, float) and least <= value <= most, f"a number from {least:g} to {most:g}"


def _whole(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}"


def _among(*allowed: Any) -> Rule:
    return lambda value: type(value) is type(allowed[0]) and value in allowed, f"one of {', '.join(map(str, allowed))}"


def _several(count: int, rule: Rule) -> Rule:
    holds, text = rule
    return lambda value: type(value) is list and len(value) == count and all(map(holds, value)), (
        f"a list of {count}, each {text}"
    )


# Ranges of times in nanoseconds, rates in bytes a nanosecond, and so on: no machine is outside, and costs stay finite.
_RATE, _FACTOR, _SHARE, _CACHE = _number(1e-6, 1e9), _number(1 / 64, 64), _number(0.001, 1), _whole(2**16, 2**40)
_RULES: dict[str, Rule] = {
    "base": _among(*BUILT_IN),
    "name": (lambda value: type(value) is str, "a text"),
    "l1_bytes": _whole(2**12, 2**40),
    **dict.fromkeys(("l2_bytes", "l3_bytes"), _CACHE),
    **dict.fromkeys(("l1_misses", "l2_misses"), _whole(1, 1024)),
    "near_bytes": _whole(64, 2**20),
    "threads": _whole(1, 4096),
    **dict.fromkeys(("vector_bytes", "wide_vector_bytes"), _among(*VECTORS_BYTES)),
    **dict.fromkeys(("l1_share", "l2_share", "l3_share", "one_way_share"), _SHARE),
    "strayed_lines": (lambda value: type(value) in (int, float) and 0 <= value <= 64, "a number from 0 to 64"),
    "copy_bytes_per_ns": _several(3, _RATE),
    "line_ns": _several(4, _RATE),
    **dict.fromkeys(("near_line_ns", "alone_line_ns"), _several(2, _RATE)),
    **dict.fromkeys(("store_times", "streamed_times", "interleaved_times"), _FACTOR),
    **dict.fromkeys(("memory_ns", "byte_ns", "lane_load_ns", "lane_gather_ns", "check_ns"), _RATE),
    **dict.fromkeys(("launch_ns", "wake_ns", "memory_bytes_per_ns"), _RATE),
}


def described_machine(described: Any) -> tuple[MachineModel, int | None]:
    """Return the model that a JSON object describes, named "" where it has no name, and its threads.

    Raises:
        ValueError: it describes none; the message has the reason.
    """
    if not isinstance(described, dict):
        raise ValueError(f"holds {show(described)}")
    for name, value in described.items():
        if name not in _RULES:
            close = did_you_mean(name, _RULES) or f"; the fields are {', '.join(_RULES)}"
            raise ValueError(f"has no field {show(name)}{close}")
        holds, allowed = _RULES[name]
        if not holds(value):
            raise ValueError(f"says {name} = {shorten(json.dumps(value))}, allowed is {allowed}")
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in described.items()
    }
    base, threads = given.pop("base", GENERIC), given.pop("threads", None)
    return replace(BUILT_IN[base], **{"name": "", **given}), threads


@functools.lru_cache(maxsize=16)
def _read_described(path: Path) -> KnownMachine:
    """Return the model in a file, which is read once in a process; raises KnobError."""
    try:
        text = read_plain(path)
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise KnobError(_rejected(path, f"{reason}{did_you_mean(str(path), BUILT_IN)}")) from None
    try:
        described = parse_json(text)
    except ValueError as error:
        raise MachineFileError(_rejected(path, f"cannot be read ({error})")) from None
    try:
        model, threads = described_machine(described)
    except ValueError as error:
        raise MachineFileError(_rejected(path, str(error))) from None
    return KnownMachine(replace(model, name=model.name or path.stem), f"read from {path}", threads)


def _rejected(path: Path, why: str) -> str:
    return (
        f"the machine {str(path)!r} {why}; set {knobs.place('machine')} to {', '.join(BUILT_IN)}, or to a file with a "
        "JSON object of a machine's fields (docs/machine.md)"
    )


# the calibration of this machine


@dataclass(frozen=True)
class Calibration:
    """The measured numbers of a machine.

    Attributes:
        base: the built-in model that provides the other fields.
        fields: the measured fields of the model.
        machine: the facts that it depends on, as `machine_facts` gives them.
        threads: the number of threads that shared the work while it was measured.
        other_cores: the average number of cores that other processes used meanwhile.
        date: the time of the measurement in UTC, such as 2026-11-21T12:00:00Z.
        versions: of the packages that it was measured with.
        uncertain: the fields that keep the value of the built-in model, with the low and the high end of the interval
            in which the measurements lie.
    """

    base: str
    fields: Mapping[str, Any]
    machine: Mapping[str, Any]
    threads: int
    other_cores: float
    date: str
    versions: Mapping[str, str]
    uncertain: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @functools.cached_property
    def model(self) -> MachineModel:
        """The machine model."""
        return replace(BUILT_IN[self.base], name=f"{self.base}, calibrated", **self.fields)

    @property
    def age_days(self) -> float:
        """The number of days since it was made."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.date)).total_seconds() / 86_400

    def description(self) -> dict[str, Any]:
        """Return the model in the form of a file for the knob `machine`."""
        return {"base": self.base, "name": self.model.name, **self.fields}

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON can hold it."""
        return {"format": FORMAT, **{field.name: getattr(self, field.name) for field in fields(self)}}

    @classmethod
    def from_json(cls, stored: Any) -> "Calibration":
        """Return the calibration of `to_json`; raises ValueError, KeyError or TypeError where it is something else."""
        if stored["format"] != FORMAT:
            raise ValueError(f"the format is {stored['format']}, not {FORMAT}")
        given = {field.name: stored[field.name] for field in fields(cls)}
        known = MachineModel.__dataclass_fields__.keys() - {"name"}
        for name in ("fields", "uncertain", "machine", "versions"):
            if type(given[name]) is not dict or not all(given[name]):
                raise ValueError(f"{name} is no object")
        if not given["fields"].keys() | given["uncertain"].keys() <= known:
            raise ValueError("fields and uncertain have fields of a machine")
        if not all(
            type(each) is dict and each.keys() == {"low", "high"} and all(map(_is_measured, each.values()))
            for each in given["uncertain"].values()
        ):
            raise ValueError("uncertain has the ends of intervals of fields")
        if type(given["date"]) is not str or datetime.fromisoformat(given["date"]).tzinfo is None:
            raise ValueError("date is a date with a time zone")
        if type(given["threads"]) is not int or type(given["other_cores"]) not in (int, float):
            raise ValueError("threads and other_cores are numbers")
        model, _ = described_machine({"base": given["base"], **given["fields"]})
        return cls(**{**given, "fields": {name: getattr(model, name) for name in given["fields"]}})


def _is_measured(value: Any) -> bool:
    return all(map(_is_measured, value)) if type(value) is list else type(value) in (int, float)


def machine_facts() -> dict[str, Any]:
    """Return the facts that a calibration depends on."""
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": usable_cores(),
        "caches_bytes": cache_sizes(),
    }


def calibration_path() -> Path:
    """Return the file of this machine's calibration, whether it is there or not."""
    digest = hashlib.sha256(json.dumps(machine_facts(), sort_keys=True).encode()).hexdigest()[:16]
    return cache_folder() / KIND / f"{digest}.json"


def known_calibration() -> Calibration | None:
    """Return the calibration of this machine; None where there is no sound one. It is read once in a process."""
    return _read_calibration(knobs.cache_dir, usable_cores())


def forget_calibration() -> None:
    """Read the file anew when a calibration is asked for next."""
    _read_calibration.cache_clear()


@functools.lru_cache(maxsize=16)
def _read_calibration(cache_dir: Path | None, cores: int) -> Calibration | None:
    """Return the calibration in a cache folder; within a process it depends on the arguments alone."""
    if not os.path.isdir(cache_folder() / KIND):  # saves the time of the facts, since most folders have none
        return None
    path = calibration_path()
    try:
        found = Calibration.from_json(parse_json(read_own(path)))
        return found if found.machine == machine_facts() else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        _warn_left_out(path, f"the file {path} is left out: {reason}; delete it, or measure again")
        return None


def _warn_left_out(path: Path, message: str) -> None:
    """Warn, once a file, that it is left out."""
    if path not in _LEFT_OUT:
        _LEFT_OUT.add(path)
        warn_caller(message, MachineFileWarning)
