"""Which machine model schedules are chosen by: the knob `machine`, a calibration, or the built-in one for this CPU.

Plain Python.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...ir.errors import did_you_mean
from ...ir.numbers import parse_json
from ...lowering.schedule.machine_model import BUILT_IN, MachineModel
from .cpu import cache_sizes, cpu_facts, usable_cores
from .files import read_plain
from .knobs import KnobError, knobs
from .machine_files.calibration_file import known_calibration
from .machine_files.described_machine import GENERIC, said_of_machine
from .machine_files.measured_file import warn_left_out

AVX2_BYTES = 32  # of a vector
# Processors whose cores share one last cache. Virtual machines get a part and are told the whole: 480 MB on a Granite
# Rapids whose latencies end at 80. With the model's 60 MB, rows of 64 B to 64 KB take 0.57 to 0.77 of the time there.
ONE_LAST_CACHE = ("xeon-avx512",)


class MachineFileError(KnobError):
    """A file describes no machine."""


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
        KnobError: the knob `machine` names neither a built-in model nor a file that can be read.
    """
    known = known_machine()
    return replace(known.model, threads=sharing_threads() if known.threads is None else known.threads)


def known_machine() -> KnownMachine:
    """Return the model that schedules are chosen by, and why it is this one; raises as `machine_model` does.

    A file that describes no machine is left out with a warning, but that of an option is an error.
    """
    wanted = knobs.machine
    if wanted is not None and str(wanted) in BUILT_IN:
        return KnownMachine(BUILT_IN[str(wanted)], "named by the knob machine")
    if wanted is not None:
        try:
            return _read(wanted)
        except MachineFileError as error:
            if knobs.place("machine").startswith("-"):
                raise
            warn_left_out(wanted, f"{error}; until then it is left out")
    found = known_calibration()
    return built_in_machine() if found is None else KnownMachine(found.model, f"measured at {found.date}")


def sharing_threads() -> int:
    """Return how many threads of this process share a nest: any number gives the same bytes."""
    wanted = knobs.num_threads
    return usable_cores() if wanted is None else min(wanted, usable_cores())


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
    """Return whether a CPU has AVX-512, which some virtual machines hide from those who use them."""
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


@functools.lru_cache(maxsize=16)
def _read(path: Path) -> KnownMachine:
    """Return the model in a file, which is read once in a process; raises KnobError."""
    try:
        text = read_plain(path)
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise KnobError(_rejected(path, f"{reason}{did_you_mean(str(path), BUILT_IN)}")) from None
    try:
        said = parse_json(text)
    except ValueError as error:
        raise MachineFileError(_rejected(path, f"cannot be read ({error})")) from None
    try:
        model, threads = said_of_machine(said)
    except ValueError as error:
        raise MachineFileError(_rejected(path, str(error))) from None
    return KnownMachine(replace(model, name=model.name or path.stem), f"read from {path}", threads)


def _rejected(path: Path, why: str) -> str:
    return (
        f"the machine {str(path)!r} {why}; set {knobs.place('machine')} to {', '.join(BUILT_IN)}, or to a file with a "
        "JSON object of a machine's fields (docs/machine.md)"
    )
