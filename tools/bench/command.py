"""The command line of `gathernest bench`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...ir.errors import GathernestError, show
from ...kernels.host.cpu import usable_cores
from ...kernels.host.dependencies import require_compiler
from ...kernels.host.knobs import knobs
from ...kernels.host.machine import machine_model
from ..console.terminal import DONE, FAILED, Parser, UsageError, check_file, make_console, positive, progress
from ..tracking.paired import compare
from ..tracking.static_report import command as static_report
from .machines import as_text, read_run, storing_path, with_families
from .ways import check_options

if TYPE_CHECKING:
    from .cases.case import Case
    from .measure import Measured
    from .peers.peer import Peer
    from .report import Report

ROUNDS, QUICK_ROUNDS, QUICK_SIZE = 9, 3, 512
MOST_CANDIDATES = 24
EXAMPLES = """examples:
  gathernest bench
  gathernest bench --case 'rows-*' --peers numpy,torch
  gathernest bench --family gradient --json - --threads 1
  gathernest bench --markdown --plot ratios.svg > table.md
  gathernest bench --store
  gathernest bench --ablation --case 'rows-*'
  gathernest bench --scaling --model docs/two_sockets.json
  gathernest bench --regret --csv docs/measurements/mine.csv
  gathernest bench --regret --from docs/measurements/mine.csv
  gathernest bench --by-hand
  gathernest bench --alternating --peers torch,onnxruntime,openvino --rounds 31
  gathernest bench --static --against asv_bench/static.json
  gathernest bench compare main

Peers that are installed take part: pip install 'gathernest[peers]' installs all of them."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--case", type=_words, default=[], metavar="PATTERN,..", help="names of cases; * stands for anything"
    )
    parser.add_argument("--family", type=_words, default=[], metavar="NAME,..", help="families of cases")
    parser.add_argument(
        "--peers", type=_words, default=[], metavar="NAME,..", help="peers (default: those that are installed)"
    )
    parser.add_argument(
        "--rounds", type=positive, metavar="N", help=f"interleaved rounds (default: {ROUNDS}, {QUICK_ROUNDS} if quick)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"cut every dimension to {QUICK_SIZE}: shows that all runs, and little of how fast",
    )
    parser.add_argument("--threads", type=positive, metavar="N", help="threads for everyone (default: as gathernest)")
    parser.add_argument(
        "--no-new-results", action="store_true", help="leave out the calls without out=, a third of the time"
    )
    parser.add_argument("--list", action="store_true", help="print the cases instead of running them")
    parser.add_argument(
        "--ablation", action="store_true", help="time each case without each pass of its schedule instead, as Markdown"
    )
    parser.add_argument(
        "--scaling", action="store_true", help="time gathers on one thread and on all instead, as Markdown; no peers"
    )
    parser.add_argument(
        "--model", metavar="FILE", help="with --scaling: predict for the machine of several sockets in FILE"
    )
    parser.add_argument(
        "--regret",
        action="store_true",
        help="time chosen schedules beside other candidates instead, with the predicted times, as Markdown; no peers",
    )
    parser.add_argument(
        "--candidates",
        type=positive,
        metavar="N",
        help=f"with --regret: schedules of a case, the chosen one included (default: {MOST_CANDIDATES})",
    )
    parser.add_argument("--csv", metavar="FILE", help="with --regret: write each candidate with its time to FILE")
    parser.add_argument(
        "--from",
        dest="stored",
        metavar="FILE",
        help="with --regret: judge the choices and predictions of today by what --csv wrote there, and time nothing",
    )
    parser.add_argument(
        "--by-hand", action="store_true", help="time cases beside C written by hand instead, as Markdown; no peers"
    )
    parser.add_argument(
        "--alternating", action="store_true", help="time calls right behind calls of each peer instead, as Markdown"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", metavar="FILE", help="write everything as one JSON object; - for standard output")
    parser.add_argument(
        "--store",
        action="store_true",
        help="write the same to docs/machines, as this machine's (with --family into it); `make docs` shows it",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the ratios, and the roofline: a .svg, light or dark as its reader likes, a .png or a -dark.png",
    )
    static_report.add_arguments(parser)
    added = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", description="without one, the suite is timed beside peers"
    )
    summary = "Time two revisions in turn, in fresh processes, and say what the second made slower."
    compare.add_arguments(added.add_parser("compare", help=summary[:-1], description=summary, epilog=compare.EXAMPLES))


