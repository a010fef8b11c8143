"""Facts of compiled kernels that need no run: stages and loops, read from assembly; and the file of a static report.

Fresh processes compile the cases for a fixed target, machine model and number of threads. The same cases give the same
facts on every machine: the CPU is named to LLVM, the machine model is a file, no schedule comes from tuning, nothing
from a cache, and no setting from the environment or a folder's `.numba_config.yaml`.
"""

import collections
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...asv_bench.benchmarks.cases import Case
from ...ir.errors import GathernestError
from ...ir.numbers import parse_json
from ...lowering.provenance.assembly import Instruction, loop_around, loops_of, normal_form, read_assembly
from ...lowering.provenance.trace import MachineLoop
from .processes import Process, WorkerError
from .worker import digest

# Counts of a loop, in the order in which they are shown.
COUNTS = (
    *("vector_bytes", "instructions", "loads", "stores", "nontemporal_stores", "prefetches", "spills"),
    *("calls", "branches"),
)


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop of the assembly; instructions of loops inside it are theirs.

    Attributes:
        name: function and loop of the generated source, such as `copy_tile indices_i`; `#2` for the second of it.
        depth: 1 is outermost.
        is_hot: it is innermost, and reads or writes memory.
        vector_bytes: the widest vector register; 0 where all are scalars.
        instructions: all of them.
        loads, stores: instructions that read or write memory, without spills; non-temporal stores are stores.
        nontemporal_stores, prefetches, calls, branches: instructions of these kinds.
        spills: moves between a register and a fixed place of the stack, either way.
        code: the instructions of a hot loop, local labels numbered from 1 in the loop; empty for another.
    """

    name: str
    depth: int
    is_hot: bool
    vector_bytes: int = 0
    instructions: int = 0
    loads: int = 0
    stores: int = 0
    nontemporal_stores: int = 0
    prefetches: int = 0
    spills: int = 0
    calls: int = 0
    branches: int = 0
    code: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Its counts by name."""
        return {name: getattr(self, name) for name in COUNTS}


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """A compiled kernel.

    Attributes:
        schedule: as text.
        stages: (pass with its options, digest of the module after it); `operator` first.
        source: digest of the generated source.
        assembly: digest of the normal form of the assembly.
        loops: the loops of the assembly, in its order.
    """

    schedule: str
    stages: tuple[tuple[str, str], ...]
    source: str
    assembly: str
    loops: tuple[LoopFacts, ...]

    @property
    def identity(self) -> tuple[str, str]:
        """Schedule and assembly: kernels with equal ones cannot differ in time."""
        return self.schedule, self.assembly


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions that the code of a kernel depends on, beside the package.

    Attributes:
        target: LLVM's name of a CPU; None for this one.
        machine: fields of a machine model, as a file has them; None for the model of this machine.
        threads: that share the work where `machine` does not say; None for one for each usable core.
    """

    target: str | None
    machine: Mapping[str, Any] | None
    threads: int | None = None


class StaticFileError(GathernestError):
    """A file of a static report cannot be read."""


@dataclass(frozen=True, slots=True)
class StaticReport:
    """The kernels of some cases, as they are compiled for a fixed machine.

    Attributes:
        conditions: the machine.
        versions: of the packages, and of Python, that made them.
        kernels: by case; cases of one kernel have equal values.
        failed: by case, why it has no kernel.
    """

    conditions: Conditions
    versions: Mapping[str, str]
    kernels: Mapping[str, KernelFacts]
    failed: Mapping[str, str] = field(default_factory=dict)

    def only(self, case: str) -> "StaticReport":
        """Return the report of one case."""
        return StaticReport(self.conditions, self.versions, {case: self.kernels[case]})

    def grouped(self) -> list[tuple[KernelFacts, list[str]]]:
        """Return each kernel with its cases, in the order of the first ones."""
        cases: dict[KernelFacts, list[str]] = {}
        for case, kernel in self.kernels.items():
            cases.setdefault(kernel, []).append(case)
        return list(cases.items())

    def text(self) -> str:
        """Return it as JSON, with a line for each stage, count and instruction; counts of 0 are left out."""
        said = {"versions": self.versions, "target": self.conditions.target, "machine": self.conditions.machine}
        kernels = [{"cases": cases, **asdict(kernel)} for kernel, cases in self.grouped()]
        for kernel in kernels:
            kernel["loops"] = [{name: value for name, value in loop.items() if value != 0} for loop in kernel["loops"]]
        text = json.dumps({**said, "kernels": kernels}, indent=1)
        return _STAGE.sub(r"[\1, \2]", text) + "\n"


# A stage and its digest, as JSON has them on lines of their own.
_STAGE = re.compile(r'\[\s+("[^\n]*"),\s+("[0-9a-f]+")\s+\]')


def read_report(text: str, name: str) -> StaticReport:
    """Return the report of a file's text, which messages call `name`; raises StaticFileError."""
    try:
        said = parse_json(text)
        kernels: dict[str, KernelFacts] = {}
        for stored in said["kernels"]:
            cases, stages = stored.pop("cases"), tuple((stage, digest) for stage, digest in stored.pop("stages"))
            loops = tuple(
                LoopFacts(**{"is_hot": False, **loop, "code": tuple(loop["code"])}) for loop in stored.pop("loops")
            )
            kernels |= dict.fromkeys(cases, KernelFacts(**stored, stages=stages, loops=loops))
        conditions = Conditions(said["target"], said["machine"])
        return StaticReport(conditions, said["versions"], kernels)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StaticFileError(
            f"{name} is no static report, or one of another revision; `gathernest bench --static --json FILE` makes one"
        ) from None


