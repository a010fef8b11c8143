"""The CPU that a shared library is for: as LLVM names it, with the machine model that its schedules are chosen by."""

import functools
import re
import subprocess
import sys
from pathlib import Path

from ...ir.errors import GathernestError, did_you_mean
from ...lowering.numba.target_code import Target
from ..host.knobs import knobs
from ..host.machine import GENERIC

# Asks LLVM for the CPUs that it knows, which it prints for the name `help`. A process of its own: it prints to
# standard error below Python.
_ASK = (
    "import llvmlite.binding as llvm; llvm.initialize_native_target(); llvm.initialize_native_asmprinter(); "
    "llvm.Target.from_default_triple().create_target_machine(cpu='help')"
)
_LISTED = re.compile(r"^  (\S+) +- Select the \S+ processor\.$", re.MULTILINE)
_NATIVE = (None, "native")
# Intel's CPUs with AVX-512, and the level of x86-64 that has it, by LLVM's names.
_AVX512 = re.compile(
    r"skylake-avx512|skx|(cascade|cooper|cannon|tiger|rocket)lake|icelake[-_](client|server)"
    r"|(sapphire|emerald|granite|diamond)rapids([-_]d)?|x86-64-v4"
)


class UnknownCpuError(GathernestError, ValueError):
    """LLVM knows no CPU of that name."""


def target_named(cpu: str | None) -> Target:
    """Return the target of that name; of None or `native`, this CPU with the features that the system lets it use.

    Raises:
        UnknownCpuError: LLVM knows no such CPU of this machine's architecture.
    """
    if cpu in _NATIVE:
        import llvmlite.binding as llvm

        return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    if cpu not in (known := _known_cpus()):
        near = did_you_mean(cpu, known) or f"; LLVM has {len(known)} of them, such as {', '.join(known[-3:])}"
        raise UnknownCpuError(f"there is no CPU {cpu!r} of this architecture{near}")
    return Target(cpu)


def machine_for(cpu: str | None) -> Path | str | None:
    """Return the knob `machine` to choose schedules by: as it is set, or for another CPU its nearest built-in model."""
    if cpu in _NATIVE or knobs.machine is not None:
        return knobs.machine
    if (zen := re.fullmatch(r"znver(\d+)", cpu)) is not None:
        return "zen4" if int(zen[1]) >= 4 else "zen3"
    return "xeon-avx512" if _AVX512.fullmatch(cpu or "") else GENERIC


@functools.cache
def _known_cpus() -> tuple[str, ...]:
    said = subprocess.run([sys.executable, "-c", _ASK], capture_output=True, text=True, check=False).stderr
    return tuple(_LISTED.findall(said))