def run(options: argparse.Namespace) -> int:
    """Run `compare`, or the suite; the status is 1 when a candidate gives other bytes or fails."""
    if options.command is not None:
        return compare.run(options)
    check_options(options)
    from .cases.suite import chosen

    cases = chosen(options.case, options.family, _more_cases(options))
    if options.list:
        return _print_list(cases)
    if options.json not in (None, "-"):
        check_file("--json", options.json)
    if options.static:
        return static_report.run(cases, options)
    if options.ablation:
        return _print_ablation(cases, options)
    if options.scaling:
        return _print_scaling(cases if options.case or options.family else None, options)
    if options.regret:
        return _print_regret(cases, options)
    if options.by_hand:
        return _print_by_hand(cases if options.case or options.family else None, options)
    if options.alternating:
        return _print_alternating(cases if options.case or options.family else None, options)
    stored = storing_path(options) if options.store else None
    if options.markdown and options.json == "-":
        raise UsageError("--markdown and --json - both write to standard output; give --json a file")
    picture = None
    if options.plot is not None:
        from .plot import check_plot

        picture = check_plot(options.plot)
        check_file("--plot", picture)
    report = _measured(cases, options)
    if options.json is not None or stored is not None:
        from .report import as_json

        found = as_json(report)
        if options.json is not None:
            _write_json(found, options.json)
        if stored is not None:
            found = with_families(read_run(stored), found, options.family) if options.family else found
            _write_json(found, str(stored))
    if picture is not None:
        from .plot import plot

        plot(report, picture)
    if options.json != "-":
        _print_report(report, as_markdown=options.markdown)
    _say("wrong", report.wrong)
    return FAILED if report.wrong else DONE


def _rounds(options: argparse.Namespace) -> int:
    return options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)


def _threads(options: argparse.Namespace) -> int:
    require_compiler()
    from ...kernels.runtime.launch import available_threads

    return options.threads or available_threads()


def _cut(cases: "Sequence[Case]", options: argparse.Namespace) -> "Sequence[Case]":
    return [case.cut(QUICK_SIZE) for case in cases] if options.quick else cases


def _words(text: str) -> list[str]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"expected names with commas between, got {show(text)}")
    return words


def _print_list(cases: "Sequence[Case]") -> int:
    from .cases.case import describe

    width = max(len(case.name) for case in cases)
    for case in cases:
        print(f"{case.name:<{width}}  {case.family:<15}  {case.operator}: {describe(case)}")
    return DONE


def _print_ablation(cases: "Sequence[Case]", options: argparse.Namespace) -> int:
    threads = _threads(options)
    from .ablation import ablate, as_markdown

    _say("note", _busy_notes())
    with progress("ablating", len(cases)) as advance:
        print(as_markdown(ablate(_cut(cases, options), rounds=_rounds(options), threads=threads, advance=advance)))
    return DONE


def _print_scaling(cases: "Sequence[Case] | None", options: argparse.Namespace) -> int:
    threads = _threads(options)
    from .scaling.compare import CASES, as_markdown, scale

    if options.model is not None:
        from .scaling import predict

        chosen = CASES if cases is None else [case for case in cases if case.is_plain]
        print(predict.as_markdown(predict.predict(chosen, predict.read_sockets(Path(options.model)))))
        return DONE
    if threads < 2:
        raise GathernestError("--scaling compares several threads with one, and there is one; see gathernest doctor")
    _say("note", _busy_notes())
    chosen = _cut(CASES if cases is None else [case for case in cases if case.is_plain], options)
    with progress("scaling", len(chosen)) as advance:
        print(as_markdown(scale(chosen, rounds=_rounds(options), threads=threads, advance=advance), threads))
    return DONE


def _print_regret(cases: "Sequence[Case]", options: argparse.Namespace) -> int:
    if options.stored is not None:
        from .regret import as_markdown, judged

        print(as_markdown(judged(Path(options.stored), None if knobs.machine is None else machine_model())))
        return DONE
    threads = _threads(options)
    from .regret import as_csv, as_json, as_markdown, measure_regret

    _say("note", _busy_notes())
    chosen = [case for case in _cut(cases, options) if case.family != "call"]
    if not chosen:
        raise GathernestError("--regret compares schedules, and a call of 5x4 elements has none; choose other cases")
    with progress("comparing candidates", len(chosen)) as advance:
        most = options.candidates or MOST_CANDIDATES
        measured = measure_regret(chosen, rounds=_rounds(options), threads=threads, most=most, advance=advance)
    if options.json is not None:
        _write_json(as_json(measured), options.json)
    if options.csv is not None:
        Path(options.csv).write_text(as_csv(measured), encoding="utf-8")
    if options.json != "-":
        print(as_markdown(measured))
    wrong = [text for one in measured.cases for text in one.wrong]
    _say("wrong", wrong)
    return FAILED if wrong else DONE


