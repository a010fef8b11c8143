"""`gathernest bench calibrate-noise`: compare a revision with itself, and print what `compare` can see on this machine.

The smallest change of a benchmark that `compare` finds in nine of ten comparisons of a length follows from the measured
restarts. From their logarithms of ratios, each with either sign, as many are drawn as the length has restarts, hundreds
of times. The last look's interval of each draw has a lower end: a change that lifts it above the tolerance is found.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...console.terminal import DONE, FAILED, Parser, make_console, progress
from . import compare

if TYPE_CHECKING:
    from .sampling import Series

MINUTES = (1, 2, 5)
DRAWS, FOUND_IN = 400, 0.9
# With fewer restarts nothing can be said of the next ones.
FEWEST = 8
SIGMA = 1.4826  # of a normal distribution whose absolute values have the median 1

EXAMPLES = """examples:
  gathernest bench calibrate-noise
  gathernest bench calibrate-noise --case 'rows-*' --budget 5m --json noise.json

The exit status is 1 when the revision is said to differ from itself, or there were too few restarts."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a benchmark.

    Attributes:
        name: of the benchmark.
        family: its family.
        spread: the standard deviation of a restart's ratio, from the median of its absolute values, as a part.
        smallest: by minutes, the smallest change that is found, as a part; None where so few restarts tell nothing.
        is_alarm: whether the revision is said to differ from itself.
    """

    name: str
    family: str
    spread: float
    smallest: dict[int, float | None]
    is_alarm: bool


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument("revision", nargs="?", metavar="REVISION", help="(default: the working tree as it is)")
    compare.add_sampling_arguments(parser, "2m")
    parser.add_argument("--json", metavar="FILE", help="write everything as one JSON object; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Compare a revision with itself, print the noise, and return the exit status."""
    from .benchmarks import chosen
    from .sides import two_sides

    options.markdown = False
    compare.check_outputs(options)
    benchmarks = chosen(options.case, full_size=options.full_size)
    begin = compare.clock()
    with compare.wrong_revision_is_misuse(), two_sides(options.revision, options.revision) as sides:
        session = compare.prepared(sides, benchmarks, options.threads)
        series = compare.series_of(session)
        preparing_s, restarting = compare.clock() - begin, compare.clock()
        seconds = max(options.budget - preparing_s, compare.LEAST_SHARE * options.budget)
        restarts = 0
        with progress("restarts") as advance:
            while compare.clock() - restarting < seconds:
                for name, (log_ratio, base_ns) in session.restart([one.name for one in series], restarts).items():
                    one = next(each for each in series if each.name == name)
                    one.log_ratios.append(log_ratio)
                    one.base_ns.append(base_ns)
                restarts += 1
                advance(1)
        restart_s = (compare.clock() - restarting) / restarts
    found = noise_of(series, preparing_s, restart_s)
    _show(found, restarts, preparing_s, restart_s, options)
    return FAILED if restarts < FEWEST or any(one.is_alarm for one in found) else DONE


def noise_of(series: "Sequence[Series]", preparing_s: float, restart_s: float) -> list[Noise]:
    """Return the noise of benchmarks from comparisons of a revision with itself.

    Args:
        series: their restarts.
        preparing_s, restart_s: seconds of the preparation and of one restart, of all benchmarks.
    """
    import numpy as np

    from .benchmarks import BENCHMARKS
    from .sampling import ERROR

    found: list[Noise] = []
    for one in series:
        one.look(ERROR / len(series))
        spread = SIGMA * float(np.median(np.abs(one.log_ratios))) if one.log_ratios else math.nan
        restarts = {
            minutes: int(max(60 * minutes - preparing_s, compare.LEAST_SHARE * 60 * minutes) / restart_s)
            for minutes in MINUTES
        }
        smallest = {
            minutes: smallest_change(one.log_ratios, number, len(series)) for minutes, number in restarts.items()
        }
        alarm = one.verdict in ("slower", "faster")
        found.append(Noise(one.name, BENCHMARKS[one.name].family, spread, smallest, alarm))
    return found


def smallest_change(log_ratios: Sequence[float], restarts: int, benchmarks: int) -> float | None:
    """Return the smallest change that the last look of a comparison finds in nine of ten, as a part; None if none.

    Args:
        log_ratios: measured with equal revisions.
        restarts: that the comparison has.
        benchmarks: that it has.
    """
    import numpy as np

    from .sampling import TOLERANCE, error_of_last_look, fewest_restarts
    from .signed_rank import interval

    if restarts < fewest_restarts(benchmarks) or len(log_ratios) < FEWEST:
        return None
    rng = np.random.default_rng(0)
    drawn = rng.choice(np.asarray(log_ratios), (DRAWS, restarts)) * rng.choice((-1, 1), (DRAWS, restarts))
    error = error_of_last_look(restarts, benchmarks)
    below = [-interval(row, error)[0] for row in drawn]
    return math.expm1(math.log1p(TOLERANCE) + float(np.quantile(below, FOUND_IN)))


def by_family(found: Sequence[Noise]) -> dict[str, list[Noise]]:
    """Return the noise of benchmarks by family."""
    families: dict[str, list[Noise]] = {}
    for one in found:
        families.setdefault(one.family, []).append(one)
    return families


def _worst(found: Sequence[Noise], minutes: int) -> float | None:
    """Return the change that is seen in every benchmark of a family; None where one sees nothing."""
    changes = [change for one in found if (change := one.smallest[minutes]) is not None]
    return max(changes) if len(changes) == len(found) else None


def _show(
    found: Sequence[Noise], restarts: int, preparing_s: float, restart_s: float, options: argparse.Namespace
) -> None:
    alarms = [one.name for one in found if one.is_alarm]
    facts = {
        "kind": "gathernest noise",
        "machine": compare.machine(),
        "threads": options.threads,
        "restarts": restarts,
        "preparing_s": preparing_s,
        "restart_s": restart_s,
        "alarms": alarms,
        "benchmarks": {
            one.name: {"family": one.family, "spread": one.spread, "smallest": one.smallest} for one in found
        },
    }
    if options.json is not None and options.json != "-":
        Path(options.json).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    if options.json == "-":
        print(json.dumps(facts, indent=1))
        return
    _print_table(found)
    say = make_console().print
    say(
        f"\n{restarts} restarts of {restart_s:.1f} s after {preparing_s:.0f} s of preparation; "
        f"{len(alarms)} of {len(found)} benchmarks differ from themselves{': ' if alarms else ''}{', '.join(alarms)}"
    )
    if restarts < FEWEST:
        say(f"too few restarts, {FEWEST} are needed: give a longer --budget, or fewer --case")
    say(
        f"minutes: the smallest change that {FOUND_IN:.0%} of comparisons of that length find, in any benchmark of the "
        f"family; -: too few restarts. {compare.machine()}, as busy as during these restarts.",
        style="dim",
    )


def _print_table(found: Sequence[Noise]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("family")
    for heading in ("benchmarks", "spread", *(f"{minutes} min" for minutes in MINUTES)):
        table.add_column(heading, justify="right", no_wrap=True)
    for family, ones in by_family(found).items():
        changes = (_worst(ones, minutes) for minutes in MINUTES)
        cells = ["-" if change is None else f"{change:.1%}" for change in changes]
        table.add_row(family, str(len(ones)), f"{max(one.spread for one in ones):.1%}", *cells)
    make_console().print(table, soft_wrap=False)