_VECTOR = re.compile(r"%([xyz])mm")
_BYTES = {"x": 16, "y": 32, "z": 64}
# They use one lane of a vector register.
_SCALAR = re.compile(r"v?(mov(ss|sd|d|q)|(add|sub|mul|div|sqrt|min|max|u?comi|cvt\w+)(ss|sd)|cvt\w*(ss|sd|si)2\w+) ")
_ON_STACK = re.compile(r"-?\d*\(%rsp\)")
_MOVES = ("mov", "vmov")
_LABEL = re.compile(r"\.L(CPI|BB)\w+")


def read_loops(instructions: Sequence[Instruction], source: str) -> tuple[LoopFacts, ...]:
    """Return the facts of the loops of an assembly.

    Args:
        instructions: the assembly.
        source: the generated source that its lines are of; where it is empty, loops are named by their order.
    """
    lines, loops, named = source.splitlines(), loops_of(instructions), collections.Counter[str]()
    found: list[LoopFacts] = []
    for loop in loops:
        inside = {line for other in loops if set(other.lines) < set(loop.lines) for line in other.lines}
        own = [instructions[line] for line in loop.lines if line not in inside]
        came = [each.line for each in own if each.line is not None and each.line <= len(lines)]
        name = f"{_function(instructions, loop)} {loop_around(lines, came)[0] or 'loop'}"
        named[name] += 1
        numbered = name if named[name] == 1 else f"{name}#{named[name]}"
        code = _code([instructions[line].text for line in loop.lines]) if loop.is_hot else ()
        found.append(_facts(numbered, loop, [each for each in own if each.kind], code))
    return tuple(found)


def _function(instructions: Sequence[Instruction], loop: MachineLoop) -> str:
    """Return the function that a loop is in, by its name in the source."""
    labels = (each.text for each in reversed(instructions[: loop.first]) if each.text.endswith(":"))
    return next((label[:-1].removeprefix("tile.") for label in labels if not label.startswith(".")), "")


def _facts(name: str, loop: MachineLoop, own: Sequence[Instruction], code: tuple[str, ...]) -> LoopFacts:
    spills = [each for each in own if _is_spill(each)]
    kinds = collections.Counter(each.kind for each in own if not _is_spill(each))
    widths = [_BYTES[size] for each in own if not _SCALAR.match(each.text) for size in _VECTOR.findall(each.text)]
    nontemporal = [each for each in own if each.kind == "store" and "movnt" in each.text]
    return LoopFacts(
        name,
        loop.depth,
        loop.is_hot,
        vector_bytes=max(widths, default=0),
        instructions=len(own),
        loads=kinds["load"],
        stores=kinds["store"],
        nontemporal_stores=len(nontemporal),
        prefetches=kinds["prefetch"],
        spills=len(spills),
        calls=kinds["call"],
        branches=kinds["branch"],
        code=code,
    )


def _is_spill(instruction: Instruction) -> bool:
    """Return whether an instruction moves a value between a register and a fixed place of the stack."""
    return bool(_ON_STACK.search(instruction.text)) and instruction.text.startswith(_MOVES)


