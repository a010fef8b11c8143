"""Which machine model schedules are chosen by: the knob `machine`, or the built-in one for this CPU. Plain Python."""

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...ir.errors import did_you_mean
from ...lowering.schedule.machine_model import BUILT_IN, MachineModel
from .cpu import cache_sizes, cpu_facts, usable_cores
from .knobs import KnobError, knobs

GENERIC = "avx2"
# What a field of a file may be, and how messages call it.
Rule = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True, slots=True)
class KnownMachine:
    """A machine model and where it comes from.

    Attributes:
        model: the model.
        because: why it is this one.
        threads: how many threads the machine has; None for those of this process.
    """

    model: MachineModel
    because: str
    threads: int | None = None


def machine_model() -> MachineModel:
    """Return the model that schedules are chosen by, with the threads that share the work.

    Raises:
        KnobError: the knob `machine` names neither a built-in model nor a file that describes one.
    """
    known = known_machine()
    return replace(known.model, threads=sharing_threads() if known.threads is None else known.threads)


def known_machine() -> KnownMachine:
    """Return the model that schedules are chosen by, and why it is this one; raises as `machine_model` does."""
    wanted = knobs.machine
    if wanted is None:
        return _of_this_cpu()
    if str(wanted) in BUILT_IN:
        return KnownMachine(BUILT_IN[str(wanted)], "named by the knob machine")
    return _read(wanted)


def sharing_threads() -> int:
    """Return how many threads of this process share a nest: any number gives the same bytes."""
    wanted = knobs.num_threads
    return usable_cores() if wanted is None else min(wanted, usable_cores())


def built_in_for(cpu: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the built-in model that is nearest to a CPU, as /proc/cpuinfo describes a core, and why."""
    vendor, family = cpu.get("vendor_id", "unknown vendor"), cpu.get("cpu family", "")
    has_avx512 = "avx512f" in cpu.get("flags", "").split()
    because = f"{vendor}, family {family or 'unknown'}, with{'' if has_avx512 else 'out'} AVX-512"
    if vendor == "AuthenticAMD" and family.isdecimal() and int(family) >= 23:
        return "zen4" if has_avx512 else "zen3", because
    return "xeon-avx512" if vendor == "GenuineIntel" and has_avx512 else GENERIC, because


@functools.cache
def _of_this_cpu() -> KnownMachine:
    """Return the built-in model for this CPU, with the sizes of its caches where the system tells them."""
    name, because = built_in_for(cpu_facts())
    model, sizes = BUILT_IN[name], cache_sizes()
    l1, l2 = sizes.get("L1", model.l1_bytes), sizes.get("L2", model.l2_bytes)
    last = max(sizes.get("L3", 0), sizes.get("L2", 0)) or model.l3_bytes
    return KnownMachine(replace(model, l1_bytes=l1, l2_bytes=l2, l3_bytes=last), because)


def _number(most: float) -> Rule:
    return lambda value: type(value) in (int, float) and 0 < value <= most, f"a number above 0 and up to {most:g}"


def _whole(least: int, most: int) -> Rule:
    return lambda value: type(value) is int and least <= value <= most, f"a whole number from {least} to {most}"


def _among(*allowed: Any) -> Rule:
    return lambda value: type(value) is type(allowed[0]) and value in allowed, f"one of {', '.join(map(str, allowed))}"


def _several(count: int) -> Rule:
    holds, text = _number(1e9)
    return lambda value: type(value) is list and len(value) == count and all(map(holds, value)), (
        f"a list of {count}, each {text}"
    )


_RULES: dict[str, Rule] = {
    "base": _among(*BUILT_IN),
    "name": (lambda value: type(value) is str, "a text"),
    "l1_bytes": _whole(2**12, 2**40),
    **dict.fromkeys(("l2_bytes", "l3_bytes"), _whole(2**16, 2**40)),
    **dict.fromkeys(("l1_misses", "l2_misses"), _whole(1, 1024)),
    "threads": _whole(1, 4096),
    "line_bytes": _among(32, 64, 128, 256),
    **dict.fromkeys(("vector_bytes", "wide_vector_bytes"), _among(16, 32, 64)),
    **dict.fromkeys(("l1_share", "l2_share", "l3_share"), _number(1)),
    "copy_bytes_per_ns": _several(3),
    "line_ns": _several(4),
    **dict.fromkeys(
        ("memory_ns", "memory_bytes_per_ns", "byte_ns", "lane_load_ns", "lane_gather_ns", "check_ns", "fused_check_ns"),
        _number(1e9),
    ),
    **dict.fromkeys(("page_fault_ns", "launch_ns", "wake_ns"), _number(1e9)),
}


@functools.lru_cache(maxsize=16)
def _read(path: Path) -> KnownMachine:
    """Return the model in a file, which is read once in a process; raises KnobError."""
    try:
        said = json.loads(path.read_text())
    except RecursionError:
        raise _rejected(path, "cannot be read (its lists are too deep)") from None
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise _rejected(path, f"{reason}{did_you_mean(str(path), BUILT_IN)}") from None
    if not isinstance(said, dict):
        raise _rejected(path, f"holds {said!r}")
    for field, value in said.items():
        if field not in _RULES:
            close = did_you_mean(field, _RULES) or f"; the fields are {', '.join(_RULES)}"
            raise _rejected(path, f"has no field {field!r}{close}")
        holds, allowed = _RULES[field]
        if not holds(value):
            raise _rejected(path, f"says {field} = {json.dumps(value)}, allowed is {allowed}")
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    base, threads = given.pop("base", GENERIC), given.pop("threads", None)
    return KnownMachine(replace(BUILT_IN[base], **{"name": path.stem, **given}), f"read from {path}", threads)


def _rejected(path: Path, why: str) -> KnobError:
    return KnobError(
        f"the machine {str(path)!r} {why}; set GATHERNEST_MACHINE to {', '.join(BUILT_IN)}, or to a file with a JSON "
        "object of a machine's fields (docs/machine.md)"
    )
