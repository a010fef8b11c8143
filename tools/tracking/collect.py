"""Have fresh processes compile cases for a fixed target, machine model and number of threads, and read the result.

The same cases give the same facts on every machine: the CPU is named to LLVM, the machine model is a file, no schedule
comes from tuning, nothing from a cache, and no setting from the environment or a folder's `.numba_config.yaml`.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...asv_bench.benchmarks.cases import Case
from ...lowering.provenance.assembly import normal_form, read_assembly
from .kernel_facts import Collected, Conditions, KernelFacts, read_loops
from .processes import Process, WorkerError
from .worker import digest

MAX_PROCESSES = 2
# The machine of the committed report: what most x86-64 CPUs can run, and enough threads to share the work.
TARGET, MACHINE, THREADS = "x86-64-v3", "avx2", 4


def nothing(_: int) -> None:
    """Ignore progress."""


def collect(
    cases: Sequence[Case],
    conditions: Conditions,
    *,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    processes: int = MAX_PROCESSES,
    advance: Callable[[int], object] = nothing,
) -> Collected:
    """Compile cases in fresh processes and return what is known of their kernels.

    Two environments whose kernels of a case have one `identity` run the same instructions for it.

    Args:
        cases: which; those of one kernel are compiled once in a process.
        conditions: for which machine.
        environment: of the processes, so that `PYTHONPATH` may name the sources of another revision; settings of
            gathernest and Numba in it play no part. That of this process when omitted.
        python: the interpreter, which may be of another virtual environment.
        processes: how many at once.
        advance: called with 1 after each case.

    Raises:
        WorkerError: a process ends before it has answered, or cannot import gathernest.
    """
    alike: dict[str, list[Case]] = {}
    for case in cases:
        alike.setdefault(json.dumps(asdict(case) | {"name": "", "family": "", "distribution": ""}), []).append(case)
    groups = list(alike.values())
    shares = [share for start in range(processes) if (share := groups[start::processes])]
    with tempfile.TemporaryDirectory(prefix="gathernest-static-") as folder:
        settings = _environment(conditions, Path(folder), os.environ if environment is None else environment)

        def ask(share: Sequence[Sequence[Case]]) -> list[dict[str, Any]]:
            name = "the process that compiles kernels"
            with Process(python, settings, Path(folder), name, "see gathernest doctor") as process:
                answers = [process.ask({"versions": True})]
                if "missing" in answers[0]:
                    reason = answers[0]["missing"]
                    raise WorkerError(f"the kernels cannot be compiled: {reason}; see gathernest doctor")
                for group in share:
                    answers.append(process.ask({"kernel": asdict(group[0])}) | {"name": group[0].name})
                    advance(len(group))
            return answers

        with ThreadPoolExecutor(max(len(shares), 1)) as pool:
            said = [answer for answers in pool.map(ask, shares) for answer in answers]
    return _collected(groups, said)


def _collected(alike: Sequence[Sequence[Case]], said: Sequence[Mapping[str, Any]]) -> Collected:
    """Return what processes answered for the first of cases that are alike, as facts of all of them."""
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
            code = _facts(answer) if same_as is None else kernels[same_as]
            kernels[answer["name"]] = replace(code, stages=stages)
    for first, *others in alike:
        for other in others:
            if first.name in failed:
                failed[other.name] = failed[first.name]
            else:
                kernels[other.name] = kernels[first.name]
    return Collected(versions, kernels, failed)


def _facts(answer: Mapping[str, Any]) -> KernelFacts:
    """Return the facts of a kernel without its stages."""
    source, file = answer["source"], answer["file"]
    instructions = read_assembly(answer["assembly"], file or "")
    return KernelFacts(
        answer["schedule"],
        (),
        digest(source),
        digest("\n".join(normal_form(answer["assembly"]))),
        read_loops(instructions, source if file else ""),
    )


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