def _code(texts: Sequence[str]) -> tuple[str, ...]:
    """Return instructions with labels and constants numbered as they appear, so that code before them plays no part."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        kind = ".C" if found[1] == "CPI" else ".L"
        return numbers.setdefault(found[0], f"{kind}{1 + sum(name.startswith(kind) for name in numbers.values())}")

    return tuple(_LABEL.sub(numbered, " ".join(text.split())) for text in texts)


# ---- compile cases ----

MAX_PROCESSES = 2


def collect(
    cases: Sequence[Case],
    conditions: Conditions,
    *,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    processes: int = MAX_PROCESSES,
    advance: Callable[[int], object] = lambda _: None,
) -> StaticReport:
    """Compile cases in fresh processes and return the facts of their kernels.

    Two environments whose kernels of a case have one `identity` run the same instructions for it.

    Args:
        cases: the cases; a process compiles a kernel that several of them share once.
        conditions: for which machine.
        environment: of the processes, so that `PYTHONPATH` may name the sources of another revision; settings of
            gathernest and Numba in it play no part. That of this process when omitted.
        python: the interpreter, which may be of another virtual environment.
        processes: the number of processes at once.
        advance: called with 1 after each case.

    Raises:
        WorkerError: a process ends before it has answered, or cannot import gathernest.
    """
    shares = [share for start in range(processes) if (share := cases[start::processes])]
    with tempfile.TemporaryDirectory(prefix="gathernest-static-") as folder:
        settings = _environment(conditions, Path(folder), os.environ if environment is None else environment)

        def ask(share: Sequence[Case]) -> list[dict[str, Any]]:
            name = "the process that compiles kernels"
            with Process(python, settings, Path(folder), name, "see gathernest doctor") as process:
                answers = [process.ask({"versions": True})]
                if "missing" in answers[0]:
                    reason = answers[0]["missing"]
                    raise WorkerError(f"the kernels cannot be compiled: {reason}; see gathernest doctor")
                for case in share:
                    answers.append(process.ask({"kernel": asdict(case)}) | {"name": case.name})
                    advance(1)
            return answers

        with ThreadPoolExecutor(max(len(shares), 1)) as pool:
            said = [answer for answers in pool.map(ask, shares) for answer in answers]
    kernels: dict[str, KernelFacts] = {}
    failed: dict[str, str] = {}
    versions: dict[str, str] = {}
    for answer in said:
        if "versions" in answer:
            versions = answer["versions"]
        elif "missing" in answer:
            failed[answer["name"]] = answer["missing"]
        else:
            stages, same_as = tuple((name, text) for name, text in answer["stages"]), answer.get("same_as")
            code = _kernel_facts(answer) if same_as is None else kernels[same_as]
            kernels[answer["name"]] = replace(code, stages=stages)
    ordered = {case.name: kernels[case.name] for case in cases if case.name in kernels}
    return StaticReport(conditions, versions, ordered, failed=failed)


def _kernel_facts(answer: Mapping[str, Any]) -> KernelFacts:
    """Return the facts of a kernel without its stages."""
    source, file, assembly = answer["source"], answer["file"] or "", answer["assembly"]
    loops = read_loops(read_assembly(assembly, file), source if file else "")
    return KernelFacts(answer["schedule"], (), digest(source), digest("\n".join(normal_form(assembly))), loops)


def _environment(conditions: Conditions, folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the processes; Numba reads its part when it is imported."""
    chosen = {name: text for name, text in given.items() if not name.startswith(("GATHERNEST_", "NUMBA_"))}
    chosen |= {
        "GATHERNEST_CACHE_DIR": str(folder / "cache"),
        "GATHERNEST_INTERPRET": "1",  # a kernel is made without machine code, which is then compiled once, to be read
        "GATHERNEST_TUNING": "off",
        "NUMBA_DISABLE_INTEL_SVML": "1",
    }
    if conditions.threads is not None:
        chosen["GATHERNEST_NUM_THREADS"] = str(conditions.threads)
    if conditions.target is not None:
        chosen |= {"NUMBA_CPU_NAME": conditions.target, "NUMBA_CPU_FEATURES": ""}
    if conditions.machine is not None:
        file = folder / "machine.json"
        file.write_text(json.dumps(conditions.machine), encoding="utf-8")
        chosen["GATHERNEST_MACHINE"] = str(file)
    return chosen
