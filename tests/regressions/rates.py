"""Plant slowdowns of several sizes, compare each several times, and print how often they are found.

    python tests/regressions/rates.py RESULTS [--percent 0,3,5,10,30] [--case rows-256B,..] [--times 10] [--budget 1m]

All kernels but those of gradients do some percent of their rows again; 0 compares a commit with itself. The sizes
take turns, so all have the same load. The folder RESULTS gets a file for each comparison, and a second run goes
on where the first one ended. The size of a plant is the centre of the restarts of all its comparisons, as a part of the
time; a narrow comparison has an interval within 2 % of its centre.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from catch import Clone
from plants import AGAIN

from gathernest.tools.tracking.sampling import centre, interval

CASES = "scalars-256KB-table,rows-256B,nd-pairs-rows"
PERCENTS = "0,3,5,10,30"
NARROW = 0.02
VERDICTS = ("slower", "cannot tell", "same", "faster")

Found = Mapping[str, Any]


def plant_all(clone: Clone, percents: Sequence[int]) -> dict[int, str]:
    """Return a commit for each percent; of 0, that of the checkout."""
    commits: dict[int, str] = {}
    for percent in percents:
        if percent:
            clone.plant(f"{percent} % again", AGAIN.patch.replace("PERCENT", str(percent)))
        commits[percent] = clone.git("rev-parse", "HEAD").strip() if percent else clone.head
    return commits


def compare(clone: Clone, commit: str, cases: str, budget: str) -> tuple[Found, float]:
    """Return the JSON of a comparison with the checkout's commit, and the load at its end."""
    command = ("-m", "gathernest", "bench", "compare", clone.head, commit, "--case", cases, "--budget", budget)
    _, found = clone.python(*command, "--json", "-")
    return found, os.getloadavg()[1]


def is_narrow(found: Found) -> bool:
    """Return whether the interval of a benchmark lies within 2 % of its centre."""
    low, high = found["interval"]
    return None not in (low, high) and math.log(high / low) <= 2 * math.log1p(NARROW)


def row(percent: int, name: str, of_one: Sequence[Found]) -> str:
    """Return a line of the table: what several comparisons of one plant say of one benchmark."""
    ratios = [number for found in of_one for number in found["log_ratios"]]
    low, high = (math.expm1(end) for end in interval(ratios, 0.05))
    verdicts = [found["verdict"] for found in of_one]
    narrow = [found for found in of_one if is_narrow(found)]
    slower = sum(found["verdict"] == "slower" for found in narrow)
    cells = [
        f"{percent} %",
        name,
        f"{math.expm1(centre(ratios)):.1%} ({low:.1%} to {high:.1%})",
        *(str(verdicts.count(verdict)) for verdict in VERDICTS),
        f"{slower} of {len(narrow)}",
        f"{statistics.median(len(found['log_ratios']) for found in of_one):g}",
    ]
    return f"| {' | '.join(cells)} |"


def print_table(folder: Path) -> None:
    """Print all results of a folder as a table."""
    by_percent: dict[int, list[Found]] = defaultdict(list)
    loads: list[float] = []
    machine = ""
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text(encoding="utf-8"))
        by_percent[stored["percent"]].append(stored["comparison"])
        loads.append(stored["load"])
        machine = stored["comparison"]["machine"]
    print(f"| planted | benchmark | size | {' | '.join(VERDICTS)} | slower of narrow ones | restarts |")
    print(f"|--:|---|--:|{'--:|' * len(VERDICTS)}--:|--:|")
    for percent, comparisons in sorted(by_percent.items()):
        for name in dict.fromkeys(name for each in comparisons for name in each["benchmarks"]):
            print(row(percent, name, [each["benchmarks"][name] for each in comparisons if name in each["benchmarks"]]))
    if loads:
        print(f"\nload {min(loads):.1f} to {max(loads):.1f}, {machine}")


def main() -> int:
    """Compare what RESULTS lacks, and print its table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results", type=Path, metavar="RESULTS", help="a folder for a file of each comparison")
    parser.add_argument("--percent", default=PERCENTS, help=f"sizes, with commas between (default: {PERCENTS})")
    parser.add_argument("--case", default=CASES, help=f"benchmarks, with commas between (default: {CASES})")
    parser.add_argument("--times", type=int, default=10, help="comparisons of each size (default: 10; 0: the table)")
    parser.add_argument("--budget", default="1m", help="time of a comparison (default: 1m)")
    options = parser.parse_args()
    percents = [int(text) for text in options.percent.split(",")]
    options.results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gathernest-plants-") as folder:
        clone = Clone(Path(folder))
        commits = plant_all(clone, percents) if options.times else {}
        for time in range(options.times):
            for percent in percents:
                path = options.results / f"{percent:02}-{time:02}.json"
                if path.exists():
                    continue
                found, load = compare(clone, commits[percent], options.case, options.budget)
                text = json.dumps({"percent": percent, "load": load, "comparison": found})
                path.write_text(text + "\n", encoding="utf-8")
    print_table(options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
