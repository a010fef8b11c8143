"""`gathernest bench compare`: time two revisions in turn, in fresh processes, and say whether the second is slower.

The measure is the import of the package.
"""

import argparse
import json
import math
from pathlib import Path

from ...console.terminal import DONE, FAILED, Parser, make_console

RESTARTS = 16
# Of one comparison: how often two equal revisions are said to differ.
ERROR = 0.05
# Smaller changes than this are not reported: where code lies in memory makes as much.
TOLERANCE = 0.01

EXAMPLES = """examples:
  gathernest bench compare main
  gathernest bench compare v1.0 main --json compared.json

The exit status is 0 where nothing is slower, 1 where something is, and 2 when the command line is wrong."""


def add_arguments(parser: Parser) -> None:
    """Declare the options."""
    parser.add_argument(
        "base", metavar="BASE", help="a commit, branch or tag of the checkout that gathernest runs from"
    )
    parser.add_argument("head", nargs="?", metavar="HEAD", help="another (default: the working tree as it is)")
    parser.add_argument("--json", metavar="FILE", help="write the result as one JSON object; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Compare the revisions; the status is 1 when the second is slower."""
    from .import_time import log_ratios
    from .sides import two_sides
    from .signed_rank import centre, interval

    with two_sides(options.base, options.head) as sides:
        found = log_ratios(sides, RESTARTS)
    ratio, low, high = (math.exp(number) for number in (centre(found), *interval(found, ERROR)))
    verdict = "slower" if low > 1 + TOLERANCE else "faster" if high < 1 - TOLERANCE else "cannot tell"
    fact = {"ratio": ratio, "interval": [low, high], "verdict": verdict}
    text = json.dumps({"base": sides[0].commit, "head": sides[1].commit, "import": fact})
    if options.json == "-":
        print(text)
    else:
        if options.json is not None:
            Path(options.json).write_text(f"{text}\n", encoding="utf-8")
        make_console().print(f"import  {ratio:.3f} times base's, {low:.3f} to {high:.3f}: {verdict}")
    return FAILED if verdict == "slower" else DONE
