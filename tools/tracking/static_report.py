"""`gathernest bench --static`: the compiled code of the kernels of the suite, and the causes of differences."""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...asv_bench.benchmarks.cases import Case
from ...ir.errors import GathernestError
from ...ir.numbers import parse_json
from ...kernels.host.checkout import RevisionError, commit_of, git
from ...kernels.host.dependencies import require_compiler
from ...kernels.host.files import write_file
from ...lowering.schedule.machine_model import BUILT_IN
from ..console.problem_options import check_machine, check_target
from ..console.terminal import (
    DONE,
    FAILED,
    UsageError,
    check_file,
    make_console,
    print_table,
    progress,
    say,
    write_text,
)
from . import COMMITTED, MACHINE, TARGET, THREADS
from .differences import differences, explained
from .kernel_facts import Conditions, StaticReport, collect, read_report

if TYPE_CHECKING:
    from rich.console import Console


def report_at(revision: str) -> StaticReport | None:
    """Return the report that a commit, branch or tag of the checkout has; None where it has none.

    Raises:
        RevisionError: there is no git, no checkout, or no such revision.
        StaticFileError: the report is none that can be read.
    """
    commit = commit_of(revision)
    try:
        text = git("show", f"{commit}:{COMMITTED}", otherwise="")
    except RevisionError:
        return None
    return read_report(text, f"{COMMITTED} of {revision}")


# Of the counts of `kernel_facts.COUNTS`, in a table that fits 80 columns.
_HEADINGS = ("  loop", ">vec", ">ins", ">ld", ">st", ">nt", ">pref", ">spill", ">call", ">jmp")
_LEGEND = "vec: bytes of a vector; ins: instructions; ld, st: loads, stores; nt: non-temporal stores; pref: prefetches"
_NAME_WIDTH = 26


def print_report(console: "Console", report: StaticReport) -> None:
    """Print every kernel of a report, with its innermost loops."""
    for kernel, cases in report.grouped():
        console.print(f"{cases[0]}  [{kernel.source} → {kernel.assembly}]", style="bold")
        if len(cases) > 1:
            console.print(f"  also {', '.join(cases[1:])}")
        console.print(f"  {kernel.schedule.replace('},', '}, ') or 'no schedule'}", style="dim")
        rows = [
            (f"  {loop.name:<{_NAME_WIDTH}}", *(count or "·" for count in loop.counts.values()))
            for loop in kernel.loops
            if loop.is_hot
        ]
        print_table(console, _HEADINGS, rows, header="dim")
        console.print()
    said = f"for {report.conditions.target} and the machine {json.dumps(report.conditions.machine)}"
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    console.print(f"{_LEGEND}\n{said}; {versions}", style="dim")


def run(cases: Sequence[Case], options: argparse.Namespace) -> int:
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
    with progress("compiling", len(cases)) as advance:
        report = collect(cases, conditions, advance=advance)
    say("failed", *(f"{case}: {reason}" for case, reason in report.failed.items()))
    status = FAILED if report.failed else DONE
    if options.against is None:
        if options.json is not None:
            write_text(options.json, report.text())
        if options.json != "-":
            print_report(make_console(), report)
        return status
    return max(status, _compare(before, report, options))


def _compare(before: StaticReport | None, after: StaticReport, options: argparse.Namespace) -> int:
    whole = not (options.case or options.family)
    changes = [] if before is None else differences(before, after, whole=whole)
    versions = {} if before is None else before.versions
    if options.json is not None:
        facts = {
            "against": options.against,
            "versions": {"before": versions, "after": after.versions},
            "target": after.conditions.target,
            "machine": after.conditions.machine,
            "kernels": len(after.grouped()),
            "changes": [change.to_json() for change in changes],
        }
        write_text(options.json, json.dumps(facts, indent=1) + "\n")
    if options.json != "-":
        console, kernels = make_console(), len(after.grouped())
        against = options.against if Path(options.against).is_file() else f"{COMMITTED} of {options.against}"
        if before is not None and kernels and not changes:
            console.print(f"the kernels of {len(after.kernels)} cases are those of {against}")
        elif changes:
            console.print(f"{len(changes)} of {kernels} kernels are not those of {against}:\n", style="bold")
            for line in explained(changes, versions, after.versions, in_full=not whole):
                style = {"-": "red", "+": "green"}.get(line.strip()[:1], "") if line.startswith("    ") else ""
                console.print(line, style=style)
    if options.write:
        write_file(options.against, after.text())
        print(f"{options.against}: written", file=sys.stderr)
        return DONE
    if changes:
        advice = "if that is meant, `make static WRITE=--write` writes it anew: commit it with what changed it"
        print(f"gathernest: {advice}", file=sys.stderr, flush=True)
    return FAILED if changes else DONE


def _conditions(options: argparse.Namespace, before: StaticReport | None) -> Conditions:
    """Return the machine that is asked for: that of the other report, or the default one; raises UsageError."""
    target = (TARGET if before is None else before.conditions.target) if options.target is None else options.target
    if options.machine is not None or options.threads is not None or before is None:
        machine = _machine(MACHINE if options.machine is None else options.machine, options.threads)
    else:
        machine = before.conditions.machine
    if options.target is not None:
        check_target(options.target)
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


def _read_against(said: str, *, may_miss: bool) -> StaticReport | None:
    """Return the report that a file or a revision has; None for a file that is to be written and is not there."""
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
