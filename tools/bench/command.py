"""The command line of `gathernest bench`: the suite beside peers, or one of the other ways to measure it."""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...ir.errors import GathernestError
from ...kernels.host.cpu import usable_cores
from ...kernels.host.dependencies import require_compiler
from ...kernels.host.files import write_file
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import machine_model
from ..console.terminal import (
    DONE,
    FAILED,
    Parser,
    UsageError,
    add_option,
    check_json,
    integer,
    make_console,
    positive,
    print_table,
    progress,
    say,
    words,
    write_text,
)
from ..tracking import COMMITTED, MACHINE, TARGET, THREADS, compare

if TYPE_CHECKING:
    from .cases import Case
    from .measure import Measured
    from .report import Report

    Cases = Sequence[Case]

ROUNDS, QUICK_ROUNDS, QUICK_SIZE = 9, 3, 512
MAX_CANDIDATES = 24
EXAMPLES = """examples:
  gathernest bench
  gathernest bench --case 'rows-*' --peers numpy,torch
  gathernest bench --data 100000x64xf32 --indices 10000xi64
  gathernest bench --family gradient --json - --threads 1
  gathernest bench --store
  gathernest bench --peers 'c*' --case 'rows-*'             # C written by hand
  gathernest bench --peers one-thread --rounds 31           # what the other threads gain
  gathernest bench --peers 'without-*' --case 'rows-*'      # what each pass is worth
  gathernest bench --regret --csv docs/measurements/mine.csv
  gathernest bench --regret --from docs/measurements/mine.csv
  gathernest bench --static --against asv_bench/static.json
  gathernest bench compare main

Libraries that are installed take part: pip install 'gathernest[peers]' installs all of them."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    peers = "peers; * stands for anything (default: the libraries that are installed)"
    candidates = f"with --regret: schedules of a case, with the chosen one (default: {MAX_CANDIDATES})"
    add_option(parser, "--case PATTERN,..", "names of cases; * stands for anything", type=words, default=[])
    add_option(parser, "--family NAME,..", "families of cases", type=words, default=[])
    for usage, text, kind in (
        ("--data SPEC", "a gather of your own in place of the cases, such as 100000x64xf32", str),
        ("--indices SPEC", "its indices, such as 10000xi64, which are uniformly random", str),
        ("--operator NAME", "its operator (default: gather)", str),
        ("--axis N", "its axis (default: 0)", integer),
        ("--batch-dims N", "leading dimensions that data and indices share (default: 0)", integer),
    ):
        add_option(parser, usage, text, type=kind)
    parser.alone("data", ("case", "family", "store", "list", "static"), "is a gather of your own")
    parser.needs(("indices", "operator", "axis", "batch_dims"), "data")
    parser.needs(("data",), "indices")
    add_option(parser, "--peers NAME,..", peers, type=words, default=[])
    rounds = f"interleaved rounds (default: {ROUNDS}, {QUICK_ROUNDS} if quick)"
    add_option(parser, "--rounds N", rounds, type=positive)
    add_option(parser, "--threads N", "threads for everyone (default: as gathernest)", type=positive)
    add_option(parser, "--candidates N", candidates, type=positive)
    for usage, text in (
        ("--quick", f"cut every dimension to {QUICK_SIZE}: shows that all runs, and little of how fast"),
        ("--no-new-results", "leave out the calls without out=, a third of the time"),
        ("--list", "print the cases instead of running them"),
        ("--regret", "time chosen schedules beside other candidates instead, with the predicted times; no peers"),
        ("--store", "write all to docs/machines, as this machine's; `make docs` shows it"),
        ("--csv FILE", "with --regret: write each candidate with its time to FILE"),
        ("--json FILE", "write everything as one JSON object; - for standard output"),
    ):
        add_option(parser, usage, text)
    stored = "with --regret: judge today's choices and predictions by a file of --csv, and time nothing"
    add_option(parser, "--from FILE", stored, dest="stored")
    about = "what the kernels are compiled to for a fixed machine, the same on every machine; no time"
    group = parser.add_argument_group("static report", about)
    add_option(group, "--static", "print that instead of running the suite")
    add_option(group, "--target CPU", f"LLVM's name of the CPU (default: {TARGET})")
    machine = f"the machine that schedules are chosen for, as by GATHERNEST_MACHINE (default: {MACHINE})"
    add_option(group, "--machine FILE", f"{machine}; {THREADS} threads where it has none")
    against = f"explain what differs from a report in a file, or from {COMMITTED} of a revision; status 1 if anything"
    add_option(group, "--against FILE|REV", against)
    add_option(group, "--write", "write the report to the file of --against")
    added = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", description="without one, the suite is timed beside peers"
    )
    summary = "Time two revisions in turn, in fresh processes, and say what the second made slower."
    compare.add_arguments(added.add_parser("compare", help=summary[:-1], description=summary, epilog=compare.EXAMPLES))


def run(options: argparse.Namespace) -> int:
    """Run `compare`, or measure the cases in one way; the status is 1 when a candidate gives other bytes or fails."""
    if options.command is not None:
        return compare.run(options)
    way = _way(options)
    from .cases import chosen, own_case

    if options.data is None:
        cases = chosen(options.case, options.family)
    else:
        own = options.operator or "gather", options.data, options.indices
        cases = [own_case(*own, options.axis or 0, options.batch_dims or 0)]
    check_json(options.json)
    return WAYS[way].run(cases, options)


def _static(cases: "Cases", options: argparse.Namespace) -> int:
    from ..tracking import static_report

    return static_report.run(cases, options)


def _list(cases: "Cases", _: argparse.Namespace) -> int:
    from .cases import describe

    names = ("" if case.operator == "gather" else f"{case.operator}: " for case in cases)
    rows = [(case.name, case.family, name + describe(case)) for case, name in zip(cases, names, strict=True)]
    print_table(make_console(), ("", "", ""), rows)
    return DONE


def _regret(cases: "Cases", options: argparse.Namespace) -> int:
    from .regret import as_csv, as_markdown, judged, measure_regret

    if options.stored is not None:
        print(as_markdown(judged(Path(options.stored), None if knobs.machine is None else machine_model())))
        return DONE
    threads = _threads(options)
    say("note", *_busy_notes())
    timed = [case for case in _cut(cases, options) if case.family != "call"]
    if not timed:
        raise GathernestError("--regret compares schedules, and a call of 5x4 elements has none; choose other cases")
    with progress("comparing candidates", len(timed)) as advance:
        most = options.candidates or MAX_CANDIDATES
        measured = measure_regret(timed, rounds=_rounds(options), threads=threads, most=most, advance=advance)
    if options.csv is not None:
        write_file(options.csv, as_csv(measured))
    print(as_markdown(measured))
    wrong = [text for one in measured.cases for text in one.wrong]
    say("wrong", *wrong)
    return FAILED if wrong else DONE


def _beside_peers(cases: "Cases", options: argparse.Namespace) -> int:
    from . import report as reporting

    stored = reporting.storing_path(options) if options.store else None
    report = _measured(cases, options)
    if stored is not None:
        stored.parent.mkdir(exist_ok=True)
    for path in filter(None, (options.json, stored and str(stored))):
        write_text(path, reporting.as_text(reporting.as_json(report)))
    if options.json != "-":
        console = make_console()
        console.width = max(console.width, 80)
        for title, shown in report.by_result.items():
            console.print(f"times as fast as each peer, {title}; the best peer in bold", style="bold")
            print_table(console, *reporting.table_of(shown))
            if len(cases) > 1:
                console.print("\ngeometric means against the best peer of each case", style="bold")
                console.print("\n".join(reporting.summary(shown)))
            console.print()
        console.print(reporting.conditions(report), style="dim", soft_wrap=False)
    say("wrong", *report.wrong)
    return FAILED if report.wrong else DONE


def _measured(cases: "Cases", options: argparse.Namespace) -> "Report":
    threads, rounds = _threads(options), _rounds(options)
    if knobs.interpret:
        raise GathernestError("bench times compiled code, and GATHERNEST_INTERPRET is set; unset it")
    from .measure import enter, measure
    from .report import Report

    with progress("importing the peers"):
        entrants = enter(options.peers, threads)
    load = _load()
    say("note", *entrants.notes, *_busy_notes())
    measured: list[Measured] = []
    with progress("measuring", len(cases)) as advance:
        for case in _cut(cases, options):
            has_new = not options.no_new_results
            measured.append(measure(case, entrants.candidates, rounds=rounds, threads=threads, new_results=has_new))
            advance(1)
    return Report(measured, entrants.versions, threads, rounds, QUICK_SIZE if options.quick else None, load)


class _Way(NamedTuple):
    """A way to measure, and the options that it reads beside --case and --family; another option is an error."""

    run: "Callable[[Cases, argparse.Namespace], int]"
    reads: frozenset[str]


_TIMING = frozenset({"quick", "rounds", "threads"})
_SUITE = "the suite beside peers"
# By the option that chooses the way.
WAYS = {
    _SUITE: _Way(_beside_peers, _TIMING | {"peers", "no_new_results", "json", "store"}),
    "list": _Way(_list, frozenset()),
    "regret": _Way(_regret, _TIMING | {"candidates", "csv", "stored"}),
    "static": _Way(_static, frozenset({"against", "json", "machine", "target", "threads", "write"})),
}


def _way(options: argparse.Namespace) -> str:
    """Return the chosen way; raises UsageError for options that do not go together."""
    given = [way for way in WAYS if way != _SUITE and getattr(options, way)]
    if len(given) > 1:
        raise UsageError(f"{_flag(given[0])} and {_flag(given[1])} print different things; choose one of them")
    way = given[0] if given else _SUITE
    for option in sorted(frozenset[str]().union(*(each.reads for each in WAYS.values())) - WAYS[way].reads):
        if getattr(options, option):
            readers = [_flag(name) for name, each in WAYS.items() if option in each.reads]
            remedy = f"add {'it' if len(readers) == 1 else 'one of them'}, or leave {_flag(option)} out"
            if way != _SUITE:
                remedy = f"leave out {_flag(option)} or {_flag(way)}"
            raise UsageError(f"{_flag(option)} is for {' or '.join(readers)}; {remedy}")
    return way


def _flag(name: str) -> str:
    return name if name == _SUITE else f"--{'from' if name == 'stored' else name.replace('_', '-')}"


def _rounds(options: argparse.Namespace) -> int:
    return options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)


def _threads(options: argparse.Namespace) -> int:
    require_compiler()
    from ...kernels.runtime.launch import available_threads

    return options.threads or available_threads()


def _cut(cases: "Cases", options: argparse.Namespace) -> "Cases":
    return [case.cut(QUICK_SIZE) for case in cases] if options.quick else cases


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _busy_notes() -> list[str]:
    """Return a line when the load exceeds the cores; parallel calls then wait for whole time slices."""
    load, cores = _load(), usable_cores()
    if load is None or load <= cores:
        return []
    return [f"the machine is busy (load {load:.1f} on {cores} cores), so the figures say little"]
