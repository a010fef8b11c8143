"""`gathernest bench history`: find the commits at which stored counts and ratios changed, and draw a page of charts."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....kernels.host.checkout import RevisionError, checkout, why_shallow
from ...console.output_paths import check_file
from ...console.terminal import DONE, FAILED, Parser, UsageError, make_console, progress

if TYPE_CHECKING:
    from .history import History
    from .noise import Candidate
    from .series import Series

# Lines of a static difference that the terminal shows; the page shows more.
MOST_STATIC_LINES = 8
FOLDERS = ("asv_bench/results", "asv_bench/paired")
EXAMPLES = f"""examples:
  gathernest bench history
  gathernest bench history v1.0..main -o history.html --json history.json
  gathernest bench history --results downloaded/machine-a --results downloaded/machine-b

Results are files below {FOLDERS[0]}, which asv writes, and {FOLDERS[1]}, for what gathernest bench compare --json
writes. Those of several machines merge by copying. The exit status is 0 where nothing became worse, 1 where something
did, and 2 when the command line is wrong or there are no results."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "range", nargs="?", default="HEAD", metavar="RANGE", help="commits, such as v1.0..main (default: all to HEAD)"
    )
    parser.add_argument(
        "--results",
        action="append",
        metavar="FOLDER",
        help=f"of result files, searched with its folders; may be repeated (default: {' and '.join(FOLDERS)})",
    )
    parser.add_argument(
        "-o", "--output", default="history.html", metavar="FILE", help="the page (default: history.html)"
    )
    parser.add_argument("--json", metavar="FILE", help="write everything as one JSON object; - for standard output")
    parser.add_argument(
        "--since", metavar="REV", help="only changes after this revision make the exit status 1 (default: all)"
    )
    parser.add_argument("--no-otava", action="store_true", help="decide by the thresholds alone, and install nothing")


def run(options: argparse.Namespace) -> int:
    """Write the page; the status is 1 when a series became worse."""
    check_file("-o", options.output)
    if options.json not in (None, "-"):
        check_file("--json", options.json)
    history, after = _history(options)
    for note in history.notes:
        _say(note)
    _write_page(history, options.output)
    if options.json is not None:
        text = json.dumps(history.to_json(), indent=1)
        if options.json == "-":
            print(text)
        else:
            Path(options.json).write_text(f"{text}\n", encoding="utf-8")
    if options.json != "-":
        _print(history, options.output)
    return FAILED if any(history.regressions(after)) else DONE


def _history(options: argparse.Namespace) -> "tuple[History, int]":
    """Return the history, and the number of its first commit that the status is about."""
    from .commits import commits_of
    from .history import judge, make_history
    from .labels import count
    from .result_files import read

    commits = commits_of(options.range)
    older = set() if options.since is None else {commit.name for commit in commits_of(options.since)}
    folders = _folders(options.results)
    results = read(folders)
    said = " and ".join(map(str, folders))
    if not results.points:
        _say(*results.notes)
        raise UsageError(
            f"there are no counts or ratios in {said}; make asv BENCH=counts writes some, and --results names others"
            f"{why_shallow()}"
        )
    measured = results.commits
    shown = [commit for commit in commits if commit.name in measured]
    if not shown:
        _say(*results.notes)
        raise UsageError(
            f"none of {count(len(commits), 'commit')} of {options.range} has results in {said}, which have "
            f"{count(len(measured), 'other')}; give another range, or measure these: make asv-history{why_shallow()}"
        )
    notes = list(results.notes)
    if left := len(measured) - len(shown):
        notes.append(f"results of {count(left, 'commit')} outside {options.range} are left out")
    series = results.along([commit.name for commit in commits])
    candidates, version = _otava(series, notes, wanted=not options.no_otava)
    history = make_history(commits, judge(series, candidates), otava=version, notes=notes)
    return history, sum(commit.name in older for commit in history.commits)


def _folders(named: Sequence[str] | None) -> list[Path]:
    if named is None:
        try:
            top = checkout()
        except RevisionError as error:
            raise UsageError(str(error)) from None
        return [folder for name in FOLDERS if (folder := top / name).is_dir()] or [top / FOLDERS[0]]
    for name in named:
        if not Path(name).is_dir():
            raise UsageError(f"--results {name}: there is no such folder; make asv writes results to {FOLDERS[0]}")
    return [Path(name) for name in named]


def _otava(series: "Sequence[Series]", notes: list[str], *, wanted: bool) -> "tuple[dict[str, list[Candidate]], str]":
    """Return where otava sees changes, and its version; nothing and "" without it, with a note of why."""
    from . import otava

    if not wanted:
        return {}, ""
    try:
        if not otava.is_installed():
            _say(f"installing apache-otava {otava.VERSION} in {otava.python_folder()}, once; it takes a minute")
            with progress("installing otava"):
                otava.install()
        with progress("looking for change points"):
            return otava.candidates({each.key: each.values for each in series}), otava.VERSION
    except otava.OtavaError as error:
        notes.append(f"otava cannot be used ({error}), so the thresholds alone decide; --no-otava leaves it out")
        return {}, ""


def _write_page(history: "History", target: str) -> None:
    """Write the page, or say why there is none."""
    from ....ir.errors import DependencyError
    from ....kernels.host.dependencies import require

    try:
        require("jinja2", "pygments")
    except DependencyError as error:
        _say(f"no page is written: {error}")
        return
    from .page import page

    Path(target).write_text(page(history), encoding="utf-8")


def _print(history: "History", target: str) -> None:
    from .labels import count, number, p_value, percent

    console = make_console()
    for at in reversed(history.at):
        console.print(f"{at.commit.name[:10]}  {at.commit.date}  {at.commit.subject}", style="bold")
        if at.between > 1:
            console.print(f"  one of the {at.between} commits since {at.since.name[:10]}", style="dim")
        for series, change in at.changes:
            levels = f"{number(change.before, series.unit)} → {number(change.after, series.unit)}"
            by = f", {chance}" if (chance := p_value(change)) else ""
            console.print(f"  {percent(change.relative):>9}  {series.name}: {levels}{by}")
        for line in at.static[:MOST_STATIC_LINES]:
            console.print(f"    {line}", style="dim")
        if len(at.static) > MOST_STATIC_LINES:
            console.print(f"    … {count(len(at.static) - MOST_STATIC_LINES, 'more line')}: {target}", style="dim")
    worse, of = sum(1 for _ in history.regressions()), sum(len(at.changes) for at in history.at)
    by = f"otava {history.otava}" if history.otava else "the thresholds alone"
    found = f"{count(of, 'change')} by {by}, {worse} for the worse"
    if short := sum(not judged.noise.is_known for judged in history.judged):
        found += f"; {short} have too few results to tell"
    console.print(f"{target}: {len(history.judged)} series over {count(len(history.commits), 'commit')}; {found}")


def _say(*lines: str) -> None:
    for line in lines:
        print(f"gathernest: note: {line}", file=sys.stderr, flush=True)
