"""`gathernest bench --static`: what the kernels of the suite are compiled to, and what explains a difference."""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....ir.errors import GathernestError, did_you_mean
from ....ir.numbers import parse_json
from ....kernels.host.checkout import RevisionError
from ....kernels.host.dependencies import require_compiler
from ....lowering.schedule.machine_model import BUILT_IN
from ...console.problem_options import check_machine
from ...console.terminal import DONE, FAILED, Parser, UsageError, check_file, make_console, progress
from .kernel_facts import Conditions
from .revisions import COMMITTED, report_at

if TYPE_CHECKING:
    from ....asv_bench.benchmarks.cases import Case
    from .compare import Change
    from .report import StaticReport

# The machine of the committed report: what most x86-64 CPUs can run, and enough threads to share the work.
TARGET, MACHINE, THREADS = "x86-64-v3", "avx2", 4
LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
# CPUs of LLVM that a wrong name is compared with; it knows many more.
_CPUS = (*LEVELS, "haswell", "skylake", "skylake-avx512", "icelake-server", "sapphirerapids", "znver3", "znver4")
# Options of `gathernest bench` that measure something.


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    group = parser.add_argument_group(
        "static report", "what the kernels are compiled to for a fixed machine, the same on every machine; no time"
    )
    group.add_argument("--static", action="store_true", help="print that instead of running the suite")
    group.add_argument("--target", metavar="CPU", help=f"LLVM's name of the CPU (default: {TARGET})")
    group.add_argument(
        "--machine",
        metavar="FILE",
        help=f"the machine that schedules are chosen for, as by GATHERNEST_MACHINE (default: {MACHINE}); "
        f"{THREADS} threads where it has none",
    )
    group.add_argument(
        "--against",
        metavar="FILE|REV",
        help=f"explain what differs from a report in a file, or from {COMMITTED} of a revision; status 1 if anything",
    )
    group.add_argument("--write", action="store_true", help="write the report to the file of --against")


def run(cases: "Sequence[Case]", options: argparse.Namespace) -> int:
    """Make the report of cases; the status is 1 when it differs from another, or a case does not compile."""
    if options.write and options.against is None:
        raise UsageError(f"--write writes the file of --against; give --against {COMMITTED}")
    if options.write and (options.case or options.family):
        raise UsageError("--write writes the kernels of all cases; leave out --case and --family")
    require_compiler()
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise GathernestError(
            f"the static report is of x86-64 assembly as Linux has it, and this is {platform.machine()} with "
            f"{sys.platform}; run it on another machine, or in a container"
        )
    before = None if options.against is None else _read_against(options.against, may_miss=options.write)
    conditions = _conditions(options, before)
    report, failed = _compiled(cases, conditions)
    for case, reason in failed.items():
        print(f"gathernest: failed: {case}: {reason}", file=sys.stderr, flush=True)
    status = FAILED if failed else DONE
    if options.against is None:
        _print_report(cases, report, options.json)
        return status
    return max(status, _compare(before, report, options))


def _compare(before: "StaticReport | None", after: "StaticReport", options: argparse.Namespace) -> int:
    from .compare import differences
    from .explain import explained

    whole = not (options.case or options.family)
    changes = [] if before is None else differences(before, after, whole=whole)
    versions = {} if before is None else before.versions
    if options.json is not None:
        _write_json(options.json, _changes_json(options.against, versions, after, changes))
    if options.json != "-":
        console, kernels = make_console(), len(after.grouped())
        if before is not None and kernels and not changes:
            console.print(f"the kernels of {len(after.kernels)} cases are those of {options.against}")
        elif changes:
            console.print(f"{len(changes)} of {kernels} kernels are not those of {options.against}:\n", style="bold")
            for line in explained(changes, versions, after.versions, in_full=not whole):
                style = {"-": "red", "+": "green"}.get(line.strip()[:1], "") if line.startswith("    ") else ""
                console.print(line, style=style)
    if options.write:
        Path(options.against).write_text(after.text(), encoding="utf-8")
        print(f"{options.against}: written", file=sys.stderr)
        return DONE
    if changes:
        advice = "if that is meant, `make static WRITE=--write` writes it anew: commit it with what changed it"
        print(f"gathernest: {advice}", file=sys.stderr, flush=True)
    return FAILED if changes else DONE


def _changes_json(against: str, versions: Any, after: "StaticReport", changes: "Sequence[Change]") -> dict[str, Any]:
    return {
        "against": against,
        "versions": {"before": dict(versions), "after": dict(after.versions)},
        "target": after.conditions.target,
        "machine": after.conditions.machine,
        "kernels": len(after.grouped()),
        "changes": [change.to_json() for change in changes],
    }


