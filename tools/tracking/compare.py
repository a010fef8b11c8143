"""`gathernest bench compare`: time two revisions in turn, in fresh processes, and name the slower benchmarks.

Without HEAD it is the working tree as it is. Revisions are extracted to folders of their own with a cache each. With
versions of packages, head has a virtual environment with them, in which pip installs the rest as the sources ask for.
"""

import argparse
import json
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from ..console.terminal import (
    DONE,
    FAILED,
    Parser,
    UsageError,
    add_option,
    check_json,
    make_console,
    positive,
    progress,
    say,
    words,
    write_text,
)

if TYPE_CHECKING:
    from .benchmarks import Benchmark
    from .report import Comparison
    from .sides import Side

# The exit status where nothing was found slower, and of something it cannot be told.
CANNOT_TELL = 3
# The things that are compared: the first by a clock, the others exactly.
KINDS = ("times", "kernels", "counts")
PACKAGES = ("numba", "llvmlite", "xdsl", "numpy", "ml_dtypes")

clock = time.monotonic
# The most of the time for compiling the default benchmarks, and the least for restarts, whatever --case names.
COMPILING_SHARE, LEAST_SHARE = 0.25, 0.3
UNITS = {"s": 1, "m": 60, "h": 3600}

EXAMPLES = """examples:
  gathernest bench compare main
  gathernest bench compare v1.0 main --case 'rows-*,pipeline' --budget 5m
  gathernest bench compare v1.0 --case '*' --full-size --threads 2 --budget 20m
  gathernest bench compare main --json compared.json --markdown > comment.md
  gathernest bench compare main --what counts
  gathernest bench compare --with numba==0.69.0 --with llvmlite==0.51.0 --what times,kernels,counts

The exit status is 0 where nothing is slower and no count grew, 1 where something is or did, 3 where nothing is found
worse and of something it cannot be told, and 2 where the command line is wrong or a revision does not run."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    add_option(parser, "[BASE]", "a commit, branch or tag of the checkout that gathernest runs from")
    add_option(parser, "[HEAD]", "another (default: the working tree as it is)")
    what = f"{', '.join(KINDS)}: the latter two are exact, and take minutes besides the budget (default: times)"
    add_option(parser, "--what KIND,..", what, type=kinds, default=["times"])
    packages = f"of head's environment: {', '.join(PACKAGES)}; may be repeated; without BASE both are the working tree"
    add_option(parser, "--with PACKAGE==VERSION ...", packages, dest="versions")
    add_option(parser, "--json FILE", "write everything as one JSON object; - for standard output")
    add_option(parser, "--markdown", "print a comment for a pull request")
    names = "names of cases, and pipeline, import, first-call; * stands for anything (default: a few of each kind)"
    add_option(parser, "--case --benchmark PATTERN,..", names, dest="case", type=words, default=[])
    add_option(parser, "--budget TIME", "90s, 2m (default: 2m)", type=seconds, default=seconds("2m"))
    add_option(parser, "--threads N", "that gathernest may use (default: 1)", type=positive, default=1)
    add_option(parser, "--full-size", "kernels with arrays of the cases' own sizes; takes minutes")


def kinds(text: str) -> list[str]:
    """Read kinds of comparisons with commas between, as an argument's type."""
    found = words(text)
    for word in found:
        if word not in KINDS:
            raise argparse.ArgumentTypeError(f"{word!r} is not compared; it is of {', '.join(KINDS)}")
    return found


