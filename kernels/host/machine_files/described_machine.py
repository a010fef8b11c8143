"""What a file may say of a machine, and the model that it describes. Plain Python."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ....ir.errors import did_you_mean, shorten, show
from ....lowering.schedule.machine_model import BUILT_IN, MachineModel

GENERIC = "avx2"
# In nanoseconds, and in bytes each: what no machine has makes numbers that the costs of schedules cannot be made of.
_TIMES_AND_RATES = 1e-6, 1e9
# What a field of a file may be, and how messages call it.
Rule = tuple[Callable[[Any], bool], str]


def _number(least: float, most: float) -> Rule:
    return lambda value: type(value) in (int, float) and least <= value <= most, f"a number from {least:g} to {most:g}"


def _whole(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}"


def _among(*allowed: Any) -> Rule:
    return lambda value: type(value) is type(allowed[0]) and value in allowed, f"one of {', '.join(map(str, allowed))}"


def _several(count: int) -> Rule:
    holds, text = _number(*_TIMES_AND_RATES)
    return lambda value: type(value) is list and len(value) == count and all(map(holds, value)), (
        f"a list of {count}, each {text}"
    )


_NUMBERS = (
    *("memory_ns", "byte_ns", "lane_load_ns", "lane_gather_ns", "check_ns"),
    *("launch_ns", "wake_ns", "memory_bytes_per_ns"),
)
_RULES: dict[str, Rule] = {
    "base": _among(*BUILT_IN),
    "name": (lambda value: type(value) is str, "a text"),
    "l1_bytes": _whole(2**12, 2**40),
    **dict.fromkeys(("l2_bytes", "l3_bytes"), _whole(2**16, 2**40)),
    **dict.fromkeys(("l1_misses", "l2_misses"), _whole(1, 1024)),
    "near_bytes": _whole(64, 2**20),
    "threads": _whole(1, 4096),
    **dict.fromkeys(("vector_bytes", "wide_vector_bytes"), _among(16, 32, 64)),
    **dict.fromkeys(("l1_share", "l2_share", "l3_share", "one_way_share"), _number(0.001, 1)),
    "strayed_lines": (lambda value: type(value) in (int, float) and 0 <= value <= 64, "a number from 0 to 64"),
    "copy_bytes_per_ns": _several(3),
    "line_ns": _several(4),
    **dict.fromkeys(("near_line_ns", "alone_line_ns"), _several(2)),
    **dict.fromkeys(("store_times", "streamed_times", "interleaved_times"), _number(1 / 64, 64)),
    **dict.fromkeys(_NUMBERS, _number(*_TIMES_AND_RATES)),
}


def said_of_machine(said: Any) -> tuple[MachineModel, int | None]:
    """Return the model that a JSON object describes, named "" where it has no name, and the threads that it says.

    Raises:
        ValueError: it describes none; says why.
    """
    if not isinstance(said, dict):
        raise ValueError(f"holds {show(said)}")
    for field, value in said.items():
        if field not in _RULES:
            close = did_you_mean(field, _RULES) or f"; the fields are {', '.join(_RULES)}"
            raise ValueError(f"has no field {show(field)}{close}")
        holds, allowed = _RULES[field]
        if not holds(value):
            raise ValueError(f"says {field} = {shorten(json.dumps(value))}, allowed is {allowed}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    base, threads = given.pop("base", GENERIC), given.pop("threads", None)
    return replace(BUILT_IN[base], **{"name": "", **given}), threads
