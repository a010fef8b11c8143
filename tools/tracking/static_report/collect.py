"""Have fresh processes compile cases for a fixed target, machine model and number of threads, and read the result.

The same cases give the same facts on every machine: the CPU is named to LLVM, the machine model is a file, no schedule
comes from tuning, nothing from a cache, and no setting from the environment or a folder's `.numba_config.yaml`.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....asv_bench.benchmarks.cases import Case
from ....ir.errors import GathernestError
from ....lowering.provenance.assembly import normal_form, read_assembly
from .kernel_facts import Collected, Conditions, KernelFacts
from .probe import digest
from .read_loops import read_loops

# Seconds for all cases of one process; they take some twenty.
LIMIT_S = 600
MOST_PROCESSES = 2
_ASKED = ("name", "operator", "data", "indices", "dtype", "index_dtype", "axis", "batch_dims", "into")


class StaticReportError(GathernestError):
    """Kernels cannot be compiled for a static report."""


def nothing(_: int) -> None:
    """Take no notice of progress."""


def collect(
    cases: Sequence[Case],
    conditions: Conditions,
    *,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    processes: int = MOST_PROCESSES,
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
        StaticReportError: a process ends before it has answered.
    """
    alike: dict[Any, list[Case]] = {}
    for case in cases:
        alike.setdefault(tuple(json.dumps(getattr(case, name)) for name in _ASKED[1:]), []).append(case)
    groups = list(alike.values())
    shares = [share for start in range(processes) if (share := groups[start::processes])]
    with tempfile.TemporaryDirectory(prefix="gathernest-static-") as folder:
        settings = _environment(conditions, Path(folder), os.environ if environment is None else environment)

        def answers(share: Sequence[Sequence[Case]]) -> list[dict[str, Any]]:
            return list(_ask(share, settings, python, folder, advance))

        with ThreadPoolExecutor(max(len(shares), 1)) as pool:
            said = [answer for answers_ in pool.map(answers, shares) for answer in answers_]
    return _collected(groups, said)


def _collected(alike: Sequence[Sequence[Case]], said: Sequence[Mapping[str, Any]]) -> Collected:
    """Return what processes answered for the first of cases that are alike, as facts of all of them."""
    kernels: dict[str, KernelFacts] = {}
    failed: dict[str, str] = {}
    versions: dict[str, str] = {}
    for answer in said:
        if "versions" in answer:
            versions = answer["versions"]
        elif "error" in answer:
            failed[answer["name"]] = answer["error"]
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


def _ask(
    groups: Sequence[Sequence[Case]],
    settings: Mapping[str, str],
    python: str,
    folder: str,
    advance: Callable[[int], object],
) -> Iterator[dict[str, Any]]:
    """Yield what a process answers for the first of cases that are alike, of every group."""
    alike = {group[0].name: len(group) for group in groups}
    questions = json.dumps([{name: getattr(group[0], name) for name in _ASKED} for group in groups])
    command = [python, "-P", str(Path(__file__).with_name("probe.py"))]
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=settings, cwd=folder
        ) as asked,
    ):
        limit = threading.Timer(LIMIT_S, asked.kill)
        limit.start()
        assert asked.stdin is not None and asked.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), asked.stdin:
                asked.stdin.write(questions)
            for line in asked.stdout:
                answer = json.loads(line)
                yield answer
                advance(alike.get(answer.get("name"), 0))
        except BaseException:
            asked.kill()
            raise
        finally:
            limit.cancel()
        if asked.wait():
            errors.seek(0)
            reason = next((line for line in reversed(errors.readlines()) if line.strip()), f"status {asked.returncode}")
            raise StaticReportError(f"the kernels cannot be compiled: {reason.strip()}; see gathernest doctor")
