"""The calibration of a machine as a file, which `gathernest calibrate` writes. Plain Python.

    <cache folder>/machines/<digest of the machine>.json

A calibration belongs to a machine: CPU, caches and cores. One of another machine, or one that is damaged, or that
another user could have written, is as good as none.
"""

import functools
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ....lowering.schedule.machine_model import BUILT_IN, MachineModel
from ..cache_folder import cache_folder
from ..cpu import cache_sizes, cpu_model, usable_cores
from ..files import publish
from ..knobs import knobs
from .described_machine import said_of_machine
from .measured_file import measured_file, read_measured

FORMAT, KIND = 2, "machines"
# A calibration beside which other processes used so many cores lacks what they disturb most, and is doubted.
BUSY_CORES = 0.5
DATE = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Calibration:
    """What was measured of a machine.

    Attributes:
        base: the built-in model whose other fields it has.
        fields: the measured fields of the model.
        machine: what they depend on, as `machine_facts` gives it.
        threads: how many shared the work while it was measured.
        other_cores: how many cores other processes used meanwhile, on average.
        date: when, in UTC, such as 2026-11-21T12:00:00Z.
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
        """How many days ago it was made."""
        return (datetime.now(UTC) - datetime.fromisoformat(self.date)).total_seconds() / 86_400

    def description(self) -> dict[str, Any]:
        """Return the model as a file for the knob `machine` holds it."""
        return {"base": self.base, "name": self.model.name, **self.fields}

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as JSON can hold it."""
        return {"format": FORMAT, **{field.name: getattr(self, field.name) for field in fields(self)}}

    @classmethod
    def from_json(cls, stored: Any) -> "Calibration":
        """Return what `to_json` gave; raises ValueError, KeyError or TypeError where it is something else."""
        if stored["format"] != FORMAT:
            raise ValueError(f"the format is {stored['format']}, not {FORMAT}")
        given = {field.name: stored[field.name] for field in fields(cls)}
        model, _ = said_of_machine({"base": given["base"], **given["fields"]})
        measured = {name: getattr(model, name) for name in given["fields"]}
        if datetime.fromisoformat(given["date"]).tzinfo is None:
            raise ValueError("date has a time zone")
        known, ends = set(MachineModel.__dataclass_fields__), dict(given["uncertain"])
        if not ends.keys() <= known or not all({*each} == {"low", "high"} for each in ends.values()):
            raise ValueError("uncertain has the ends of intervals of fields")
        if type(given["threads"]) is not int or type(given["other_cores"]) not in (int, float):
            raise ValueError("threads and other_cores are numbers")
        return cls(
            **{**given, "fields": measured, "machine": dict(given["machine"]), "versions": dict(given["versions"])}
        )


def machine_facts() -> dict[str, Any]:
    """Return what a calibration depends on."""
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": usable_cores(),
        "caches_bytes": cache_sizes(),
    }


def calibration_path() -> Path:
    """Return the file of this machine's calibration, whether it is there or not."""
    return measured_file(KIND, machine_facts())


def known_calibration() -> Calibration | None:
    """Return the calibration of this machine; None where there is no sound one. It is read once in a process."""
    return _read(knobs.cache_dir, usable_cores())


def write_calibration(found: Calibration) -> Path:
    """Put a calibration in its file, and return that; raises OSError."""
    path = calibration_path()
    publish(path, json.dumps(found.to_json(), indent=1) + "\n")
    forget_calibration()
    return path


def forget_calibration() -> None:
    """Read the file anew when a calibration is asked for next."""
    _read.cache_clear()


@functools.lru_cache(maxsize=16)
def _read(cache_dir: Path | None, cores: int) -> Calibration | None:
    """Return the calibration in a cache folder; the arguments are what it depends on within a process."""
    if not os.path.isdir(cache_folder() / KIND):  # most have none: the facts take longer than this
        return None
    facts = machine_facts()
    found = read_measured(measured_file(KIND, facts), Calibration.from_json)
    return found if found is not None and found.machine == facts else None