def seconds(text: str) -> float:
    """Read a time such as 90s, 2m or 1h, as an argument's type."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"expected a time such as 90s, 2m or 1h, got {text!r}")
    return float(match[1]) * UNITS[match[2] or "s"]


def run(options: argparse.Namespace) -> int:
    """Compare the revisions, print the result, and return the exit status: 1 is for regressions alone."""
    from ...kernels.host.checkout import RevisionError
    from .benchmarks import chosen
    from .processes import WorkerError
    from .sides import two_sides

    for text in options.versions:
        _check_version(text)
    if options.base is None and not options.versions:
        raise UsageError("name a revision to compare with, such as main; or other packages, --with numba==0.69.0")
    if options.markdown and options.json == "-":
        raise UsageError("--markdown and --json - both write to standard output; give --json a file")
    check_json(options.json)
    benchmarks = chosen(options.case, full_size=options.full_size)
    try:
        with ExitStack() as stack:
            with progress(f"installing {' '.join(options.versions)}") if options.versions else nullcontext():
                sides = stack.enter_context(two_sides(options.base, options.head, options.versions))
            comparison = _compare_times(sides, benchmarks if "times" in options.what else (), options)
            _compare_exactly(comparison, options.what)
    except (RevisionError, WorkerError) as error:
        raise UsageError(str(error)) from None
    return _show(comparison, options)


def _check_version(text: str) -> None:
    from ...ir.errors import did_you_mean

    match = re.fullmatch(r"([A-Za-z0-9_.-]+)==([A-Za-z0-9_.!+-]+)", text)
    if match is None:
        raise UsageError(f"--with: expected PACKAGE==VERSION, got {text!r}, such as numba==0.68.1")
    name = match[1].lower().replace("-", "_")
    if name not in PACKAGES:
        raise UsageError(
            f"--with: {match[1]} is not compared; the packages are {', '.join(PACKAGES)}{did_you_mean(name, PACKAGES)}"
        )


def _compare_exactly(comparison: "Comparison", what: Sequence[str]) -> None:
    """Add the differences of the sides that need no clock, by their kind."""
    from ...asv_bench.benchmarks.cases import SUITE
    from .causes import count_differences, kernel_differences

    if "kernels" in what:
        with progress("compiling", 2 * len(SUITE)) as advance:
            comparison.exact["kernels"] = kernel_differences(comparison.sides, advance)
    if "counts" in what:
        with progress("counting", 2) as advance:
            comparison.exact["counts"] = count_differences(comparison.sides, advance)


def _compare_times(
    sides: "tuple[Side, Side]", benchmarks: "Sequence[Benchmark]", options: argparse.Namespace
) -> "Comparison":
    """Time two sides until all is decided or the budget is spent; a benchmark that a side lacks is left out and noted.

    Raises:
        RevisionError: a side does not run.
    """
    from ...kernels.host.cpu import cpu_model, usable_cores
    from .causes import explain_alarms
    from .processes import prepare
    from .report import ORDER, Comparison
    from .sampling import MARGIN, START_MARGIN, Series, fewest_restarts, sample

    machine = f"{cpu_model()}, {usable_cores()} cores"
    if not benchmarks:
        return Comparison(sides, (), {}, 0, options.threads, machine)
    begin = clock()
    with progress("preparing", 2 * len(benchmarks)) as advance:
        limit = math.inf if options.case else begin + COMPILING_SHARE * options.budget
        is_late = bool if options.case else lambda: clock() > limit
        session = prepare(sides, benchmarks, options.threads, advance, is_late)
    series = [Series(name, START_MARGIN if one.forks else MARGIN) for name, one in session.benchmarks.items()]
    preparing_s = clock() - begin
    for_restarts = max(options.budget - preparing_s, LEAST_SHARE * options.budget)
    with progress("restarts") as advance:

        def timed(names: list[str], number: int) -> "Mapping[str, tuple[float, float]]":
            found = session.restart(names, number)
            advance(1, said=f"{len(names)} undecided")
            return found

        restarts, kept = sample(series, timed, for_restarts, clock, session.costs_s) if series else (0, series)
    comparison = Comparison(sides, kept, session.missing, restarts, options.threads, machine)
    alarms = [session.benchmarks[one.name] for verdict in ORDER[:4] for one in comparison.of(verdict)]
    if alarms:
        with progress("explaining", 2 * len(alarms)) as advance:
            comparison.why.update(explain_alarms(sides, alarms, options.threads, advance))
    if options.full_size:
        comparison.notes.append("kernels were timed with arrays of the cases' own sizes")
    if session.late:
        comparison.notes.append(
            f"{COMPILING_SHARE:.0%} of the --budget is for compiling, too little here for {', '.join(session.late)}; "
            "give more, or name benchmarks by --case"
        )
    if dropped := [one.name for one in series[len(kept) :]]:
        comparison.notes.append(f"the --budget has no time for {', '.join(dropped)}; give more, or fewer --case")
    comparison.notes += _notes(comparison, fewest_restarts(max(len(kept), 1)), preparing_s, for_restarts)
    return comparison


def _notes(comparison: "Comparison", fewest: int, preparing_s: float, restarting_s: float) -> list[str]:
    notes: list[str] = []
    for side in comparison.sides:
        if side.changed:
            notes.append(
                f"{side.name} is the working tree, with {side.changed} file{'s'[: side.changed > 1]} changed since "
                f"{side.commit[:10]}; commit them to have a result that can be repeated"
            )
    undecided = comparison.of("cannot tell")
    if undecided and comparison.restarts < fewest:
        # 1.5 times the fewest, so that noise is no matter.
        minutes = (preparing_s + 1.5 * restarting_s * fewest / max(comparison.restarts, 1)) / 60
        notes.append(
            f"{comparison.restarts} restarts are too few to tell, {fewest} are needed: give a --budget of "
            f"{math.ceil(minutes)}m, or fewer --case"
        )
    elif undecided:
        notes.append(
            f"cannot tell of {len(undecided)}: this machine is too noisy for this --budget; give more, or fewer --case"
        )
    return notes


def _show(comparison: "Comparison", options: argparse.Namespace) -> int:
    """Write the result as the options say, and return the exit status."""
    from .report import as_json, as_markdown, print_comparison

    say("note", *(f"{name}: {why}" for name, why in comparison.missing.items()), *comparison.notes)
    if options.json is not None:
        write_text(options.json, json.dumps(as_json(comparison), indent=1) + "\n")
    if options.markdown:
        sys.stdout.write(as_markdown(comparison))
    elif options.json != "-":
        print_comparison(comparison, make_console())
    is_worse = comparison.of("slower") or comparison.of("probably slower")
    if is_worse or any(found.worse for found in comparison.exact.values()):
        return FAILED
    is_known = all(found.is_known for found in comparison.exact.values()) and (comparison.series or comparison.exact)
    return DONE if is_known and not comparison.of("cannot tell") else CANNOT_TELL