def _more_cases(options: argparse.Namespace) -> "Sequence[Case]":
    """Return the cases that only this command has."""
    if not options.by_hand:
        return ()
    from .by_hand.compare import MORE

    return MORE


def _print_by_hand(cases: "Sequence[Case] | None", options: argparse.Namespace) -> int:
    threads, rounds = _threads(options), _rounds(options)
    from .by_hand.compare import CASES, as_markdown, compare

    _say("note", _busy_notes())
    chosen = _cut(CASES if cases is None else cases, options)
    with progress("beside C by hand", len(chosen)) as advance:
        print(as_markdown(compare(chosen, rounds=rounds, threads=threads, advance=advance), threads, rounds))
    return DONE


def _print_alternating(cases: "Sequence[Case] | None", options: argparse.Namespace) -> int:
    threads, rounds = _threads(options), _rounds(options)
    from .alternating import CASES, alternate, as_markdown
    from .peers import enter

    with progress("importing the peers"):
        entrants = enter(options.peers, threads)
    _say("note", [*entrants.notes, *_busy_notes()])
    chosen = _cut(CASES if cases is None else cases, options)
    with progress("alternating", len(chosen)) as advance:
        found = alternate(chosen, entrants.candidates[1:], rounds=rounds, threads=threads, advance=advance)
    print(as_markdown(found, threads, rounds))
    return DONE


def _measured(cases: "Sequence[Case]", options: argparse.Namespace) -> "Report":
    threads, rounds = _threads(options), _rounds(options)
    if knobs.interpret:
        raise GathernestError("bench times compiled code, and GATHERNEST_INTERPRET is set; unset it")
    from .peers import enter
    from .report import Report
    from .scaling.threads_together import threads_together

    with progress("importing the peers"):
        entrants = enter(options.peers, threads)
    load = _load()
    _say("note", [*entrants.notes, *_busy_notes()])
    before = threads_together(threads)
    measured = _measure_all(_cut(cases, options), entrants.candidates, rounds, threads, not options.no_new_results)
    together, cut = (before, threads_together(threads)), QUICK_SIZE if options.quick else None
    return Report(measured, entrants.versions, threads, rounds, cut, load, together)


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _busy_notes() -> list[str]:
    """Return a line when the load exceeds the cores; parallel calls then wait for whole time slices."""
    load, cores = _load(), usable_cores()
    if load is None or load <= cores:
        return []
    return [f"the machine is busy (load {load:.1f} on {cores} cores), so the figures say little"]


def _measure_all(
    cases: "Sequence[Case]", candidates: "Sequence[Peer]", rounds: int, threads: int, has_new: bool
) -> "list[Measured]":
    from .measure import measure

    measured: list[Measured] = []
    with progress("measuring", len(cases)) as advance:
        for case in cases:
            measured.append(measure(case, candidates, rounds=rounds, threads=threads, new_results=has_new))
            advance(1)
    return measured


def _write_json(found: dict[str, Any], target: str) -> None:
    text = as_text(found)
    if target == "-":
        sys.stdout.write(text)
        return
    Path(target).parent.mkdir(exist_ok=True)
    Path(target).write_text(text, encoding="utf-8")


def _print_report(report: "Report", *, as_markdown: bool) -> None:
    from . import table

    if as_markdown:
        sys.stdout.write(table.as_markdown(report))
        return
    console = make_console()
    console.width = max(console.width, table.WIDTH)  # a table that is cut says less than one that wraps
    console.print("times as fast as each peer; the best peer of a case in bold", style="bold")
    console.print(table.as_table(report))
    console.print("\ngeometric means against the best peer of each case", style="bold")
    for line in table.summary(report):
        console.print(f"  {line}")
    console.print(f"\n{table.conditions(report)}", style="dim")


def _say(kind: str, lines: Sequence[str]) -> None:
    """Write lines to standard error."""
    for line in lines:
        print(f"gathernest: {kind}: {line}", file=sys.stderr, flush=True)