def _write_json(target: str, said: Any) -> None:
    text = said if isinstance(said, str) else json.dumps(said, indent=1) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        Path(target).write_text(text, encoding="utf-8")


def _print_report(cases: "Sequence[Case]", report: "StaticReport", target: str | None) -> None:
    import numpy as np

    from .cycles import cycles_of
    from .table import print_report

    if target is not None:
        _write_json(target, report.text())
    if target == "-":
        return
    widths = {case.name: np.dtype(case.dtype).itemsize for case in cases}
    loops = [(loop, widths[names[0]]) for kernel, names in report.grouped() for loop in kernel.loops if loop.is_hot]
    with progress("analysing loops", len(loops)) as advance:
        cycles = cycles_of(loops, report.conditions.target, advance)
    console = make_console()
    print_report(console, report, cycles)
    said = f"for {report.conditions.target} and the machine {json.dumps(report.conditions.machine)}"
    tool = next((found.tool for found in cycles.values() if found is not None), None)
    mca = f"cycles by {tool}, which takes every load for a hit in the first cache" if tool else _why_no_cycles()
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    console.print(f"{said}; bytes are the fewest of a call; {mca}; {versions}", style="dim")


def _why_no_cycles() -> str:
    from ....ir.errors import DependencyError
    from ....lowering.programs import find

    try:
        return f"no cycles, as {find('llvm-mca')} analyses none of the loops"
    except DependencyError as error:
        return f"no cycles: {error}"


def _compiled(cases: "Sequence[Case]", conditions: Conditions) -> "tuple[StaticReport, dict[str, str]]":
    from .collect import collect
    from .report import StaticReport
    from .traffic import bytes_of

    with progress("compiling", len(cases)) as advance:
        found = collect(cases, conditions, advance=advance)
    kernels = {case.name: found.kernels[case.name] for case in cases if case.name in found.kernels}
    traffic = {case.name: bytes_of(case) for case in cases if case.name in kernels}
    return StaticReport(conditions, found.versions, kernels, traffic), dict(found.failed)


def _conditions(options: argparse.Namespace, before: "StaticReport | None") -> Conditions:
    """Return the machine that is asked for: that of the other report, or the default one; raises UsageError."""
    target = (TARGET if before is None else before.conditions.target) if options.target is None else options.target
    if options.machine is not None or options.threads is not None or before is None:
        machine = _machine(MACHINE if options.machine is None else options.machine, options.threads)
    else:
        machine = before.conditions.machine
    if options.target is not None:
        _check_target(options.target)
    conditions = Conditions(target, machine)
    if before is not None and conditions != before.conditions:
        said = f"--target {before.conditions.target} and the machine {json.dumps(before.conditions.machine)}"
        raise UsageError(
            f"{options.against} is for {said}, so other code is no difference; leave out --target, --machine and "
            "--threads, or name a report for the same"
        )
    return conditions


def _machine(said: str, threads: int | None) -> dict[str, Any]:
    """Return the fields of a machine model, by its name or in a file, with a fixed number of threads."""
    check_machine("--machine", said)
    fields = {"base": said} if said in BUILT_IN else parse_json(Path(said).expanduser().read_bytes())
    return fields | {"threads": threads or fields.get("threads", THREADS)}


def _check_target(target: str) -> None:
    """Have LLVM look for a CPU, in a process of its own: it writes what it does not know to standard error."""
    if target in LEVELS:
        return
    program = (
        "import sys; import llvmlite.binding as llvm; llvm.initialize_native_target(); "
        "llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(cpu=sys.argv[1])"
    )
    ended = subprocess.run([sys.executable, "-c", program, target], capture_output=True, text=True, check=False)
    if not target or ended.returncode or "not a recognized processor" in ended.stderr:
        raise UsageError(
            f"LLVM knows no CPU {target!r}; give --target {', '.join(LEVELS)} or a name such as znver4"
            f"{did_you_mean(target, _CPUS)}"
        )


def _read_against(said: str, *, may_miss: bool) -> "StaticReport | None":
    """Return the report that a file or a revision has; None for a file that is to be written and is not there."""
    from .report import read_report

    if Path(said).is_file():
        return read_report(Path(said).read_text(encoding="utf-8", errors="replace"), said)
    if may_miss:
        check_file("--against", said)
        return None
    try:
        found = report_at(said)
    except RevisionError as error:
        raise UsageError(f"--against: there is no file {said!r}; {error}") from None
    if found is None:
        raise UsageError(
            f"revision {said} has no {COMMITTED}, as it is older than the static report; "
            f"`gathernest bench compare {said}` compiles its kernels and compares them with these"
        )
    return found
