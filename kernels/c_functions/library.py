"""Shared libraries: the C functions of given problems, compiled ahead of time for a CPU, and their header.

Each function is an object file by LLVM, and the C compiler links them. The library needs neither Python nor Numba.
"""

import contextlib
import functools
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...ir.errors import GathernestError, ScheduleError, did_you_mean, show
from ...ir.problem import Problem
from ...lowering.native.kernel_code import Counted, NoKernel
from ...lowering.numba.target_code import Target, object_of_program, object_without_kernel
from ...lowering.programs import c_compiler, run_c_compiler
from ...lowering.schedule.steps import SpecializeInner
from ..host.files import check_replaceable, name_in_errors, publish
from ..host.knobs import knobs
from ..host.machine import GENERIC
from ..runtime.compile import build_program
from ..runtime.plan import Plan
from ..runtime.prepare import kernel_numbers, planned
from .declaration import Declaration, by_count, counts_of, header, with_count
from .pointer import without_kernel

# Asks LLVM for code for a CPU, or for the CPUs that it knows, by the name `help`. In its own process: LLVM prints to
# standard error below Python, and aborts where it has no code.
_ASK = (
    "import sys, llvmlite.binding as llvm; llvm.initialize_native_target(); llvm.initialize_native_asmprinter(); "
    "machine = llvm.Target.from_default_triple().create_target_machine(cpu=sys.argv[1]); "
    "machine.emit_object(llvm.parse_assembly('define void @f() { ret void }'))"
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


@dataclass(frozen=True, slots=True)
class Library:
    """A library that was built.

    Attributes:
        path: the file of the library.
        header: the file of the C header.
        functions: the functions that it exports.
        cpu: the CPU that it is for, by LLVM's name.
    """

    path: Path
    header: Path
    functions: tuple[Declaration, ...]
    cpu: str


def build_library(
    out: Path, header_path: Path, functions: Sequence[Declaration], cpu: str | None, advance: Callable[[int], None]
) -> Library:
    """Compile functions for a CPU and link them; the library and its header get their names when they are whole.

    Args:
        out, header_path: files in folders that are there.
        functions: of different names, 1 or more.
        cpu: by LLVM's name; this machine's when None.
        advance: is called for each function that is compiled.

    Raises:
        DependencyError: there is no C compiler.
        UnknownCpuError: there is no such CPU.
        GathernestError: the C compiler does not link.
        ScheduleError, CompileError: a kernel cannot be compiled.
        OSError: the files cannot be written.
    """
    compiler, target = c_compiler("gathernest build"), target_named(cpu)
    check_replaceable(out)
    with name_in_errors(out):
        folder = tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-")
    with folder as making:
        objects = [Path(making) / f"{number}.o" for number in range(len(functions))]
        for path, function in zip(objects, functions, strict=True):
            with name_in_errors(out):
                path.write_bytes(object_code(function, target, cpu))
            advance(1)
        made = Path(making) / out.name
        whole = ["-Wl,-z,defs"] if sys.platform == "linux" else []
        run_c_compiler(compiler, ["-shared", *whole, *map(str, objects)], made, f"link {out.name}")
        title = f"C functions made by gathernest for the CPU {target.cpu}, in {out.name}."
        guard = re.sub(r"\W", "_", header_path.name, flags=re.ASCII).upper()
        publish(header_path, header(functions, title, f"GATHERNEST_{guard}"))
        made.replace(out)
    return Library(out, header_path, tuple(functions), target.cpu)


def object_code(function: Declaration, target: Target, cpu: str | None) -> bytes:
    """Return the object code of one function, with a schedule for one thread of that CPU; raises as `build_library`."""
    with knobs.scope(num_threads=1, machine=machine_for(cpu)):
        plan = planned(function.problem)
        if plan.action != "run":
            return object_without_kernel(function.name, without_kernel(plan), target)
        if not function.takes_count:
            program = build_program(plan)
            return object_of_program(program, function.name, kernel_numbers(plan, program), target)
        plans = _plans_by_count(function.problem, plan)
        program, counts = build_program(plans[0]), counts_of(function.problem)
        pairs = by_count(counts, [kernel_numbers(each, program) for each in plans])
        numbers = [Counted(int(base), slope) if slope else base for base, slope in pairs]
        result, is_gradient = function.problem.result, function.problem.gradient is not None
        no_indices = NoKernel(result.size * result.dtype.itemsize if is_gradient else 0, 0)
        return object_of_program(program, function.name, numbers, target, no_indices)


def _plans_by_count(problem: Problem, plan: Plan) -> list[Plan]:
    """Return plans of one kernel for the counts of `counts_of`; its code does not depend on the count."""
    others = [with_count(problem, count) for count in counts_of(problem)[1:]]
    with contextlib.suppress(ScheduleError):
        plans = [plan, *(planned(other, plan.schedule) for other in others)]
        if len({each.key for each in plans}) == 1:
            return plans
    schedule = plan.schedule.without(SpecializeInner)
    return [planned(each, schedule) for each in (problem, *others)]


# the CPU of a library, as LLVM names it, and the machine model that chooses its schedules


def target_named(cpu: str | None) -> Target:
    """Return the target of that name; of None or `native`, this CPU with the features that the system lets it use.

    Raises:
        UnknownCpuError: LLVM knows no such CPU of this machine's architecture, or makes no code for it.
    """
    if cpu in _NATIVE:
        import llvmlite.binding as llvm

        return Target(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    if cpu not in (known := _known_cpus()):
        near = did_you_mean(cpu, known) or f"; LLVM has {len(known)} of them, such as {', '.join(known[-3:])}"
        raise UnknownCpuError(f"there is no CPU {show(cpu)} of this architecture{near}")
    if _ask(cpu).returncode != 0:
        raise UnknownCpuError(f"LLVM makes no code of 64 bits for the CPU {cpu!r}; name another, such as {known[-1]}")
    return Target(cpu)


def machine_for(cpu: str | None) -> Path | str | None:
    """Return the value of the knob `machine` for schedules: as it is set, or the built-in model nearest to the CPU."""
    if cpu in _NATIVE or knobs.machine is not None:
        return knobs.machine
    if (zen := re.fullmatch(r"znver(\d+)", cpu)) is not None:
        return "zen4" if int(zen[1]) >= 4 else "zen3"
    return "xeon-avx512" if _AVX512.fullmatch(cpu or "") else GENERIC


@functools.cache
def _ask(cpu: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", _ASK, cpu], capture_output=True, text=True, check=False)


def _known_cpus() -> list[str]:
    return _LISTED.findall(_ask("help").stderr)
